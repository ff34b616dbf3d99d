#include "model/page.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

namespace {

// The fastest unit that the kernel's contractions run on.
std::optional<Placed> unit_of(const Program& p, const Region& r, const Machine& m) {
  std::optional<Placed> found;
  for (std::size_t i = 0; i < r.statements.size(); ++i)
    if (auto at = placed(p, r, static_cast<int>(i), m)) found = std::move(at);
  return found;
}

void price_levels(KernelPage& page, const Machine& m) {
  const auto seconds = storages(m, 1, Weight::seconds), joules = storages(m, 1, Weight::joules);
  Point axes = page.flow.point;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    LevelLine line{seconds[i].name, seconds[i].memory, page.part.moved, 0, 0, false};
    if (page.bytes) line.moved = moved_at(*page.bytes, axes, seconds[i].memory), line.smooth = true;
    line.seconds = line.moved * seconds[i].weight, line.joules = line.moved * joules[i].weight;
    page.levels.push_back(line);
  }
}

void price_work(KernelPage& page, const Program& p, const Machine& m) {
  const auto unit = unit_of(p, page.part.region, m);
  if (!unit || page.flow.flops.is_zero()) return;
  const double rate = operations_per_second(m, unit->unit, unit->type),
               operations = page.flow.flops.at(page.flow.point);
  page.compute_seconds = rate > 0 ? operations / rate : 0;
  page.compute_joules = operations * rate_for(m, unit->unit, unit->type)->energy;
  const auto levels = storages(m, 1, Weight::seconds);
  if (page.bytes && !levels.empty() && rate > 0)
    page.roofline =
        roofline(*page.bytes, page.flow.flops, page.flow.point, levels.back().memory, 1 / levels.back().weight, rate);
}

void price_clusters(KernelPage& page, const Machine& m) {
  const auto levels = storages(m, 1, Weight::seconds);
  if (!page.bytes || levels.empty()) return;
  std::vector<Exchange> sizes;
  for (const ClusterSize& c : m.clusters)
    if (c.multicast > 0) sizes.push_back({c.size, c.multicast});
  page.cluster = best_cluster(*page.bytes, page.flow.point, levels.back().memory, 1 / levels.back().weight, sizes);
}

// Row work is laid out as the tensor unit makes it, so that nothing is exchanged; rows are those of its instruction.
Setup setup_of(const Program& p, const Part& part, const Machine& m) {
  Setup s;
  s.opaque = false;
  if (const auto unit = unit_of(p, part.region, m)) {
    const Unit& u = m.units[static_cast<std::size_t>(unit->unit)];
    if (u.kind == UnitKind::tensor)
      s.rows = std::int64_t{rate_for(m, unit->unit, unit->type)->shape[0]} * std::max(1, 4 / u.warps);
  }
  return s;
}

} // namespace

KernelPage page_of(const Program& p, const Part& part, const Machine& m) {
  const Nest nest = expand(p, part.region, part.schedule, part.name);
  const Setup setup = setup_of(p, part, m);
  Columns early = columns(p, part.region, part.schedule, nest),
          late = columns(p, part.region, part.schedule, nest, true);
  KernelPage page{part,
                  flow(p, part.region, part.schedule),
                  source_lines(p, part),
                  early,
                  late,
                  closed_form(p, part, Count::values),
                  closed_form(p, part, Count::bytes),
                  0,
                  live_share(p, part.region, part.schedule),
                  divisors(p, part.region, m, true),
                  {},
                  0,
                  0,
                  {},
                  {},
                  setup,
                  configuration(p, part.region, part.schedule, early, nest, m, setup),
                  budget(p, part.region, part.schedule, early, nest, m, setup),
                  {},
                  {},
                  {},
                  1,
                  tile_choices(p, part, m)};
  if (page.values)
    for (const auto& [beta, alpha] : by_beta(page.values->regimes.front().moved))
      if (beta > 0 && (page.beta == 0 || beta < page.beta)) page.beta = beta;
  price_levels(page, m);
  price_work(page, p, m);
  price_clusters(page, m);
  page.phases = phases_of(page.budget, &page.pipes);
  page.lanes = std::clamp(page.configuration.groups, 1, 3);
  if (!page.phases.empty() && m.target == Target::cuda) page.timeline = pipelined(page.phases, page.lanes, 1, 16);
  return page;
}

} // namespace tilewright
