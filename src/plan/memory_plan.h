// Where the tensors between kernels lie, by liveness over the plan's order: two that are never alive together may share
// a place.
//
//   a -> [kernel 0] -> b -> [kernel 1] -> c -> [kernel 2] -> out        b at 0, c behind it; of four in a row, the
//   third lies where b lay
#pragma once
#include "plan/plan.h"

namespace tilewright {

// In one arena. offset[t]: bytes, or -1 if it is not in the arena, as inputs, outputs and weights are not.
struct MemoryPlan {
  std::vector<std::int64_t> offset;
  std::int64_t bytes = 0;
};
// Places begin at multiples of `granule`, with at least one byte less than a granule between two. `bytes`: of each tensor, where some
// take more than their elements.
MemoryPlan plan_memory(const Plan&, std::int64_t granule = 64, const std::vector<std::int64_t>& bytes = {});
// A place of its own for every tensor that the memory plan keeps at all.
MemoryPlan apart(MemoryPlan, const Program&, std::int64_t granule = 64);

} // namespace tilewright
