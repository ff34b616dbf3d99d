// Seconds that a kernel takes on a GPU: blocks share the cores of a multiprocessor; what each pipe must do bounds them together, and
// one block alone is bound by its chain of steps, one after the other, with the latencies between them.
//
//   two blocks an SM, each with 10 us of tensor work, 4 us of vector work and 3 us of latency:  max(2 * 10, 10 + 4 + 3) = 20 us a round
#pragma once
#include "plan/plan.h"

namespace tilewright {

// What each statement of a region is, looked at once for all of its schedules.
struct StatementFacts { std::optional<Contraction> contraction; std::optional<Window> window; std::vector<AxisId> parallel; };
std::vector<StatementFacts> facts_of(const Program&, const Region&);

struct BlockPlan {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Machine& m;
  const std::vector<StatementFacts>& facts;
  const Cost& cost;
  std::int64_t scratch = 0;              // bytes of a block
  double pieces = -1;                    // that its threads copy; below 0: all of 16 bytes
};
double block_seconds(const BlockPlan&);
int resident_blocks(const BlockPlan&);   // that fit a core at most, by scratch, threads and the registers that the leaves need

// The same schedule with its operands brought in bulk by warps of their own, by blocks that take several tiles, alone and in clusters.
std::vector<Schedule> bulk_variants(const Program&, const Region&, const Schedule&, const Machine&, const std::vector<DimOrder>& layouts);

// Schedules of a region that keep rows in registers along a stream, the fastest by prediction first; none where that is not what it is.
std::vector<BlockChoice> fragment_choices(const Program&, const Region&, const Machine&, const std::vector<DimOrder>& layouts);
// Of these, those where a contraction's products are walked and its columns are few enough to be whole.
std::vector<BlockChoice> row_choices(const Program&, const Region&, const Machine&, const std::vector<DimOrder>& layouts);

// The tensor unit whose instruction one warp issues, with operands in registers; none where the machine has none for the type.
std::optional<UnitId> warp_unit(const Machine&, DType);
// The one whose instruction four warps issue together, with operands in scratch.
std::optional<UnitId> group_unit(const Machine&, DType);

// Schedules of a region whose blocks are not made of a contraction's tiles: windows, reductions, maps; the fastest by prediction first.
std::vector<BlockChoice> plain_blocks(const Program&, const Region&, const Machine&, const std::vector<DimOrder>& layouts);

}  // namespace tilewright
