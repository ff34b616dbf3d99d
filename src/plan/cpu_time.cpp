#include "plan/cpu_time.h"

#include <algorithm>
#include <functional>

#include "cost/spill.h"
#include "law/excerpt.h"
#include "law/stream.h"

namespace tilewright {

namespace {

constexpr double corrections =
    8; // operations for each element of a sum that follows a statistic, a turn: a pass over it

// What the fold leaf has steps for: sums, products and functions of floats, under conditions on indices.
bool folds(const Statement& s) {
  const std::function<bool(const ScalarRef&)> in_menu = [&](const ScalarRef& v) {
    switch (v->op) {
    case Op::constant:
    case Op::read:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::min:
    case Op::max:
    case Op::neg:
    case Op::abs:
    case Op::exp:
    case Op::log:
    case Op::sqrt:
    case Op::tanh:
    case Op::erf:
    case Op::cast: break;
    default: return false;
    }
    return is_float(v->dtype) && std::all_of(v->args.begin(), v->args.end(), in_menu);
  };
  bool reads = false;
  if (s.guard) for_each_access(s.guard, [&](const Access&) { reads = true; });
  return !reads && in_menu(s.body);
}

double weights_of(const Program& p, const Contraction& c) {
  const Tensor& t = p.tensor(c.b->tensor);
  if (t.kind != Kind::weight) return 0;
  auto bytes = static_cast<double>(bytes_of(t.dtype));
  for (const Size& d : t.dims) bytes *= static_cast<double>(d.constant());
  return bytes;
}

RegionAxis streamed(const std::vector<AxisStep>& steps) {
  RegionAxis stream = -1;
  for (const AxisStep& step : steps)
    if (step.how == AxisStep::How::stream) stream = step.axis;
  return stream;
}

} // namespace

const CpuTime::Form& CpuTime::form(std::size_t i) const {
  for (std::size_t n = forms_.size(); n < r.statements.size(); ++n) {
    Form f;
    if (auto c = contraction(p, statement(n))) f.product = std::move(*c);
    if (auto w = window(p, statement(n))) f.window = std::move(*w);
    if (f.product) f.split = split_product(p, statement(n), *f.product, o), f.weights = weights_of(p, *f.product);
    forms_.push_back(std::move(f));
  }
  return forms_[i];
}

// Whether some leaf of a CPU has this axis in its vectors.
bool CpuTime::in_vectors(RegionAxis a) const {
  const auto holds = [&](std::size_t i, const std::vector<AxisId>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](AxisId x) { return plain_axis(r.image[i][static_cast<std::size_t>(x)]) == a; });
  };
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    if (const auto& c = form(i).product; c && holds(i, c->n)) return true;
    if (const auto& w = form(i).window; w && holds(i, w->lanes)) return true;
  }
  return false;
}

// A reduction along what lies contiguously: lanes of one vector would have to meet.
bool CpuTime::along_lanes(std::size_t i) const {
  const Statement& s = statement(i);
  if (s.reduced.empty() || form(i).product) return false;
  bool found = false;
  for_each_access(s, [&](const Access& a) {
    const DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
    if (order.empty() || p.tensor(a.tensor).kind == Kind::weight) return; // packed as the leaf wants it
    const Index& inner = a.at[static_cast<std::size_t>(order.back())];
    found |= std::any_of(s.reduced.begin(), s.reduced.end(), [&](AxisId x) { return mentions_axis(inner, x); });
  });
  return found;
}

// A map whose value leaves the kernel and is read in it: it and the maps beside it are no ending of a leaf.
bool CpuTime::stored_between(const Boundary& b, std::size_t i) const {
  const TensorId t = statement(i).out;
  if (!statement(i).reduced.empty() || !std::count(b.outputs.begin(), b.outputs.end(), t)) return false;
  bool read = false;
  for (std::size_t j = i + 1; j < r.statements.size(); ++j)
    for_each_access(statement(j), [&](const Access& a) { read |= a.tensor == t; });
  return read;
}

// Maps at the points of a reduction before them that read its value, at last through others: the ending of a leaf.
std::vector<bool> CpuTime::endings(const Boundary& b) const {
  std::vector<bool> list(r.statements.size(), false);
  std::set<TensorId> values;
  std::int64_t points = -1;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = statement(i);
    std::int64_t mine = 1;
    for (AxisId x : parallel_axes(s)) mine *= s.axes[static_cast<std::size_t>(x)].constant();
    if (!s.reduced.empty()) {
      values = {s.out}, points = mine;
      continue;
    }
    for_each_access(s, [&](const Access& a) { list[i] = list[i] || (mine == points && values.count(a.tensor)); });
    if (list[i]) values.insert(s.out);
    if (stored_between(b, i)) list[i] = false;
  }
  return list;
}

