#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/block_price.h"
#include "plan/bulk_boxes.h"
#include "plan/row_slots.h"
#include "schedule/role_registers.h"

namespace tilewright {

namespace {

// Rows that one contraction makes turn by turn, of as many columns as registers hold, and reductions of these columns behind the last turn:
// a part of a vocabulary for some tokens, of which only its states leave.
//
//   S[z t v] = sum[m] H[t m] * W[256*z+v m];  M[z t] = max[v] S;  Z[z t] = sum[v] exp(S - M)        tile t 128, tile z 1, stream m 64
struct RowChooser {
  const Program& p;
  const Region& r;
  const Machine& m;
  const std::vector<DimOrder>& layouts;
  std::size_t product = 0;                        // the contraction
  RegionAxis walked = -1, columns = -1, rows = -1;
  std::vector<RegionAxis> around{}, beside{};     // cut to single elements: of both operands or the rows', of the columns' operand
  std::optional<Contraction> c{};

  static constexpr std::int64_t chunk = 64, most_columns = 256;

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }
  RegionAxis axis(std::size_t i, AxisId a) const {
    const auto x = plain_axis(r.image[i][static_cast<std::size_t>(a)]);
    return x ? *x : -1;
  }
  bool mentions(std::size_t i, RegionAxis x) const {
    return std::any_of(r.image[i].begin(), r.image[i].end(), [&](const Index& index) { return mentions_axis(index, x); });
  }

