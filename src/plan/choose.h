// The best schedule of one region under the plan's objective, with its price; or the first rule that every schedule
// breaks.
//
//   time    predicted picoseconds; what the target has no leaf for is priced as interpreted
//   bytes   moved between memory and the tiles, over tiles that fit the innermost memory and are as many as there are
//   cores
#pragma once
#include "plan/plan.h"

namespace tilewright {

// What the groups of a joined region cost one by one: joining must save, and recompute little for what it saves. `cascade`: on a GPU
// only kernels that keep its rows in registers are looked at.
struct Apart {
  std::int64_t price = 0, multiply_adds = 0;
  bool cascade = false;
};

struct Choice {
  Schedule schedule;
  Cost cost;
  std::int64_t price = -1; // -1: no schedule at all
  std::string rule;        // why not, with numbers; empty: it may be chosen
  bool rides = false;      // its other reductions go along with one as it would be alone: they save, by however little
};
Choice choose(const Program&, const Region&, const Machine&, const PlanOptions&, const std::vector<DimOrder>&,
              const Apart* = nullptr);

// Of a product with an operand that is read through slots: all of its rows, so that what is between them is skipped together, and
// as many slices of columns as keep the threads busy, whichever has more to do.
std::optional<Schedule> gathered_tiles(const Program&, const Region&, const Machine&, const PlanOptions&);

// Of a region of one reduction, by predicted time.
Schedule choose_tiles(const Program&, const Region&, const Machine&, const PlanOptions&, const std::vector<DimOrder>&);

// A price that joining is compared by: predicted time with the margin on it.
std::int64_t asked(std::int64_t price, const PlanOptions&);

// The statements of a region and the tensors that they name, in order; and the schedule of one region for another of the same
// signature: values and leaves are that one's.
struct Standing {
  std::vector<StatementId> statements;
  std::vector<TensorId> tensors;
};
Standing standing_of(const Program&, const std::vector<StatementId>&);
Schedule rebound(Schedule, const Standing& from, const Standing& to);

} // namespace tilewright
