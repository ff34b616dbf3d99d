#include "plan/choose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "law/stream.h"
#include "plan/footprint.h"

namespace tilewright {

namespace {

// Points of one lattice: the longest lists are thinned until it is no larger.
constexpr std::int64_t most_points = 20000, most_points_by_time = 400;
constexpr double corrections = 40;       // operations for each element of a sum that follows a statistic, a turn: a pass over it
constexpr std::int64_t most_tiles = 4096; // of a CPU's kernel: each is a call
// Costs are sums over tiles: so many along an axis, and in all, are worth looking at.
constexpr std::int64_t most_cuts = 1024, most_tiles_by_bytes = std::int64_t{1} << 18;

bool several_reductions(const Program& p, const Region& r) {
  int reductions = 0;
  for (StatementId id : r.statements) reductions += !p.statement(id)->reduced.empty();
  return reductions > 1 || (reductions == 1 && p.statement(r.statements[0])->reduced.empty());
}

std::int64_t picoseconds(double seconds) {
  return static_cast<std::int64_t>(std::llround(std::min(seconds, 1e6) * 1e12));
}

// Tries every combination of a small lattice of tile sizes, each with its exact cost.
struct Lattice {
  const Program& p;
  const Region& r;
  const Machine& m;
  const PlanOptions& o;
  const Apart* apart;
  Choice best, fallback; // the fallback breaks a rule, but can run
  std::int64_t fallback_need = INT64_MAX;
  std::vector<std::int64_t> tie; // of the best
  bool follows = false;          // sums follow their statistics along the stream that is tried

  bool by_bytes() const { return o.objective == Objective::bytes; }
  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }

  // ---- what may be cut

  // Parallel axes, as the last result has its dims; those that it lacks come first.
  std::vector<RegionAxis> parallel() const {
    const auto role = roles(p, r);
    std::vector<RegionAxis> last, axes;
    const std::size_t end = r.statements.size() - 1;
    for (const Index& dim : statement(end).at)
      for (const Index::Term& t : dim.terms)
        if (const AxisId* a = std::get_if<AxisId>(&t.of))
          if (const auto x = plain_axis(r.image[end][static_cast<std::size_t>(*a)]);
              x && !std::count(last.begin(), last.end(), *x))
            last.push_back(*x);
    for (std::size_t a = 0; a < role.size(); ++a)
      if (!std::count(last.begin(), last.end(), static_cast<RegionAxis>(a))) axes.push_back(static_cast<RegionAxis>(a));
    axes.insert(axes.end(), last.begin(), last.end());
    std::erase_if(axes, [&](RegionAxis a) {
      return extent(a) < 2 || role[static_cast<std::size_t>(a)].reducer != Reducer::none;
    });
    return axes;
  }

  bool legal(const std::vector<AxisStep>& steps) const {
    Schedule s;
    s.steps = steps;
    return legality(p, r, s, m).empty();
  }

  // All the steps that are legal together, tiles before the stream.
  std::optional<std::vector<AxisStep>> structure(std::optional<RegionAxis> stream) const {
    std::vector<AxisStep> end, steps;
    if (stream) end.push_back({AxisStep::How::stream, *stream, 1});
    if (!legal(end)) return std::nullopt;
    for (RegionAxis a : parallel()) {
      auto tried = steps;
      tried.push_back({AxisStep::How::tile, a, 1});
      auto with = tried;
      with.insert(with.end(), end.begin(), end.end());
      if (legal(with)) steps = std::move(tried);
    }
    steps.insert(steps.end(), end.begin(), end.end());
    return steps;
  }

