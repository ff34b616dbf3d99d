#include "plan/gathered_blocks.h"

#include <algorithm>
#include <cmath>

#include "law/permute.h"
#include "plan/block_shape_inl.h"

namespace tilewright {

namespace {

struct GatheredChooser : BlockShape {
  const PlanOptions& o;
  std::vector<BlockChoice> found{};
  // The product, as the leaves see it.
  std::size_t at = 0;
  Statement product{};
  Contraction c{};

  // ---- what is expected to live

  double live_of(TensorId t) const {
    const auto said = o.live_of.find(p.tensor(t).name);
    return said == o.live_of.end() ? o.live : said->second;
  }
  std::int64_t axis_extent(AxisId a) const { return product.axes[static_cast<std::size_t>(a)].constant(); }

  // ---- one candidate

  struct Tiles {
    OperandAt view;
    RegionAxis row = -1, column = -1, products = -1;
    std::int64_t rows = 1, columns = 1, chunk = 1;
    std::vector<RegionAxis> single;              // cut to single points
    double blocks = 1, turns = 1;                // that are expected; of each of them
    double index = 0;                            // seconds to find what lives
    bool along = false;                          // slots are those of a stream of products
    double live = 1;                             // share of micro-tiles
  };

  void place(Schedule& s, bool swizzled) const {
    for (const Access* a : {c.a, c.b}) {
      const auto width = width_of(a->tensor);
      ValueAt v{a->tensor, LevelRole::scratch, layouts[static_cast<std::size_t>(a->tensor)], 16 / width};
      if (swizzled) v.pad = 0, v.swizzled = true, v.kept = 1;
      s.values.push_back(std::move(v));
    }
  }
  // Bytes of the operands' boxes, of one stage.
  std::int64_t stage_bytes(const Tiles& t, bool padded) const {
    const auto one = [&](const Access& a, std::int64_t wide) {
      const DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
      const auto inner = plain_axis(a.at[static_cast<std::size_t>(order.back())]);
      const bool along = inner && std::count(product.reduced.begin(), product.reduced.end(), *inner) > 0;
      const std::int64_t row = along ? t.chunk : wide, count = along ? wide : t.chunk, pad = padded ? 16 / width_of(a.tensor) : 0;
      return ceil_div_i64((row + pad) * count * width_of(a.tensor), 1024) * 1024;
    };
    return one(*c.a, t.rows) + one(*c.b, t.columns);
  }

  double tensor_bytes(TensorId t) const {
    double bytes = static_cast<double>(width_of(t));
    for (const Size& d : p.tensor(t).dims) bytes *= static_cast<double>(d.constant());
    return bytes;
  }
  // Blocks that follow one another share a panel of columns, or the rows of a group. Which of them costs less from memory: a panel is read
  // once, and the first operand once for each panel unless the near half of a cache keeps what is touched of it; or the other way about.
  // What is touched are the pieces of 64 bytes with a live element in them, and rows that live in some group of those that run together.
  bool columns_first(const Tiles& t) const {
    const double near = static_cast<double>(m.levels[static_cast<std::size_t>(find(m, LevelRole::cache).value_or(level_of(m, LevelRole::memory)))].usable) / 2;
    const auto inner = layouts[static_cast<std::size_t>(t.view.tensor)].back();
    const auto dim = std::find(t.view.dims.begin(), t.view.dims.end(), static_cast<std::size_t>(inner));
    const double wide = dim == t.view.dims.end() ? 1 : static_cast<double>(t.view.unit[static_cast<std::size_t>(dim - t.view.dims.begin())]);
    const auto some = [&](double of) { return 1 - std::pow(1 - t.live, std::max(1.0, of)); };
    const double groups = std::ceil(static_cast<double>(extent(t.row)) / static_cast<double>(t.rows)), panels = std::ceil(static_cast<double>(extent(t.column)) / static_cast<double>(t.columns));
    const double together = m.core.count, own = tensor_bytes(c.a->tensor) * some(64.0 / static_cast<double>(width_of(c.a->tensor)) / wide), other = tensor_bytes(c.b->tensor);
    const double by_panels = own * (own <= near ? 1 : std::ceil(panels / std::max(1.0, together / groups))) + other * some(groups);
    const double beside = std::max(1.0, together / panels), waves = std::ceil(groups / beside);
    const double by_groups = own + other * std::min(other <= near ? some(groups) : waves, waves * some(beside));
    return by_panels < by_groups;
  }

