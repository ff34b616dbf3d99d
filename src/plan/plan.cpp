#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "normal/passes.h"
#include "plan/ends.h"
#include "plan/in_parts.h"
#include "plan/join.h"
#include "plan/merge.h"
#include "support/threads.h"

namespace tilewright {

namespace {

// What a kernel reads and writes.
struct Traffic { std::set<TensorId> reads, writes; };

Traffic traffic_of(const Program& p, const std::vector<StatementId>& group) {
  Traffic t;
  for (StatementId id : group) t.writes.insert(p.statement(id)->out);
  for (StatementId id : group)
    for_each_access(*p.statement(id), [&](const Access& a) {
      if (!t.writes.count(a.tensor)) t.reads.insert(a.tensor);
    });
  return t;
}
Traffic traffic_of(const Opaque& o) { return {{o.in.begin(), o.in.end()}, {o.out.begin(), o.out.end()}}; }

// An order in which each finds what it reads: by the tensors they write and read, ties by the given order. Shorter than the list
// where some wait for each other.
std::vector<std::size_t> runnable_order(const std::vector<Traffic>& kernels) {
  std::map<TensorId, int> missing_writers;
  for (const Traffic& k : kernels)
    for (TensorId t : k.writes) ++missing_writers[t];
  std::vector<std::size_t> order;
  std::vector<bool> done(kernels.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (done[k]) continue;
      const auto missing = [&](TensorId t) {
        const auto it = missing_writers.find(t);
        return it != missing_writers.end() && it->second > 0;
      };
      if (std::any_of(kernels[k].reads.begin(), kernels[k].reads.end(), missing)) continue;
      done[k] = moved = true;
      order.push_back(k);
      for (TensorId t : kernels[k].writes) --missing_writers[t];
    }
  }
  return order;
}

}  // namespace

bool runnable(const Program& p, const Grouping& grouping) {
  std::vector<Traffic> list;
  for (const auto& group : grouping.groups)
    if (!group.empty()) list.push_back(traffic_of(p, group));
  for (const auto& node : p.nodes)
    if (const Opaque* o = std::get_if<Opaque>(&node)) list.push_back(traffic_of(*o));
  return runnable_order(list).size() == list.size();
}

namespace {

PlannedKernel planned_kernel(const Plan& plan, const Readers& readers, Joined& joined, std::size_t g) {
  const Program& p = *plan.program;
  PlannedKernel k;
  const auto region = unify(p, joined.grouping.groups[g]);
  TW_ASSERT(static_cast<bool>(region));
  k.region = *region;
  fix_boundary(p, readers, *k.region);
  k.name = p.tensor(p.statement(k.region->statements.back())->out).name;
  k.schedule = std::move(joined.choices[g].schedule);
  k.cost = std::move(joined.choices[g].cost);
  // Equal regions share one choice: the tensors are this one's.
  const auto moves = transfers(p, *k.region, k.schedule);
  for (std::size_t i = 0; i < moves.size(); ++i) k.cost.moved[i].tensor = moves[i].tensor;
  k.refusals = std::move(joined.grouping.refusals[g]);
  if (plan.machine.target == Target::cpu) {
    k.schedule.operands = choose_views(p, *k.region, &k.refusals, plan.options.strict, &plan.layouts);
    k.gathered = price_views(p, *k.region, plan.machine, plan.options, k.schedule.operands);
  }
  k.groups = joined.groups[g];
  k.together = k.groups > 1 ? joined.choices[g].price : -1;
  k.apart = joined.apart[g];
  k.alternatives = std::move(joined.alternatives[g]);
  return k;
}

Plan assemble(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& options, std::vector<DimOrder> layouts, Joined joined) {
  const Program& p = *program;
  Plan plan{program, machine, options, {}, std::move(layouts), joined.search};
  const Readers readers = readers_by_tensor(p);
  std::vector<PlannedKernel> kernels(joined.grouping.groups.size());
  const auto half = kernels.size() / 2;
  const auto fill = [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = begin; g < end; ++g) kernels[g] = planned_kernel(plan, readers, joined, g);
  };
  run_both(planning_threads(machine, options), [&] { fill(0, half); }, [&] { fill(half, kernels.size()); });
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Opaque* o = std::get_if<Opaque>(&p.nodes[n])) {
      PlannedKernel k;
      k.opaque = static_cast<StatementId>(n);
      k.name = o->out.empty() ? o->op : p.tensor(o->out[0]).name;
      kernels.push_back(std::move(k));
    }
  std::stable_sort(kernels.begin(), kernels.end(), [](const PlannedKernel& a, const PlannedKernel& b) {
    auto first = [](const PlannedKernel& k) { return k.region ? k.region->statements.front() : k.opaque; };
    return first(a) < first(b);
  });
  std::vector<Traffic> traffic;
  for (const PlannedKernel& k : kernels)
    traffic.push_back(k.region ? traffic_of(p, k.region->statements) : traffic_of(std::get<Opaque>(p.nodes[static_cast<std::size_t>(k.opaque)])));
  const auto order = runnable_order(traffic);
  TW_ASSERT(order.size() == kernels.size());
  for (std::size_t k : order) plan.kernels.push_back(std::move(kernels[k]));
  return plan;
}

}  // namespace