// Whether sums follow their statistics along what is streamed.
bool CpuTime::follows(const std::vector<AxisStep>& steps) const {
  const RegionAxis stream = streamed(steps);
  const auto known = follows_.find(stream);
  return known != follows_.end() ? known->second : (follows_[stream] = stream >= 0 && needs_stream(p, r, stream));
}

// How many times longer each statement takes than its work says where no leaf of a CPU takes it: streamed reductions,
// and products of what the kernel makes with what lies beyond its edge. Reductions of another form or along lanes, and
// maps that end no leaf, are for the interpreter, which has a price of its own.
const std::vector<double>& CpuTime::longer(const std::vector<AxisStep>& steps) const {
  const RegionAxis stream = streamed(steps);
  const auto known = factors_.find(stream);
  return known != factors_.end() ? known->second : factors_[stream] = factors_of(stream);
}
// Whether some sum is taken of a chunk and merged (a variance): what merges has no leaf.
bool CpuTime::by_chunks(RegionAxis stream) const {
  const Excerpt a = excerpt_of(p, r);
  const auto derived = derive_stream(*a.program, a.region, stream);
  return derived && std::any_of(derived->state.begin(), derived->state.end(), [](const Stream::State& s) { return s.anchor == Stream::Anchor::chunk; });
}

std::vector<double> CpuTime::factors_of(RegionAxis stream) const {
  std::vector<double> list(r.statements.size(), 1);
  if (m.target != Target::cpu) return list;
  const Boundary b = boundary(p, r);
  const std::vector<bool> ending = endings(b);
  const bool following = stream >= 0 && needs_stream(p, r, stream), in_passes = following && !by_chunks(stream);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = statement(i);
    if (in_passes && !form(i).product && folds(s)) continue;
    const bool product = form(i).product.has_value();
    if (s.reduced.empty() ? !ending[i] : along_lanes(i) || (!product && !form(i).window)) {
      list[i] = by_interpreter;
      continue;
    }
    bool slow = false;
    for (AxisId x : s.reduced)
      slow |= stream >= 0 && !(following && product) && plain_axis(r.image[i][static_cast<std::size_t>(x)]) == stream;
    for_each_access(s, [&](const Access& a) {
      for (StatementId id : r.statements) slow |= product && a.otherwise && p.statement(id)->out == a.tensor;
    });
    if (slow) list[i] = o.interpreted;
  }
  return list;
}

// Where a transfer belongs, and each statement: one phase a reduction, the maps behind it included.
std::vector<std::size_t> CpuTime::phases() const {
  std::vector<std::size_t> list;
  std::size_t phase = 0;
  bool reduced = false;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    if (!statement(i).reduced.empty() && reduced) ++phase;
    reduced |= !statement(i).reduced.empty();
    list.push_back(phase);
  }
  return list;
}

const CpuTime::Flow& CpuTime::flow() const {
  if (flow_) return *flow_;
  Flow f{phases(), std::vector<std::set<std::size_t>>(r.statements.size()), {}};
  for (std::size_t i = 0; i < f.phase.size(); ++i) {
    f.moved.try_emplace({statement(i).out, true}, f.phase[i]);
    for_each_access(statement(i), [&](const Access& a) {
      f.moved.try_emplace({a.tensor, false}, f.phase[i]);
      for (std::size_t from = 0; from < i; ++from)
        if (statement(from).out == a.tensor && f.phase[from] != f.phase[i]) f.later[from].insert(f.phase[i]);
    });
  }
  return flow_.emplace(std::move(f));
}

std::int64_t CpuTime::extent_in_tile(std::size_t i, AxisId x, const std::vector<AxisStep>& steps,
                                     const std::vector<std::int64_t>& size) const {
  const auto a = plain_axis(r.image[i][static_cast<std::size_t>(x)]);
  std::int64_t e = statement(i).axes[static_cast<std::size_t>(x)].constant();
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (a && steps[s].axis == *a) e = std::min(e, size[s]);
  return e;
}

// The rows that a product has in a full tile.
std::int64_t CpuTime::tile_rows(std::size_t i, const std::vector<AxisStep>& steps,
                                const std::vector<std::int64_t>& size) const {
  std::int64_t rows = 1;
  for (AxisId x : form(i).product->m) rows *= extent_in_tile(i, x, steps, size);
  return rows;
}

// Where inputs and outputs of tiles come from.
LevelId CpuTime::far(const Cost& c) const {
  const auto cache = find(m, LevelRole::cache);
  const bool fits = cache && c.compulsory <= m.levels[static_cast<std::size_t>(*cache)].usable;
  return fits ? *cache : level_of(m, LevelRole::memory);
}

