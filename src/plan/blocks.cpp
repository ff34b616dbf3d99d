#include <algorithm>
#include <cmath>
#include <functional>

#include "plan/block_shape_inl.h"

namespace tilewright {

namespace {

// A GPU's schedule of one region: tiles of the result's axes become blocks, the last contraction's products are streamed, its
// operands lie in scratch. Every combination of a small lattice is priced; what the machine cannot hold is left out.
struct BlockChooser : BlockShape {
  // The last contraction of the region: its tile is what the blocks are made of.
  std::optional<std::size_t> last_contraction() const {
    for (std::size_t i = r.statements.size(); i-- > 0;)
      if (facts[i].contraction) return i;
    return std::nullopt;
  }

  // Operands that several points share, and what one leaf makes for another, live in scratch.
  void place_values(Schedule& s, std::size_t last) const {
    const Boundary& b = bound;
    // Rows of copies that do not begin on a sector are fetched one and a half times: pads of 32 bytes, or none where threads read whole
    // rows side by side; 16 where each thread reads a row of its own, which would meet in the same banks.
    auto place = [&](TensorId t, bool by_rows = false, bool row_a_thread = false) {
      for (const ValueAt& v : s.values)
        if (v.tensor == t) return;
      const DimOrder& order = layouts[static_cast<std::size_t>(t)];
      const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype));
      const bool made = !std::count(b.inputs.begin(), b.inputs.end(), t);
      s.values.push_back({t, LevelRole::scratch, order, order.size() < 2 || by_rows ? 0 : (made || row_a_thread || width == 2 ? 16 : 32) / width});
    };
    if (const auto& c = facts[last].contraction) {
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
        if (affine && std::count(b.inputs.begin(), b.inputs.end(), a.tensor)) place(a.tensor, !facts[i].contraction);
      });
    for (TensorId t : handed_on) place(t);
    for (TensorId t : read_behind()) place(t, true);
    odd_rows(s), align_rows(s);
  }
  // What is brought in by each iteration of the stream has several stages.
  void stage(Schedule& s, int stages) const {
    for (const Transfer& t : order_of(s).moves)
      for (ValueAt& v : s.values)
        if (v.tensor == t.tensor && !t.store && t.depth == static_cast<int>(s.steps.size())) v.stages = stages;
  }

  static constexpr std::int64_t group_chunk = 64;      // products of a step, in rows of 128 bytes
  // A contraction of two inputs on the instructions of four warps, which read whole tiles from swizzled scratch.
  std::optional<LeafAt> group_leaf(std::size_t i, std::int64_t rows, std::int64_t columns, std::int64_t chunk, int threads) const {
    const auto& c = facts[i].contraction;
    const auto unit = group_unit(m, p.tensor(c->a->tensor).dtype);
    const Boundary& b = bound;
    for (const Access* a : {c->a, c->b})
      if (!std::count(b.inputs.begin(), b.inputs.end(), a->tensor) || p.tensor(a->tensor).dtype != p.tensor(c->a->tensor).dtype) return std::nullopt;
    if (!unit || !c->batch.empty() || c->k.size() != 1 || chunk != group_chunk) return std::nullopt;
    const auto& shape = rate_for(m, *unit, p.tensor(c->a->tensor).dtype, DType::f32)->shape;
    const int groups = threads / 128;
    if (statement(i).axes[static_cast<std::size_t>(c->k[0])].constant() < chunk) return std::nullopt;
    if (shape[0] != 64 || columns > shape[1] || columns % 64 || rows != 64 * groups) return std::nullopt;
    return LeafAt{r.statements[i], true, true, {}, 4 * groups, 1, 16, static_cast<int>(columns)};
  }
  // Operands whose rows are 128 bytes of products, for fragments of a warp.
  void swizzle_rows(Schedule& s, std::size_t i, std::int64_t chunk) const {
    const auto& c = facts[i].contraction;
    const Boundary& b = bound;
    const Access& w = *c->b;
    if (chunk * static_cast<std::int64_t>(bytes_of(p.tensor(w.tensor).dtype)) != 128 || c->k.size() != 1 || c->n.size() != 1 || !std::count(b.inputs.begin(), b.inputs.end(), w.tensor)) return;
    const auto inner = static_cast<std::size_t>(layouts[static_cast<std::size_t>(w.tensor)].back());
    const std::int64_t products = statement(i).axes[static_cast<std::size_t>(c->k[0])].constant();
    if (coefficient_of(w.at[inner], c->k[0]) != Size(1) || products < chunk || products % 8 || w.at.size() != 2) return;
    for (ValueAt& v : s.values)
      if (v.tensor == w.tensor) v.swizzled = true, v.pad = 0;
  }
  void swizzle(Schedule& s, std::size_t i) const {
    const auto& c = facts[i].contraction;
    // What rides along stays with the sums, in registers.
    const auto riders = riding(i, group_chunk);
    std::erase_if(s.values, [&](const ValueAt& v) {
      return !riders.empty() && std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return p.statement(id)->out == v.tensor; });
    });
    for (ValueAt& v : s.values)
      if (v.tensor == c->a->tensor || v.tensor == c->b->tensor) v.swizzled = true, v.pad = 0, v.kept = 1;
  }

  // Every way to share the points of a schedule's reductions, each once; `tensor` for the last contraction.
  std::vector<std::vector<LeafAt>> leaves(const Schedule& s, std::size_t last, const std::optional<LeafAt>& tensor) const {
    std::vector<std::vector<LeafAt>> list;
    const bool streams = !s.steps.empty() && s.steps.back().how == AxisStep::How::stream;
    const auto riders = tensor && tensor->group && streams ? riding(last, group_chunk) : std::vector<std::size_t>{};
    for (const Limits& most : {Limits{8, 4, 1}, Limits{8, 8, 1}, Limits{4, 4, 2}, Limits{4, 4, 1}, Limits{8, 2, 1}, Limits{4, 2, 2}, Limits{2, 4, 2}, Limits{2, 4, 4}, Limits{2, 7, 2}, Limits{4, 4, 4}}) {
      std::vector<LeafAt> all;
      if (tensor) all.push_back(*tensor);
      for (std::size_t i = 0; i < r.statements.size(); ++i) {
        if (statement(i).reduced.empty() || (tensor && i == last)) continue;
        if (!riders.empty()) {
          all.push_back({r.statements[i], false, true, {}, 1, 1, 16, 1});
          continue;
        }
        const auto own = i == last ? std::nullopt : whole_tensor_leaf(s, i);
        all.push_back(own ? *own : vector_leaf(s, i, most));
        if (!own) all.back().lanes = lanes_of(s, i, all.back());
      }
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
    const auto& c = facts[*last].contraction;
    std::vector<RegionAxis> rows, columns, batch;
    for (AxisId a : c->m) rows.push_back(region_axis(*last, a));
    for (AxisId a : c->n) columns.push_back(region_axis(*last, a));
    for (AxisId a : c->batch) batch.push_back(region_axis(*last, a));
    RegionAxis products = -1;
    for (AxisId a : c->k)
      if (const RegionAxis x = region_axis(*last, a); x >= 0 && (products < 0 || extent(x) > extent(products))) products = x;
    for (const auto* list : {&rows, &columns, &batch})
      if (std::count(list->begin(), list->end(), -1)) return {};
    if (products < 0) return {};
    // Two row axes are cut (the innermost and the one around it), those before them go one by one.
    std::vector<Cut> cuts;
    for (RegionAxis a : batch) cuts.push_back({a, {1}});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + 2 < rows.size()) cuts.push_back({rows[i], {1}});
      else cuts.push_back({rows[i], rows.size() > 1 ? parts(extent(rows[i]), 64) : powers(extent(rows[i]), 64, 256)});
    }
    for (RegionAxis a : columns) cuts.push_back({a, powers(extent(a), 16, 256)});
    std::vector<BlockChoice> found;
    for (std::int64_t chunk : {16, 32, 64, 128, 256}) {
      for (int threads : {128, 256}) try_all(cuts, 0, {}, products, chunk, threads, *last, rows, columns, found);
      if (chunk >= extent(products)) break;                                     // the larger ones are the same
    }
    if (rows.size() > 1 && columns.size() == 1 && batch.empty()) try_groups(products, *last, rows, columns[0], found);
    auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
    std::stable_sort(found.begin(), found.end(), [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
    return found;
  }

  // How rows of several axes fill groups of 64 to the last one: 14 x 14 pixels of 32 images as 32 x 2 x 2. Of the ways that leave the
  // least over the last, those with the longest rows of memory.
  std::vector<std::vector<std::int64_t>> fillings(const std::vector<RegionAxis>& rows, std::int64_t height) const {
    constexpr std::size_t kept = 2;
    std::vector<std::pair<double, std::vector<std::int64_t>>> list;
    std::vector<std::int64_t> sizes(rows.size(), 1);
    const std::function<void(std::size_t, std::int64_t, double)> cut = [&](std::size_t left, std::int64_t rest, double share) {
      if (left == 0) {
        if (rest == 1) list.emplace_back(share, sizes);
        return;
      }
      const std::int64_t n = extent(rows[left - 1]);
      for (std::int64_t size = rest; size >= 1; --size)
        if (rest % size == 0 && size <= n) sizes[left - 1] = size, cut(left - 1, rest / size, share * static_cast<double>(ceil_div_i64(n, size) * size) / static_cast<double>(n));
    };
    cut(rows.size(), height, 1);
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::vector<std::int64_t>> best;
    for (std::size_t i = 0; i < std::min(kept, list.size()); ++i) best.push_back(std::move(list[i].second));
    return best;
  }
  void try_groups(RegionAxis products, std::size_t last, const std::vector<RegionAxis>& rows, RegionAxis column, std::vector<BlockChoice>& found) const {
    constexpr std::int64_t chunk = group_chunk;
    for (int threads : {128, 256})
      for (const auto& sizes : fillings(rows, threads / 2))
        for (std::int64_t width : powers(extent(column), 64, 256)) {
          Schedule s;
          s.threads = threads;
          for (std::size_t i = 0; i < rows.size(); ++i)
            if (sizes[i] < extent(rows[i])) s.steps.push_back({AxisStep::How::tile, rows[i], sizes[i]});
          if (width < extent(column)) s.steps.push_back({AxisStep::How::tile, column, width});
          if (extent(products) > chunk) s.steps.push_back({AxisStep::How::stream, products, chunk});
          const auto group = group_leaf(last, threads / 2, width, chunk, threads);
          if (!group) continue;
          place_values(s, last), swizzle(s, last);
          try_stages(std::move(s), last, group, extent(products) / chunk, found);
        }
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
    if (height * width > (chunk > 64 ? 8 : 128) * threads) return;            // accumulators of a thread; long chunks are for small tiles
    const DType type = p.tensor(facts[last].contraction->a->tensor).dtype;
    std::optional<LeafAt> tensor;
    if (warp_unit(m, type) && std::min(chunk, extent(products)) % 8 == 0) tensor = tensor_leaf(last, height, width, std::min(chunk, extent(products)), ceil_div_i64(extent(products), chunk), threads / 32);
    place_values(s, last);
    if (!tensor)
      if (const auto own = by_element_leaf(s, last)) try_stages(s, last, own, 1, found);
    if (!tensor && height * width > 64 * threads) return;
    if (const auto group = group_leaf(last, height, width, chunk, threads)) {
      Schedule grouped = s;
      swizzle(grouped, last);
      try_stages(std::move(grouped), last, group, extent(products) / chunk, found);
    }
    if (tensor) swizzle_rows(s, last, chunk);
    try_stages(std::move(s), last, tensor, extent(products) / chunk, found);
  }

  void try_stages(Schedule s, std::size_t last, const std::optional<LeafAt>& tensor, std::int64_t iterations, std::vector<BlockChoice>& found) const {
    if (!order_of(s).legal) return;
    const Cost moved = cost_of(s);
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
        if (scratch + parts_bytes(way) > m.core.block_scratch) continue;
        if (std::any_of(way.begin(), way.end(), [](const LeafAt& l) { return l.tile.size() > 0 && elements(l) > 64; })) continue;
        const std::int64_t need = scratch + parts_bytes(way);
        const double copied = pieces(tried, moved);
        const int most = resident_blocks({p, r, tried, m, facts, moved, need});
        for (tried.resident = most; tried.resident > 0; tried.resident = tried.resident > 4 ? tried.resident / 2 : tried.resident - 1) {
          found.push_back({tried, block_seconds({p, r, tried, m, facts, moved, need, copied})});
          for (Schedule& bulk : bulk_variants(p, r, tried, m, layouts)) {
            const double seconds = block_seconds({p, r, bulk, m, facts, moved, need});
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
    const auto& c = facts[last].contraction;
    if (tiles.size() < 2 || c->m.empty() || c->n.empty() || region_axis(last, c->m.back()) != tiles[tiles.size() - 2]->axis || region_axis(last, c->n.back()) != tiles.back()->axis) return 0;
    const double high = static_cast<double>(tiles[tiles.size() - 2]->size), wide = static_cast<double>(tiles.back()->size);
    const auto rows = static_cast<std::int64_t>(std::lround(std::sqrt(m.core.count * wide / high)));
    const std::int64_t all = ceil_div_i64(extent(tiles[tiles.size() - 2]->axis), tiles[tiles.size() - 2]->size);
    return rows < 2 || rows >= all ? 0 : rows;
  }
};

}  // namespace

std::vector<BlockChoice> block_choices(const Program& p, const Region& r, const Machine& m, const std::vector<DimOrder>& layouts) {
  auto list = fragment_choices(p, r, m, layouts);
  if (list.empty()) list = BlockChooser{{p, r, m, layouts}}.run();
  return list.empty() ? plain_blocks(p, r, m, layouts) : list;
}

}  // namespace tilewright
