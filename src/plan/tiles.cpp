#include <algorithm>
#include <set>

#include "law/permute.h"
#include "plan/choose.h"
#include "plan/cpu_time.h"

namespace tilewright {

namespace {

// The sizes worth trying along an axis: for each number of tiles the smallest size, as a multiple of the granule.
std::vector<std::int64_t> sizes(std::int64_t extent, std::int64_t granule) {
  std::set<std::int64_t> list{extent};
  for (std::int64_t tiles : {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512}) {
    if (tiles > extent) break;
    list.insert(std::min(extent, ceil_div_i64(ceil_div_i64(extent, tiles), granule) * granule));
  }
  return {list.rbegin(), list.rend()};
}

struct Chooser {
  const Program& p;
  const Region& r;
  const Machine& m;
  const PlanOptions& o;
  const std::vector<DimOrder>& layouts;

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  RegionAxis region_axis(std::size_t statement, AxisId a) const {
    const auto plain = plain_axis(r.image[statement][static_cast<std::size_t>(a)]);
    return plain ? *plain : -1;
  }

  // Parallel region axes, outermost first by where the last statement's result lies.
  std::vector<RegionAxis> by_memory() const {
    const std::size_t last = r.statements.size() - 1;
    const Statement& s = *p.statement(r.statements[last]);
    std::vector<RegionAxis> axes;
    auto add = [&](RegionAxis a) {
      if (a >= 0 && std::find(axes.begin(), axes.end(), a) == axes.end()) axes.push_back(a);
    };
    for (int d : layouts[static_cast<std::size_t>(s.out)])
      for (const Index::Term& t : s.at[static_cast<std::size_t>(d)].terms)
        if (const AxisId* a = std::get_if<AxisId>(&t.of)) add(region_axis(last, *a));
    for (AxisId a : parallel_axes(s)) add(region_axis(last, a));
    return axes;
  }

  // Columns of the leaf: the n axis of a contraction that the leaf will take, or the lanes of a window.
  Granule granule(const std::vector<RegionAxis>& axes) const {
    Granule g;
    const Statement& s = *p.statement(r.statements[0]);
    const auto keyed = keyed_product(p, s);   // a product in buckets is one with the same columns
    if (const auto c = contraction(p, keyed ? keyed->statement : s)) {
      for (AxisId n : c->n) {
        const RegionAxis a = region_axis(0, n);
        if (g.columns < 0 || (a == axes.back()) || (g.columns != axes.back() && extent(a) > extent(g.columns))) g.columns = a;
      }
      g.column = o.leaf_columns;
      g.row = o.leaf_rows;
      for (AxisId x : c->m)
        if (const RegionAxis a = region_axis(0, x); a >= 0) g.rows.push_back(a);
      if (!keyed) g.split = split_product(p, s, *c, o);
    } else if (const auto w = window(p, s)) {
      g.columns = axes.empty() ? -1 : axes.back();
      g.column = o.lanes;
    }
    return g;
  }

  Schedule with(std::vector<AxisStep> steps) const {
    Schedule s;
    s.threads = o.threads;
    s.isa = o.isa;
    for (const AxisStep& step : steps)
      if (step.size < extent(step.axis)) s.steps.push_back(step);
    return s;
  }

  // Two axes at most are cut freely: the outermost long one, and the columns; of a short axis in front of a longer one single
  // elements are tried too, with the longer one cut instead.
  Schedule run() {
    const std::vector<RegionAxis> axes = by_memory();
    const Granule g = granule(axes);
    std::vector<RegionAxis> long_axes;
    for (RegionAxis a : axes) {
      if (extent(a) == 0) return with({});
      if (a != g.columns && extent(a) > 1) long_axes.push_back(a);
    }
    columns = g.columns >= 0 ? g.columns : axes.empty() ? -1 : axes.back();
    column_granule = g.columns >= 0 ? g.column : 64;
    best = with({});
    const RegionAxis outer = long_axes.empty() ? -1 : long_axes[0];
    cut(g, {}, outer);
    if (long_axes.size() > 1 && extent(outer) < 8) cut(g, {{AxisStep::How::tile, outer, 1}}, long_axes[1]);
    return best;
  }

  Schedule best;
  double best_seconds = -1;
  RegionAxis columns = -1;
  std::int64_t column_granule = 1;
  CpuTime time{p, r, m, o, layouts};

  // Both orders of the two cut axes; an axis in one piece is the same in both.
  void cut(const Granule& g, const std::vector<AxisStep>& singles, RegionAxis outer) {
    for (bool columns_first : {false, true}) {
      Schedule order;
      order.threads = o.threads;
      order.steps = singles;
      if (outer >= 0 && outer != columns) order.steps.push_back({AxisStep::How::tile, outer, 1});
      if (columns >= 0) order.steps.insert(columns_first ? order.steps.begin() : order.steps.end(), {AxisStep::How::tile, columns, 1});
      if (columns_first && order.steps.size() < 2) continue;
      const Model model(p, r, order, m, g);
      std::vector<std::int64_t> size(order.steps.size(), 1);
      std::size_t at_outer = order.steps.size(), at_columns = order.steps.size();
      for (std::size_t i = 0; i < order.steps.size(); ++i) {
        if (order.steps[i].axis == columns) at_columns = i;
        else if (order.steps[i].axis == outer) at_outer = i;
      }
      const auto outer_sizes = at_outer < size.size() ? sizes(extent(outer), 1) : std::vector<std::int64_t>{0};
      const auto column_sizes = at_columns < size.size() ? sizes(extent(columns), column_granule) : std::vector<std::int64_t>{0};
      for (std::int64_t rows : outer_sizes)
        for (std::int64_t width : column_sizes) {
          if (at_outer < size.size()) size[at_outer] = rows;
          if (at_columns < size.size()) size[at_columns] = width;
          if (columns_first && (rows == extent(outer) || width == extent(columns))) continue;
          const double seconds = price(model.at(size), order.steps, size);
          if (best_seconds >= 0 && seconds >= best_seconds * (1 - 1e-6)) continue;
          best_seconds = seconds;
          for (std::size_t i = 0; i < size.size(); ++i) order.steps[i].size = size[i];
          best = with(order.steps);
        }
    }
  }

  double price(const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
    if (c.tiles > 4096) return 1e9;
    return m.target == Target::cpu ? time.kernel_seconds(c, steps, size) : c.seconds;
  }
};

}  // namespace

Schedule choose_tiles(const Program& p, const Region& r, const Machine& m, const PlanOptions& o, const std::vector<DimOrder>& layouts) {
  Chooser chooser{p, r, m, o, layouts, {}};
  return chooser.run();
}

}  // namespace tilewright