  Schedule steps_of(const Tiles& t, int threads) const {
    Schedule s;
    s.threads = threads;
    for (RegionAxis a : t.single)
      if (extent(a) > 1) s.steps.push_back({AxisStep::How::tile, a, 1});
    std::pair<RegionAxis, std::int64_t> tiles[] = {{t.row, t.rows}, {t.column, t.columns}};
    if (t.along && t.view.tensor == c.a->tensor && columns_first(t)) std::swap(tiles[0], tiles[1]);
    for (const auto& [axis, size] : tiles)
      if (size < extent(axis)) s.steps.push_back({AxisStep::How::tile, axis, size});
    if (t.chunk < extent(t.products)) s.steps.push_back({AxisStep::How::stream, t.products, t.chunk});
    s.operands = {t.view};
    return s;
  }

  double efficiency(const LeafAt& l) const {
    if (l.group) return 0.85;
    if (l.tensor) {
      const double work = l.rows * l.columns, read = (l.rows + l.columns) * 16.0;
      return std::min(0.95, work / (work + 1.2 * read));
    }
    double points = 1, sides = 0;
    for (std::int64_t n : l.tile) points *= static_cast<double>(n), sides += n > 1 ? static_cast<double>(n) : 0;
    return points / (points + sides + 6);
  }
  // All blocks in waves, bound by arithmetic or by what the cache gives; the index, the launch, and the ends of a block.
  double seconds(const Tiles& t, const Schedule& s, const LeafAt& leaf, std::int64_t scratch) const {
    const DType type = p.tensor(c.a->tensor).dtype;
    const auto unit = leaf.group ? group_unit(m, type) : leaf.tensor ? warp_unit(m, type) : unit_for(m, UnitKind::fma, DType::f32);
    const double products = t.turns * static_cast<double>(t.chunk), work = 2.0 * static_cast<double>(t.rows * t.columns) * products;
    const DType seen = leaf.tensor ? type : DType::f32;
    const double one = unit ? seconds_for(m, *unit, seen, work, efficiency(leaf)) * m.core.count : INFINITY;
    const double bytes = products * static_cast<double>(t.rows * width_of(c.a->tensor) + t.columns * width_of(c.b->tensor));
    const LevelId near = find(m, LevelRole::cache).value_or(level_of(m, LevelRole::memory));
    const double fit = static_cast<double>(std::max<std::int64_t>(1, std::min({m.core.block_scratch / std::max<std::int64_t>(scratch, 1), std::int64_t{1536} / s.threads, std::int64_t{4}})));
    const double together = m.core.count * fit, waves = std::ceil(t.blocks / together);
    const double fed = bytes * m.core.count / bytes_per_second(m, near);
    const double turn = leaf.tensor && !leaf.group ? 2.2e-7 : 6e-8;   // threads meet, and ask for copies
    const double met = t.turns * turn;
    const double ends = 3 * m.latency.copy + 2e-9 * static_cast<double>(t.rows * t.columns) / 64;
    const double body = waves * (met + std::max(one, fed) * std::min(fit, std::ceil(t.blocks / m.core.count)) + ends);
    return std::max(body, t.blocks * std::max(one, fed) / m.core.count) + t.index + m.launch.step;
  }

  void offer(const Tiles& t) {
    const DType type = p.tensor(c.a->tensor).dtype;
    for (int threads : {128, 256}) {
      Schedule s = steps_of(t, threads);
      std::vector<std::pair<LeafAt, bool>> leaves;            // and whether its operands are swizzled
      if (type == p.tensor(c.b->tensor).dtype && warp_unit(m, type) && t.chunk % 16 == 0) {
        if (const auto leaf = tensor_leaf(at, t.rows, t.columns, t.chunk, static_cast<std::int64_t>(std::ceil(t.turns)), threads / 32); leaf && leaf->warps_k == 1) leaves.emplace_back(*leaf, false);
        if ((t.chunk == 64 || (t.along && t.chunk == 32)) && t.rows == threads / 2 && t.columns % 64 == 0 && t.columns <= 256 && group_unit(m, type) && whole_pieces(t))
          leaves.emplace_back(LeafAt{r.statements[at], true, true, {}, threads / 32, 1, 16, static_cast<int>(t.columns)}, true);
      }
      if (leaves.empty()) {
        for (const Limits& most : {Limits{8, 4, 2}, Limits{8, 4, 1}, Limits{4, 4, 1}, Limits{4, 2, 1}}) leaves.emplace_back(vector_leaf(s, at, most), false);
      }
      for (const auto& [leaf, swizzled] : leaves) {
        std::int64_t held = leaf.tensor ? leaf.rows * leaf.columns / 32 : 0;
        if (!leaf.tensor) {
          std::int64_t box = 1;
          for (std::int64_t n : leaf.tile) box *= n;
          held = box * ceil_div_i64(t.rows * t.columns, box * threads);
        }
        if (held > 128 || leaf.rows * leaf.warps_m > 2 * t.rows + 15) continue;
        for (int stages : {2, 3, 4}) {
          if (stages > 2 && t.turns < stages) break;
          if (swizzled && stages < 3) continue;
          Schedule made = s;
          place(made, swizzled);
          for (ValueAt& v : made.values) v.stages = t.chunk < extent(t.products) ? stages : 1;
          const std::int64_t scratch = stages * stage_bytes(t, !swizzled);
          if (scratch > m.core.block_scratch) break;
          made.leaves = {leaf};
          made.resident = static_cast<int>(std::clamp<std::int64_t>(std::min(m.core.block_scratch / scratch, 65536 / ((held + 72) * threads)), 1, 4));
          // More stages hide more of a copy.
          const double hidden = 1 + 0.12 / (stages - 1);
          found.push_back({made, hidden * seconds(t, made, leaf, scratch)});
        }
      }
    }
  }
  // Whether an operand lies with what is reduced innermost.
  bool contiguous(const Access& a, bool reduced) const {
    const auto inner = plain_axis(a.at[static_cast<std::size_t>(layouts[static_cast<std::size_t>(a.tensor)].back())]);
    return inner && (std::count(product.reduced.begin(), product.reduced.end(), *inner) > 0) == reduced;
  }

