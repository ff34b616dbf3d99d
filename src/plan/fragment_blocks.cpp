#include <algorithm>
#include <cmath>
#include <functional>

#include "law/stream.h"
#include "plan/block_price.h"
#include "plan/bulk_boxes.h"
#include "schedule/role_registers.h"

namespace tilewright {

namespace {

bool transcendental(const ScalarRef& s) {
  if (s->op == Op::exp || s->op == Op::log || s->op == Op::tanh || s->op == Op::erf || s->op == Op::pow) return true;
  return std::any_of(s->args.begin(), s->args.end(), transcendental);
}

// Kernels of rows in registers: a stream whose sums follow statistics of rows, with contractions on the instructions of four warps.
// Batch axes are cut to single elements, the rows into groups of 64, operands come in boxes.
struct FragmentChooser {
  const Program& p;
  const Region& r;
  const Machine& m;
  const std::vector<DimOrder>& layouts;
  std::vector<std::size_t> contractions{};
  RegionAxis stream = -1, rows = -1;
  std::vector<RegionAxis> batch{};

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
    return rows >= 0;
  }

  bool is_operand(TensorId t) const {
    return std::any_of(contractions.begin(), contractions.end(), [&](std::size_t i) {
      const auto c = contraction(p, statement(i));
      return c->a->tensor == t || c->b->tensor == t;
    });
  }
  // Operands of contractions that come from outside, in boxes: those of a turn in rings.
  bool place(Schedule& s, int stages) const {
    for (const Transfer& t : transfers(p, r, s)) {
      if (t.store || !is_operand(t.tensor)) continue;
      ValueAt v{t.tensor, LevelRole::scratch, layouts[static_cast<std::size_t>(t.tensor)], 0, true, 1, 0, true};
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
    if (turns.every() || n * all > (1 << 16)) return list;
    std::vector<std::int64_t> v(2 * s.steps.size(), 0);
    for (std::size_t i = 0; i + 2 < s.steps.size(); ++i) v[2 * i + 1] = s.steps[i].size;
    const std::size_t row = 2 * (s.steps.size() - 2), turn = row + 2;
    for (std::int64_t t = 0; t < n; ++t) {
      v[row] = t * height, v[row + 1] = std::min((t + 1) * height, extent(rows));
      double live = 0;
      for (std::int64_t x = 0; x < extent(stream); x += chunk) v[turn] = x, v[turn + 1] = std::min(x + chunk, extent(stream)), live += turns.live(v.data());
      list[static_cast<std::size_t>(t)] = std::max(1.0, live);
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
      turn.vector += slots(st) * points / (operations_per_second(m, *fma, DType::f32) / 2 / cores);
      if (transcendental(st.body) && other) turn.vector += points / (operations_per_second(m, *other, DType::f32) / cores) / 2;
    }
    return turn;
  }
  // Instructions a point, of a map or a reduction: those of extremes and roundings take two slots.
  double slots(const Statement& st) const {
    if (st.reducer != Reducer::none) return st.reducer == Reducer::sum ? 1 : 2;
    double n = 0;
    const std::function<void(const ScalarRef&)> visit = [&](const ScalarRef& x) {
      if (!x->args.empty()) n += x->op == Op::cast ? 0.5 : 1;
      for (const ScalarRef& a : x->args) visit(a);
    };
    visit(st.body);
    return std::max(n, 1.0);
  }

  // Tiles with most turns come first and rounds go there and back: the sum of a block that has the first of them, one from the middle, the last.
  static double longest_share(std::vector<double> lengths, std::int64_t batches, std::int64_t blocks) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    const std::int64_t all = static_cast<std::int64_t>(lengths.size()) * batches;
    double worst = 0;
    for (std::int64_t block : {std::int64_t{0}, blocks / 2, blocks - 1}) {
      double sum = 0;
      for (std::int64_t round = 0; round * blocks < all; ++round) {
        const std::int64_t here = std::min(blocks, all - round * blocks), own = round % 2 ? here - 1 - block : block;
        if (own >= 0 && own < here) sum += lengths[static_cast<std::size_t>((round * blocks + own) / batches)];
      }
      worst = std::max(worst, sum);
    }
    return worst;
  }

