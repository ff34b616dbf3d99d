#include "cost/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace tilewright {

namespace {

std::int64_t extent_of(const Region& r, const Schedule& s, std::size_t step) {
  return r.axes[static_cast<std::size_t>(s.steps[step].axis)].constant();
}
std::int64_t trips(const Region& r, const Schedule& s, std::size_t step) { return ceil_div_i64(extent_of(r, s, step), s.steps[step].size); }

// Sum over the tiles of the given steps of the product of the clipped extents of the given dims.
std::int64_t sum_over(const Region& r, const Schedule& s, const std::vector<std::size_t>& steps, std::size_t at,
                      std::vector<std::int64_t>& variables, const std::vector<std::pair<const Span*, std::int64_t>>& dims) {
  if (at == steps.size()) {
    std::int64_t product = 1;
    for (const auto& [span, dim] : dims) product = checked_mul(product, span->count(variables.data(), dim));
    return product;
  }
  const std::size_t step = steps[at];
  const std::int64_t extent = extent_of(r, s, step), size = s.steps[step].size;
  std::int64_t sum = 0;
  for (std::int64_t low = 0; low < extent; low += size) {
    variables[2 * step] = low;
    variables[2 * step + 1] = std::min(low + size, extent);
    sum = checked_add(sum, sum_over(r, s, steps, at + 1, variables, dims));
  }
  return sum;
}

std::set<std::size_t> steps_in(const Span& span) {
  std::set<std::size_t> steps;
  for (const Affine* a : {&span.low, &span.high})
    for (const auto& term : a->terms) steps.insert(static_cast<std::size_t>(term.first) / 2);
  return steps;
}

// Points of a statement and the operations in its body.
void count_work(const Program& p, StatementId id, Cost& c) {
  const Statement& s = *p.statement(id);
  std::int64_t points = 1;
  for (const Size& e : s.axes) points = checked_mul(points, e.constant());
  std::set<const Scalar*> seen;
  std::int64_t operations = s.reduced.empty() ? 0 : 1;
  std::function<void(const ScalarRef&)> walk = [&](const ScalarRef& node) {
    if (!node || !seen.insert(node.get()).second) return;
    for (const ScalarRef& a : node->args) walk(a);
    static constexpr Op heavy[] = {Op::exp, Op::log, Op::tanh, Op::erf, Op::sin, Op::cos, Op::pow, Op::sqrt, Op::div};
    if (!node->args.empty()) operations += std::find(std::begin(heavy), std::end(heavy), node->op) != std::end(heavy) ? 8 : 1;
  };
  walk(s.body);
  walk(s.guard);
  const bool product = s.reducer == Reducer::sum && s.body->op == Op::mul;
  if (product) c.multiply_adds = checked_add(c.multiply_adds, points);
  else c.operations = checked_add(c.operations, checked_mul(points, std::max<std::int64_t>(operations, 1)));
}

// Tiles of the busiest thread, when the flattened grid is cut into equal runs.
std::int64_t busiest(std::int64_t tiles, int threads) { return ceil_div_i64(tiles, std::max(threads, 1)); }

// The share of a leaf's work that is not lost in ragged rows and columns.
double fill(const Region& r, const Schedule& s, const Granule& g) {
  double share = 1;
  for (auto [axis, granule] : {std::pair{g.rows, g.row}, {g.columns, g.column}}) {
    if (axis < 0 || granule <= 1) continue;
    std::int64_t size = r.axes[static_cast<std::size_t>(axis)].constant();
    const std::int64_t extent = size;
    for (const AxisStep& step : s.steps)
      if (step.axis == axis) size = std::min(step.size, extent);
    if (size == 0) continue;
    std::int64_t done = 0;
    for (std::int64_t at = 0; at < extent; at += size) done += ceil_div_i64(std::min(size, extent - at), granule) * granule;
    share *= static_cast<double>(extent) / static_cast<double>(done);
  }
  return share;
}

double operations_of_core(const Machine& m, UnitKind kind, DType t) {
  const auto unit = unit_for(m, kind, t);
  if (!unit) return 1e9;
  return operations_per_second(m, *unit, t) / std::max(m.core.count, 1);
}

}  // namespace