  std::vector<std::int64_t> sizes(const AxisStep& step) const {
    const std::int64_t n = extent(step.axis);
    std::vector<std::int64_t> list;
    if (step.how == AxisStep::How::stream && follows) {
      for (std::int64_t size : {64, 128, 256, 512})
        if (size < n) list.push_back(size);
    } else if (step.how == AxisStep::How::stream) {
      for (std::int64_t size : {16, 64})
        if (size < n) list.push_back(size);
    } else if (follows && !by_bytes()) {
      for (std::int64_t size : {n, std::int64_t{256}, std::int64_t{128}, std::int64_t{64}, std::int64_t{32}, std::int64_t{1}})
        if (size <= n && n / size <= most_tiles && (list.empty() || size < list.back())) list.push_back(size);
    } else if (by_bytes()) {
      for (std::int64_t size = 1; size < n; size *= 2)
        if (n / size <= most_cuts) list.push_back(size);
      list.push_back(n);
    } else {
      const std::int64_t granule = n > 4 * o.leaf_columns ? o.leaf_columns : 1;
      for (std::int64_t tiles : {1, 2, 4, 8, 16, 32})
        if (const std::int64_t size = ceil_div_i64(ceil_div_i64(n, tiles), granule) * granule;
            list.empty() || size < list.back())
          list.push_back(size);
    }
    return list;
  }

  // ---- what a point of the lattice is worth