  // Whether 16 bytes of an operand have one slot: rows of products where rows are listed; rows or columns where products are.
  bool whole_pieces(const Tiles& t) const {
    return t.along ? contiguous(*c.a, false) && contiguous(*c.b, false) && !c.m.empty() && of(c.m.back()) == t.row : contiguous(*c.a, true);
  }

  // ---- what is tiled

  RegionAxis of(AxisId a) const { return region_axis(at, a); }
  // All axes of the product but the last row, the last column and the reduced one are single points.
  std::optional<Tiles> frame() const {
    Tiles t;
    if (c.m.empty() || c.n.empty() || product.reduced.size() != 1 || c.k.size() != 1) return std::nullopt;
    t.row = of(c.m.back()), t.column = of(c.n.back()), t.products = of(c.k[0]);
    for (AxisId a : c.batch) t.single.push_back(of(a));
    for (std::size_t i = 0; i + 1 < c.m.size(); ++i) t.single.push_back(of(c.m[i]));
    for (std::size_t i = 0; i + 1 < c.n.size(); ++i) t.single.push_back(of(c.n[i]));
    for (RegionAxis a : t.single)
      if (a < 0) return std::nullopt;
    if (t.row < 0 || t.column < 0 || t.products < 0) return std::nullopt;
    return t;
  }
  double singles(const Tiles& t) const {
    double n = 1;
    for (RegionAxis a : t.single) n *= static_cast<double>(extent(a));
    return n;
  }
  double detecting(const OperandAt& v) const {
    return m.launch.step + tensor_bytes(v.source) / bytes_per_second(m, level_of(m, LevelRole::memory));
  }

  void columns(OperandAt view) {
    auto frame_ = frame();
    if (!frame_) return;
    Tiles t = *frame_;
    const Access& a = c.a->tensor == view.tensor ? *c.a : *c.b;
    std::size_t packed = SIZE_MAX, tall = SIZE_MAX;
    for (std::size_t i = 0; i < view.dims.size(); ++i) {
      const auto x = plain_axis(a.at[view.dims[i]]);
      if (!x) return;
      if (of(*x) == t.products) packed = i;
      else if (of(*x) == (&a == c.a ? t.row : t.column)) tall = i;
      else if (view.unit[i] != 1) return;
    }
    if (packed == SIZE_MAX) return;
    view.packed = {packed};
    t.along = true;
    t.index = detecting(view);
    const std::int64_t wide = view.unit[packed];
    if (extent(t.products) % wide) return;
    const double said = live_of(view.tensor);
    const std::int64_t unit = tall == SIZE_MAX ? extent(&a == c.a ? t.row : t.column) : view.unit[tall];
    for (std::int64_t merged = 1; merged * unit <= 128 || merged == 1; merged *= 2) {
      if (tall != SIZE_MAX) view.unit[tall] = std::min(merged * unit, extent(&a == c.a ? t.row : t.column));
      const std::int64_t high = std::min<std::int64_t>(merged * unit, 128);
      if (merged * unit % high || high < 8) continue;
      const double live = 1 - std::pow(1 - said, static_cast<double>(merged));
      for (std::int64_t other : {64, 128, 256})
        for (std::int64_t chunk : {16, 32, 64}) {
          if (chunk % wide && wide % chunk) continue;
          t.view = view, t.live = live;
          t.chunk = std::max(chunk, wide);
          (&a == c.a ? t.rows : t.columns) = high;
          (&a == c.a ? t.columns : t.rows) = other;
          if (t.rows > extent(t.row) || t.columns > extent(t.column) || t.chunk > extent(t.products)) continue;
          t.blocks = singles(t) * static_cast<double>(ceil_div_i64(extent(t.row), t.rows) * ceil_div_i64(extent(t.column), t.columns));
          t.turns = live * static_cast<double>(extent(t.products)) / static_cast<double>(t.chunk) + 0.5;
          if (extent(t.products) > t.chunk) offer(t);
        }
    }
  }

