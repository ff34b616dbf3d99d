// Turns of a stream in which no point counts: where what every sum along it asks of its points can hold nowhere. They are left out,
// whole: nothing is loaded and nothing computed.
//
//   O[q d] = sum[x] E[q x] * V[x d], E[q x] = exp(S[q x] - m[q]) where index(x) <= index(q)
//   tiles of 128 q, a turn 128 x:     a turn is live where x0 <= q1 - 1; half of them are
//
// The condition is read over the intervals in which the axes of a turn run: any expression of axes, integers, comparisons and their
// combinations; what it reads from tensors may hold anywhere. It is never made into a table.
#pragma once
#include "expr/scalar.h"

namespace tilewright {

class Turns {
 public:
  // A condition over axes, each of them in the tile of a step (whose variables are 2 * step and 2 * step + 1) or in [0, extent).
  struct Where { int step = -1; std::int64_t extent = 1; };
  Turns() = default;
  Turns(const ScalarRef& condition, const std::vector<Where>& axes);
  bool every() const { return nodes_.empty(); }                 // no turn is left out
  bool live(const std::int64_t* variables) const;
  const std::vector<int>& steps() const { return steps_; }      // those that decide, ascending
  const ScalarRef& condition() const { return condition_; }

 private:
  struct Bounds { std::int64_t low, high; };
  struct Node { Op op; int a, b; int step; Bounds value; };
  int compile(const ScalarRef&, const std::vector<Where>&);
  int add(Node);
  Bounds at(const Node&, const Bounds* known, const std::int64_t* variables) const;
  ScalarRef condition_;
  std::vector<Node> nodes_;
  std::vector<int> steps_;
};

}  // namespace tilewright