  // One contraction; all other reductions run along one axis of its result.
  bool find_reductions() {
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = statement(i);
      if (st.reduced.empty()) continue;
      if (const auto own = contraction(p, st)) {
        if (c || own->k.size() != 1) return false;
        c = *own, product = i, walked = axis(i, own->k[0]);
        continue;
      }
      if (st.reduced.size() != 1 || st.reducer == Reducer::argmax || st.reducer == Reducer::argmin) return false;
      const RegionAxis x = axis(i, st.reduced[0]);
      if (x < 0 || (columns >= 0 && x != columns)) return false;
      columns = x;
    }
    return c && columns >= 0 && walked >= 0 && extent(columns) <= most_columns && extent(columns) % 16 == 0 && extent(walked) % chunk == 0 && extent(walked) > chunk;
  }
  bool find_axes() {
    if (!find_reductions()) return false;
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (i != product && mentions(i, walked)) return false;
    const auto along = [&](const std::vector<AxisId>& list) { return std::any_of(list.begin(), list.end(), [&](AxisId a) { return axis(product, a) == columns; }); };
    if (!along(c->m) && !along(c->n)) return false;
    const auto &own = along(c->n) ? c->n : c->m, &other = along(c->n) ? c->m : c->n;
    for (AxisId a : other)
      if (const RegionAxis x = axis(product, a); x >= 0 && (rows < 0 || extent(x) > extent(rows))) rows = x;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (x == walked || x == columns || x == rows || extent(x) == 1) continue;
      const bool of_columns = std::any_of(own.begin(), own.end(), [&](AxisId a) { return axis(product, a) == x; });
      if (!laws(p, r, x).tile) return false;
      (of_columns ? beside : around).push_back(x);
    }
    return rows >= 0;
  }

  std::vector<AxisStep> steps(std::int64_t height) const {
    std::vector<AxisStep> list;
    for (RegionAxis a : around) list.push_back({AxisStep::How::tile, a, 1});
    list.push_back({AxisStep::How::tile, rows, height});
    for (RegionAxis a : beside) list.push_back({AxisStep::How::tile, a, 1});
    list.push_back({AxisStep::How::stream, walked, chunk});
    return list;
  }

  bool place(Schedule& s, int stages) const {
    for (const Transfer& t : transfers(p, r, s)) {
      if (t.store || (t.tensor != c->a->tensor && t.tensor != c->b->tensor)) continue;
      if (t.depth != static_cast<int>(s.steps.size())) return false;
      ValueAt v{t.tensor, LevelRole::scratch, layouts[static_cast<std::size_t>(t.tensor)], 0, true, stages, 0, true};
      v.kept = 1;                                  // products of a turn go on while the next one's boxes are waited for
      s.values.push_back(std::move(v));
    }
    return comes_in_boxes(p, r, s, layouts);
  }

  // Seconds: of a tile its products, however they come, then its columns; what stands behind is hidden by no other.
  double seconds(const Schedule& s, std::int64_t tiles) const {
    const double cores = m.core.count, height = static_cast<double>(s.threads / 2), width = static_cast<double>(extent(columns)), depth = static_cast<double>(extent(walked));
    const DType type = p.tensor(c->b->tensor).dtype;
    const auto fma = unit_for(m, UnitKind::fma, DType::f32), special = unit_for(m, UnitKind::special, DType::f32);
    const double tensor = 2 * height * width * depth / (operations_per_second(m, *group_unit(m, type), type) / cores);
    const auto cache = find(m, LevelRole::cache);
    const double shared = s.cluster > 1 && !beside.empty() ? width : height, all = height + width - (s.cluster > 1 ? shared / 2 : 0);
    const double copied = all * depth * static_cast<double>(bytes_of(type)) / (bytes_per_second(m, cache ? *cache : level_of(m, LevelRole::memory)) / cores);
    double behind = 0.6e-6;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (i == product || !mentions(i, columns)) continue;
      behind += row_slots(statement(i)) * height * width / (operations_per_second(m, *fma, DType::f32) / 2 / cores);
      if (special && transcendental(statement(i).body)) behind += height * width / (operations_per_second(m, *special, DType::f32) / cores) / 2;
    }
    const double tile = std::pow(std::pow(tensor, 4) + std::pow(copied, 4), 0.25) + behind;
    const double rounds = std::ceil(static_cast<double>(tiles) / static_cast<double>(s.blocks > 0 ? s.blocks : m.core.count));
    return std::max(rounds * tile, static_cast<double>(cost(p, r, s, m).compulsory) / bytes_per_second(m, level_of(m, LevelRole::memory))) + m.launch.step;
  }

  void try_one(int groups, int stages, int cluster, std::vector<BlockChoice>& found) const {
    Schedule s;
    s.threads = 128 * groups, s.fragments = true, s.resident = 1, s.steps = steps(64 * groups);
    if (s.threads + 128 > m.core.block_threads || (groups > 1 && extent(rows) < 64 * groups) || !legality(p, r, s, m).empty()) return;
    if (extent(columns) / 2 + 72 > role_registers(s.threads, 1, true, static_cast<int>(m.core.registers)).computing) return;
    std::int64_t tiles = 1;
    for (const AxisStep& step : s.steps)
      if (step.how == AxisStep::How::tile) tiles = checked_mul(tiles, ceil_div_i64(extent(step.axis), step.size));
    // Blocks that run together read about as many rows as columns; neighbours share the columns.
    if (!beside.empty()) {
      std::int64_t band = 2;
      while (2 * band * band * s.threads / 2 <= 2 * static_cast<std::int64_t>(m.core.count) * extent(columns)) band *= 2;
      s.band = std::min(band, ceil_div_i64(extent(rows), 64 * groups));
    }
    if (cluster > 1 && !in_clusters(r, s, cluster)) return;
    const std::int64_t cores = m.core.count / cluster * cluster;
    if (tiles > cores) s.blocks = cores;
    if (!place(s, stages) || scratch_of_boxes(p, r, s) > m.core.block_scratch) return;
    const double t = seconds(s, tiles);
    found.push_back({std::move(s), t});
  }
};

}  // namespace

std::vector<BlockChoice> row_choices(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  RowChooser chooser{p, r, m, layouts};
  std::vector<BlockChoice> found;
  if (!chooser.find_axes() || !group_unit(m, p.tensor(chooser.c->b->tensor).dtype)) return found;
  for (int groups : {2, 1})
    for (int stages : {4, 3})
      for (int cluster : {1, 2}) chooser.try_one(groups, stages, cluster, found);
  std::stable_sort(found.begin(), found.end(), [](const BlockChoice& a, const BlockChoice& b) { return std::llround(a.seconds * 1e12) < std::llround(b.seconds * 1e12); });
  return found;
}

}  // namespace tilewright
