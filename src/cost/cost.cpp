#include "cost/cost.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cost/spill.h"

namespace tilewright {

namespace {

std::set<std::size_t> steps_in(const Span& span) {
  std::set<std::size_t> steps;
  for (const Affine* a : {&span.low, &span.high})
    for (const auto& term : a->terms) steps.insert(static_cast<std::size_t>(term.first) / 2);
  return steps;
}

// Multiply-adds and scalar operations in a point of a statement.
std::pair<std::int64_t, std::int64_t> work_of(const Statement& s) {
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
  return product ? std::pair<std::int64_t, std::int64_t>{1, 0} : std::pair<std::int64_t, std::int64_t>{0, std::max<std::int64_t>(operations, 1)};
}

double operations_of_core(const Machine& m, UnitKind kind, DType t) {
  const auto unit = unit_for(m, kind, t);
  return unit ? operations_per_second(m, *unit, t) / std::max(m.core.count, 1) : 1e9;
}

// Contractions of bytes take the unit of dot products, where there is one, for floats' multiply-adds.
double share_of(const Program& p, const Statement& s, const Machine& m) {
  const auto byte = [&](const Access* a) { return p.tensor(a->tensor).dtype == DType::i8 || p.tensor(a->tensor).dtype == DType::u8; };
  const Or<Contraction> c = contraction(p, s);
  if (!c || !byte(c->a) || !byte(c->b) || !unit_for(m, UnitKind::dot, DType::u8)) return 1;
  return operations_of_core(m, UnitKind::fma, DType::f32) / operations_of_core(m, UnitKind::dot, DType::u8);
}

}  // namespace

Model::Model(const Program& p, const Region& r, const Schedule& order, const Machine& m, Granule granule)
    : turns_(live_turns(p, r, order)), followed_(turns_.every() ? -1 : followed_loop(p, r, order)), granule_(std::move(granule)), machine_(m), threads_(order.threads) {
  for (const AxisStep& step : order.steps) {
    extents_.push_back(r.axes[static_cast<std::size_t>(step.axis)].constant());
    axes_.push_back(step.axis);
    tile_.push_back(step.how == AxisStep::How::tile);
  }
  for (const Size& e : r.axes) region_.push_back(e.constant());
  for (const Transfer& t : transfers(p, r, order)) {
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(t.tensor).dims) dims.push_back(d.constant());
    moves_.push_back({t.tensor, t.store, sum_of(t.box, dims, t.depth, static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype)))});
  }
  const auto places = depths(p, r, order);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    std::vector<std::int64_t> extents;
    for (const Size& e : s.axes) extents.push_back(e.constant());
    const auto [multiply_adds, operations] = work_of(s);
    work_.push_back({sum_of(ranges(p, r, order, static_cast<int>(i)), extents, places[i].points, 1), multiply_adds, operations, share_of(p, s, m)});
  }
  // Without any cut every tensor's box is moved once.
  for (const Transfer& t : transfers(p, r, {})) {
    std::int64_t box = static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype));
    for (std::size_t d = 0; d < t.box.size(); ++d) box = checked_mul(box, t.box[d].count(nullptr, p.tensor(t.tensor).dims[d].constant()));
    compulsory_ = checked_add(compulsory_, box);
  }
}