// Where weights come from. Each is read once a run: where all together do not fit the outermost cache, none is still there.
LevelId CpuTime::far_weights(const Cost& c) const {
  const auto cache = find(m, LevelRole::cache);
  const double all = o.weights * (o.splits ? 1.5 : 1);
  return cache && all > static_cast<double>(m.levels[static_cast<std::size_t>(*cache)].usable) ? level_of(m, LevelRole::memory) : far(c);
}

// Of one of the threads that read together.
double CpuTime::rate(LevelId level, const Cost& c) const {
  const int cores = static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(o.threads, c.tiles)));
  return bytes_per_second(m, level, Direction::down, cores) / cores;
}

// Of what other kernels have made. What a core's own cache holds is there still, or in that of another thread: it comes at a third of
// the rate at which the same lines are read again and again.
double CpuTime::near_rate(const Cost& c) const {
  double bytes = static_cast<double>(c.compulsory);
  for (std::size_t i = 0; i < r.statements.size(); ++i) bytes -= weights(i);
  const LevelId own = level_of(m, LevelRole::scratch);
  const double beyond = rate(far(c), c);
  if (bytes > static_cast<double>(m.levels[static_cast<std::size_t>(own)].capacity)) return beyond;
  const double mine = 1 / static_cast<double>(std::max<std::int64_t>(1, std::min<std::int64_t>(o.threads, c.tiles)));
  return std::max(beyond, 1 / (mine * 3 / rate(own, c) + (1 - mine) / beyond));
}

// Whether the weights of all of the kernel's products stay in a core's own cache from tile to tile.
bool CpuTime::weights_stay() const {
  double bytes = 0;
  for (std::size_t i = 0; i < r.statements.size(); ++i) bytes += weights(i);
  return bytes <= static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity);
}

// Of a product's weights, loaded by all tiles.
double CpuTime::weight_bytes(std::size_t i, const Cost& c) const {
  if (weights(i) == 0 || gathered(i) < 1) return 0;
  double bytes = 0;
  for (const Moved& x : c.moved)
    if (x.tensor == form(i).product->b->tensor && !x.store) bytes += static_cast<double>(x.bytes);
  return bytes;
}

// Of a tile's weights, that each turn of a walk reads: where they do not stay in a core's own cache, from afar.
double CpuTime::read_again(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  const auto& made = *form(i).product;
  double held = static_cast<double>(bytes_of(p.tensor(made.b->tensor).dtype)), turns = 1;
  for (const auto* axes : {&made.n, &made.k})
    for (AxisId x : *axes) held *= static_cast<double>(extent_in_tile(i, x, steps, size));
  if (splits(i, steps, size)) held *= 1.5; // three bf16 each
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (steps[s].how == AxisStep::How::walk) turns *= static_cast<double>(ceil_div_i64(r.axes[static_cast<std::size_t>(steps[s].axis)].constant(), size[s]));
  const auto room = static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity);
  return turns > 1 && held > room ? held * turns : 0;
}

double CpuTime::waiting(std::size_t i, const Cost& c, const std::vector<AxisStep>& steps,
                        const std::vector<std::int64_t>& size, double work) const {
  double bytes = weight_bytes(i, c);
  if (bytes == 0) return 0;
  const std::int64_t cores = std::max<std::int64_t>(1, std::min<std::int64_t>(o.threads, c.tiles));
  if (weights_stay()) bytes = std::min(bytes, weights(i) * static_cast<double>(cores));
  bytes = std::max(bytes, read_again(i, steps, size) * static_cast<double>(c.tiles));
  const std::int64_t passes = ceil_div_i64(std::max<std::int64_t>(tile_rows(i, steps, size), 1), o.leaf_rows);
  return std::max(0.0, bytes / rate(far_weights(c), c) - work / static_cast<double>(passes));
}

// The share of a product's time that is left where an operand of it is read through slots.
double CpuTime::gathered(std::size_t i) const {
  if (gathered_.empty()) {
    gathered_.assign(r.statements.size(), 1);
    bool any = false;
    for (StatementId id : r.statements)
      for_each_access(*p.statement(id), [&](const Access& a) { any |= p.tensor(a.tensor).sparse.has_value(); });
    if (any && m.target == Target::cpu) {
      const auto views = choose_views(p, r, nullptr, o.strict);
      for (const GatheredPlan& g : price_views(p, r, m, o, views))
        for (std::size_t s = 0; s < r.statements.size(); ++s)
          for_each_access(statement(s), [&](const Access& a) {
            if (a.tensor == g.view.tensor && form(s).product) gathered_[s] = std::min(gathered_[s], g.ratio());
          });
    }
  }
  return gathered_[i];
}

// A product with one row, of operands that are no weights: outside of a followed stream each element of the other
// operand is packed for one use.
double CpuTime::packing(std::size_t i, const Cost& c) const {
  const auto& made = form(i).product;
  if (!made || p.tensor(made->b->tensor).kind == Kind::weight) return 0;
  for (AxisId x : made->m)
    if (statement(i).axes[static_cast<std::size_t>(x)].constant() > 1) return 0;
  constexpr double seconds_an_element = 0.5e-9;
  return static_cast<double>(c.done[i].multiply_adds) * seconds_an_element;
}