PlanOptions with_rules(PlanOptions o, const PlanRules& rules) {
  if (rules.paper_constraints) o.joined = 2, o.streams = false;
  if (rules.margin) o.margin = *rules.margin;
  if (rules.redundancy) o.redundancy = *rules.redundancy;
  if (rules.joined) o.joined = *rules.joined;
  o.paper_cost = rules.paper_cost;
  return o;
}

namespace {

PlanOptions with_weights(PlanOptions o, const Program& p) {
  o.weights = 0;
  for (const Tensor& t : p.tensors) {
    if (t.kind != Kind::weight) continue;
    auto bytes = static_cast<double>(bytes_of(t.dtype));
    for (const Size& d : t.dims) bytes *= static_cast<double>(d.constant());
    o.weights += bytes;
  }
  return o;
}

} // namespace

Plan plan_groups(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& given, const Grouping& grouping) {
  const PlanOptions options = with_weights(given, *program);
  PlanOptions apart = options;
  apart.joined = 1;
  auto layouts = choose_layouts(*program, machine.target == Target::cuda);
  Prices prices;
  Joined joined = join(*program, machine, apart, layouts, grouping, prices);
  Plan plan = assemble(std::move(program), machine, options, std::move(layouts), std::move(joined));
  return plan;
}

namespace {

// A program with what was chosen for it.
struct Candidate {
  std::shared_ptr<const Program> program;
  std::vector<DimOrder> layouts;
  Joined joined;
};

Candidate joined_plan(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& options, const Grouping& folded,
                      Prices& prices) {
  auto layouts = choose_layouts(*program, machine.target == Target::cuda);
  Joined joined = join(*program, machine, options, layouts, folded, prices);
  return {std::move(program), std::move(layouts), std::move(joined)};
}
Candidate joined_plan(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& options, Prices& prices) {
  const Grouping folded = fold_maps(*program);
  return joined_plan(std::move(program), machine, options, folded, prices);
}

constexpr std::int64_t least_share = 200; // of a plan that others are worth looking for

std::int64_t price_of(const Joined& joined, const PlanOptions& options) {
  std::int64_t sum = 0;
  for (const Choice& k : joined.choices)
    sum += options.objective == Objective::bytes ? k.cost.loaded + k.cost.stored
                                                 : static_cast<std::int64_t>(std::llround(k.cost.seconds * 1e12));
  return sum;
}

} // namespace

Plan make_plan(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& given) {
  const PlanOptions options = with_weights(given, *program);
  if (auto turned = machine.target == Target::cpu && options.objective == Objective::time ? turn_ends(*program) : std::nullopt)
    program = std::make_shared<Program>(std::move(*turned));
  if (!options.fuse) return plan_groups(program, machine, options, fold_maps(*program));
  Merged merged;
  Grouping folded;
  run_both(planning_threads(machine, options), [&] { merged = merge_siblings(*program, machine, options); },
           [&] { folded = fold_maps(*program); });
  Prices prices;
  Candidate best = joined_plan(program, machine, options, folded, prices);
  std::int64_t saves = 0;
  for (const Alternative& a : merged.sets)
    if (a.rule.empty()) saves += a.apart - a.together;
  const char* why = nullptr;
  if (!merged.worth.empty() && saves < price_of(best.joined, options) / least_share) {
    why = "all such sets save less than a part in two hundred of the plan";
  } else if (!merged.worth.empty()) {
    // Its weights get their bytes once it is chosen.
    auto beside = std::make_shared<Program>(drop_unused(side_by_side(*program, merged.worth, false)));
    Candidate other = joined_plan(std::move(beside), machine, options, prices);
    if (price_of(other.joined, options) < price_of(best.joined, options)) {
      best = std::move(other);
      best.program = std::make_shared<Program>(drop_unused(side_by_side(*program, merged.worth)));
    } else {
      why = "the plan with it costs no less in sum";
    }
  }
  if (auto parted = options.objective == Objective::time ? in_parts(*best.program, machine, options.threads, &prices.streams) : std::nullopt) {
    Candidate other = joined_plan(std::make_shared<Program>(std::move(*parted)), machine, options, prices);
    if (price_of(other.joined, options) < price_of(best.joined, options)) best = std::move(other);
  }
  for (Alternative& a : merged.sets)
    if (why && a.rule.empty()) a.rule = why;
  Plan plan = assemble(std::move(best.program), machine, options, std::move(best.layouts), std::move(best.joined));
  plan.merged = std::move(merged.sets);
  plan.search.priced = prices.known.size();
  return plan;
}

}  // namespace tilewright
