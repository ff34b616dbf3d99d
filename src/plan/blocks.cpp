#include <algorithm>
#include <cmath>

#include "plan/plan.h"

namespace tilewright {

namespace {

// A GPU's schedule of one region: tiles of the result's axes become blocks, the last contraction's products are streamed, its
// operands lie in scratch. Every combination of a small lattice is priced; what the machine cannot hold is left out.
struct BlockChooser {
  const Program& p;
  const Region& r;
  const Machine& m;
  const std::vector<DimOrder>& layouts;

  struct Cut { RegionAxis axis; std::vector<std::int64_t> sizes; };

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }
  RegionAxis region_axis(std::size_t i, AxisId a) const {
    const auto plain = plain_axis(r.image[i][static_cast<std::size_t>(a)]);
    return plain ? *plain : -1;
  }

  // The last contraction of the region: its tile is what the blocks are made of.
  std::optional<std::size_t> last_contraction() const {
    for (std::size_t i = r.statements.size(); i-- > 0;)
      if (contraction(p, statement(i))) return i;
    return std::nullopt;
  }

  static std::vector<std::int64_t> powers(std::int64_t extent, std::int64_t least, std::int64_t most) {
    std::vector<std::int64_t> list;
    for (std::int64_t n = least; n < extent && n <= most; n *= 2) list.push_back(n);
    if (list.empty() || extent <= most) list.push_back(extent);
    return list;
  }
  // Tiles of a spatial axis: equal parts, so that the last one is not ragged.
  static std::vector<std::int64_t> parts(std::int64_t extent, std::int64_t most) {
    std::vector<std::int64_t> list;
    for (std::int64_t n = 1; n <= extent; ++n) {
      const std::int64_t size = ceil_div_i64(extent, n);
      if (size <= most && (list.empty() || list.back() != size)) list.push_back(size);
      if (size <= 4) break;
    }
    return list;
  }

  // Which operands of a contraction take the tensor path, as warps of 16 x 8 fragments.
  std::optional<LeafAt> tensor_leaf(std::size_t i, std::int64_t rows, std::int64_t columns, int warps) const {
    if (columns % 16) return std::nullopt;
    LeafAt best;
    double least = INFINITY;
    for (int n = 1; n <= warps; n *= 2) {
      if (columns % (16 * n)) continue;
      LeafAt leaf{r.statements[i], true, {}, warps / n, n, 0, static_cast<int>(columns / n)};
      leaf.rows = static_cast<int>(ceil_div_i64(ceil_div_i64(rows, leaf.warps_m), 16) * 16);
      if (leaf.rows * leaf.columns > 64 * 64) continue;                       // accumulators of a thread: 128 registers
      const double reads = 1.0 / leaf.rows + 1.0 / leaf.columns;              // scratch read a multiply-add
      const double waste = static_cast<double>(leaf.rows * leaf.warps_m) / static_cast<double>(rows);
      if (reads * waste < least) least = reads * waste, best = leaf;
    }
    if (std::isinf(least)) return std::nullopt;
    return best;
  }