// How often a point of a reduction goes around the stream: one over the size of its chunk.
double CpuTime::turns(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  double n = 0;
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (AxisId x : statement(i).reduced)
      if (steps[s].how == AxisStep::How::stream && plain_axis(r.image[i][static_cast<std::size_t>(x)]) == steps[s].axis)
        n += 1 / static_cast<double>(size[s]);
  return n;
}

double CpuTime::operations(UnitKind kind) const {
  double& known = kind == UnitKind::fma ? fma_ : alu_;
  if (known == 0) {
    const auto unit = unit_for(m, kind, DType::f32);
    known = unit ? operations_per_second(m, *unit, DType::f32) / std::max(m.core.count, 1) : 1e9;
  }
  return known;
}

// A CPU runs a kernel's reductions one after the other: each is bound by its work or by what it reads, and what one
// makes for the next is written to a core's own cache.
double CpuTime::seconds(const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size,
                        bool ideal) const {
  std::vector<double> multiplying(r.statements.size());
  const double bytes = near_rate(c);
  const LevelId own = level_of(m, LevelRole::scratch);
  const std::vector<std::size_t>& phase = flow().phase;
  std::vector<double> work(phase.back() + 1, 0), moved(phase.back() + 1, 0);
  std::vector<bool> product(phase.back() + 1, false);
  const auto& factor = longer(steps);
  const bool following = follows(steps);
  double between = 0;
  for (std::size_t i = 0; i < phase.size(); ++i) {
    const double gather = gathered(i);
    product[phase[i]] = product[phase[i]] || form(i).product;
    // Along some stream a leaf may take what is interpreted without one: a bound holds for all of them.
    if (c.done[i].multiply_adds > 0)
      multiplying[i] = 2 * static_cast<double>(c.done[i].multiply_adds) / operations(UnitKind::fma) * (ideal ? best_share(i, c) : share(i, c, steps, size));
    if (factor[i] == by_interpreter && !ideal)
      work[phase[i]] += gather * interpreted_seconds(i, c.done[i].points, steps, size, ideal);
    else
      work[phase[i]] += (ideal ? 1 : factor[i]) * gather * (multiplying[i] + static_cast<double>(c.done[i].operations) / operations(UnitKind::alu));
    if (!ideal) work[phase[i]] += passes(i, c, steps, size) + (following ? 0 : packing(i, c));
    const TensorId t = statement(i).out;
    double terms = 1;                                    // of a sum: what is made are its results
    for (AxisId x : statement(i).reduced) terms *= static_cast<double>(std::max<std::int64_t>(1, statement(i).axes[static_cast<std::size_t>(x)].constant()));
    const double made = static_cast<double>(c.done[i].points) / terms * static_cast<double>(bytes_of(p.tensor(t).dtype));
    // A chunk of a followed stream is read while it is still close by; in each turn the sums are corrected.
    if (following) {
      work[phase[i]] +=
          turns(i, steps, size) * corrections * static_cast<double>(c.done[i].points) / operations(UnitKind::alu);
      continue;
    }
    const std::set<std::size_t>& later = flow().later[i];
    for (std::size_t reader : later) moved[reader] += made / bytes_per_second(m, own, Direction::down, 1);
    if (!later.empty()) between += made / bytes_per_second(m, own, Direction::up, 1);
  }
  for (const Moved& x : c.moved) moved[flow().place(x)] += static_cast<double>(x.bytes) / bytes * (ideal ? 1 : lines_wasted(x, steps, size));
  for (std::size_t i = 0; i < phase.size() && !following; ++i) {
    moved[phase[i]] -= weight_bytes(i, c) / bytes;
    if (!ideal) between += waiting(i, c, steps, size, multiplying[i]);
  }
  double body = spill_seconds(m, c.stored, ideal ? 1024 : o.threads, far(c)) + between;
  // A product waits for its rows, which come one by one; what other leaves read they read ahead.
  for (std::size_t n = 0; n < work.size(); ++n)
    body += product[n] && !following ? work[n] + moved[n] : std::max(work[n], moved[n]);
  return body;
}

// Of the slowest thread: a tile is a call, and so is each turn of a walk for each leaf.
double CpuTime::kernel_seconds(const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  double calls = 0.2e-6;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].how == AxisStep::How::walk)
      calls += 1.5e-6 * static_cast<double>(ceil_div_i64(r.axes[static_cast<std::size_t>(steps[i].axis)].constant(), size[i]));
  return m.launch.step + (seconds(c, steps, size, false) + calls * static_cast<double>(c.tiles)) * c.share;
}

} // namespace tilewright
