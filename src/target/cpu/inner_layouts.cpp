#include "target/cpu/inner_layouts.h"

#include <algorithm>

#include "loop/points.h"

namespace tilewright::cpu {

namespace {

struct Layer {
  const Program& p;
  const Region& r;
  const Nest& nest;

  const std::vector<Index>& image(StatementId id) const { return r.image[static_cast<std::size_t>(r.position(id))]; }
  std::vector<const Compute*> in_streams() const {
    std::vector<const Compute*> list;
    collect(nest.body, false, list);
    return list;
  }
  static void collect(const Block& nodes, bool inside, std::vector<const Compute*>& list) {
    for (const Node& n : nodes) {
      if (const Compute* c = std::get_if<Compute>(&n.op); c && inside) list.push_back(c);
      const For* f = std::get_if<For>(&n.op);
      collect(n.body, inside || (f && f->kind == For::Kind::seq), list);
    }
  }
  bool inner(TensorId t) const {
    return std::any_of(nest.buffers.begin(), nest.buffers.end(), [&](const Buffer& b) { return b.tensor == t && b.inner; });
  }

  // How much of a region axis, as a parallel axis of its own, a full tile of the statement has; 0: it has none of it.
  std::int64_t length(const Compute& c, RegionAxis axis) const {
    for (AxisId a : parallel_axes(*p.statement(c.statement)))
      if (plain_axis(image(c.statement)[static_cast<std::size_t>(a)]) == axis)
        return std::min(full_extent(nest, c.ranges[static_cast<std::size_t>(a)]), r.axes[static_cast<std::size_t>(axis)].constant());
    return 0;
  }

  // Whether one operand that the kernel makes has all of the statement's axes.
  bool of_inner(const Compute& c) const {
    const Statement& s = *p.statement(c.statement);
    bool found = false;
    for_each_access(s, [&](const Access& a) {
      bool all = inner(a.tensor);
      for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()) && all; ++x)
        all = s.axes[static_cast<std::size_t>(x)] == Size(1) || std::any_of(a.at.begin(), a.at.end(), [&](const Index& i) { return mentions_axis(i, x); });
      found |= all;
    });
    return found;
  }

  RegionAxis lane_axis(int lanes) const {
    const auto list = in_streams();
    bool product = false;
    for (const Compute* c : list) {
      product |= c->kind == Compute::Kind::contract;
      if (c->kind != Compute::Kind::contract && !of_inner(*c)) return -1;
    }
    if (!product) return -1;
    RegionAxis best = -1;
    std::int64_t longest = lanes - 1;
    for (RegionAxis a = 0; a < static_cast<RegionAxis>(r.axes.size()); ++a) {
      std::int64_t least = INT64_MAX;
      for (const Compute* c : list) least = std::min(least, length(*c, a));
      if (least != INT64_MAX && least > longest) best = a, longest = least;
    }
    return best;
  }
};

}  // namespace

void lay_lanes_inside(const Program& p, const Region& r, const Nest& nest, int lanes, std::vector<DimOrder>& layouts) {
  if (!nest.program) return;
  const Layer layer{p, r, nest};
  const RegionAxis lane = layer.lane_axis(lanes);
  if (lane < 0) return;
  for (StatementId id : r.statements) {
    const Statement& s = *p.statement(id);
    if (!layer.inner(s.out)) continue;
    DimOrder& order = layouts[static_cast<std::size_t>(s.out)];
    for (int d = 0; d < static_cast<int>(s.at.size()); ++d)
      if (const auto a = plain_axis(s.at[static_cast<std::size_t>(d)]); a && plain_axis(layer.image(id)[static_cast<std::size_t>(*a)]) == lane) {
        order.erase(std::find(order.begin(), order.end(), d));
        order.push_back(d);
        break;
      }
  }
}

}  // namespace tilewright::cpu
