// Extents that are known only when the model has run.
//
//   NonMaxSuppression(b[1 n 4], s[1 c n])  ->  opaque S[c*n 3] : i64, S.count : i64 = NonMaxSuppression(b, s, ...)
//   Gather(S, 2, axis=1)                   ->  B[i] = S[i, 2]                                counted by S.count as S is
//   Gather(b[0], B)                        ->  Y[i k] = b[0, B[i], k] where i < S.count      guarded: the read could
//   fail output Y                               ->  output Y[S.count k]
//
// A tensor with such a dim has room for the most rows that there can be; the first `count` of them are results, and the
// rest is computed along and means nothing. So a statement may do to such a dim only what keeps rows apart: carry it
// whole to a dim of its result. Everything else (sums over it, slices and joins of it, its extent as a number) is
// refused here, by the node's name.
#pragma once
#include <unordered_map>
#include <vector>

#include "expr/program.h"

namespace tilewright::onnx {

// Of a tensor, what counts the rows of each dim, as Tensor::counted_by.
using CountedTensors = std::unordered_map<TensorId, std::vector<TensorId>>;

// Goes through the nodes from `first` on, which one ONNX node has become: their results are counted where what they
// read is, and reads that rows past a count could make fail get a guard. Error(unsupported) where rows are mixed.
void follow_counts(Program&, std::size_t first, CountedTensors&);
// Whether the nodes from `first` on have a count as a value.
bool reads_counts(const Program&, std::size_t first, const CountedTensors&);

} // namespace tilewright::onnx
