// Sibling contractions: sums of products that read one operand in one way, each with weights of its own. They are one contraction
// with the weights side by side along a free axis; maps behind them that differ in their weights only are one map likewise.
//
//   Q[t f] = sum[k] X[t k] * A[f k],  K[t g] = sum[k] X[t k] * B[g k],  V[t h] = V's sum, each plus a bias
//
//   Y[t x] = sum[k] X[t k] * (A|B|..)[x k]     plus (a|b|..)[x];     Q is read as Y[t, f], K as Y[t, g + extent of f]
//
// Points, sums and their order stay as they were: every result has the same bits.
#pragma once
#include "law/region.h"

namespace tilewright {

struct Siblings {
  // rows[0]: the contractions, in program order; rows[i]: maps of the results of the rows before, one each, in the same order.
  std::vector<std::vector<StatementId>> rows;
  std::vector<AxisId> axis;                    // of a row's statements: the one that is laid side by side
};
std::vector<Siblings> siblings(const Program&);                // of two and more; no statement stands in two of them
// results: the tensors that the rows of each write. Without bytes the new weights have none: enough to plan with.
Program side_by_side(Program, const std::vector<Siblings>&, bool bytes = true,
                     std::vector<std::vector<TensorId>>* results = nullptr);

}  // namespace tilewright