  double seconds(const Schedule& s, std::int64_t tiles) const {
    // A turn's parts beside one another, as well as they were seen to go; a tile's ends: its rows come, the first turn stands alone, results leave.
    constexpr double ends = 1.0e-6, power = 1.5;
    const auto lengths = turns_of(s);
    const auto [tensor, vector] = turn_of(s);
    const double alone = tensor + vector, turn = s.threads < 256 ? alone : std::pow(std::pow(tensor, power) + std::pow(vector, power), 1 / power);
    std::vector<double> times;
    for (double n : lengths) times.push_back(ends + alone + n * turn);
    const std::int64_t cores = std::min<std::int64_t>(tiles, s.blocks > 0 ? s.blocks : m.core.count);
    const double body = longest_share(times, tiles / static_cast<std::int64_t>(lengths.size()), std::max<std::int64_t>(cores, 1));
    const double moved = static_cast<double>(cost(p, r, s, m).compulsory) / bytes_per_second(m, level_of(m, LevelRole::memory)) * static_cast<double>(m.core.count) / std::min<double>(m.core.count, 2.0 * static_cast<double>(cores));
    return std::max(body, moved) + m.launch.step;
  }

  // So many of the innermost batch together that what they stream stays in the cache, while tiles with most turns go first.
  std::int64_t band(const Schedule& s) const {
    const auto cache = find(m, LevelRole::cache);
    if (!cache || s.steps.size() < 3 || live_turns(p, r, s).every()) return 0;
    std::int64_t bytes = 1;
    for (const ValueAt& v : s.values)
      if (v.stages > 1) bytes += extent(stream) * static_cast<std::int64_t>(bytes_of(p.tensor(v.tensor).dtype)) * p.tensor(v.tensor).dims[static_cast<std::size_t>(v.order.back())].constant();
    const std::int64_t together = static_cast<std::int64_t>(m.levels[static_cast<std::size_t>(*cache)].usable) / 2 / bytes;
    return std::clamp<std::int64_t>(together, 1, extent(s.steps[s.steps.size() - 3].axis));
  }

  void try_one(int groups, std::int64_t chunk, int stages, int cluster, std::vector<BlockChoice>& found) const {
    Schedule s;
    s.threads = 128 * groups, s.fragments = true, s.resident = 1, s.overlapped = may_overlap();
    if (extent(stream) <= chunk || chunk % 16 || s.threads + 128 > m.core.block_threads) return;
    const bool uneven = std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return p.statement(id)->guard != nullptr; });
    if (registers(chunk, uneven) > role_registers(s.threads, 1, true, static_cast<int>(m.core.registers)).computing) return;
    for (RegionAxis a : batch) s.steps.push_back({AxisStep::How::tile, a, 1});
    s.steps.push_back({AxisStep::How::tile, rows, 64 * groups});
    s.steps.push_back({AxisStep::How::stream, stream, chunk});
    // Few rows are filled up to what one group has.
    if ((groups > 1 && extent(rows) < 64 * groups) || !legality(p, r, s, m).empty()) return;
    // Blocks of a cluster share boxes, so they must take the same turns.
    if (cluster > 1 && (!live_turns(p, r, s).every() || !in_clusters(r, s, cluster))) return;
    if (!place(s, stages) || scratch_of_boxes(p, r, s) > m.core.block_scratch) return;
    std::int64_t tiles = 1;
    for (const AxisStep& step : s.steps)
      if (step.how == AxisStep::How::tile) tiles = checked_mul(tiles, ceil_div_i64(extent(step.axis), step.size));
    const std::int64_t cores = m.core.count / cluster * cluster;
    if (tiles > cores) s.blocks = cores;
    s.band = band(s);
    const double t = seconds(s, tiles);
    found.push_back({std::move(s), t});
  }
};

}  // namespace

std::vector<BlockChoice> fragment_choices(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  FragmentChooser c{p, r, m, layouts};
  std::vector<BlockChoice> found;
  if (!c.find_axes()) return found;
  const DType type = p.tensor(contraction(p, c.statement(c.contractions[0]))->b->tensor).dtype;
  if (!group_unit(m, type)) return found;
  for (int groups : {3, 2, 1})
    for (std::int64_t chunk : {64, 80, 96, 112, 128, 144, 160, 176, 192, 256})
      for (int stages : {4, 3, 2})
        for (int cluster : {1, 2}) c.try_one(groups, chunk, stages, cluster, found);
  auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
  std::stable_sort(found.begin(), found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
  return found;
}

}  // namespace tilewright