  // Reductions that no leaf of a CPU takes in this kernel: streamed ones, and products of what the kernel makes with
  // what lies beyond its edge.
  std::vector<std::size_t> interpreted(const std::vector<AxisStep>& steps) const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& s = statement(i);
      const bool product = static_cast<bool>(contraction(p, s));
      if (s.reduced.empty() || (!product && !window(p, s))) continue;
      bool slow = false;
      for (const AxisStep& step : steps)
        for (AxisId x : s.reduced)
          slow |= !(follows && product) && step.how == AxisStep::How::stream && plain_axis(r.image[i][static_cast<std::size_t>(x)]) == step.axis;
      for_each_access(s, [&](const Access& a) {
        for (StatementId id : r.statements) slow |= product && a.otherwise && p.statement(id)->out == a.tensor;
      });
      if (slow) list.push_back(i);
    }
    return list;
  }

  // Where a transfer belongs, and each statement: one phase a reduction, the maps behind it included.
  std::vector<std::size_t> phases() const {
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
  std::size_t statement_of(const Moved& moved) const {
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      bool mine = moved.store && statement(i).out == moved.tensor;
      if (!moved.store) for_each_access(statement(i), [&](const Access& a) { mine |= a.tensor == moved.tensor; });
      if (mine) return i;
    }
    return 0;
  }

  // The share of a leaf's rows and columns that a full tile fills.
  double fill(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
    const auto c = contraction(p, statement(i));
    if (!c) return 1;
    auto part = [&](const std::vector<AxisId>& axes, bool one, std::int64_t granule) {
      std::int64_t n = 1;
      for (AxisId x : axes) {
        const auto a = plain_axis(r.image[i][static_cast<std::size_t>(x)]);
        std::int64_t e = statement(i).axes[static_cast<std::size_t>(x)].constant();
        for (std::size_t s = 0; s < steps.size(); ++s)
          if (a && steps[s].axis == *a) e = std::min(e, size[s]);
        n = one ? std::max(n, e) : n * e;
      }
      return static_cast<double>(n) / static_cast<double>(ceil_div_i64(n, granule) * granule);
    };
    return part(c->m, false, o.leaf_rows) * part(c->n, true, o.leaf_columns);
  }

  // A CPU runs a kernel's reductions one after the other: each is bound by its work or by what it moves, and what one
  // makes for the next is written to a core's own cache and read back.
  double seconds(const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size,
                 bool ideal) const {
    const auto rate = [&](UnitKind kind) {
      const auto unit = unit_for(m, kind, DType::f32);
      return unit ? operations_per_second(m, *unit, DType::f32) / std::max(m.core.count, 1) : 1e9;
    };
    const auto cache = find(m, LevelRole::cache);
    const bool fits = cache && c.compulsory <= m.levels[static_cast<std::size_t>(*cache)].usable;
    const double bytes = bytes_per_second(m, fits ? *cache : level_of(m, LevelRole::memory), Direction::down, 1);
    const LevelId own = level_of(m, LevelRole::scratch);
    const auto phase = phases();
    std::vector<double> work(phase.back() + 1, 0), moved(phase.back() + 1, 0);
    const auto slow = interpreted(steps);
    double between = 0;
    for (std::size_t i = 0; i < phase.size(); ++i) {
      const double longer = std::count(slow.begin(), slow.end(), i) ? o.interpreted : 1;
      work[phase[i]] += longer * (2 * static_cast<double>(c.done[i].multiply_adds) / rate(UnitKind::fma) /
                                      (ideal ? 1 : fill(i, steps, size)) +
                                  static_cast<double>(c.done[i].operations) / rate(UnitKind::alu));
      const TensorId t = statement(i).out;
      bool later = false;
      for (std::size_t j = i + 1; j < phase.size(); ++j)
        if (phase[j] != phase[i]) for_each_access(statement(j), [&](const Access& a) { later |= a.tensor == t; });
      if (later) between += static_cast<double>(c.done[i].points) * static_cast<double>(bytes_of(p.tensor(t).dtype));
    }
    // A chunk of a followed stream is read while it is still close by; in each turn the sums are corrected.
    if (follows) {
      between = 0;
      for (std::size_t i = 0; i < phase.size(); ++i)
        for (std::size_t s = 0; s < steps.size(); ++s)
          for (AxisId x : statement(i).reduced)
            if (steps[s].how == AxisStep::How::stream && plain_axis(r.image[i][static_cast<std::size_t>(x)]) == steps[s].axis)
              work[phase[i]] += corrections * static_cast<double>(c.done[i].points) / static_cast<double>(size[s]) / rate(UnitKind::alu);
    }
    for (const Moved& x : c.moved) moved[phase[statement_of(x)]] += static_cast<double>(x.bytes) / bytes;
    double body =
        between / bytes_per_second(m, own, Direction::up, 1) + between / bytes_per_second(m, own, Direction::down, 1);
    for (std::size_t n = 0; n < work.size(); ++n) body += std::max(work[n], moved[n]);
    return body;
  }

  std::int64_t price(const Cost& c, const Footprint::Bytes& tile, const std::vector<AxisStep>& steps,
                     const std::vector<std::int64_t>& size) const {
    const double body = seconds(c, steps, size, false) + 0.2e-6 * static_cast<double>(c.tiles);
    const std::int64_t threads = std::max<std::int64_t>(1, std::min<std::int64_t>(o.threads, c.tiles));
    double total = m.launch.step + body * static_cast<double>(ceil_div_i64(c.tiles, threads)) /
                                       static_cast<double>(std::max<std::int64_t>(c.tiles, 1));
    const auto room = static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity),
               held = static_cast<double>(tile.all);
    if (held > room) total *= 1 + 0.25 * std::min(4.0, held / room - 1);
    return picoseconds(total);
  }

  // What no tiles can beat: the work done once by all threads, each tensor moved once.
  std::int64_t least() const {
    const double body = seconds(cost(p, r, {}, m), {}, {}, true);
    return picoseconds(body / std::max(o.threads, 1) + m.launch.step);
  }

  // The first rule of the bytes objective that a tile breaks before its bytes are known.
  std::string too_large(const Footprint::Bytes& tile, std::int64_t tiles, std::int64_t enough) const {
    if (m.core.block_scratch > 0 && tile.held > m.core.block_scratch)
      return fmt::format("a tile holds {} B, there are {} B", tile.held, m.core.block_scratch);
    if (m.core.combined > 0 && tile.all > m.core.combined)
      return fmt::format("a tile and its result hold {} B, there are {} B", tile.all, m.core.combined);
    if (tiles < enough) return fmt::format("{} tiles for {} cores", tiles, enough);
    return {};
  }

  std::string worth(const Cost& c, std::int64_t price) const {
    if (!apart) return {};
    if (asked(price, o) >= apart->price) return by_bytes() ? "saves nothing" : "saves less than the margin";
    const double again = 2.0 * static_cast<double>(c.multiply_adds - apart->multiply_adds),
                 saved = static_cast<double>(apart->price - price);
    if (by_bytes() && again > o.redundancy * saved)
      return fmt::format("computes {:.4g} operations again for each byte saved, at most {:.4g}", again / saved,
                         o.redundancy);
    return {};
  }

  // ---- the search

  void keep(Choice& into, const Cost& c, std::int64_t price, const std::vector<AxisStep>& steps,
            const std::vector<std::int64_t>& size, std::string rule) const {
    into.cost = c;
    if (!by_bytes()) into.cost.seconds = static_cast<double>(price) * 1e-12;
    into.price = price;
    into.rule = std::move(rule);
    into.schedule = {};
    into.schedule.threads = o.threads;
    into.schedule.isa = o.isa;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (size[i] < extent(steps[i].axis)) into.schedule.steps.push_back({steps[i].how, steps[i].axis, size[i]});
  }

  // Fewest bytes, then least work, most tiles, widest tiles.
  void offer(const Cost& c, std::int64_t price, const std::vector<AxisStep>& steps,
             const std::vector<std::int64_t>& size) {
    std::vector<std::int64_t> key{price, c.multiply_adds, -c.tiles};
    for (std::size_t i = size.size(); i-- > 0;) key.push_back(-size[i]);
    if (best.price >= 0 && key >= tie) return;
    tie = std::move(key);
    keep(best, c, price, steps, size, {});
  }

  // What breaks a rule is kept for its numbers: of tiles that do not fit the smallest, else the cheapest.
  void refuse(std::int64_t need, const Cost& c, std::int64_t price, const std::vector<AxisStep>& steps,
              const std::vector<std::int64_t>& size, const std::string& rule) {
    if (need > fallback_need || (need == fallback_need && fallback.price >= 0 && price >= fallback.price)) return;
    fallback_need = need;
    keep(fallback, c, price, steps, size, rule);
  }

  void try_structure(const std::vector<AxisStep>& steps) {
    std::vector<std::vector<std::int64_t>> lists;
    std::int64_t points = 1, enough = 1;
    for (const AxisStep& s : steps) {
      lists.push_back(sizes(s));
      points = checked_mul(points, static_cast<std::int64_t>(lists.back().size()));
      if (s.how == AxisStep::How::tile) enough = std::min<std::int64_t>(cores(), checked_mul(enough, extent(s.axis)));
      if (lists.back().empty()) return;
    }
    while (points > (by_bytes() ? most_points : most_points_by_time)) {
      auto& longest = *std::max_element(lists.begin(), lists.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
      points /= static_cast<std::int64_t>(longest.size());
      std::vector<std::int64_t> half;
      for (std::size_t i = longest.size(); i-- > 0;)
        if ((longest.size() - 1 - i) % 2 == 0) half.insert(half.begin(), longest[i]);
      longest = std::move(half);
      points *= static_cast<std::int64_t>(longest.size());
    }
    Schedule order;
    order.threads = o.threads;
    order.steps = steps;
    const Model model(p, r, order, m);
    const Footprint footprint(p, r, order);
    std::vector<std::size_t> at(steps.size(), 0);
    std::vector<std::int64_t> size(steps.size());
    for (bool more = true; more;) {
      std::int64_t tiles = 1;
      for (std::size_t i = 0; i < at.size(); ++i) {
        size[i] = lists[i][at[i]];
        if (steps[i].how == AxisStep::How::tile)
          tiles = checked_mul(tiles, ceil_div_i64(extent(steps[i].axis), size[i]));
      }
      point(model, footprint, steps, size, tiles, enough);
      more = false;
      for (std::size_t i = at.size(); i-- > 0 && !more;) {
        more = ++at[i] < lists[i].size();
        if (!more) at[i] = 0;
      }
    }
  }

  void point(const Model& model, const Footprint& footprint, const std::vector<AxisStep>& steps,
             const std::vector<std::int64_t>& size, std::int64_t tiles, std::int64_t enough) {
    const Footprint::Bytes tile = footprint.at(size);
    if (tiles > (by_bytes() ? most_tiles_by_bytes : most_tiles)) return;
    const std::string rule = by_bytes() ? too_large(tile, tiles, enough) : std::string();
    if (!rule.empty() && tile.held > fallback_need) return;
    const Cost c = model.at(size);
    const std::int64_t paid = by_bytes() ? c.loaded + c.stored : price(c, tile, steps, size);
    if (!rule.empty()) return refuse(tile.held, c, paid, steps, size, rule);
    if (const std::string why = worth(c, paid); !why.empty()) return refuse(0, c, paid, steps, size, why);
    offer(c, paid, steps, size);
  }

  std::int64_t cores() const { return m.target == Target::cpu ? o.threads : m.core.count; }

  Choice run() {
    const auto role = roles(p, r);
    if (const auto steps = structure(std::nullopt)) try_structure(*steps);
    if (o.streams && (by_bytes() || o.interpreted < 2))
      for (std::size_t a = 0; a < role.size(); ++a) {
        if (role[a].reducer == Reducer::none || extent(static_cast<RegionAxis>(a)) <= 16 || needs_stream(p, r, static_cast<RegionAxis>(a))) continue;
        if (const auto steps = structure(static_cast<RegionAxis>(a)); steps && steps->size() > 1) try_structure(*steps);
      }
    if (m.target == Target::cpu && o.streams)
      for (std::size_t a = 0; a < role.size(); ++a) {
        if (role[a].reducer == Reducer::none || extent(static_cast<RegionAxis>(a)) <= 64 || !needs_stream(p, r, static_cast<RegionAxis>(a))) continue;
        follows = true;
        if (const auto steps = structure(static_cast<RegionAxis>(a)); steps && steps->size() > 1) try_structure(*steps);
        follows = false;
      }
    Choice chosen = best.price >= 0 ? std::move(best) : std::move(fallback);
    if (by_bytes() && chosen.price >= 0) predict(chosen);
    return chosen;
  }

  // What was chosen by bytes takes the time that it would be priced at.
  void predict(Choice& chosen) const {
    std::vector<std::int64_t> size;
    for (const AxisStep& s : chosen.schedule.steps) size.push_back(s.size);
    const auto tile = Footprint(p, r, chosen.schedule).at(size);
    if (m.target == Target::cpu)
      chosen.cost.seconds = static_cast<double>(price(chosen.cost, tile, chosen.schedule.steps, size)) * 1e-12;
  }
};

} // namespace