  // Rows that live, or that have one key.
  void rows(const OperandAt& view, const std::vector<AxisId>& packed, double live, double keys) {
    auto frame_ = frame();
    if (!frame_ || packed.empty()) return;
    Tiles t = *frame_;
    const bool turned = std::count(c.m.begin(), c.m.end(), packed[0]) == 0 && std::count(c.batch.begin(), c.batch.end(), packed[0]) == 0;
    if (turned || !c.batch.empty()) return;                   // rows are those of the first operand
    double all = 1;
    for (AxisId a : packed) all *= static_cast<double>(axis_extent(a));
    // One of the packed axes has the step; the others go with it.
    t.row = of(*std::max_element(packed.begin(), packed.end(), [&](AxisId x, AxisId y) { return axis_extent(x) < axis_extent(y); }));
    for (AxisId a : packed) std::erase(t.single, of(a));
    for (AxisId a : c.m)
      if (!std::count(packed.begin(), packed.end(), a) && std::count(t.single.begin(), t.single.end(), of(a)) == 0) return;
    t.index = detecting(view);
    for (std::int64_t high : {2, 8, 32, 64, 128})
      for (std::int64_t wide : {std::min<std::int64_t>(64, extent(t.column)), std::int64_t{128}, std::int64_t{256}})
        for (std::int64_t chunk : {std::min<std::int64_t>(32, extent(t.products)), std::int64_t{64}}) {
          t.view = view, t.rows = high, t.columns = wide, t.chunk = chunk;
          if (high >= extent(t.row) || (high < 32 && extent(t.row) > 32) || wide > extent(t.column) || chunk > extent(t.products)) continue;
          t.blocks = singles(t) * (live * all / static_cast<double>(high) + 0.5 * keys) * static_cast<double>(ceil_div_i64(extent(t.column), wide));
          t.turns = static_cast<double>(ceil_div_i64(extent(t.products), chunk));
          offer(t);
        }
  }

  void look(std::size_t statement) {
    at = statement, product = *p.statement(r.statements[at]);
    if (const auto keyed = keyed_product(p, product)) {
      product = keyed->statement;
      if (const auto found_ = contraction(p, product)) c = *found_;
      else return;
      facts[at].contraction = c;
      std::vector<AxisId> packed;
      for (const Index& i : keyed->key.at)
        if (const auto x = plain_axis(i)) packed.push_back(*x);
      const double keys = static_cast<double>(p.tensor(keyed->operand).dims[keyed->dim].constant());
      return rows({keyed->operand, keyed->key.tensor, false, {keyed->dim}, {1}, {0}, {}}, packed, 1, keys);
    }
    const auto found_ = contraction(p, product);
    if (!found_) return;
    c = *found_;
    for (const OperandAt& view : choose_views(p, r, nullptr, o.strict, &layouts)) {
      const Access* a = c.a->tensor == view.tensor ? c.a : c.b->tensor == view.tensor ? c.b : nullptr;
      if (!a) continue;
      std::vector<AxisId> packed;
      bool along = false;
      std::int64_t unit = 1;
      for (std::size_t i = 0; i < view.dims.size(); ++i) {
        const auto x = plain_axis(a->at[view.dims[i]]);
        if (!x) return;
        const bool reduced = std::count(product.reduced.begin(), product.reduced.end(), *x) > 0;
        const bool several = p.tensor(view.tensor).dims[view.dims[i]].constant() > view.unit[i];
        along |= reduced && several;
        if (!reduced && (several || view.lengths)) packed.push_back(*x), unit *= view.unit[i];
      }
      if (along) columns(view);
      else if (32 % unit == 0) rows(view, packed, live_of(view.tensor), 1);
    }
  }
};

}  // namespace

std::vector<BlockChoice> gathered_choices(const Program& p, const Region& r, const Machine& m, const PlanOptions& o, const std::vector<DimOrder>& layouts) {
  GatheredChooser chooser{{p, r, m, layouts}, o};
  std::size_t reductions = 0;
  for (std::size_t i = 0; i < r.statements.size(); ++i) reductions += !p.statement(r.statements[i])->reduced.empty();
  if (reductions != 1) return {};
  for (std::size_t i = 0; i < r.statements.size(); ++i)
    if (!p.statement(r.statements[i])->reduced.empty()) chooser.look(i);
  auto picoseconds = [](const BlockChoice& c) { return std::llround(c.seconds * 1e12); };
  std::stable_sort(chooser.found.begin(), chooser.found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
  return std::move(chooser.found);
}

}  // namespace tilewright
