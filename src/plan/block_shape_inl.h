// What the makers of a GPU's schedules share: sizes of tiles that are worth trying, boxes of points a thread, scratch that values need.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "plan/block_price.h"
#include "schedule/pieces.h"

namespace tilewright {

// One piece along an axis of a tile: sizes that are worth trying.
struct Cut { RegionAxis axis; std::vector<std::int64_t> sizes; };

struct BlockShape {
  const Program& p;
  const Region& r;
  const Machine& m;
  const std::vector<DimOrder>& layouts;
  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }

  std::vector<StatementFacts> facts = facts_of(p, r);
  Boundary bound = boundary(p, r);
  // By the axes of the steps: whether they may be cut so, what it costs at any sizes, and which boxes are moved and made.
  struct Order { bool legal = false; Model model; std::vector<Transfer> moves; std::vector<std::vector<Span>> made; std::vector<std::vector<Span>> ranges; };
  mutable std::map<std::vector<RegionAxis>, std::unique_ptr<Order>> orders{};

  const Order& order_of(const Schedule& s) const {
    std::vector<RegionAxis> key;
    for (const AxisStep& step : s.steps) key.push_back(step.how == AxisStep::How::tile ? step.axis : -1 - step.axis);
    auto& known = orders[key];
    if (known) return *known;
    known = std::make_unique<Order>(Order{legality(p, r, s, m).empty(), Model(p, r, s, m), transfers(p, r, s), {}, {}});
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      known->ranges.push_back(ranges(p, r, s, static_cast<int>(i)));
      std::vector<Span> box;
      for (std::size_t d = 0; d < statement(i).at.size(); ++d) box.push_back(hull(statement(i).at[d], known->ranges[i], p.tensor(statement(i).out).dims[d]));
      known->made.push_back(std::move(box));
    }
    add_borders(*known);
    return *known;
  }
  // ---- which statements are one leaf

  std::set<RegionAxis> points_of(std::size_t i) const {
    std::set<RegionAxis> list;
    for (AxisId a : parallel_axes(statement(i)))
      if (const auto x = plain_axis(r.image[i][static_cast<std::size_t>(a)]); x && extent(*x) > 1) list.insert(*x);
    return list;
  }
  // The first statement of the leaf that each one is in: maps at the points of the statement before them go with it.
  std::vector<std::size_t> leaf_starts() const {
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const bool goes_on = i > 0 && statement(i).reduced.empty() && points_of(i) == points_of(starts[i - 1]) && !reads_outside(i, starts[i - 1]);
      starts.push_back(goes_on ? starts[i - 1] : i);
    }
    return starts;
  }
  // Whether a map reads what its leaf makes at another point.
  bool reads_outside(std::size_t i, std::size_t from) const {
    bool outside = false;
    for_each_access(statement(i), [&](const Access& a) {
      for (std::size_t j = from; j < i; ++j) {
        if (statement(j).out != a.tensor) continue;
        outside |= a.otherwise != nullptr;
        for (std::size_t d = 0; d < a.at.size(); ++d)
          outside |= !(substitute(p, a.at[d], r.image[i]) == substitute(p, statement(j).at[d], r.image[j]));
      }
    });
    return outside;
  }

  std::vector<std::size_t> first = leaf_starts();
  // What one leaf makes for another: it needs a place.
  std::vector<TensorId> handed_on = made_for_others();
  std::vector<TensorId> made_for_others() const {
    std::vector<TensorId> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      for (std::size_t j = i + 1; j < r.statements.size(); ++j)
        for_each_access(statement(j), [&](const Access& a) {
          if (a.tensor == statement(i).out && (first[j] != first[i] || meets(j)) && !std::count(list.begin(), list.end(), a.tensor)) list.push_back(a.tensor);
        });
    return list;
  }
  // Whether a map reads what several reductions make: a loop may stand between those.
  bool meets(std::size_t j) const {
    std::set<std::size_t> from;
    std::vector<std::size_t> open{j};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (!statement(at).reduced.empty()) {
        from.insert(at);
        continue;
      }
      for_each_access(statement(at), [&](const Access& a) {
        for (std::size_t i = 0; i < at; ++i)
          if (statement(i).out == a.tensor) open.push_back(i);
      });
    }
    return from.size() > 1;
  }

  // ---- reductions that ride along with a contraction

  // Whether a statement reduces the rows of the contraction's first operand, along its products and as it reads them: those who have
  // the rows' sums can do so while instructions of four warps read the same scratch. Steps of products must be whole.
  bool rides(std::size_t i, std::size_t on, std::int64_t chunk) const {
    const Statement& st = statement(i);
    const auto& c = facts[on].contraction;
    if (st.reduced.size() != 1 || st.guard || st.reducer == Reducer::argmax || st.reducer == Reducer::argmin || p.tensor(st.out).dtype != DType::f32) return false;
    const RegionAxis products = region_axis(on, c->k[0]);
    std::set<RegionAxis> rows;
    for (AxisId a : c->m)
      if (const RegionAxis x = region_axis(on, a); extent(x) > 1) rows.insert(x);
    bool same = c->k.size() == 1 && region_axis(i, st.reduced[0]) == products && extent(products) % chunk == 0 && points_of(i) == rows && !std::count(bound.outputs.begin(), bound.outputs.end(), st.out);
    const DimOrder& order = layouts[static_cast<std::size_t>(c->a->tensor)];
    same = same && plain_axis(c->a->at[static_cast<std::size_t>(order.back())]) == c->k[0];
    for_each_access(st, [&](const Access& a) {
      same &= a.tensor == c->a->tensor && !a.otherwise;
      for (std::size_t d = 0; same && d < a.at.size(); ++d) same = substitute(p, a.at[d], r.image[i]) == substitute(p, c->a->at[d], r.image[on]);
    });
    return same;
  }
  // The other reductions of a region, if all of them ride along with that one.
  std::vector<std::size_t> riding(std::size_t on, std::int64_t chunk) const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (i == on || statement(i).reduced.empty()) continue;
      if (!rides(i, on, chunk)) return {};
      list.push_back(i);
    }
    return list;
  }

  // ---- costs, by the order of the steps

  // What is made whole and read with a border of zeros has room for it.
  void add_borders(Order& order) const {
    for (std::size_t j = 0; j < r.statements.size(); ++j)
      for_each_access(statement(j), [&](const Access& a) {
        for (std::size_t i = 0; i < j; ++i) {
          if (statement(i).out != a.tensor || !a.otherwise) continue;
          for (std::size_t d = 0; d < a.at.size(); ++d) {
            Span& box = order.made[i][d];
            const Span wanted = hull(a.at[d], order.ranges[j], p.tensor(a.tensor).dims[d]);
            if (!wanted.low.terms.empty() || !wanted.high.terms.empty() || !box.low.terms.empty() || !box.high.terms.empty()) continue;
            box.low.offset = std::min(box.low.offset, wanted.low.offset), box.high.offset = std::max(box.high.offset, wanted.high.offset);
          }
        }
      });
  }
  Cost cost_of(const Schedule& s) const {
    std::vector<std::int64_t> sizes;
    for (const AxisStep& step : s.steps) sizes.push_back(step.size);
    return order_of(s).model.at(sizes);
  }

  RegionAxis region_axis(std::size_t i, AxisId a) const {
    const auto plain = plain_axis(r.image[i][static_cast<std::size_t>(a)]);
    return plain ? *plain : -1;
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

  // The axis of a statement along which its result lies innermost, or -1.
  AxisId innermost(std::size_t i) const {
    const Statement& st = statement(i);
    const DimOrder& order = layouts[static_cast<std::size_t>(st.out)];
    for (std::size_t d = order.size(); d-- > 0;) {
      const Index& at = st.at[static_cast<std::size_t>(order[d])];
      for (const Index::Term& t : at.terms)
        if (const AxisId* a = std::get_if<AxisId>(&t.of); a && st.axes[static_cast<std::size_t>(*a)] != Size(1)) return *a;
    }
    return -1;
  }
  std::int64_t width_of(TensorId t) const { return static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype)); }

  std::int64_t full(const Schedule& s, const Span& span) const {
    std::vector<std::int64_t> v(2 * s.steps.size() + 2, 0);
    for (std::size_t i = 0; i < s.steps.size(); ++i) v[2 * i + 1] = std::min(s.steps[i].size, extent(s.steps[i].axis));
    return span.high.at(v.data()) - span.low.at(v.data());
  }
  template <class Each> void for_each_box(const Schedule& s, Each each) const {
    const Order& order = order_of(s);
    for (const Transfer& t : order.moves)
      if (!t.store) each(t.tensor, t.box);
    for (std::size_t i = 0; i < r.statements.size(); ++i) each(statement(i).out, order.made[i]);
  }
  // Scratch that a schedule's values need, as the expander will lay them out.
  std::int64_t scratch_bytes(const Schedule& s) const {
    std::int64_t total = 0;
    for_each_box(s, [&](TensorId t, const std::vector<Span>& box) {
      for (const ValueAt& v : s.values) {
        if (v.tensor != t) continue;
        std::int64_t elements = 1;
        for (std::size_t i = 0; i < v.order.size(); ++i)
          elements *= full(s, box[static_cast<std::size_t>(v.order[i])]) + (i + 1 == v.order.size() ? v.lead + v.pad : 0);
        const std::int64_t granule = v.swizzled ? 1024 : 128;
        total = ceil_div_i64(total, granule) * granule + v.stages * (ceil_div_i64(elements * width_of(t), granule) * granule);
      }
    });
    return total;
  }
  // Eight rows that are read together lie in different banks where a row is an odd number of 16 bytes: then it needs no pad.
  void odd_rows(Schedule& s) const {
    for_each_box(s, [&](TensorId t, const std::vector<Span>& box) {
      for (ValueAt& v : s.values)
        if (v.tensor == t && v.pad * width_of(t) == 16 && full(s, box[static_cast<std::size_t>(v.order.back())]) * width_of(t) % 32 == 16) v.pad = 0;
    });
  }
  // Rows that begin within a piece of 16 bytes get room for all of it.
  void align_rows(Schedule& s) const {
    for (const Transfer& t : order_of(s).moves)
      for (ValueAt& v : s.values)
        if (v.tensor == t.tensor && !t.store && v.order == layouts[static_cast<std::size_t>(t.tensor)]) align_to_pieces(p, s, v, t.box, extents(s, t.box));
  }
  std::vector<std::int64_t> extents(const Schedule& s, const std::vector<Span>& box) const {
    std::vector<std::int64_t> list;
    for (const Span& span : box) list.push_back(full(s, span));
    return list;
  }
  // Copies that a block's threads issue, by the work of one of 16 bytes: single elements find their places one by one.
  double pieces(const Schedule& s, const Cost& moved) const {
    constexpr double single = 3;
    const auto& moves = order_of(s).moves;
    double sum = 0;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (moves[i].store) continue;
      const auto bytes = static_cast<double>(moved.moved[i].bytes);
      double each = 1.0 / 16;
      for (const ValueAt& v : s.values)
        if (v.tensor == moves[i].tensor && v.level == LevelRole::scratch) {
          const std::int64_t width = piece_width(p, s, v, moves[i].box, extents(s, moves[i].box));
          each = (width == 1 ? single : 1) / static_cast<double>(width * width_of(v.tensor));
        }
      sum += bytes * each;
    }
    return sum / static_cast<double>(std::max<std::int64_t>(moved.tiles, 1));
  }
  // What maps behind a reduction read: it can be on its way while the sums are made.
  std::vector<TensorId> read_behind() const {
    std::vector<TensorId> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (statement(i).reduced.empty() && !statement(first[i]).reduced.empty())
        for_each_access(statement(i), [&](const Access& a) {
          const bool affine = std::all_of(a.at.begin(), a.at.end(), [](const Index& x) { return is_affine(x); });
          if (affine && !a.at.empty() && std::count(bound.inputs.begin(), bound.inputs.end(), a.tensor) && !std::count(list.begin(), list.end(), a.tensor)) list.push_back(a.tensor);
        });
    return list;
  }

  // Which operands of a contraction take the tensor path, as warps of 16 x 8 fragments.
  std::optional<LeafAt> tensor_leaf(std::size_t i, std::int64_t rows, std::int64_t columns, std::int64_t products, std::int64_t iterations, int warps) const {
    if (columns % 16) return std::nullopt;
    LeafAt best;
    double least = INFINITY;
    for (int k = 1; k <= std::min(warps, 8); k *= 2) {
      if (k > 1 && products % (16 * k)) break;
      for (int n = 1; n * k <= warps; n *= 2) {
        if (columns % (16 * n)) continue;
        LeafAt leaf{r.statements[i], true, false, {}, warps / n / k, n, 0, static_cast<int>(columns / n)};
        leaf.warps_k = k;
        leaf.rows = static_cast<int>(ceil_div_i64(ceil_div_i64(rows, leaf.warps_m), 16) * 16);
        if (leaf.rows * leaf.columns > 64 * 64) continue;                       // accumulators of a thread: 128 registers
        // Clocks of a warp: instructions and what they read for each step of products, the maps behind, sums that are handed on.
        const double held = leaf.rows * leaf.columns / 32.0, steps = static_cast<double>(products * iterations) / (16.0 * k);
        const double clocks = steps * (held / 4 * 8 + (leaf.rows + leaf.columns) / 16 * 8) + held * 10 + (k > 1 ? held * 2 * k + 60 : 0);
        if (clocks < least) least = clocks, best = leaf;
      }
    }
    if (std::isinf(least)) return std::nullopt;
    return best;
  }
  // Partial sums that warps hand to one another.
  static std::int64_t parts_bytes(const std::vector<LeafAt>& leaves) {
    std::int64_t most = 0;
    for (const LeafAt& l : leaves)
      if (l.tensor) most = std::max<std::int64_t>(most, std::int64_t{4} * (l.warps_k - 1) * l.warps_m * l.rows * l.warps_n * l.columns);
    return most;
  }
  // Of a contraction whose products are all in the tile: operands in scratch, the first along its products.
  std::optional<LeafAt> whole_tensor_leaf(const Schedule& s, std::size_t i) const {
    const auto& c = facts[i].contraction;
    if (!c || !warp_unit(m, p.tensor(c->a->tensor).dtype) || p.tensor(c->a->tensor).dtype != p.tensor(c->b->tensor).dtype) return std::nullopt;
    const auto along = [&](const Access& x) {
      const DimOrder& order = layouts[static_cast<std::size_t>(x.tensor)];
      const auto axis = order.empty() ? std::nullopt : plain_axis(x.at[static_cast<std::size_t>(order.back())]);
      return axis ? *axis : -1;
    };
    for (const Access* x : {c->a, c->b})
      if (std::none_of(s.values.begin(), s.values.end(), [&](const ValueAt& v) { return v.tensor == x->tensor && v.stages == 1; })) return std::nullopt;
    const auto full = full_ranges(s, i);
    const auto of = [&](AxisId a) { return full[static_cast<std::size_t>(a)]; };
    const AxisId k = along(*c->a);
    if (!std::count(c->k.begin(), c->k.end(), k) || of(k) % 8) return by_element_leaf(s, i);
    if (along(*c->b) != k && (c->n.size() != 1 || along(*c->b) != c->n[0])) return by_element_leaf(s, i);
    std::int64_t rows = 1, columns = 1;
    for (AxisId a : c->m) rows *= of(a);
    for (AxisId a : c->n) columns *= of(a);
    for (AxisId a : c->batch)
      if (of(a) != 1) return std::nullopt;
    return tensor_leaf(i, rows, columns, of(k), 1, s.threads / 32);
  }

  // The same of products over several axes, or of few elements, in any order: fragments are put together by the element.
  std::optional<LeafAt> by_element_leaf(const Schedule& s, std::size_t i) const {
    constexpr std::int64_t most_products = 160, least_rows = 32;
    const auto& c = facts[i].contraction;
    if (!c || !warp_unit(m, p.tensor(c->a->tensor).dtype) || p.tensor(c->a->tensor).dtype != p.tensor(c->b->tensor).dtype) return std::nullopt;
    for (const Access* x : {c->a, c->b})
      if (std::none_of(s.values.begin(), s.values.end(), [&](const ValueAt& v) { return v.tensor == x->tensor && v.stages == 1 && !v.swizzled; })) return std::nullopt;
    const auto full = full_ranges(s, i);
    const auto count = [&](const std::vector<AxisId>& axes) {
      std::int64_t n = 1;
      for (AxisId a : axes) n *= full[static_cast<std::size_t>(a)];
      return n;
    };
    for (AxisId a : c->k)
      if (Size(full[static_cast<std::size_t>(a)]) != statement(i).axes[static_cast<std::size_t>(a)]) return std::nullopt;
    const std::int64_t products = count(c->k), rows = count(c->m);
    if (products > most_products || rows < least_rows || count(c->batch) != 1) return std::nullopt;
    auto leaf = tensor_leaf(i, rows, count(c->n), 16, ceil_div_i64(products, 16), s.threads / 32);
    if (leaf) leaf->by_element = true;
    return leaf;
  }

  static std::int64_t divisor(std::int64_t n, std::int64_t most) {
    for (std::int64_t d = std::min(n, most); d > 1; --d)
      if (n % d == 0) return d;
    return 1;
  }
  // Extents of a statement's axes in a full tile; and of its parallel ones alone.
  std::vector<std::int64_t> full_ranges(const Schedule& s, std::size_t i) const {
    std::vector<std::int64_t> list, v(2 * s.steps.size() + 2, 0);
    for (std::size_t k = 0; k < s.steps.size(); ++k) v[2 * k + 1] = std::min(s.steps[k].size, extent(s.steps[k].axis));
    for (const Span& span : order_of(s).ranges[i]) list.push_back(span.high.at(v.data()) - span.low.at(v.data()));
    return list;
  }
  std::vector<std::int64_t> full_tile(const Schedule& s, std::size_t i) const {
    const auto all = full_ranges(s, i);
    std::vector<std::int64_t> list;
    for (AxisId a : facts[i].parallel) list.push_back(all[static_cast<std::size_t>(a)]);
    return list;
  }

  // Boxes that a thread computes, as large as leaves every thread one: lanes side by side of a window, with neighbours along a sliding
  // axis; columns and rows of a product.
  struct Limits { std::int64_t lanes, beside, rows; };
  LeafAt vector_leaf(const Schedule& s, std::size_t i, const Limits& most) const {
    LeafAt leaf{r.statements[i], false, false, {}, 1, 1, 16, 8};
    const auto& axes = facts[i].parallel;
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
    if (const auto& w = facts[i].window) {
      const AxisId inner = std::count(w->lanes.begin(), w->lanes.end(), innermost(i)) ? innermost(i) : w->lanes.back();
      grow(place_of(inner), std::min(most.lanes, std::max<std::int64_t>(1, 16 / width_of(w->data->tensor))));
      if (!w->parallel.empty()) grow(place_of(w->parallel.back()), most.beside);
      if (w->parallel.size() > 1 && most.rows > 1) grow(place_of(w->parallel[w->parallel.size() - 2]), most.rows);
    } else if (const auto& c = facts[i].contraction) {
      if (!c->n.empty()) grow(place_of(c->n.back()), most.lanes);
      std::int64_t rows = most.beside * most.rows;
      for (std::size_t a = c->m.size(); a-- > 0 && rows > 1;) grow(place_of(c->m[a]), rows), rows /= leaf.tile[place_of(c->m[a])];
    } else if (const AxisId inner = innermost(i); inner >= 0) {
      grow(place_of(inner), std::min(most.lanes, std::max<std::int64_t>(1, 16 / width_of(statement(i).out))));
    }
    return leaf;
  }
  // Threads without a point of their own help with the reduction of another's.
  int lanes_of(const Schedule& s, std::size_t i, const LeafAt& leaf) const {
    const Statement& st = statement(i);
    for (AxisId a : st.reduced)
      for (const AxisStep& step : s.steps)
        if (region_axis(i, a) == step.axis) return 1;                           // its sums live across a loop
    if (st.reduced.empty() || (facts[i].window && facts[i].window->weights) || st.reducer == Reducer::argmax || st.reducer == Reducer::argmin) return 1;
    std::int64_t items = 1;
    const auto full = full_tile(s, i);
    for (std::size_t a = 0; a < full.size(); ++a) items *= ceil_div_i64(full[a], leaf.tile[a]);
    std::int64_t reduced = 1;
    for (AxisId a : st.reduced) reduced *= st.axes[static_cast<std::size_t>(a)].constant();
    int lanes = 1;
    while (lanes < m.core.lanes && items * lanes * 2 <= s.threads && lanes * 2 * 4 <= reduced) lanes *= 2;
    return lanes;
  }
};

}  // namespace tilewright
