// The skipping rule: what a slice leaves behind whose elements all have a known value, so that it need not be moved at
// all. That slices may be packed (permute.h) does not say that those in between may be left out.
//
//   C[m n] = sum[k] A[m k] * B[k n], A 0     along k: nothing, a term 0 is the identity of a sum
//                                            along m: C is 0 there
//   M[p] = max[l] A[p l], A 0                along l: refused, 0 is not the identity of max; with A -inf: nothing
//   C[m n] = A[m n] + b[n], A 0              along m: C is b[n] there, which is no constant
//
// 0 * x is taken as 0, and -inf + x as -inf, also where x is infinite or no number; `strict` does not, unless x is a
// finite literal or an integer. -0 counts as 0.
#pragma once
#include <map>

#include "law/region.h"

namespace tilewright {

using Backgrounds = std::map<TensorId, double>; // what every element of a slice of these tensors is

struct Skipped {
  ScalarRef value; // of the result at the skipped points, over the statement's axes; null along a reduced axis
  std::optional<double> constant; // the same, if it is one number
  bool hides = false;             // a NaN that plain arithmetic would give may be hidden
};
// The slices of a statement along one of its axes that lie in tensors with a background.
Or<Skipped> skipped(const Program&, const Statement&, AxisId, const Backgrounds&, bool strict = false);

// The same from statement to statement: each use of slices of `tensor` along its dim `dim`, and of what becomes
// constant by them, in program order. Where a use is refused, or leaves no constant, the statement's result is made at
// every point.
struct SkippedUse {
  StatementId statement = -1;
  AxisId axis = -1;
  Or<Skipped> law;
};
std::vector<SkippedUse> skipped_uses(const Program&, TensorId tensor, std::size_t dim, double background,
                                     bool strict = false);

// Whether a statement needs an operand at points along an axis where other operands have these values: S[m n] * D[m n]
// does not need D where S is 0, so that a sampled product need not be computed there.
bool needs(const Program&, const Statement&, AxisId, const Backgrounds&, TensorId operand);

} // namespace tilewright