std::int64_t bytes_moved(const Program& p, const Region& r, const Schedule& s, const Transfer& t) {
  const Tensor& tensor = p.tensor(t.tensor);
  std::vector<std::int64_t> variables(2 * s.steps.size() + 1, 0);
  std::vector<bool> done(t.box.size(), false);
  std::set<std::size_t> counted;
  std::int64_t product = 1;
  // Dims that share a loop are summed together; independent groups multiply.
  for (std::size_t d = 0; d < t.box.size(); ++d) {
    if (done[d]) continue;
    std::set<std::size_t> steps = steps_in(t.box[d]);
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t e = d; e < t.box.size(); ++e) {
        const auto more = steps_in(t.box[e]);
        const bool shares = std::any_of(more.begin(), more.end(), [&](std::size_t x) { return steps.count(x) > 0; });
        if ((e == d || (shares && !done[e])) && !done[e]) {
          done[e] = true;
          const std::size_t before = steps.size();
          steps.insert(more.begin(), more.end());
          grown |= steps.size() != before;
        }
      }
    }
    std::vector<std::pair<const Span*, std::int64_t>> dims;
    for (std::size_t e = d; e < t.box.size(); ++e) {
      const auto mine = steps_in(t.box[e]);
      const bool inside = e == d || (!mine.empty() && steps.count(*mine.begin()) > 0);
      if (inside) dims.emplace_back(&t.box[e], tensor.dims[e].constant());
    }
    product = checked_mul(product, sum_over(r, s, {steps.begin(), steps.end()}, 0, variables, dims));
    counted.insert(steps.begin(), steps.end());
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.depth); ++i)
    if (!counted.count(i)) product = checked_mul(product, trips(r, s, i));
  return checked_mul(product, static_cast<std::int64_t>(bytes_of(tensor.dtype)));
}

Cost cost(const Program& p, const Region& r, const Schedule& s, const Machine& m, const Granule& granule) {
  Cost c;
  Schedule whole = s;
  whole.steps.clear();
  for (const Transfer& t : transfers(p, r, s)) {
    const std::int64_t bytes = bytes_moved(p, r, s, t);
    c.moved.push_back({t.tensor, bytes, t.store});
    (t.store ? c.stored : c.loaded) += bytes;
  }
  for (const Transfer& t : transfers(p, r, whole)) c.compulsory += bytes_moved(p, r, whole, t);
  for (StatementId id : r.statements) count_work(p, id, c);
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::tile) c.tiles = checked_mul(c.tiles, trips(r, s, i));

  // The busiest thread's share of the run; a tile costs a call even when it is empty.
  const int threads = std::min<std::int64_t>(std::max(s.threads, 1), std::max<std::int64_t>(c.tiles, 1));
  const double share = c.tiles == 0 ? 0 : static_cast<double>(busiest(c.tiles, threads)) / static_cast<double>(c.tiles);
  const double fma = 2.0 * static_cast<double>(c.multiply_adds) / operations_of_core(m, UnitKind::fma, DType::f32) / fill(r, s, granule);
  const double alu = static_cast<double>(c.operations) / operations_of_core(m, UnitKind::alu, DType::f32);
  // Inputs and outputs of a tile come from the outermost cache while they fit, else from memory.
  const LevelId memory = level_of(m, LevelRole::memory);
  const auto cache = find(m, LevelRole::cache);
  const bool fits = cache && c.compulsory <= m.levels[static_cast<std::size_t>(*cache)].usable;
  const LevelId from = fits ? *cache : memory;
  const double bytes = static_cast<double>(c.loaded + c.stored) / bytes_per_second(m, from, Direction::down, 1);
  const double call = 0.2e-6 * static_cast<double>(c.tiles);
  const double body = std::max(fma + alu, bytes) + call;
  c.seconds = body * share + m.launch.step;
  c.bound = bytes > fma + alu ? m.levels[static_cast<std::size_t>(from)].name : fma >= alu ? "fma" : "alu";
  if (m.launch.step > body * share) c.bound = "launch";
  return c;
}

}  // namespace tilewright
