// Plans: which statements share a kernel, how each kernel is scheduled, and how the tensors between kernels lie.
//
// A plan is a pure function of (program, machine, options). Maps go into their neighbours first; then neighbouring groups become
// one kernel where the laws allow it and the model says that it pays. Every rejected alternative keeps its numbers and the first
// rule that it breaks.
//
//   Y = sum[c] X*W, maps behind it; Z = sum[i j] Y*V, maps behind it
//     two kernels   Y is stored once and loaded with its halo                         1,149,440 B + 739,840 B
//     one kernel    tiles of Z make what they need of Y: tile f 32, tile y 8            708,416 B
#pragma once
#include <map>
#include <memory>

#include "cost/cost.h"
#include "schedule/layout.h"
#include "sparse/select.h"

namespace tilewright {

enum class Objective { time, bytes };   // predicted seconds, or bytes moved between memory and the tiles

struct PlanOptions {
  int threads = 1;
  std::string isa;               // vector instructions of the leaves
  int leaf_rows = 1, leaf_columns = 1, lanes = 1;   // their register tile, and floats of a vector
  bool splits = false;           // they multiply tiles of bf16, too (cost/split_products.h)
  Objective objective = Objective::time;
  bool fuse = true;              // kernels of several reductions
  double margin = 0.08;          // predicted seconds that joining must save at least
  int joined = 4;                // groups in one kernel at most
  // Of the bytes objective: tiles as small as the innermost memory asks, as many as there are cores, and recomputed operations
  // for each byte saved at most.
  bool streams = true;           // reduced axes may be cut too, so that operands need not fit whole
  double redundancy = 10;
  bool paper_cost = false;       // bytes by the equations of cost/paper.h, for comparison
  bool strict = false;           // 0 * inf is no number: what a skipped zero may hide is not skipped
  double live = 0.1;             // of the micro-tiles of a sparse tensor, where `live_of` does not say how many hold anything
  std::map<std::string, double> live_of = {};
  double weights = 0;            // bytes of all weights of the program, which make_plan counts: each is read once a run
  double interpreted = 20;       // how many times longer a reduction takes that the target has no leaf for
};

// What of these a user decides; what is not given stays as it is.
struct PlanRules {
  std::optional<double> margin, redundancy;
  std::optional<int> joined;
  bool paper_constraints = false;   // pairs at most, operands whole: the bytes objective as the paper has it (spec fcm 2.5)
  bool paper_cost = false;
};
PlanOptions with_rules(PlanOptions, const PlanRules&);

// A kernel that was looked at and not chosen. Numbers are bytes or picoseconds, as the objective asks; -1: not priced.
struct Alternative {
  std::string kernels;           // "Y + Z"
  std::int64_t together = -1, apart = -1;
  std::string rule;              // the first that it breaks
};

// What was chosen for an operand that is read through slots, for random micro-tiles of the share that is expected to live. In a run
// the same search is made on what is there.
struct GatheredPlan {
  OperandAt view;
  double live = 1;
  Selection selection;
  double seconds = 0;            // that the search took
  double ratio() const { return selection.dense.seconds > 0 ? std::min(1.0, selection.best.seconds / selection.dense.seconds) : 1; }
};

struct PlannedKernel {
  std::string name;              // of the tensor that it ends in
  std::optional<Region> region;  // absent: an opaque node
  StatementId opaque = -1;
  Schedule schedule;
  Cost cost;
  std::vector<std::string> refusals;   // "Z not folded in: read through two maps"
  std::vector<GatheredPlan> gathered;
  int groups = 1;                // that were joined
  std::int64_t together = -1, apart = -1;   // price of this kernel and of its groups one by one, where several were joined
  std::vector<Alternative> alternatives;    // that end in this kernel's groups
};

// How much was looked at.
struct Search { std::size_t candidates = 0, priced = 0, states = 0; bool exact = true; };

struct Plan {
  std::shared_ptr<const Program> program;   // normalised, all sizes fixed
  Machine machine;
  PlanOptions options;
  std::vector<PlannedKernel> kernels;       // in an order in which they can run
  std::vector<DimOrder> layouts;            // by tensor
  Search search;
  std::vector<Alternative> merged = {};     // contractions on one operand: as one, and one by one; rule empty: they are one
};

Plan make_plan(std::shared_ptr<const Program>, const Machine&, const PlanOptions&);

// The steps of make_plan, each a pure function.
struct Grouping { std::vector<std::vector<StatementId>> groups; std::vector<std::vector<std::string>> refusals; };
Grouping fold_maps(const Program&);                                           // maps go into their neighbours
bool runnable(const Program&, const Grouping&);                               // whether no group waits for one that waits for it
Plan plan_groups(std::shared_ptr<const Program>, const Machine&, const PlanOptions&, const Grouping&);   // each must be a region
// By tensor. `weights`: of those too (a GPU's plan: who uploads them brings their elements into that order); else row-major.
std::vector<DimOrder> choose_layouts(const Program&, bool weights = false);
// Operands of the region's contractions that are declared sparse and may be read through slots, as the permute law and the skipping
// rule say. Why another is not goes to `refusals`.
std::vector<OperandAt> choose_views(const Program&, const Region&, std::vector<std::string>* refusals = nullptr, bool strict = false,
                                    const std::vector<DimOrder>* layouts = nullptr);
std::vector<GatheredPlan> price_views(const Program&, const Region&, const Machine&, const PlanOptions&, const std::vector<OperandAt>&);

// For a GPU: every schedule of one region that was priced, the fastest by prediction first. None where an axis is empty.
struct BlockChoice { Schedule schedule; double seconds = 0; };
std::vector<BlockChoice> block_choices(const Program&, const Region&, const Machine&, const std::vector<DimOrder>& layouts);

}  // namespace tilewright
