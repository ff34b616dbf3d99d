#include "plan/choose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "law/stream.h"
#include "cost/paper.h"
#include "plan/block_price.h"
#include "plan/cpu_time.h"
#include "plan/footprint.h"
#include "plan/gathered_blocks.h"

namespace tilewright {

namespace {

// Points of one lattice: the longest lists are thinned until it is no larger.
constexpr std::int64_t most_points = 20000, most_points_by_time = 400, most_points_of_walks = 160;
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
  const std::vector<DimOrder>& layouts;
  const Apart* apart;
  Choice best, fallback; // the fallback breaks a rule, but can run
  std::int64_t fallback_need = INT64_MAX;
  std::vector<std::int64_t> tie; // of the best
  CpuTime time{p, r, m, o, layouts};
  bool follows = false; // sums follow their statistics along the stream that is tried

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

  // Tiles of every parallel axis and what stands inside them, if they are legal together, as they mostly are.
  std::optional<std::vector<AxisStep>> all_at_once(const std::vector<AxisStep>& end) const {
    std::vector<AxisStep> steps;
    for (RegionAxis a : parallel())
      if (std::none_of(end.begin(), end.end(), [&](const AxisStep& s) { return s.axis == a; }))
        steps.push_back({AxisStep::How::tile, a, 1});
    steps.insert(steps.end(), end.begin(), end.end());
    return legal(steps) ? std::optional(std::move(steps)) : std::nullopt;
  }

  // All the steps that are legal together, tiles before what runs inside them.
  std::optional<std::vector<AxisStep>> structure(const std::vector<AxisStep>& end) const {
    std::vector<AxisStep> steps;
    if (auto all = all_at_once(end)) return all;
    if (!legal(end)) return std::nullopt;
    for (RegionAxis a : parallel()) {
      if (std::any_of(end.begin(), end.end(), [&](const AxisStep& s) { return s.axis == a; })) continue;
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
    if (step.how == AxisStep::How::walk) {
      for (std::int64_t size : {1, 2, 4, 8, 16})
        if (size < n) list.push_back(size);
    } else if (step.how == AxisStep::How::stream && follows) {
      for (std::int64_t size : {64, 128, 256, 512})
        if (size < n) list.push_back(size);
    } else if (step.how == AxisStep::How::stream) {
      for (std::int64_t size : {16, 64})
        if (size < n) list.push_back(size);
    } else if (follows && !by_bytes()) {
      for (std::int64_t size :
           {n, std::int64_t{256}, std::int64_t{128}, std::int64_t{64}, std::int64_t{32}, std::int64_t{1}})
        if (size <= n && n / size <= most_tiles && (list.empty() || size < list.back())) list.push_back(size);
    } else if (by_bytes()) {
      for (std::int64_t size = 1; size < n; size *= 2)
        if (n / size <= most_cuts) list.push_back(size);
      list.push_back(n);
    } else {
      const std::int64_t granule = n > 4 * o.leaf_columns                           ? o.leaf_columns
                                   : n >= 2 * o.lanes && time.in_vectors(step.axis) ? o.lanes
                                                                                    : 1;
      for (std::int64_t tiles : {1, 2, 4, 8, 16, 32})
        if (const std::int64_t size = ceil_div_i64(ceil_div_i64(n, tiles), granule) * granule;
            list.empty() || size < list.back())
          list.push_back(size);
    }
    return list;
  }

  // ---- what a point of the lattice is worth

  std::int64_t price(const Cost& c, const Footprint::Bytes& tile, const std::vector<AxisStep>& steps,
                     const std::vector<std::int64_t>& size) const {
    double total = time.kernel_seconds(c, steps, size);
    // Scratch is half of a core's own cache; operands that pass through take some of the other half.
    const auto room = 1.5 *
                      static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity),
               held = static_cast<double>(tile.all);
    if (held > room) total *= 1 + 0.25 * std::min(4.0, held / room - 1);
    return picoseconds(total);
  }

  // What no tiles can beat: the work done once by all threads, each tensor moved once.
  std::int64_t least() const {
    const double body = time.seconds(cost(p, r, {}, m), {}, {}, true);
    return picoseconds(body / std::max(o.threads, 1) + m.launch.step);
  }

