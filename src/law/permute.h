// The permute and bucket laws: along which axes scattered slices may be packed into dense tiles.
//
//   C[m n] = sum[k] A[m k] * B[k n]                      m, n and k
//   Y[n f y x] = sum[c i j] X[n, c, y+i, x+j] * W[f c i j]         n, f and c; not y: it slides in a window
//   U[t n] = sum[k] X[t k] * W[expert[t], k, n]          t, k and n; t also in buckets, by expert[t]
//
// Rename the points of such an axis by any permutation, in every access that has it, and rename the result's points
// likewise: nothing else changes. For a parallel axis that is so because each of its points reads and writes its own
// slices only; for a reduced one because its reducer takes its terms in any order. Each access is an operand of its own
// here: X[q d] * X[k d] reads X twice, and q renames the first reading only.
#pragma once
#include "law/region.h"

namespace tilewright {

struct Permutation {
  bool exact = true;    // equal to the last bit; false: a sum or product of floats takes its terms in another order
  bool carried = false; // a body or guard uses the axis' value, which must travel with the slice (a slot is that value)
};
Or<Permutation> permutable(const Program&, const Region&, RegionAxis);

// The groups of axes that may be permuted as one, across the borders between them: those of `travelling` that are
// permutable. Tokens of different sequences (batch and position) share a tile this way.
std::vector<std::vector<RegionAxis>> permutable_together(const Program&, const Region&);

// Ragged groups: points of `axes` with an equal key lie together. The key is an integer tensor's element that stands
// inside another access' index; that operand is then one slice a bucket. A bucket without points takes no work.
struct Bucket {
  std::vector<RegionAxis> axes; // all of the key's axes, ascending
  Access key;                   // over the axes of its statement
  StatementId statement = -1;
  TensorId operand = -1; // that is read through the key
  std::size_t dim = 0;   // of the operand
};
std::vector<Bucket> buckets(const Program&, const Region&);
// Whether an axis may be in some bucket: parallel, permutable without carrying its value. With which key is the
// operands' business: without one the key is whether a slice is live.
Or<bool> bucketable(const Program&, const Region&, RegionAxis);

// A product one of whose operands is read at a key: the same statement for one bucket, which reads the first slice.
//
//   U[t n] = sum[k] X[t k] * W[expert[t], k, n]     ->     sum[k] X[t k] * W[0, k, n], a contraction with t among its
//   rows
struct KeyedProduct {
  Statement statement;
  Access key;
  TensorId operand = -1;
  std::size_t dim = 0; // of the operand
};
Or<KeyedProduct> keyed_product(const Program&, const Statement&);

} // namespace tilewright
