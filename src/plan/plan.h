// Plans: which statements share a kernel, how each kernel is scheduled, and how the tensors between kernels lie.
//
// A plan is a pure function of (program, machine, options). For now a region is one reduction with the maps behind it, or a chain
// of maps; every rejected alternative keeps its reason.
#pragma once
#include <memory>

#include "cost/cost.h"
#include "schedule/layout.h"

namespace tilewright {

struct PlanOptions {
  int threads = 1;
  std::string isa;               // vector instructions of the leaves
  int leaf_rows = 1, leaf_columns = 1, lanes = 1;   // their register tile, and floats of a vector
};

struct PlannedKernel {
  std::string name;              // of the tensor that it ends in
  std::optional<Region> region;  // absent: an opaque node
  StatementId opaque = -1;
  Schedule schedule;
  Cost cost;
  std::vector<std::string> refusals;   // "Z not folded in: read through two maps"
};

struct Plan {
  std::shared_ptr<const Program> program;   // normalised, all sizes fixed
  Machine machine;
  PlanOptions options;
  std::vector<PlannedKernel> kernels;       // in an order in which they can run
  std::vector<DimOrder> layouts;            // by tensor
};

Plan make_plan(std::shared_ptr<const Program>, const Machine&, const PlanOptions&);

// The steps of make_plan, each a pure function.
struct Grouping { std::vector<std::vector<StatementId>> groups; std::vector<std::vector<std::string>> refusals; };
Grouping fold_maps(const Program&);                                           // maps go into their neighbours
bool runnable(const Program&, const Grouping&);                               // whether no group waits for one that waits for it
Plan plan_groups(std::shared_ptr<const Program>, const Machine&, const PlanOptions&, const Grouping&);   // each must be a region
std::vector<DimOrder> choose_layouts(const Program&);                         // by tensor
Schedule choose_tiles(const Program&, const Region&, const Machine&, const PlanOptions&, const std::vector<DimOrder>&);
Schedule choose_blocks(const Program&, const Region&, const Machine&, const std::vector<DimOrder>& layouts);   // for a GPU

}  // namespace tilewright
