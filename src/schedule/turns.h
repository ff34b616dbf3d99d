// Turns of a stream in which no point counts: where what every sum along it asks of its points can hold nowhere. They are left out,
// whole: nothing is loaded and nothing computed.
//
//   O[q d] = sum[x] E[q x] * V[x d], E[q x] = exp(S[q x] - m[q]) where index(x) <= index(q)
//   tiles of 128 q, a turn 128 x:     a turn is live where x0 <= q1 - 1; half of them are
//
// The condition is read over the intervals in which the axes of a turn run: any expression of axes, integers, comparisons and their
// combinations. It is never made into a table. What it reads from tensors may be anything to a planner; to who has the data, what
// the integers it may read (lengths, say) are in the box of the turn.
#pragma once
#include <functional>
#include <set>

#include "expr/scalar.h"

namespace tilewright {

class Turns {
 public:
  // A condition over axes, each of them in the tile of a step (whose variables are 2 * step and 2 * step + 1) or in [0, extent).
  struct Where { int step = -1; std::int64_t extent = 1; };
  struct Bounds { std::int64_t low, high; };
  // The least and the greatest number in a box of a tensor of integers: [low, high) a dim.
  using Data = std::function<std::optional<Bounds>(TensorId, const Bounds* box)>;
  Turns() = default;
  // `given`: tensors of integers that are there before the first turn.
  Turns(const ScalarRef& condition, const std::vector<Where>& axes, const std::set<TensorId>& given = {});
  bool every() const { return nodes_.empty(); }                 // no turn is left out
  bool live(const std::int64_t* variables, const Data* = nullptr) const;
  const std::vector<int>& steps() const { return steps_; }      // those that decide, ascending
  bool asks_data() const { return !reads_.empty(); }            // numbers of tensors decide, too
  const ScalarRef& condition() const { return condition_; }

 private:
  struct Node { Op op; int a, b; int step; Bounds value; };       // a of a read: its place in reads_
  struct Read { TensorId tensor; std::vector<Where> dims; };
  int compile(const ScalarRef&, const std::vector<Where>&, const std::set<TensorId>& given);
  std::optional<Read> box_of(const Access&, const std::vector<Where>&) const;
  int add(Node);
  Bounds at(const Node&, const Bounds* known, const std::int64_t* variables, const Data*) const;
  ScalarRef condition_;
  std::vector<Read> reads_;
  std::vector<Node> nodes_;
  std::vector<int> steps_;
};

}  // namespace tilewright