// Dims that share a loop are summed together; independent groups multiply.
Model::Sum Model::sum_of(const std::vector<Span>& box, const std::vector<std::int64_t>& dims, int depth, std::int64_t width) const {
  Sum sum{width, {}, {}};
  std::set<std::size_t> counted;
  if (followed_ >= 0 && depth > followed_) {
    counted.insert(turns_.steps().begin(), turns_.steps().end());
    sum.parts.push_back({{counted.begin(), counted.end()}, {}, true});
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    const auto steps = steps_in(box[d]);
    Part part{{steps.begin(), steps.end()}, {{box[d], dims[d]}}};
    counted.insert(steps.begin(), steps.end());
    for (std::size_t i = 0; i < sum.parts.size();) {
      Part& other = sum.parts[i];
      const bool shares = std::any_of(other.steps.begin(), other.steps.end(), [&](std::size_t x) { return std::count(part.steps.begin(), part.steps.end(), x) > 0; });
      if (!shares) {
        ++i;
        continue;
      }
      for (std::size_t x : other.steps)
        if (std::count(part.steps.begin(), part.steps.end(), x) == 0) part.steps.push_back(x);
      part.dims.insert(part.dims.end(), other.dims.begin(), other.dims.end());
      part.turns |= other.turns;
      sum.parts.erase(sum.parts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    sum.parts.push_back(std::move(part));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i)
    if (!counted.count(i)) sum.repeated.push_back(i);
  return sum;
}

namespace {

// Sets the loop variables of some steps to their first tiles, and to the next ones: an odometer. False behind the last.
struct Odometer {
  const std::vector<std::size_t>& steps;
  const std::vector<std::int64_t>& extents;
  const std::vector<std::int64_t>& sizes;
  std::int64_t* variables;

  void stand(std::size_t s, std::int64_t low) const { variables[2 * s] = low, variables[2 * s + 1] = std::min(low + sizes[s], extents[s]); }
  bool first() const {
    bool some = true;
    for (std::size_t s : steps) stand(s, 0), some &= extents[s] > 0;
    return some;
  }
  bool next() const {
    for (std::size_t i = steps.size(); i-- > 0;) {
      const std::size_t s = steps[i];
      const bool more = variables[2 * s + 1] < extents[s];
      stand(s, more ? variables[2 * s + 1] : 0);
      if (more) return true;
    }
    return false;
  }
};

}  // namespace

// The live turns for these sizes: the low ends of the loops that decide, one after the other. Every tensor and statement asks.
const std::vector<std::int64_t>& Model::lives(const std::vector<std::int64_t>& sizes) const {
  std::vector<std::int64_t> key;
  for (int s : turns_.steps()) key.push_back(sizes[static_cast<std::size_t>(s)]);
  const auto [at, added] = lives_.try_emplace(std::move(key));
  if (!added) return at->second;
  const std::vector<std::size_t> steps(turns_.steps().begin(), turns_.steps().end());
  std::int64_t variables[2 * 32] = {};
  const Odometer turn{steps, extents_, sizes, variables};
  for (bool more = turn.first(); more; more = turn.next())
    if (turns_.live(variables))
      for (std::size_t s : steps) at->second.push_back(variables[2 * s]);
  return at->second;
}

// Over the tiles of some of the part's loops, the others standing where they stand.
std::int64_t Model::total(const Part& part, const std::vector<std::size_t>& steps, const std::vector<std::int64_t>& sizes, std::int64_t* variables) const {
  std::int64_t total = 0;
  const Odometer tile{steps, extents_, sizes, variables};
  for (bool more = tile.first(); more; more = tile.next()) {
    std::int64_t box = 1;
    for (const auto& [span, dim] : part.dims) box = checked_mul(box, span.count(variables, dim));
    total = checked_add(total, box);
  }
  return total;
}

std::int64_t Model::total(const Part& part, const std::vector<std::int64_t>& sizes) const {
  std::int64_t variables[2 * 32] = {};
  TW_ASSERT(sizes.size() <= 32);
  if (!part.turns) return total(part, part.steps, sizes, variables);
  const std::vector<int>& turn = turns_.steps();
  std::vector<std::size_t> others;
  for (std::size_t s : part.steps)
    if (std::find(turn.begin(), turn.end(), static_cast<int>(s)) == turn.end()) others.push_back(s);
  std::int64_t sum = 0;
  const std::vector<std::int64_t>& live = lives(sizes);
  const Odometer turns{part.steps, extents_, sizes, variables};
  for (std::size_t n = 0; n < live.size(); n += turn.size()) {
    for (std::size_t k = 0; k < turn.size(); ++k) turns.stand(static_cast<std::size_t>(turn[k]), live[n + k]);
    sum = checked_add(sum, total(part, others, sizes, variables));
  }
  return sum;
}

std::int64_t Model::total(const Sum& sum, const std::vector<std::int64_t>& sizes, const Places& places) const {
  std::int64_t product = sum.width;
  for (const Part& part : sum.parts)
    product = checked_mul(product, part.known.at(places, part.steps, [&] { return total(part, sizes); }));
  for (std::size_t s : sum.repeated) product = checked_mul(product, ceil_div_i64(extents_[s], sizes[s]));
  return product;
}

// The part of the work that the busiest thread has: its run of tiles, ragged ones being less.
double Model::busiest(std::int64_t tiles, const std::vector<std::int64_t>& sizes) const {
  if (tiles == 0) return 0;
  const std::int64_t threads = std::max<std::int64_t>(1, std::min<std::int64_t>(threads_, tiles));
  bool even = true;
  for (std::size_t s = 0; s < sizes.size(); ++s) even &= !tile_[s] || extents_[s] % sizes[s] == 0;
  if (even || threads == 1 || tiles > 16 * threads) return static_cast<double>(ceil_div_i64(tiles, threads)) / static_cast<double>(tiles);
  double all = 0, most = 0, run = 0;
  for (std::int64_t t = 0, worker = 0; t < tiles; ++t) {
    double work = 1;
    for (std::size_t s = sizes.size(), rest = static_cast<std::size_t>(t); s-- > 0;) {
      if (!tile_[s]) continue;
      const auto count = static_cast<std::size_t>(ceil_div_i64(extents_[s], sizes[s]));
      const std::int64_t low = static_cast<std::int64_t>(rest % count) * sizes[s];
      work *= static_cast<double>(std::min(sizes[s], extents_[s] - low));
      rest /= count;
    }
    if (t == tiles * (worker + 1) / threads) ++worker, run = 0;
    run += work, all += work;
    most = std::max(most, run);
  }
  return most / all;
}

void Model::price(Cost& c, const std::vector<std::int64_t>& sizes) const {
  c.tiles = 1;
  for (std::size_t s = 0; s < sizes.size(); ++s)
    if (tile_[s]) c.tiles = checked_mul(c.tiles, ceil_div_i64(extents_[s], sizes[s]));
  // The share of the leaf's work that is not lost in ragged rows and columns, seen at a full tile.
  auto tile_of = [&](RegionAxis a) {
    for (std::size_t s = 0; s < sizes.size(); ++s)
      if (axes_[s] == a) return std::min(sizes[s], extents_[s]);
    return region_[static_cast<std::size_t>(a)];
  };
  auto fill = [](std::int64_t n, std::int64_t granule) {
    return n <= 0 ? 1.0 : static_cast<double>(n) / static_cast<double>(ceil_div_i64(n, granule) * granule);
  };
  double used = 1;
  SplitProduct split = granule_.split;
  if (!granule_.rows.empty()) {
    std::int64_t rows = 1;
    for (RegionAxis a : granule_.rows) rows *= tile_of(a);
    split.rows = static_cast<double>(rows);
    used *= fill(rows, granule_.row);
  }
  if (granule_.columns >= 0) {
    // Over all tiles of the columns: what a ragged last one loses, too.
    const std::int64_t all = region_[static_cast<std::size_t>(granule_.columns)], n = tile_of(granule_.columns);
    const auto filled = [&](std::int64_t x) { return ceil_div_i64(x, granule_.column) * granule_.column; };
    split.columns = static_cast<double>(n);
    if (n > 0) used *= static_cast<double>(all) / static_cast<double>(std::max<std::int64_t>(1, all / n * filled(n) + filled(all % n)));
  }
  double multiply_adds = 0;
  for (std::size_t i = 0; i < work_.size(); ++i) multiply_adds += static_cast<double>(c.done[i].multiply_adds) * work_[i].share;
  const double fma = 2.0 * multiply_adds / operations_of_core(machine_, UnitKind::fma, DType::f32) / used * split_share(split);
  const double alu = static_cast<double>(c.operations) / operations_of_core(machine_, UnitKind::alu, DType::f32);
  // Inputs and outputs of a tile come from the outermost cache while they fit, else from memory.
  const auto cache = find(machine_, LevelRole::cache);
  const bool fits = cache && c.compulsory <= machine_.levels[static_cast<std::size_t>(*cache)].usable;
  const LevelId from = fits ? *cache : level_of(machine_, LevelRole::memory);
  const double moved = static_cast<double>(c.loaded + c.stored) / bytes_per_second(machine_, from, Direction::down, 1);
  // The busiest thread's share when the flattened grid is cut into equal runs; a tile costs a call even when it is empty.
  c.share = busiest(c.tiles, sizes);
  const double body = (std::max(fma + alu, moved) + spill_seconds(machine_, c.stored, threads_, from) + 0.2e-6 * static_cast<double>(c.tiles)) * c.share;
  c.seconds = body + machine_.launch.step;
  c.bound = moved > fma + alu ? machine_.levels[static_cast<std::size_t>(from)].name : fma >= alu ? "fma" : "alu";
  if (machine_.launch.step > body) c.bound = "launch";
}

Cost Model::at(const std::vector<std::int64_t>& sizes) const {
  Cost c;
  c.compulsory = compulsory_;
  places_.find(sizes);
  for (const Transferred& t : moves_) {
    c.moved.push_back({t.tensor, total(t.sum, sizes, places_), t.store});
    (t.store ? c.stored : c.loaded) += c.moved.back().bytes;
  }
  for (const Work& w : work_) {
    const std::int64_t points = total(w.points, sizes, places_);
    c.done.push_back({points, checked_mul(points, w.multiply_adds), checked_mul(points, w.operations), w.share});
    c.multiply_adds = checked_add(c.multiply_adds, c.done.back().multiply_adds);
    c.operations = checked_add(c.operations, c.done.back().operations);
  }
  price(c, sizes);
  return c;
}

std::int64_t Model::bytes(const std::vector<std::int64_t>& sizes) const {
  places_.find(sizes);
  std::int64_t sum = 0;
  for (const Transferred& t : moves_) sum = checked_add(sum, total(t.sum, sizes, places_));
  return sum;
}

std::int64_t Model::multiply_adds(const std::vector<std::int64_t>& sizes) const {
  places_.find(sizes);
  std::int64_t sum = 0;
  for (const Work& w : work_)
    if (w.multiply_adds > 0) sum = checked_add(sum, checked_mul(total(w.points, sizes, places_), w.multiply_adds));
  return sum;
}

Cost cost(const Program& p, const Region& r, const Schedule& s, const Machine& m, const Granule& granule) {
  std::vector<std::int64_t> sizes;
  for (const AxisStep& step : s.steps) sizes.push_back(step.size);
  return Model(p, r, s, m, granule).at(sizes);
}

}  // namespace tilewright