  bool fits(const Footprint::Bytes& tile, std::int64_t tiles, std::int64_t enough) const {
    return (m.core.block_scratch <= 0 || tile.held <= m.core.block_scratch) &&
           (m.core.combined <= 0 || tile.all <= m.core.combined) && tiles >= enough;
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

  std::string worth(std::int64_t multiply_adds, std::int64_t price) const {
    if (!apart) return {};
    if (asked(price, o) >= apart->price) return by_bytes() ? "saves nothing" : "saves less than the margin";
    const double again = 2.0 * static_cast<double>(multiply_adds - apart->multiply_adds),
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

  bool is_nearer(std::int64_t need, std::int64_t price) const {
    return need < fallback_need || (need == fallback_need && (fallback.price < 0 || price < fallback.price));
  }

  // What breaks a rule is kept for its numbers: of tiles that do not fit the smallest, else the cheapest.
  void refuse(std::int64_t need, const Cost& c, std::int64_t price, const std::vector<AxisStep>& steps,
              const std::vector<std::int64_t>& size, const std::string& rule) {
    if (!is_nearer(need, price)) return;
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
    const bool walks = !steps.empty() && steps.back().how == AxisStep::How::walk;
    while (points > (by_bytes() ? most_points : walks ? most_points_of_walks : most_points_by_time)) {
      auto& longest = *std::max_element(lists.begin(), lists.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
      points /= static_cast<std::int64_t>(longest.size());
      // A whole axis stays: by time it comes first, by bytes last.
      std::vector<std::int64_t> half;
      for (std::size_t i = 0; i < longest.size(); ++i)
        if ((by_bytes() ? longest.size() - 1 - i : i) % 2 == 0) half.push_back(longest[i]);
      longest = std::move(half);
      points *= static_cast<std::int64_t>(longest.size());
    }
    Schedule order;
    order.threads = o.threads;
    order.steps = steps;
    const Model model(p, r, order, m);
    const Footprint footprint(p, r, order);
    std::optional<PaperModel> paper;
    if (by_bytes() && o.paper_cost) paper.emplace(p, r, order);
    std::vector<std::size_t> at(steps.size(), 0);
    std::vector<std::int64_t> size(steps.size());
    for (bool more = true; more;) {
      std::int64_t tiles = 1;
      for (std::size_t i = 0; i < at.size(); ++i) {
        size[i] = lists[i][at[i]];
        if (steps[i].how == AxisStep::How::tile)
          tiles = checked_mul(tiles, ceil_div_i64(extent(steps[i].axis), size[i]));
      }
      bool larger = true; // may be of use
      if (by_bytes())
        larger = point_by_bytes(model, paper ? &*paper : nullptr, footprint, steps, size, tiles, enough);
      else
        point_by_time(model, footprint, steps, size, tiles);
      more = false;
      std::size_t end = at.size();
      if (!larger) {
        while (end > 0 && at[end - 1] == 0) --end;
        if (end > 0) at[--end] = 0;
      }
      for (std::size_t i = end; i-- > 0 && !more;) {
        more = ++at[i] < lists[i].size();
        if (!more) at[i] = 0;
      }
    }
  }

  void point_by_time(const Model& model, const Footprint& footprint, const std::vector<AxisStep>& steps,
                     const std::vector<std::int64_t>& size, std::int64_t tiles) {
    if (tiles > most_tiles) return;
    const Cost c = model.at(size);
    const std::int64_t paid = price(c, footprint.at(size), steps, size);
    if (const std::string why = worth(c.multiply_adds, paid); !why.empty()) return refuse(0, c, paid, steps, size, why);
    offer(c, paid, steps, size);
  }

  std::optional<std::vector<AxisStep>> streamed(std::size_t a) const {
    return structure({{AxisStep::How::stream, static_cast<RegionAxis>(a), 1}});
  }

  // The outermost axis along which something that stays in the kernel is needed again by the next tile.
  std::optional<RegionAxis> walked() const {
    if (m.target != Target::cpu || by_bytes()) return std::nullopt;
    for (RegionAxis a : parallel()) {
      Schedule s;
      s.steps = {{AxisStep::How::walk, a, 1}};
      if (!legality(p, r, s, m).empty()) continue;
      for (std::size_t i = 0; i < r.statements.size(); ++i)
        for (const Span& range : ranges(p, r, s, static_cast<int>(i)))
          if (range.walk >= 0) return a;
    }
    return std::nullopt;
  }

  // Once some tiles may be taken, others count only if they cost less: what they do not fit need not be known. False: tiles as large
  // along every axis, or larger, are not worth a look either, since they hold no less and are no more.
  bool point_by_bytes(const Model& model, const PaperModel* paper, const Footprint& footprint,
                      const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size, std::int64_t tiles,
                      std::int64_t enough) {
    if (tiles > most_tiles_by_bytes) return true;
    const bool found = best.price >= 0;
    const Footprint::Bytes tile = footprint.at(size);
    const bool fit = fits(tile, tiles, enough);
    if (!fit && (found || tile.held > fallback_need)) return false;
    const std::int64_t paid = paper ? paper->bytes(size) : model.bytes(size);
    if (found && paid > best.price) return true;
    if (!fit) {
      if (is_nearer(tile.held, paid)) refuse(tile.held, model.at(size), paid, steps, size, too_large(tile, tiles, enough));
      return true;
    }
    if (const std::string why = worth(apart ? model.multiply_adds(size) : 0, paid); why.empty())
      offer(model.at(size), paid, steps, size);
    else if (!found && is_nearer(0, paid))
      refuse(0, model.at(size), paid, steps, size, why);
    return true;
  }

  std::int64_t cores() const { return m.target == Target::cpu ? o.threads : m.core.count; }

  Choice run() {
    const auto role = roles(p, r);
    if (const auto steps = structure({})) try_structure(*steps);
    if (const auto axis = walked()) {
      if (const auto steps = structure({{AxisStep::How::walk, *axis, 1}})) try_structure(*steps);
    }
    if (o.streams && (by_bytes() || o.interpreted < 2))
      for (std::size_t a = 0; a < role.size(); ++a) {
        if (role[a].reducer == Reducer::none || extent(static_cast<RegionAxis>(a)) <= 16 ||
            needs_stream(p, r, static_cast<RegionAxis>(a)))
          continue;
        if (const auto steps = streamed(a); steps && steps->size() > 1) try_structure(*steps);
      }
    if (m.target == Target::cpu && o.streams)
      for (std::size_t a = 0; a < role.size(); ++a) {
        if (role[a].reducer == Reducer::none || extent(static_cast<RegionAxis>(a)) <= 64 ||
            !needs_stream(p, r, static_cast<RegionAxis>(a)))
          continue;
        follows = true;
        if (const auto steps = streamed(a); steps && steps->size() > 1) try_structure(*steps);
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

// On a GPU every schedule is made and priced as blocks.
Choice choose_blocks(const Program& p, const Region& r, const Machine& m, const PlanOptions& o,
                     const std::vector<DimOrder>& layouts, const Apart* apart) {
  Choice c;
  if (apart) {
    const double far = bytes_per_second(m, level_of(m, LevelRole::memory));
    const std::int64_t least = picoseconds(static_cast<double>(cost(p, r, {}, m).compulsory) / far + m.launch.step);
    if (asked(least, o) >= apart->price) {
      c.price = least;
      c.rule = "whatever its tiles, it saves less than the margin";
      return c;
    }
  }
  auto list = apart && apart->cascade ? fragment_choices(p, r, m, layouts) : block_choices(p, r, m, layouts);
  if (list.empty() && apart) {
    c.rule = "no tiles are legal";
    return c;
  }
  if (list.empty()) list.push_back({}), list[0].schedule.threads = 256;
  // Through slots where that is expected to save more than the margin; behind a length whatever it costs, since what stands there is not 0.
  auto gathered = gathered_choices(p, r, m, o, layouts);
  const bool lengths = !gathered.empty() && gathered[0].schedule.operands[0].lengths;
  if (apart && lengths) {
    c.rule = "rows end at a length";
    return c;
  }
  if (!apart && !gathered.empty() && (lengths || list[0].seconds <= 0 || gathered[0].seconds < list[0].seconds * (1 - o.margin)))
    list[0] = std::move(gathered[0]);
  c.schedule = std::move(list[0].schedule);
  c.cost = cost(p, r, c.schedule, m);
  if (list[0].seconds > 0) c.cost.seconds = list[0].seconds;
  c.price = picoseconds(c.cost.seconds);
  c.rides = std::any_of(c.schedule.leaves.begin(), c.schedule.leaves.end(), [](const LeafAt& l) { return l.group && !l.tensor; });
  if (apart && (c.rides ? c.price : asked(c.price, o)) >= apart->price) c.rule = "saves less than the margin";
  return c;
}

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
  if (m.target == Target::cuda && o.objective == Objective::time) return choose_blocks(p, r, m, o, layouts, apart);
  Lattice tiles{p, r, m, o, layouts, apart, {}, {}, INT64_MAX, {}};
  if (apart && o.objective == Objective::time)
    if (const std::int64_t least = tiles.least(); asked(least, o) >= apart->price) {
      c.price = least;
      c.rule = "whatever its tiles, it saves less than the margin";
      return c;
    }
  if (lattice) return tiles.run();
  c.schedule = choose_tiles(p, r, m, o, layouts);
  if (auto gathered = gathered_tiles(p, r, m, o)) c.schedule = std::move(*gathered);
  if (!legality(p, r, c.schedule, m).empty()) return tiles.run();
  c.cost = cost(p, r, c.schedule, m);
  std::vector<std::int64_t> size;
  for (const AxisStep& s : c.schedule.steps) size.push_back(s.size);
  if (m.target == Target::cpu) c.cost.seconds = tiles.time.kernel_seconds(c.cost, c.schedule.steps, size);
  c.price = picoseconds(c.cost.seconds);
  return c;
}

} // namespace tilewright