  // Scratch that a schedule's values need, as the expander will lay them out.
  std::int64_t scratch_bytes(const Schedule& s) const {
    std::int64_t total = 0;
    auto full = [&](const Span& span) {
      std::vector<std::int64_t> v(2 * s.steps.size() + 2, 0);
      for (std::size_t i = 0; i < s.steps.size(); ++i) v[2 * i + 1] = std::min(s.steps[i].size, extent(s.steps[i].axis));
      return span.high.at(v.data()) - span.low.at(v.data());
    };
    auto add = [&](TensorId t, const std::vector<Span>& box) {
      for (const ValueAt& v : s.values) {
        if (v.tensor != t) continue;
        std::int64_t elements = 1;
        for (std::size_t i = 0; i < v.order.size(); ++i)
          elements *= full(box[static_cast<std::size_t>(v.order[i])]) + (i + 1 == v.order.size() ? v.pad : 0);
        total += ceil_div_i64(elements * static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype)), 128) * 128;
      }
    };
    for (const Transfer& t : transfers(p, r, s))
      if (!t.store) add(t.tensor, t.box);
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const auto axis_ranges = ranges(p, r, s, static_cast<int>(i));
      std::vector<Span> box;
      for (std::size_t d = 0; d < statement(i).at.size(); ++d) box.push_back(hull(statement(i).at[d], axis_ranges, p.tensor(statement(i).out).dims[d]));
      add(statement(i).out, box);
    }
    return total;
  }

  // Operands that several points share, and what one leaf makes for another, live in scratch.
  void place_values(Schedule& s, std::size_t last) const {
    const Boundary b = boundary(p, r);
    auto place = [&](TensorId t, bool padded) {
      for (const ValueAt& v : s.values)
        if (v.tensor == t) return;
      const DimOrder& order = layouts[static_cast<std::size_t>(t)];
      if (order.empty()) return;
      const std::int64_t pad = padded ? 16 / static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype)) : 0;
      s.values.push_back({t, LevelRole::scratch, order, pad});
    };
    const auto c = contraction(p, statement(last));
    if (c) place(c->a->tensor, true), place(c->b->tensor, true);
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (statement(i).reduced.empty() || i == last) continue;
      // A window reads its data once a tap.
      if (const auto w = window(p, statement(i)); w && w->data && std::count(b.inputs.begin(), b.inputs.end(), w->data->tensor)) place(w->data->tensor, false);
    }
    for (std::size_t i = 0; i < last; ++i)
      for (std::size_t j = i + 1; j < r.statements.size(); ++j) {
        if (statement(j).reduced.empty()) continue;
        for_each_access(statement(j), [&](const Access& a) {
          if (a.tensor == statement(i).out) place(a.tensor, true);
        });
      }
  }

  // A window's thread computes some neighbours, so that what it loads is used more than once.
  void place_leaves(Schedule& s, std::size_t last, const std::optional<LeafAt>& tensor) const {
    if (tensor) s.leaves.push_back(*tensor);
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (statement(i).reduced.empty() || (tensor && i == last)) continue;
      LeafAt leaf{r.statements[i], false, {}, 1, 1, 16, 8};
      const auto w = window(p, statement(i));
      const auto axes = parallel_axes(statement(i));
      std::size_t slides = 0;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        const bool sliding = w && std::count(w->parallel.begin(), w->parallel.end(), axes[a]);
        if (sliding) slides = a + 1;
        leaf.tile.push_back(1);
      }
      if (slides > 0) leaf.tile[slides - 1] = 4;
      // A product's operands are used as often as its thread has columns and rows.
      if (const auto c = contraction(p, statement(i)); c && !w)
        for (std::size_t a = 0; a < axes.size(); ++a)
          if ((!c->m.empty() && axes[a] == c->m.back()) || axes[a] == c->n.back()) leaf.tile[a] = 4;
      s.leaves.push_back(std::move(leaf));
    }
  }

  // Seconds on the whole machine: waves of blocks, each bound by its slowest pipe; see machine.h for the rates.
  double price(const Schedule& s, const Cost& c, std::int64_t scratch, bool tensor, double waste) const {
    const double cores = m.core.count;
    const std::int64_t by_scratch = scratch ? m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity / (scratch + m.core.reserved_scratch) : m.core.blocks;
    const std::int64_t resident = std::max<std::int64_t>(1, std::min<std::int64_t>({by_scratch, m.core.threads / s.threads, m.core.blocks}));
    const double blocks = static_cast<double>(c.tiles);
    const double waves = std::ceil(blocks / (cores * static_cast<double>(resident)));
    const double used = blocks / (waves * cores * static_cast<double>(resident));
    double tensor_rate = 0;
    if (const auto unit = unit_for(m, UnitKind::tensor, DType::f16); unit && tensor) tensor_rate = operations_per_second(m, *unit, DType::f16) * 0.5;
    const auto fma = unit_for(m, UnitKind::fma, DType::f32);
    const double fma_rate = fma ? operations_per_second(m, *fma, DType::f32) : 1e12;
    double contracted = 0, windowed = 0;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (statement(i).reduced.empty()) continue;
      double points = 1;
      for (const Size& e : statement(i).axes) points *= static_cast<double>(e.constant());
      (contraction(p, statement(i)) ? contracted : windowed) += points;
    }
    const double recomputed = c.multiply_adds > 0 ? static_cast<double>(c.multiply_adds) / (contracted + windowed) : 1;
    windowed *= recomputed;
    const auto cache = find(m, LevelRole::cache);
    const double moved = static_cast<double>(c.loaded + c.stored) / bytes_per_second(m, cache ? *cache : level_of(m, LevelRole::memory));
    const double far = static_cast<double>(c.compulsory) / bytes_per_second(m, level_of(m, LevelRole::memory));
    const double tensors = tensor ? 2 * contracted * waste / tensor_rate : 2 * contracted / fma_rate;
    const double vectors = 2 * windowed * 4 / fma_rate + static_cast<double>(c.operations) / fma_rate;   // a load or conversion for each product
    // Without overlap inside a block the pipes add up; several resident blocks hide half of the shorter ones.
    const double longest = std::max({tensors, vectors, moved, far});
    const double sum = tensors + vectors + moved;
    const double body = (resident > 1 ? 0.5 * (longest + sum) : sum) / used;
    return std::max(body, far) + m.launch.step + waves * 2e-6;
  }

  Schedule run() const {
    const auto last = last_contraction();
    Schedule best;
    best.threads = 128;
    if (!last) return best;
    const Statement& st = statement(*last);
    const auto c = contraction(p, st);
    std::vector<RegionAxis> rows, columns, batch;
    for (AxisId a : c->m) rows.push_back(region_axis(*last, a));
    for (AxisId a : c->n) columns.push_back(region_axis(*last, a));
    for (AxisId a : c->batch) batch.push_back(region_axis(*last, a));
    RegionAxis products = -1;
    for (AxisId a : c->k)
      if (const RegionAxis x = region_axis(*last, a); products < 0 || extent(x) > extent(products)) products = x;
    // Two row axes are cut (the innermost and the one around it), those before them go one by one.
    std::vector<Cut> cuts;
    for (RegionAxis a : batch) cuts.push_back({a, {1}});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + 2 < rows.size()) cuts.push_back({rows[i], {1}});
      else cuts.push_back({rows[i], rows.size() > 1 ? parts(extent(rows[i]), 64) : powers(extent(rows[i]), 64, 256)});
    }
    for (RegionAxis a : columns) cuts.push_back({a, powers(extent(a), 16, 256)});
    double least = INFINITY;
    for (std::int64_t chunk : {16, 32, 64})
      for (int threads : {128, 256}) try_all(cuts, 0, {}, products, chunk, threads, *last, rows, columns, best, least);
    return best;
  }

  void try_all(const std::vector<Cut>& cuts, std::size_t at, std::vector<AxisStep> steps, RegionAxis products, std::int64_t chunk, int threads, std::size_t last,
               const std::vector<RegionAxis>& rows, const std::vector<RegionAxis>& columns, Schedule& best, double& least) const {
    if (at < cuts.size()) {
      for (std::int64_t size : cuts[at].sizes) {
        auto more = steps;
        if (size < extent(cuts[at].axis)) more.push_back({AxisStep::How::tile, cuts[at].axis, size});
        try_all(cuts, at + 1, std::move(more), products, chunk, threads, last, rows, columns, best, least);
      }
      return;
    }
    if (extent(products) > chunk) steps.push_back({AxisStep::How::stream, products, chunk});
    Schedule s;
    s.steps = std::move(steps);
    s.threads = threads;
    auto tile = [&](const std::vector<RegionAxis>& axes) {
      std::int64_t n = 1;
      for (RegionAxis a : axes) {
        std::int64_t size = extent(a);
        for (const AxisStep& step : s.steps)
          if (step.axis == a) size = step.size;
        n *= size;
      }
      return n;
    };
    const std::int64_t height = tile(rows), width = tile(columns);
    const DType type = p.tensor(contraction(p, statement(last))->a->tensor).dtype;
    std::optional<LeafAt> tensor;
    if ((type == DType::f16 || type == DType::bf16) && std::min(chunk, extent(products)) % 16 == 0) tensor = tensor_leaf(last, height, width, threads / 32);
    if (!tensor && height * width > 64 * threads) return;                    // accumulators of a vector leaf
    place_values(s, last);
    place_leaves(s, last, tensor);
    const std::int64_t scratch = scratch_bytes(s);
    if (scratch > m.core.block_scratch || !legality(p, r, s, m).empty()) return;
    const double waste = tensor ? static_cast<double>(tensor->rows * tensor->warps_m) / static_cast<double>(height) : 1;
    const double seconds = price(s, cost(p, r, s, m), scratch, tensor.has_value(), waste);
    if (seconds < least * (1 - 1e-9)) least = seconds, best = std::move(s);
  }
};

}  // namespace

Schedule choose_blocks(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  return BlockChooser{p, r, m, layouts}.run();
}

}  // namespace tilewright
