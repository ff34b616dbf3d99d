// What operands that are read through slots are expected to cost: the selection (sparse/select.h) on random micro-tiles
// of the share that is expected to live.
#include <algorithm>
#include <chrono>

#include "plan/choose.h"

namespace tilewright {

namespace {

// The hash is spread enough for cells that live at random, and the same everywhere.
std::uint64_t spread(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::vector<std::uint8_t> random_marks(std::int64_t cells, double live) {
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(cells));
  const auto limit = static_cast<std::uint64_t>(live * 0x1p53);
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = spread(i) >> 11 < limit;
  return marks;
}

// The product that a statement is, from the side of the sparse operand.
struct Seen {
  Product product;
  MicroTile unit;
};
std::optional<Seen> seen_from(const Program& p, const Statement& s, const OperandAt& view) {
  const auto c = contraction(p, s);
  if (!c || (c->a->tensor != view.tensor && c->b->tensor != view.tensor)) return std::nullopt;
  const bool first = c->a->tensor == view.tensor;
  auto points = [&](const std::vector<AxisId>& axes) {
    std::int64_t n = 1;
    for (AxisId x : axes) n = checked_mul(n, s.axes[static_cast<std::size_t>(x)].constant());
    return n;
  };
  Seen seen{{checked_mul(points(c->batch), points(first ? c->m : c->n)), points(first ? c->n : c->m), points(c->k),
             p.tensor(view.tensor).dtype},
            {}};
  const Access& a = first ? *c->a : *c->b;
  bool has_k = false;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    const auto x = plain_axis(a.at[view.dims[i]]);
    const bool reduced = x && std::count(s.reduced.begin(), s.reduced.end(), *x) > 0;
    (reduced ? seen.unit.k : seen.unit.m) *= view.unit[i];
    has_k |= reduced;
  }
  if (!has_k) seen.unit.k = std::max<std::int64_t>(seen.product.k, 1);
  return seen;
}

constexpr std::int64_t most_cells = 1 << 16;

} // namespace

std::vector<GatheredPlan> price_views(const Program& p, const Region& r, const Machine& m, const PlanOptions& o,
                                      const std::vector<OperandAt>& views) {
  std::vector<GatheredPlan> list;
  for (const OperandAt& view : views)
    for (StatementId id : r.statements) {
      const auto seen = seen_from(p, *p.statement(id), view);
      if (!seen || seen->product.m == 0 || seen->product.n == 0 || seen->product.k == 0) continue;
      const auto then = std::chrono::steady_clock::now();
      const auto said = o.live_of.find(p.tensor(view.tensor).name);
      GatheredPlan g{view, said == o.live_of.end() ? o.live : said->second, {}, 0};
      // Some rows of cells stand for all.
      const std::int64_t across = ceil_div_i64(seen->product.k, seen->unit.k),
                         all = ceil_div_i64(seen->product.m, seen->unit.m);
      const std::int64_t rows = std::clamp<std::int64_t>(most_cells / std::max<std::int64_t>(across, 1), 1, all);
      Product part = seen->product;
      part.m = std::min(part.m, rows * seen->unit.m);
      SelectionCosts costs = selection_costs(m);
      costs.launch = 0;
      g.selection = select(part, seen->unit, {random_marks(rows * across, g.live)}, tile_forms(m, part.dtype), costs);
      const double scale = static_cast<double>(seen->product.m) / static_cast<double>(part.m);
      for (Estimate* e : {&g.selection.best, &g.selection.dense})
        e->seconds *= scale, e->micro_tiles *= scale, e->dense_tiles *= scale, e->index_seconds *= scale;
      g.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
      list.push_back(std::move(g));
    }
  return list;
}

namespace {

constexpr std::int64_t most_rows = 4096; // of a tile, whose tables have a line each

std::int64_t up_to(std::int64_t n, std::int64_t granule) { return ceil_div_i64(n, granule) * granule; }

} // namespace

std::optional<Schedule> gathered_tiles(const Program& p, const Region& r, const Machine& m, const PlanOptions& o) {
  if (m.target != Target::cpu) return std::nullopt;
  const auto views = choose_views(p, r, nullptr, o.strict);
  if (views.empty()) return std::nullopt;
  const auto seen = [&](TensorId t) {
    return std::any_of(views.begin(), views.end(), [&](const OperandAt& v) { return v.tensor == t; });
  };
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    const auto c = contraction(p, s);
    if (!c) continue;
    const bool turned = seen(c->b->tensor) && !seen(c->a->tensor) && !c->a->otherwise && !c->m.empty();
    const auto axis = [&](AxisId x) { return plain_axis(r.image[i][static_cast<std::size_t>(x)]).value_or(-1); };
    const auto longest = [&](const std::vector<AxisId>& axes) {
      RegionAxis best = -1;
      for (AxisId x : axes)
        if (const RegionAxis a = axis(x); a >= 0 && (best < 0 || r.axes[static_cast<std::size_t>(a)].constant() >
                                                                     r.axes[static_cast<std::size_t>(best)].constant()))
          best = a;
      return best;
    };
    const auto extent = [&](RegionAxis a) { return a < 0 ? 1 : r.axes[static_cast<std::size_t>(a)].constant(); };
    const RegionAxis columns = longest(turned ? c->m : c->n), rows = longest(turned ? c->n : c->m),
                     batch = longest(c->batch);
    if (columns < 0) return std::nullopt;
    Schedule made;
    made.threads = o.threads, made.isa = o.isa;
    const auto cut = [&](RegionAxis a, std::int64_t size) {
      if (a >= 0 && size < extent(a)) made.steps.push_back({AxisStep::How::tile, a, size});
    };
    cut(batch, 1);
    const std::int64_t wanted = 4 * o.threads, slices = std::max<std::int64_t>(1, ceil_div_i64(wanted, extent(batch)));
    const std::int64_t width =
        up_to(std::max<std::int64_t>(ceil_div_i64(extent(columns), slices), 2 * o.leaf_columns), o.leaf_columns);
    cut(columns, width);
    // Rows are cut where there are too many, or the columns are too few for all threads.
    const std::int64_t made_slices = extent(batch) * ceil_div_i64(extent(columns), width);
    const std::int64_t parts = made_slices >= o.threads ? 1 : ceil_div_i64(wanted, made_slices);
    cut(rows, std::min(most_rows, up_to(ceil_div_i64(extent(rows), parts), 64)));
    if (!legality(p, r, made, m).empty()) return std::nullopt;
    return made;
  }
  return std::nullopt;
}

} // namespace tilewright