std::int64_t asked(std::int64_t price, const PlanOptions& o) {
  if (o.objective == Objective::bytes) return price;
  return static_cast<std::int64_t>(std::llround(static_cast<double>(price) / (1 - o.margin)));
}

Choice choose(const Program& p, const Region& r, const Machine& m, const PlanOptions& o,
              const std::vector<DimOrder>& layouts, const Apart* apart) {
  Choice c;
  // Joined maps may read each other at other points than they are made at: not every axis can be cut.
  const bool lattice = o.objective == Objective::bytes || apart || several_reductions(p, r);
  for (const Size& e : r.axes)
    if (e.constant() == 0) return {{{}, o.threads, {}, {}, o.isa}, cost(p, r, {}, m), 0, {}};
  Lattice tiles{p, r, m, o, apart, {}, {}, INT64_MAX, {}, false};
  if (apart && o.objective == Objective::time)
    if (const std::int64_t least = tiles.least(); asked(least, o) >= apart->price) {
      c.price = least;
      c.rule = "whatever its tiles, it saves less than the margin";
      return c;
    }
  if (lattice) return tiles.run();
  c.schedule = choose_tiles(p, r, m, o, layouts);
  if (!legality(p, r, c.schedule, m).empty()) return tiles.run();
  c.cost = cost(p, r, c.schedule, m);
  c.price = picoseconds(c.cost.seconds);
  return c;
}

} // namespace tilewright
