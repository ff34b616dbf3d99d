#include "plan/plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace tilewright {

namespace {

// Kernels in an order in which each finds what it reads: by the tensors they write and read, ties by program order.
std::vector<std::size_t> runnable_order(const Program& p, const std::vector<PlannedKernel>& kernels) {
  std::vector<std::set<TensorId>> reads(kernels.size()), writes(kernels.size());
  std::map<TensorId, int> missing_writers;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].region) {
      const Boundary b = boundary(p, *kernels[k].region);
      reads[k].insert(b.inputs.begin(), b.inputs.end());
      writes[k].insert(b.outputs.begin(), b.outputs.end());
      writes[k].insert(b.inner.begin(), b.inner.end());
    } else {
      const Opaque& o = std::get<Opaque>(p.nodes[static_cast<std::size_t>(kernels[k].opaque)]);
      reads[k].insert(o.in.begin(), o.in.end());
      writes[k].insert(o.out.begin(), o.out.end());
    }
    for (TensorId t : writes[k]) ++missing_writers[t];
  }
  std::vector<std::size_t> order;
  std::vector<bool> done(kernels.size(), false);
  while (order.size() < kernels.size()) {
    const std::size_t before = order.size();
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (done[k] || std::any_of(reads[k].begin(), reads[k].end(), [&](TensorId t) { return missing_writers[t] > 0; })) continue;
      done[k] = true;
      order.push_back(k);
      for (TensorId t : writes[k]) --missing_writers[t];
    }
    TW_ASSERT(order.size() > before);
  }
  return order;
}

}  // namespace

Plan make_plan(std::shared_ptr<const Program> program, const Machine& machine, const PlanOptions& options) {
  const Program& p = *program;
  Plan plan{program, machine, options, {}, choose_layouts(p)};
  const Grouping grouping = fold_maps(p);
  const Readers readers = readers_by_tensor(p);
  std::vector<PlannedKernel> kernels;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    if (grouping.groups[g].empty()) continue;
    PlannedKernel k;
    const auto region = unify(p, grouping.groups[g]);
    TW_ASSERT(static_cast<bool>(region));
    k.region = *region;
    fix_boundary(p, readers, *k.region);
    k.name = p.tensor(p.statement(k.region->statements.back())->out).name;
    k.schedule = choose_tiles(p, *k.region, machine, options, plan.layouts);
    k.cost = cost(p, *k.region, k.schedule, machine);
    k.refusals = grouping.refusals[g];
    kernels.push_back(std::move(k));
  }
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
  for (std::size_t k : runnable_order(p, kernels)) plan.kernels.push_back(std::move(kernels[k]));
  return plan;
}

}  // namespace tilewright
