// Sibling contractions as one, where the price says so (law/siblings.h): each set is priced as one kernel and as several, and the
// whole program is planned with those that save more than the margin and without, if they save something of the whole; the cheaper
// plan is taken.
#pragma once
#include "law/siblings.h"
#include "plan/plan.h"

namespace tilewright {

struct Merged {
  std::vector<Siblings> worth;
  std::vector<Alternative> sets;            // all, with their prices; rule empty: they are worth it
};
Merged merge_siblings(const Program&, const Machine&, const PlanOptions&);

}  // namespace tilewright
