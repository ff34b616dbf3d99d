#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "law/stream.h"
#include "plan/block_price.h"
#include "plan/bulk_boxes.h"
#include "plan/row_slots.h"
#include "plan/tile_order.h"
#include "schedule/role_registers.h"

namespace tilewright {

namespace {

// Kernels of rows in registers: a stream whose sums follow statistics of rows, with contractions on the instructions of four warps.
// Batch axes are cut to single elements, the rows into groups of 64, operands come in boxes.
struct FragmentChooser {
  struct Band {
    std::int64_t batches;                  // 0: tiles are all alike
    std::vector<TileShare> shares;
    double read = 0;                       // bytes of streams that come from memory again
  };
  const Program& p;
  const Region& r;
  const Machine& m;
  const std::vector<DimOrder>& layouts;
  std::vector<std::size_t> contractions{};
  RegionAxis stream = -1, rows = -1;
  std::vector<RegionAxis> batch{};
  mutable std::map<std::tuple<int, std::int64_t, std::int64_t>, std::vector<Band>> known{};   // of threads, chunk and blocks

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }
  bool runs(std::size_t i, const std::vector<AxisId>& list, RegionAxis x) const {
    return std::any_of(list.begin(), list.end(), [&](AxisId a) { return plain_axis(r.image[i][static_cast<std::size_t>(a)]) == x; });
  }

