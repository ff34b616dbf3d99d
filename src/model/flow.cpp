#include "model/flow.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "expr/scalar.h"

namespace tilewright {

Names names_of(const Region& r, const Schedule& s) {
  Names n;
  std::map<std::string, Size> extent_of;
  for (std::size_t a = 0; a < r.axes.size(); ++a) {
    // Axes that share a name (d, d') and an extent are two uses of one size, and the formulas say so.
    const std::string base = r.names[a].substr(0, r.names[a].find_last_not_of('\'') + 1);
    std::string name = base.empty() ? fmt::format("a{}", a) : base;
    for (int i = 1; extent_of.count(name) && extent_of.at(name) != r.axes[a]; ++i) name = fmt::format("{}{}", base, i);
    extent_of.emplace(name, r.axes[a]);
    n.axes.push_back(name);
  }
  for (const AxisStep& step : s.steps) {
    const char* letter = step.how == AxisStep::How::tile ? "g_" : "s_";
    std::string name = letter + n.axes[static_cast<std::size_t>(step.axis)];
    while (std::find(n.steps.begin(), n.steps.end(), name) != n.steps.end()) name += "'";
    n.steps.push_back(name);
  }
  return n;
}

Extents::Extents(const Program& program, const Region& region, const Schedule& schedule)
    : p(program), r(region), s(schedule), names(names_of(region, schedule)) {
  for (std::size_t a = 0; a < r.axes.size(); ++a) point[names.axes[a]] = static_cast<double>(r.axes[a].constant());
  for (std::size_t i = 0; i < s.steps.size(); ++i) point[names.steps[i]] = static_cast<double>(s.steps[i].size);
}

int Extents::step_of(RegionAxis a) const {
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].axis == a) return static_cast<int>(i);
  return -1;
}

Formula Extents::of(RegionAxis a) const {
  const auto x = static_cast<std::size_t>(a);
  if (r.axes[x].constant() == 1) return 1;
  const int step = step_of(a);
  return Formula::symbol(step < 0 ? names.axes[x] : names.steps[static_cast<std::size_t>(step)]);
}

Formula Extents::of(const Index& index, const Size& dim) const {
  if (!is_affine(index)) return static_cast<double>(dim.constant());
  Formula out = 1;
  std::int64_t step = 0;
  int moving = 0;
  bool cut = false;
  for (const Index::Term& t : index.terms) {
    const auto a = static_cast<std::size_t>(std::get<AxisId>(t.of));
    if (r.axes[a].constant() == 1) continue;
    const std::int64_t c = std::abs(t.coefficient.constant());
    out = out + static_cast<double>(c) * (of(static_cast<RegionAxis>(a)) - 1);
    step = std::gcd(step, c), ++moving, cut |= step_of(static_cast<RegionAxis>(a)) >= 0;
  }
  if (step > 1) out = (out - 1) / static_cast<double>(step) + 1;
  // A whole window is the tensor, whatever hangs over its edges.
  if (!cut && moving > 1 && out.at(point) >= static_cast<double>(dim.constant()))
    return static_cast<double>(dim.constant());
  return out;
}

namespace {

Index over_region(const Program& p, const Region& r, int statement, const Index& i) {
  return substitute(p, i, r.image[static_cast<std::size_t>(statement)]);
}

void collect_axes(const Index& i, std::set<RegionAxis>& axes) {
  for (const Index::Term& t : i.terms)
    if (const AxisId* a = std::get_if<AxisId>(&t.of)) axes.insert(*a);
}

} // namespace

Formula Extents::box(const Region& region, int statement, const std::vector<Index>& at, const Tensor& t) const {
  Formula out = 1;
  for (std::size_t d = 0; d < at.size(); ++d) out = out * of(over_region(p, region, statement, at[d]), t.dims[d]);
  return out;
}

std::set<int> Extents::steps_in(const Region& region, int statement, const std::vector<Index>& at) const {
  std::set<int> steps;
  for (const Index& i : at) {
    const Index over = over_region(p, region, statement, i);
    if (!is_affine(over)) continue; // its whole dim is there in every tile
    std::set<RegionAxis> axes;
    collect_axes(over, axes);
    for (RegionAxis a : axes)
      if (const int step = step_of(a); step >= 0) steps.insert(step);
  }
  return steps;
}

Formula Extents::tiles(int step) const {
  const auto i = static_cast<std::size_t>(step);
  return Formula::symbol(names.axes[static_cast<std::size_t>(s.steps[i].axis)]) / Formula::symbol(names.steps[i]);
}

namespace {

struct Reader {
  const Extents& e;
  const Region& r;

  // The larger of the boxes through which the region has the tensor.
  Formula box_of(TensorId t, bool store) const {
    Formula best;
    auto consider = [&](std::size_t i, const std::vector<Index>& at) {
      const Formula box = e.box(r, static_cast<int>(i), at, e.p.tensor(t));
      if (best.is_zero() || box.at(e.point) > best.at(e.point)) best = box;
    };
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *e.p.statement(r.statements[i]);
      if (store && st.out == t) consider(i, st.at);
      if (!store)
        for_each_access(st, [&](const Access& a) {
          if (a.tensor == t) consider(i, a.at);
        });
    }
    return best;
  }

  Formula run_of(const Formula& box, int depth) const {
    Formula out = box;
    for (int i = 0; i < depth; ++i) out = out * e.tiles(i);
    return out;
  }
};

// A sum of products: what cost/ counts as multiply-adds.
bool multiplies(const Statement& s) { return s.reducer == Reducer::sum && s.body->op == Op::mul; }

} // namespace

Flow flow(const Program& p, const Region& r, const Schedule& order) {
  const Extents e(p, r, order);
  const Reader reader{e, r};
  Flow f;
  f.names = e.names, f.point = e.point;
  for (std::size_t i = 0; i < order.steps.size(); ++i) {
    if (order.steps[i].how == AxisStep::How::stream)
      f.streams.push_back(static_cast<int>(i));
    else
      f.tiles = f.tiles * e.tiles(static_cast<int>(i));
  }
  for (const Transfer& t : transfers(p, r, order)) {
    const Formula box = reader.box_of(t.tensor, t.store);
    f.moves.push_back({t.tensor, t.store, t.depth, static_cast<int>(bytes_of(p.tensor(t.tensor).dtype)), box,
                       reader.run_of(box, t.depth)});
  }
  const auto places = depths(p, r, order);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (!multiplies(s)) continue;
    Formula points = 2;
    for (std::size_t a = 0; a < s.axes.size(); ++a) points = points * e.of(r.image[i][a], s.axes[a]);
    f.flops = f.flops + reader.run_of(points, places[i].points);
  }
  return f;
}

namespace {

double weight(const Flow::Move& m, Count c) { return c == Count::bytes ? m.width : 1; }

} // namespace

Formula Flow::run(Count c) const {
  Formula total;
  for (const Move& m : moves) total = total + weight(m, c) * m.run;
  return total;
}

Formula Flow::tile(Count c) const { return run(c) / tiles; }

Formula Flow::operands(Count c) const {
  Formula total;
  for (const Move& m : moves) total = total + weight(m, c) * m.box;
  return total;
}

std::set<std::string> Flow::stream_symbols() const {
  std::set<std::string> out;
  for (int i : streams) out.insert(names.steps[static_cast<std::size_t>(i)]);
  return out;
}

} // namespace tilewright
