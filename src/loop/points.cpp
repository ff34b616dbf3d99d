#include "loop/points.h"

#include <algorithm>
#include <set>

namespace tilewright {

namespace {

const Compute* find(const Block& nodes, StatementId id) {
  for (const Node& n : nodes) {
    if (const Compute* c = std::get_if<Compute>(&n.op); c && c->statement == id) return c;
    if (const Compute* c = find(n.body, id)) return c;
  }
  return nullptr;
}

void first_tile(const Block& nodes, std::vector<std::int64_t>& variables) {
  for (const Node& n : nodes) {
    if (const For* f = std::get_if<For>(&n.op)) variables[2 * static_cast<std::size_t>(f->step) + 1] = std::min(f->size, f->extent);
    first_tile(n.body, variables);
  }
}

bool same(const Span& a, const Span& b) {
  if (a.walk != b.walk || a.kept.offset != b.kept.offset || a.kept.terms != b.kept.terms) return false;
  return a.low.offset == b.low.offset && a.high.offset == b.high.offset && a.low.terms == b.low.terms && a.high.terms == b.high.terms;
}

// Whether one of the group reads another outside of its bounds: the value there is not the other's.
bool reads_outside(const Program& p, const std::vector<StatementId>& group) {
  bool outside = false;
  for (StatementId id : group)
    for_each_access(*p.statement(id), [&](const Access& a) {
      for (StatementId other : group) outside |= a.otherwise && p.statement(other)->out == a.tensor;
    });
  return outside;
}

// The axes of the group's region at which a statement's parallel axes run.
std::set<RegionAxis> parallel(const Program& p, const Region& r, StatementId id) {
  std::set<RegionAxis> axes;
  const auto& image = r.image[static_cast<std::size_t>(r.position(id))];
  for (AxisId a : parallel_axes(*p.statement(id)))
    if (const auto axis = plain_axis(image[static_cast<std::size_t>(a)]); axis && r.axes[static_cast<std::size_t>(*axis)] != Size(1)) axes.insert(*axis);
  return axes;
}

}  // namespace

const Compute& compute_of(const Nest& nest, StatementId id) {
  const Compute* c = find(nest.body, id);
  TW_ASSERT(c != nullptr);
  return *c;
}

std::int64_t full_extent(const Nest& nest, const Span& span) {
  std::vector<std::int64_t> variables(static_cast<std::size_t>(nest.variables) + 2, 0);
  first_tile(nest.body, variables);
  return span.high.at(variables.data()) - span.low.at(variables.data());
}

Or<Points> common_points(const Program& p, const Nest& nest, const std::vector<StatementId>& group) {
  auto region = unify(p, group);
  if (!region) return Refused{region.reason()};
  if (reads_outside(p, group)) return Refused{"read outside of its bounds"};
  Points out{std::move(*region), {}, {}, {}, {}};
  std::vector<const Span*> spans(out.region.axes.size(), nullptr);
  for (StatementId id : group) {
    const Statement& s = *p.statement(id);
    const auto& image = out.region.image[static_cast<std::size_t>(out.region.position(id))];
    std::set<RegionAxis> used;
    for (std::size_t x = 0; x < image.size(); ++x) {
      const auto axis = plain_axis(image[x]);
      if (!axis && s.axes[x] == Size(1)) continue;
      if (!axis || !used.insert(*axis).second) return Refused{"read at other points than it is made at"};
      const Span& span = compute_of(nest, id).ranges[x];
      const Span*& known = spans[static_cast<std::size_t>(*axis)];
      if (known && !same(*known, span)) return Refused{"other points are wanted"};
      known = &span;
    }
  }
  for (std::size_t x = 0; x < spans.size(); ++x) {
    TW_ASSERT(spans[x] != nullptr);
    const Span& span = *spans[x];
    const std::int64_t extent = out.region.axes[x].constant();
    const bool whole = span.low.terms.empty() && span.high.terms.empty() && span.low.offset <= 0 && span.high.offset >= extent;
    out.spans.push_back(span);
    out.extent.push_back(extent);
    out.tiled.push_back(!whole);
    out.full.push_back(std::min(full_extent(nest, span), extent));
  }
  return out;
}

std::vector<StatementId> with_maps(const Program& p, const Nest& nest, const Block& nodes, std::size_t& n, StatementId first) {
  std::vector<StatementId> group = {first};
  while (n + 1 < nodes.size()) {
    const Compute* next = std::get_if<Compute>(&nodes[n + 1].op);
    if (!next || next->kind != Compute::Kind::map) break;
    std::vector<StatementId> together = group;
    together.push_back(next->statement);
    const auto points = common_points(p, nest, together);
    if (!points || parallel(p, points->region, next->statement) != parallel(p, points->region, first)) break;
    group = std::move(together);
    ++n;
  }
  return group;
}

}  // namespace tilewright
