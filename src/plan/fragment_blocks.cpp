#include <algorithm>
#include <cmath>

#include "law/stream.h"
#include "plan/block_price.h"
#include "plan/bulk_boxes.h"

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

  bool find_axes() {
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (contraction(p, statement(i))) contractions.push_back(i);
    if (contractions.empty()) return false;
    const auto all = roles(p, r);
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (all[static_cast<std::size_t>(x)].reducer != Reducer::none && needs_stream(p, r, x)) {
        if (stream >= 0) return false;
        stream = x;
      }
    }
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (x == stream || extent(x) == 1) continue;
      bool of_rows = true, of_batch = true;
      for (std::size_t i : contractions) {
        const auto c = contraction(p, statement(i));
        of_rows &= runs(i, c->m, x) || runs(i, c->n, x), of_batch &= runs(i, c->batch, x);
      }
      if (of_batch) batch.push_back(x);
      else if (of_rows && laws(p, r, x).tile && (rows < 0 || extent(x) > extent(rows))) rows = x;
    }
    return stream >= 0 && rows >= 0;
  }

  // Operands of contractions that come from outside, in boxes: those of a turn in a ring.
  bool place(Schedule& s, int stages) const {
    const Boundary b = boundary(p, r);
    for (const Transfer& t : transfers(p, r, s)) {
      if (t.store) continue;
      const bool operand = std::any_of(contractions.begin(), contractions.end(), [&](std::size_t i) {
        const auto c = contraction(p, statement(i));
        return c->a->tensor == t.tensor || c->b->tensor == t.tensor;
      });
      if (!operand) continue;
      ValueAt v{t.tensor, LevelRole::scratch, layouts[static_cast<std::size_t>(t.tensor)], 0, true, 1, 0, true};
      if (t.depth == static_cast<int>(s.steps.size())) v.stages = stages, v.kept = s.overlapped ? 1 : 0;
      else if (t.depth + 1 != static_cast<int>(s.steps.size())) return false;
      s.values.push_back(std::move(v));
    }
    return comes_in_boxes(p, r, s, layouts);
  }

  // Of a thread: what a turn makes of 64 rows by a group's 128 threads, its packed form, the states, and what goes with them.
  std::int64_t registers(std::int64_t chunk) const {
    std::int64_t held = 64;
    for (std::size_t i : contractions) {
      const auto c = contraction(p, statement(i));
      std::int64_t columns = 1;
      for (AxisId a : runs(i, c->n, rows) ? c->m : c->n) columns *= statement(i).axes[static_cast<std::size_t>(a)].constant();
      const bool along = runs(i, c->n, stream) || runs(i, c->m, stream);
      held += along ? chunk / 2 + chunk / 4 : columns / 2;
    }
    return held;
  }

  double seconds(const Schedule& s, const Cost& moved) const {
    const double cores = m.core.count, blocks = static_cast<double>(std::max<std::int64_t>(moved.tiles, 1));
    double tensor = 0, issue = 0, special = 0;
    const auto fma = unit_for(m, UnitKind::fma, DType::f32), other = unit_for(m, UnitKind::special, DType::f32);
    for (std::size_t i = 0; i < moved.done.size() && i < r.statements.size(); ++i) {
      const auto c = contraction(p, statement(i));
      if (c) {
        const DType type = p.tensor(c->b->tensor).dtype;
        if (const auto unit = group_unit(m, type)) tensor += 2 * static_cast<double>(moved.done[i].multiply_adds) / operations_per_second(m, *unit, type);
        continue;
      }
      issue += 2.0 * static_cast<double>(moved.done[i].operations) / operations_per_second(m, *fma, DType::f32);
      if (transcendental(statement(i).body) && other) special += static_cast<double>(moved.done[i].points) / operations_per_second(m, *other, DType::f32);
    }
    const double turns_of_all = blocks * std::ceil(static_cast<double>(extent(stream)) / static_cast<double>(s.steps.back().size));
    constexpr double turn = 150e-9;      // barriers, reductions over the threads of a row, and the ends of both contractions
    const double groups = s.threads / 128.0, vector = issue + special + turns_of_all / cores * turn;
    // Groups take turns: while one multiplies, the others prepare; the more there are, the better it fits.
    const double together = groups < 2 ? tensor + vector : std::pow(std::pow(tensor, 2) + std::pow(vector, 2), 0.5);
    const double turns = std::ceil(blocks / cores) * cores / blocks;
    return together * turns + m.launch.step;
  }

  void try_one(int groups, std::int64_t chunk, int stages, int cluster, std::vector<BlockChoice>& found) const {
    Schedule s;
    s.threads = 128 * groups, s.fragments = true, s.resident = 1, s.overlapped = stages > 2 && contractions.size() > 1;
    if (extent(stream) <= chunk || chunk % 16 || s.threads + 128 > m.core.block_threads) return;
    const int copying = 40;
    if (registers(chunk) > std::min<std::int64_t>((m.core.registers - 128 * copying) / s.threads / 8 * 8, 240)) return;
    for (RegionAxis a : batch) s.steps.push_back({AxisStep::How::tile, a, 1});
    s.steps.push_back({AxisStep::How::tile, rows, 64 * groups});
    s.steps.push_back({AxisStep::How::stream, stream, chunk});
    if (extent(rows) < 64 * groups || !legality(p, r, s, m).empty()) return;
    // Blocks of a cluster share boxes, so they must take the same turns.
    if (cluster > 1 && (!live_turns(p, r, s).every() || !in_clusters(r, s, cluster))) return;
    if (!place(s, stages) || scratch_of_boxes(p, r, s) > m.core.block_scratch) return;
    const Cost moved = cost(p, r, s, m);
    const std::int64_t cores = m.core.count / cluster * cluster;
    if (moved.tiles > cores) s.blocks = cores;
    const double t = seconds(s, moved);
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
    for (std::int64_t chunk : {64, 80, 96, 112, 128, 160, 176, 192, 256})
      for (int stages : {3, 2})
        for (int cluster : {1, 2}) c.try_one(groups, chunk, stages, cluster, found);
  auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
  std::stable_sort(found.begin(), found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
  return found;
}

}  // namespace tilewright