  // The axis that sums follow statistics along; else one that a contraction makes and a later one sums over.
  bool find_stream() {
    const auto all = roles(p, r);
    RegionAxis handed_on = -1;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (all[static_cast<std::size_t>(x)].reducer == Reducer::none) continue;
      if (needs_stream(p, r, x)) {
        if (stream >= 0) return false;
        stream = x;
      }
      bool made = false;
      for (std::size_t i : contractions) {
        const auto c = contraction(p, statement(i));
        if (runs(i, c->m, x) || runs(i, c->n, x)) made = true;
        else if (made && runs(i, c->k, x)) handed_on = x;
      }
    }
    if (stream < 0) stream = handed_on;
    return stream >= 0;
  }
  // Of the axes that run through one operand of every contraction the longest is rows; the others are cut like batches: to single elements.
  bool find_axes() {
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (contraction(p, statement(i))) contractions.push_back(i);
    if (contractions.empty() || !find_stream()) return false;
    std::vector<RegionAxis> candidates;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (x == stream || extent(x) == 1) continue;
      bool of_rows = true, of_all = true;
      for (std::size_t i : contractions) {
        const auto c = contraction(p, statement(i));
        const bool own = runs(i, c->m, x) || runs(i, c->n, x), both = runs(i, c->batch, x);
        of_rows &= own, of_all &= own || both;
      }
      if (!of_all || !laws(p, r, x).tile) continue;
      if (of_rows) candidates.push_back(x);
      else batch.push_back(x);
    }
    for (RegionAxis x : candidates)
      if (rows < 0 || extent(x) > extent(rows)) rows = x;
    for (RegionAxis x : candidates)
      if (x != rows) batch.push_back(x);
    return rows >= 0 && std::all_of(contractions.begin(), contractions.end(), [&](std::size_t i) { return has_instructions(i); });
  }
  // Rows and one axis of columns, one of products in whole steps of 16: what lies across a window or a channel of its own has more.
  bool has_instructions(std::size_t i) const {
    const Statement& st = statement(i);
    const auto c = contraction(p, st);
    int columns = 0, products = 0;
    bool whole = true;
    for (const auto* list : {&c->m, &c->n, &c->batch, &c->k})
      for (AxisId a : *list) {
        const auto x = plain_axis(r.image[i][static_cast<std::size_t>(a)]);
        const std::int64_t n = st.axes[static_cast<std::size_t>(a)].constant();
        if (n == 1 || (x && (*x == rows || std::count(batch.begin(), batch.end(), *x)))) continue;
        if (list == &c->k) ++products, whole &= (x && *x == stream) || n % 16 == 0;
        else ++columns;
      }
    return columns <= 1 && products == 1 && whole;
  }

  bool is_operand(TensorId t) const {
    return std::any_of(contractions.begin(), contractions.end(), [&](std::size_t i) {
      const auto c = contraction(p, statement(i));
      return c->a->tensor == t || c->b->tensor == t;
    });
  }
  // Operands of contractions that come from outside, in boxes: those of a turn in rings, those of a tile before the tile where there are two.
  bool place(Schedule& s, int stages, int tiles) const {
    for (const Transfer& t : transfers(p, r, s)) {
      if (t.store || !is_operand(t.tensor)) continue;
      ValueAt v{t.tensor, LevelRole::scratch, layouts[static_cast<std::size_t>(t.tensor)], 0, true, 1, 0, true};
      v.stages = tiles;
      if (t.depth == static_cast<int>(s.steps.size())) v.stages = stages;
      else if (t.depth + 1 != static_cast<int>(s.steps.size())) return false;
      s.values.push_back(std::move(v));
    }
    return comes_in_boxes(p, r, s, layouts);
  }

  // Whether the last contraction of a turn may end in the next one: nothing else reads what it sums over from outside.
  bool may_overlap() const {
    if (contractions.size() < 2) return false;
    const auto last = contraction(p, statement(contractions.back()));
    for (std::size_t i : contractions) {
      const auto c = contraction(p, statement(i));
      for (const Access* own : {last->a, last->b})
        if (i != contractions.back() && (c->a->tensor == own->tensor || c->b->tensor == own->tensor)) return false;
    }
    return true;
  }

  // Of a thread: what a turn makes of 64 rows by a group's 128 threads, its packed form, the states, and what goes with them.
  std::int64_t registers(std::int64_t chunk, bool uneven) const {
    std::int64_t held = 16, states = 0;
    for (std::size_t i : contractions) {
      const auto c = contraction(p, statement(i));
      std::int64_t columns = 1;
      for (AxisId a : runs(i, c->n, rows) ? c->m : c->n) columns *= statement(i).axes[static_cast<std::size_t>(a)].constant();
      const bool along = runs(i, c->n, stream) || runs(i, c->m, stream);
      (along ? held : states) += along ? chunk / 2 + chunk / 4 : columns / 2;
    }
    // What the compiler was seen to need beside them without spilling; conditions on points take more.
    std::int64_t maps = 0;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = statement(i);
      const bool along = std::any_of(r.image[i].begin(), r.image[i].end(), [&](const Index& x) { return mentions_axis(x, stream); });
      maps += along && is_map(st);
    }
    held += states + std::min<std::int64_t>(states / 2, 40) + (uneven ? 8 : 0) + 24 * std::max<std::int64_t>(0, maps - 2);
    return held;
  }

  // Turns that count, of each tile of rows; what stands before them in a nest is in its first tile.
  std::vector<double> turns_of(const Schedule& s) const {
    const Turns turns = live_turns(p, r, s);
    const std::int64_t height = s.steps[s.steps.size() - 2].size, chunk = s.steps.back().size, n = ceil_div_i64(extent(rows), height), all = ceil_div_i64(extent(stream), chunk);
    std::vector<double> list(static_cast<std::size_t>(n), static_cast<double>(all));
    if (turns.every()) return list;
    std::vector<std::int64_t> v(2 * s.steps.size(), 0);
    for (std::size_t i = 0; i + 2 < s.steps.size(); ++i) v[2 * i + 1] = s.steps[i].size;
    const std::size_t row = 2 * (s.steps.size() - 2), turn = row + 2;
    const auto live = [&](std::int64_t t) {
      v[row] = t * height, v[row + 1] = std::min((t + 1) * height, extent(rows));
      double count = 0;
      for (std::int64_t x = 0; x < extent(stream); x += chunk) v[turn] = x, v[turn + 1] = std::min(x + chunk, extent(stream)), count += turns.live(v.data());
      return std::max(1.0, count);
    };
    // Of many some are counted, and those between lie between them.
    const std::int64_t stride = ceil_div_i64(n * all, 1 << 14);
    for (std::int64_t t = 0, last = 0; t < n; t = std::min(t + stride, std::max(n - 1, t + 1))) {
      const double here = live(t), before = list[static_cast<std::size_t>(last)];
      for (std::int64_t i = last + 1; i <= t; ++i) list[static_cast<std::size_t>(i)] = before + (here - before) * static_cast<double>(i - last) / static_cast<double>(t - last);
      if (t == 0) list[0] = here;
      last = t;
    }
    return list;
  }

  // Seconds of a core for one turn of full tiles: by the tensor unit, and by the others. What is ragged costs as much.
  struct Turn { double tensor = 0, vector = 0; };
  Turn turn_of(const Schedule& s) const {
    const double cores = m.core.count, height = static_cast<double>(s.steps[s.steps.size() - 2].size), chunk = static_cast<double>(s.steps.back().size);
    const auto fma = unit_for(m, UnitKind::fma, DType::f32), other = unit_for(m, UnitKind::special, DType::f32);
    // Barriers, reductions over the threads of a row, and the ends of both contractions, however long the turn is.
    constexpr double fixed = 150e-9;
    Turn turn{0, fixed};
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = statement(i);
      double points = 1;
      bool along = false;
      for (std::size_t a = 0; a < st.axes.size(); ++a) {
        const auto x = plain_axis(r.image[i][a]);
        if (!x) continue;
        along |= *x == stream;
        points *= *x == stream ? chunk : *x == rows ? height : std::count(batch.begin(), batch.end(), *x) ? 1.0 : static_cast<double>(st.axes[a].constant());
      }
      if (!along) continue;
      if (const auto c = contraction(p, st)) {
        const DType type = p.tensor(c->b->tensor).dtype;
        if (const auto unit = group_unit(m, type)) turn.tensor += 2 * points / (operations_per_second(m, *unit, type) / cores);
        continue;
      }
      turn.vector += row_slots(st) * points / (operations_per_second(m, *fma, DType::f32) / 2 / cores);
      if (transcendental(st.body) && other) turn.vector += points / (operations_per_second(m, *other, DType::f32) / cores) / 2;
    }
    return turn;
  }
  // Whether data decides, point by point, what counts.
  bool masked() const {
    const std::function<bool(const ScalarRef&)> reads = [&](const ScalarRef& g) {
      return g && ((g->op == Op::read && g->dtype == DType::boolean) || std::any_of(g->args.begin(), g->args.end(), reads));
    };
    return std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return reads(p.statement(id)->guard); });
  }

  // Bands that could be: as many of the innermost batch as the cache keeps what they stream of, and more, which share their turns better
  // but read it again.
  const std::vector<Band>& bands(const Schedule& s, std::int64_t blocks) const {
    const std::int64_t inner = s.steps.size() < 3 ? 1 : extent(s.steps[s.steps.size() - 3].axis), chunk = s.steps.back().size;
    std::vector<Band>& list = known[{s.threads, chunk, blocks}];
    if (!list.empty()) return list;
    const auto lengths = turns_of(s);
    std::int64_t outer = 1, row = 0;
    for (std::size_t i = 0; i + 3 < s.steps.size(); ++i) outer *= ceil_div_i64(extent(s.steps[i].axis), s.steps[i].size);
    for (const Transfer& t : transfers(p, r, s))
      if (!t.store && is_operand(t.tensor) && t.depth == static_cast<int>(s.steps.size()))
        row += static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype)) * p.tensor(t.tensor).dims[static_cast<std::size_t>(layouts[static_cast<std::size_t>(t.tensor)].back())].constant();
    const auto cache = find(m, LevelRole::cache);
    const std::int64_t kept = cache ? static_cast<std::int64_t>(m.levels[static_cast<std::size_t>(*cache)].usable) / 2 : 0, bytes = std::max<std::int64_t>(row, 1) * extent(stream);
    const bool uneven = std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) != lengths.end();
    double turns = 0;
    for (double n : lengths) turns += n;
    const double all = turns * static_cast<double>(inner * outer * chunk * row);
    for (std::int64_t n = std::clamp<std::int64_t>(kept / bytes, 1, inner);; n = std::min(2 * n, inner)) {
      const double share = !uneven || n * bytes <= kept ? 0 : std::min(1.0, static_cast<double>(n) / static_cast<double>(blocks));
      list.push_back({uneven ? n : 0, tile_shares(lengths, inner, outer, n, blocks), all * share});
      if (!uneven || n == inner) return list;
    }
  }

  // The best of them, which the schedule gets; seconds.
  double choose_band(Schedule& s, std::int64_t tiles) const {
    // A turn's parts beside one another, as well as they were seen to go; a tile's ends: its rows come, the first turn stands alone, results leave.
    constexpr double power = 1.5;
    const bool ahead = std::all_of(s.values.begin(), s.values.end(), [](const ValueAt& v) { return v.stages > 1; });
    const double ends = ahead ? 0.6e-6 : 1.0e-6;
    const auto [tensor, vector] = turn_of(s);
    const double alone = tensor + vector, turn = s.threads < 256 ? alone : std::pow(std::pow(tensor, power) + std::pow(vector, power), 1 / power);
    const std::int64_t cores = std::max<std::int64_t>(1, std::min<std::int64_t>(tiles, s.blocks > 0 ? s.blocks : m.core.count));
    const double rate = bytes_per_second(m, level_of(m, LevelRole::memory)) * std::min<double>(m.core.count, 2.0 * static_cast<double>(cores)) / static_cast<double>(m.core.count);
    const auto compulsory = static_cast<double>(cost(p, r, s, m).compulsory);
    double best = std::numeric_limits<double>::infinity();
    for (const Band& band : bands(s, cores)) {
      double body = 0;
      for (const TileShare& share : band.shares) body = std::max(body, static_cast<double>(share.tiles) * (ends + alone) + share.turns * turn);
      const double t = std::max(body, std::max(compulsory, band.read) / rate);
      if (t < 0.995 * best) best = t, s.band = band.batches;
    }
    return best + m.launch.step;
  }

  void try_one(int groups, std::int64_t chunk, int stages, int rows_ahead, int cluster, std::vector<BlockChoice>& found) const {
    Schedule s;
    s.threads = 128 * groups, s.fragments = true, s.resident = 1, s.overlapped = may_overlap();
    if (extent(stream) <= chunk || chunk % 16 || s.threads + 128 > m.core.block_threads) return;
    // What a mask leaves out begins and ends at powers of two, mostly: turns that do not would lie across it.
    if (masked() && (chunk & (chunk - 1))) return;
    const bool uneven = std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return p.statement(id)->guard != nullptr; });
    if (registers(chunk, uneven) > role_registers(s.threads, 1, true, static_cast<int>(m.core.registers)).computing) return;
    for (RegionAxis a : batch) s.steps.push_back({AxisStep::How::tile, a, 1});
    s.steps.push_back({AxisStep::How::tile, rows, 64 * groups});
    s.steps.push_back({AxisStep::How::stream, stream, chunk});
    // Few rows are filled up to what one group has.
    if ((groups > 1 && extent(rows) < 64 * groups) || !legality(p, r, s, m).empty()) return;
    // Blocks of a cluster share boxes, so they must take the same turns.
    if (cluster > 1 && (!live_turns(p, r, s).every() || masked() || !in_clusters(r, s, cluster))) return;
    std::int64_t tiles = 1;
    for (const AxisStep& step : s.steps)
      if (step.how == AxisStep::How::tile) tiles = checked_mul(tiles, ceil_div_i64(extent(step.axis), step.size));
    const std::int64_t cores = m.core.count / cluster * cluster;
    if (tiles > cores) s.blocks = cores;
    if (rows_ahead > 1 && s.blocks == 0) return;
    if (!place(s, stages, rows_ahead) || scratch_of_boxes(p, r, s) > m.core.block_scratch) return;
    const double t = choose_band(s, tiles);
    found.push_back({std::move(s), t});
  }
};

}  // namespace

std::vector<BlockChoice> fragment_choices(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  FragmentChooser c{p, r, m, layouts};
  std::vector<BlockChoice> found;
  if (!c.find_axes()) return row_choices(p, r, m, layouts);
  const DType type = p.tensor(contraction(p, c.statement(c.contractions[0]))->b->tensor).dtype;
  if (!group_unit(m, type)) return found;
  for (int groups : {3, 2, 1})
    for (std::int64_t chunk : {64, 80, 96, 112, 128, 144, 160, 176, 192, 256})
      for (int stages : {4, 3, 2})
        for (int rows_ahead : {2, 1})
          for (int cluster : {1, 2}) c.try_one(groups, chunk, stages, rows_ahead, cluster, found);
  if (found.empty()) return row_choices(p, r, m, layouts);
  auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
  std::stable_sort(found.begin(), found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
  return found;
}

}  // namespace tilewright
