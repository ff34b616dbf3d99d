#include <algorithm>
#include <cmath>

#include "plan/block_price.h"

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
      LeafAt leaf{r.statements[i], true, false, {}, warps / n, n, 0, static_cast<int>(columns / n)};
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
        const std::int64_t granule = v.swizzled ? 1024 : 128;
        total = ceil_div_i64(total, granule) * granule + v.stages * (ceil_div_i64(elements * static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype)), granule) * granule);
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
    // Rows of copies that do not begin on a sector are fetched one and a half times: pads of 32 bytes, or none where threads read whole
    // rows side by side; 16 where each thread reads a row of its own, which would meet in the same banks.
    auto place = [&](TensorId t, bool by_rows = false, bool row_a_thread = false) {
      for (const ValueAt& v : s.values)
        if (v.tensor == t) return;
      const DimOrder& order = layouts[static_cast<std::size_t>(t)];
      if (order.empty()) return;
      const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype));
      const bool made = !std::count(b.inputs.begin(), b.inputs.end(), t);
      s.values.push_back({t, LevelRole::scratch, order, order.size() < 2 || by_rows ? 0 : (made || row_a_thread || width == 2 ? 16 : 32) / width});
    };
    if (const auto c = contraction(p, statement(last))) {
      const DimOrder& order = layouts[static_cast<std::size_t>(c->b->tensor)];
      const Index* inner = order.empty() ? nullptr : &c->b->at[static_cast<std::size_t>(order.back())];
      const bool by_products = inner && std::any_of(c->k.begin(), c->k.end(), [&](AxisId k) { return mentions_axis(*inner, k); });
      place(c->a->tensor);
      place(c->b->tensor, false, by_products);
    }
    // What stands before the last contraction runs once a chunk of its products, on all threads: its operands are there by then.
    for (std::size_t i = 0; i < last; ++i)
      for_each_access(statement(i), [&](const Access& a) {
        const bool affine = std::all_of(a.at.begin(), a.at.end(), [](const Index& x) { return is_affine(x); });
        if (affine && std::count(b.inputs.begin(), b.inputs.end(), a.tensor)) place(a.tensor, true);
      });
    for (std::size_t i = 0; i < last; ++i)
      for (std::size_t j = i + 1; j < r.statements.size(); ++j) {
        if (statement(j).reduced.empty()) continue;
        for_each_access(statement(j), [&](const Access& a) {
          if (a.tensor == statement(i).out) place(a.tensor);
        });
      }
  }
  // What is brought in by each iteration of the stream has several stages.
  void stage(Schedule& s, int stages) const {
    for (const Transfer& t : transfers(p, r, s))
      for (ValueAt& v : s.values)
        if (v.tensor == t.tensor && !t.store && t.depth == static_cast<int>(s.steps.size())) v.stages = stages;
  }

  // A contraction of two inputs on the instructions of four warps, which read whole tiles from swizzled scratch.
  std::optional<LeafAt> group_leaf(std::size_t i, std::int64_t rows, std::int64_t columns, std::int64_t chunk, int threads) const {
    const auto c = contraction(p, statement(i));
    const auto unit = group_unit(m, p.tensor(c->a->tensor).dtype);
    const Boundary b = boundary(p, r);
    for (const Access* a : {c->a, c->b})
      if (!std::count(b.inputs.begin(), b.inputs.end(), a->tensor) || p.tensor(a->tensor).dtype != p.tensor(c->a->tensor).dtype) return std::nullopt;
    if (!unit || !c->batch.empty() || c->k.size() != 1 || chunk != 64) return std::nullopt;
    const auto& shape = rate_for(m, *unit, p.tensor(c->a->tensor).dtype, DType::f32)->shape;
    const int groups = threads / 128;
    if (statement(i).axes[static_cast<std::size_t>(c->k[0])].constant() < chunk) return std::nullopt;
    if (shape[0] != 64 || columns > shape[1] || columns % 64 || rows != 64 * groups) return std::nullopt;
    return LeafAt{r.statements[i], true, true, {}, 4 * groups, 1, 16, static_cast<int>(columns)};
  }
  // Operands whose rows are 128 bytes of products, for fragments of a warp.
  void swizzle_rows(Schedule& s, std::size_t i, std::int64_t chunk) const {
    const auto c = contraction(p, statement(i));
    const Boundary b = boundary(p, r);
    const Access& w = *c->b;
    if (chunk * static_cast<std::int64_t>(bytes_of(p.tensor(w.tensor).dtype)) != 128 || c->k.size() != 1 || c->n.size() != 1 || !std::count(b.inputs.begin(), b.inputs.end(), w.tensor)) return;
    const auto inner = static_cast<std::size_t>(layouts[static_cast<std::size_t>(w.tensor)].back());
    const std::int64_t products = statement(i).axes[static_cast<std::size_t>(c->k[0])].constant();
    if (coefficient_of(w.at[inner], c->k[0]) != Size(1) || products < chunk || products % 8 || w.at.size() != 2) return;
    for (ValueAt& v : s.values)
      if (v.tensor == w.tensor) v.swizzled = true, v.pad = 0;
  }
  void swizzle(Schedule& s, std::size_t i) const {
    const auto c = contraction(p, statement(i));
    for (ValueAt& v : s.values)
      if (v.tensor == c->a->tensor || v.tensor == c->b->tensor) v.swizzled = true, v.pad = 0, v.kept = 1;
  }

  static std::int64_t divisor(std::int64_t n, std::int64_t most) {
    for (std::int64_t d = std::min(n, most); d > 1; --d)
      if (n % d == 0) return d;
    return 1;
  }
  // Extents of a statement's parallel axes in a full tile.
  std::vector<std::int64_t> full_tile(const Schedule& s, std::size_t i) const {
    std::vector<std::int64_t> list, v(2 * s.steps.size() + 2, 0);
    for (std::size_t k = 0; k < s.steps.size(); ++k) v[2 * k + 1] = std::min(s.steps[k].size, extent(s.steps[k].axis));
    const auto spans = ranges(p, r, s, static_cast<int>(i));
    for (AxisId a : parallel_axes(statement(i))) {
      const Span& span = spans[static_cast<std::size_t>(a)];
      list.push_back(std::min(span.high.at(v.data()) - span.low.at(v.data()), statement(i).axes[static_cast<std::size_t>(a)].constant()));
    }
    return list;
  }

  // Boxes that a thread computes, as large as leaves every thread one: lanes side by side of a window, with neighbours along a sliding
  // axis; columns and rows of a product.
  struct Limits { std::int64_t lanes, beside, rows; };
  LeafAt vector_leaf(const Schedule& s, std::size_t i, const Limits& most) const {
    LeafAt leaf{r.statements[i], false, false, {}, 1, 1, 16, 8};
    const auto axes = parallel_axes(statement(i));
    const auto full = full_tile(s, i);
    leaf.tile.assign(axes.size(), 1);
    std::int64_t points = 1;
    for (std::int64_t n : full) points *= n;
    auto items = [&] {
      std::int64_t n = points;
      for (std::int64_t t : leaf.tile) n /= t;
      return n;
    };
    auto grow = [&](std::size_t a, std::int64_t limit) {
      for (std::int64_t d = divisor(full[a], limit); d > 1; d = divisor(full[a], d - 1)) {
        leaf.tile[a] = d;
        if (items() >= s.threads * 3 / 4 || d == 2) break;
      }
    };
    auto place_of = [&](AxisId x) { return static_cast<std::size_t>(std::find(axes.begin(), axes.end(), x) - axes.begin()); };
    if (const auto w = window(p, statement(i))) {
      if (!w->lanes.empty()) grow(place_of(w->lanes.back()), std::min(most.lanes, 16 / static_cast<std::int64_t>(bytes_of(p.tensor(w->data->tensor).dtype))));
      if (!w->parallel.empty()) grow(place_of(w->parallel.back()), most.beside);
      if (w->parallel.size() > 1 && most.rows > 1) grow(place_of(w->parallel[w->parallel.size() - 2]), most.rows);
    } else if (const auto c = contraction(p, statement(i))) {
      if (!c->n.empty()) grow(place_of(c->n.back()), most.lanes);
      std::int64_t rows = most.beside * most.rows;
      for (std::size_t a = c->m.size(); a-- > 0 && rows > 1;) grow(place_of(c->m[a]), rows), rows /= leaf.tile[place_of(c->m[a])];
    } else if (!axes.empty()) {
      grow(axes.size() - 1, most.lanes);
    }
    return leaf;
  }
  // Every way to share the points of a schedule's reductions, each once; `tensor` for the last contraction.
  std::vector<std::vector<LeafAt>> leaves(const Schedule& s, std::size_t last, const std::optional<LeafAt>& tensor) const {
    std::vector<std::vector<LeafAt>> list;
    for (const Limits& most : {Limits{8, 4, 1}, Limits{8, 8, 1}, Limits{4, 4, 2}, Limits{4, 4, 1}, Limits{8, 2, 1}, Limits{4, 2, 2}, Limits{2, 4, 2}, Limits{2, 4, 4}, Limits{2, 7, 2}, Limits{4, 4, 4}}) {
      std::vector<LeafAt> all;
      if (tensor) all.push_back(*tensor);
      for (std::size_t i = 0; i < r.statements.size(); ++i)
        if (!statement(i).reduced.empty() && !(tensor && i == last)) all.push_back(vector_leaf(s, i, most));
      const bool known = std::any_of(list.begin(), list.end(), [&](const std::vector<LeafAt>& other) {
        return std::equal(other.begin(), other.end(), all.begin(), all.end(), [](const LeafAt& x, const LeafAt& y) { return x.tile == y.tile; });
      });
      if (!known) list.push_back(std::move(all));
    }
    return list;
  }

  std::vector<BlockChoice> run() const {
    const auto last = last_contraction();
    if (!last) return {};
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
    std::vector<BlockChoice> found;
    for (std::int64_t chunk : {16, 32, 64})
      for (int threads : {128, 256}) try_all(cuts, 0, {}, products, chunk, threads, *last, rows, columns, found);
    auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
    std::stable_sort(found.begin(), found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
    return found;
  }

  void try_all(const std::vector<Cut>& cuts, std::size_t at, std::vector<AxisStep> steps, RegionAxis products, std::int64_t chunk, int threads, std::size_t last,
               const std::vector<RegionAxis>& rows, const std::vector<RegionAxis>& columns, std::vector<BlockChoice>& found) const {
    if (at < cuts.size()) {
      for (std::int64_t size : cuts[at].sizes) {
        auto more = steps;
        if (size < extent(cuts[at].axis)) more.push_back({AxisStep::How::tile, cuts[at].axis, size});
        try_all(cuts, at + 1, std::move(more), products, chunk, threads, last, rows, columns, found);
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
    if (height * width > 128 * threads) return;                               // accumulators of a thread
    const DType type = p.tensor(contraction(p, statement(last))->a->tensor).dtype;
    std::optional<LeafAt> tensor;
    if (warp_unit(m, type) && std::min(chunk, extent(products)) % 16 == 0) tensor = tensor_leaf(last, height, width, threads / 32);
    if (!tensor && height * width > 64 * threads) return;
    place_values(s, last);
    if (const auto group = group_leaf(last, height, width, chunk, threads)) {
      Schedule grouped = s;
      swizzle(grouped, last);
      try_stages(std::move(grouped), last, group, extent(products) / chunk, found);
    }
    if (tensor) swizzle_rows(s, last, chunk);
    try_stages(std::move(s), last, tensor, extent(products) / chunk, found);
  }

  void try_stages(Schedule s, std::size_t last, const std::optional<LeafAt>& tensor, std::int64_t iterations, std::vector<BlockChoice>& found) const {
    if (!legality(p, r, s, m).empty()) return;
    const Cost moved = cost(p, r, s, m);
    int kept = 0;
    for (const ValueAt& v : s.values) kept = std::max(kept, v.kept);
    const auto ways = leaves(s, last, tensor);
    s.band = band(s, last);
    for (int stages : {1, 2, 3, 4}) {
      if (stages > 1 && iterations < stages) break;
      if (stages > 1 && stages < 2 + kept) continue;
      stage(s, stages);
      Schedule tried = s;
      if (stages == 1)
        for (ValueAt& v : tried.values) v.kept = 0;
      const std::int64_t scratch = scratch_bytes(tried);
      if (scratch > m.core.block_scratch) break;
      for (const auto& way : ways) {
        tried.leaves = way;
        if (std::any_of(way.begin(), way.end(), [](const LeafAt& l) { return l.tile.size() > 0 && elements(l) > 64; })) continue;
        const int most = resident_blocks({p, r, tried, m, moved, scratch});
        for (tried.resident = 1; tried.resident <= most; ++tried.resident) {
          found.push_back({tried, block_seconds({p, r, tried, m, moved, scratch})});
          for (Schedule& bulk : bulk_variants(p, r, tried, m, layouts)) {
            const double seconds = block_seconds({p, r, bulk, m, moved, scratch});
            found.push_back({std::move(bulk), seconds});
          }
        }
      }
    }
  }

  static std::int64_t elements(const LeafAt& l) {
    std::int64_t n = 1;
    for (std::int64_t t : l.tile) n *= t;
    return n;
  }

  // Blocks that run together cover a part of the result whose rows and columns bring in about as much.
  std::int64_t band(const Schedule& s, std::size_t last) const {
    std::vector<const AxisStep*> tiles;
    for (const AxisStep& step : s.steps)
      if (step.how == AxisStep::How::tile) tiles.push_back(&step);
    const auto c = contraction(p, statement(last));
    if (tiles.size() < 2 || c->m.empty() || c->n.empty() || region_axis(last, c->m.back()) != tiles[tiles.size() - 2]->axis || region_axis(last, c->n.back()) != tiles.back()->axis) return 0;
    const double high = static_cast<double>(tiles[tiles.size() - 2]->size), wide = static_cast<double>(tiles.back()->size);
    const auto rows = static_cast<std::int64_t>(std::lround(std::sqrt(m.core.count * wide / high)));
    const std::int64_t all = ceil_div_i64(extent(tiles[tiles.size() - 2]->axis), tiles[tiles.size() - 2]->size);
    return rows < 2 || rows >= all ? 0 : rows;
  }
};

}  // namespace

namespace {

// What has no contraction: the result's outer axes are cut until a block has some points for each thread; inside, reductions run in
// one thread each. Where an axis may not be cut, fewer are.
Schedule plain_blocks(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  const Statement& last = *p.statement(r.statements.back());
  std::vector<RegionAxis> axes;                  // of the result, outermost first as it lies
  for (int d : layouts[static_cast<std::size_t>(last.out)])
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (mentions_axis(substitute(p, last.at[static_cast<std::size_t>(d)], r.image.back()), static_cast<RegionAxis>(a)) &&
          !std::count(axes.begin(), axes.end(), static_cast<RegionAxis>(a)))
        axes.push_back(static_cast<RegionAxis>(a));
  constexpr int threads = 128, points = 4;
  for (std::size_t cut = axes.size() + 1; cut-- > 0;) {
    Schedule s;
    s.threads = threads;
    std::int64_t room = threads * points;
    for (std::size_t i = axes.size(); i-- > cut;) room = std::max<std::int64_t>(1, room / r.axes[static_cast<std::size_t>(axes[i])].constant());
    for (std::size_t i = cut; i-- > 0;) {
      const std::int64_t extent = r.axes[static_cast<std::size_t>(axes[i])].constant(), size = std::min(extent, room);
      if (size < extent) s.steps.insert(s.steps.begin(), {AxisStep::How::tile, axes[i], size});
      room = std::max<std::int64_t>(1, room / std::max<std::int64_t>(extent, 1));
    }
    if (!legality(p, r, s, m).empty()) continue;
    // What one leaf makes for another lies in scratch.
    for (TensorId t : boundary(p, r).inner) s.values.push_back({t, LevelRole::scratch, layouts[static_cast<std::size_t>(t)]});
    if (BlockChooser{p, r, m, layouts}.scratch_bytes(s) <= m.core.block_scratch) return s;
  }
  Schedule whole;
  whole.threads = threads;
  return whole;
}

}  // namespace

std::vector<BlockChoice> block_choices(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  auto rows = fragment_choices(p, r, m, layouts);
  return rows.empty() ? BlockChooser{p, r, m, layouts}.run() : std::move(rows);
}

Schedule choose_blocks(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  auto list = block_choices(p, r, m, layouts);
  return list.empty() ? plain_blocks(p, r, m, layouts) : std::move(list[0].schedule);
}

}  // namespace tilewright
