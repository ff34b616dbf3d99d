#include "target/cpu/gathered_leaf.h"

#include <algorithm>

#include <fmt/format.h>

namespace tilewright::cpu {

namespace k = kernels;

namespace {

bool holds(const std::vector<AxisId>& list, AxisId x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// One operand's cells over the axes of the leaf.
struct Binder {
  const Program& p;
  const Region& r;
  const ContractLeaf& l;
  const GatheredView& v;
  Side side{};
  std::string why{};

  const Statement& statement() const { return *p.statement(r.statements[static_cast<std::size_t>(v.statement)]); }
  std::int64_t extent(RegionAxis x) const { return r.axes[static_cast<std::size_t>(x)].constant(); }

  bool run() {
    side.source = v.view->source, side.lengths = v.view->lengths;
    std::vector<std::int64_t> dims;
    for (std::size_t d : v.view->dims) dims.push_back(p.tensor(v.access.tensor).dims[d].constant());
    const Cells c = cells(dims, v.view->unit, v.view->packed);
    const DimOrder order = v.view->order.empty() || side.lengths ? row_major(dims.size()) : v.view->order;
    side.detector = detector(c, p.tensor(side.source).dtype, dense_strides(dims, order));
    for (std::size_t i = 0; i < v.view->dims.size(); ++i)
      if (!bind(i)) return false;
    side.marks = std::make_shared<Aligned>(static_cast<std::size_t>(c.count()) + 64);
    return true;
  }

  bool bind(std::size_t i) {
    side.axis.push_back(-1);
    const bool one = side.detector.cells.along(i) <= 1; // cell, wherever the axis stands
    const auto plain = plain_axis(v.access.at[v.view->dims[i]]);
    if (!plain) return why = one ? "" : "a dim of its micro-tiles is no axis", one;
    const auto image = plain_axis(r.image[static_cast<std::size_t>(v.statement)][static_cast<std::size_t>(*plain)]);
    if (!image) return why = one ? "" : "an axis of its micro-tiles is none of the kernel's", one;
    const bool reduced = holds(statement().reduced, *plain);
    if (one && reduced) return true;
    side.axis.back() = *image;
    if (!reduced) return true;
    if (side.reduced >= 0) return why = "its cells lie over two reduced axes", false;
    side.reduced = static_cast<int>(i);
    return along_reduced(*image);
  }

  // The reduced axis is the inner one of the leaf's calls, or one of those that became taps.
  bool along_reduced(RegionAxis x) {
    if (!l.k.empty() && x == l.k[0] && l.k_outer == l.k[0]) return true;
    std::int64_t after = l.taps;
    for (const auto& group : l.tap_groups) {
      std::int64_t all = 1;
      for (RegionAxis a : group) all *= extent(a);
      after /= all;
      const auto at = std::find(group.begin(), group.end(), x);
      if (at == group.end()) continue;
      for (auto inner = at + 1; inner != group.end(); ++inner) after *= extent(*inner);
      for (std::int64_t t = 0; t < l.taps; ++t) side.tap_at.push_back(t / after % extent(x));
      return true;
    }
    return why = "its reduced axis is merged with another", false;
  }
};

bool is_row(const ContractLeaf& l, RegionAxis x) {
  return std::any_of(l.rows.begin(), l.rows.end(),
                     [&](const auto& merged) { return std::find(merged.begin(), merged.end(), x) != merged.end(); });
}
bool is_far(const ContractLeaf& l, RegionAxis x) { return std::find(l.far.begin(), l.far.end(), x) != l.far.end(); }

// How a's cells may be merged and its values copied; the form of the cells as they are declared.
void shape_forms(const Program& p, const ContractLeaf& l, const Access& access, const OperandAt& view, Gathered& g) {
  const Cells& c = g.a.detector.cells;
  int blocks = 0;
  for (std::size_t i = 0; i < c.dims.size(); ++i) {
    if (static_cast<int>(i) == g.a.reduced || g.a.axis[i] < 0) continue;
    if (c.unit[i] > 1) ++blocks;
    if (g.tall_dim < 0 || c.unit[i] >= c.unit[static_cast<std::size_t>(g.tall_dim)]) g.tall_dim = static_cast<int>(i);
  }
  const auto tall = static_cast<std::size_t>(std::max(g.tall_dim, 0));
  if (g.tall_dim >= 0) g.group_rows = c.unit[tall];
  g.merges = g.tall_dim >= 0 && blocks <= 1 && is_row(l, g.a.axis[tall]) && tall != g.a.detector.column;
  const bool columns = g.a.reduced >= 0 && c.along(static_cast<std::size_t>(g.a.reduced)) > 1;
  std::size_t long_dims = 0, seen = 0;
  for (const Size& d : p.tensor(access.tensor).dims) long_dims += d.constant() > 1;
  for (std::size_t i = 0; i < c.dims.size(); ++i) seen += c.dims[i] > 1 && (g.a.axis[i] >= 0 || c.dims[i] == 1);
  g.compact = columns && l.taps == 1 && g.a.tap_at.empty() && blocks <= 1 && seen == long_dims && !access.otherwise &&
              (g.tall_dim < 0 || is_row(l, g.a.axis[tall]) || c.unit[tall] == 1);
  const bool packs_k = columns && std::find(view.packed.begin(), view.packed.end(),
                                            static_cast<std::size_t>(g.a.reduced)) != view.packed.end();
  g.form = packs_k ? Gathered::Form::columns : columns ? Gathered::Form::pieces : Gathered::Form::rows;
}

std::int64_t copies_of(const Region& r, const ContractLeaf& l) {
  std::int64_t copies = 1;
  for (RegionAxis x : l.far)
    if (l.b_strides[x] != 0) copies *= r.axes[static_cast<std::size_t>(x)].constant();
  return copies;
}

// What B or the result has its cells over: the columns, axes around the calls, and what else it may have.
std::string fits(const ContractLeaf& l, const Side& s, bool rows_too) {
  for (std::size_t i = 0; i < s.axis.size(); ++i) {
    const RegionAxis x = s.axis[i];
    if (x < 0 || static_cast<int>(i) == s.reduced || x == l.n || is_far(l, x) || (rows_too && is_row(l, x))) continue;
    return "its cells lie over other axes";
  }
  return "";
}

ByPanel by_panel(const Side& s, RegionAxis n, std::int64_t panels) {
  ByPanel b;
  b.panels = panels;
  b.other = s.reduced < 0 ? 1 : s.detector.cells.along(static_cast<std::size_t>(s.reduced));
  b.stride.assign(s.axis.size(), 0);
  for (std::size_t i = s.axis.size(); i-- > 0;) {
    if (s.axis[i] == n) b.dim = static_cast<int>(i);
    if (s.axis[i] == n || static_cast<int>(i) == s.reduced) continue;
    b.stride[i] = b.far, b.far *= s.detector.cells.along(i);
  }
  b.marks = std::make_shared<Aligned>(static_cast<std::size_t>(b.far * panels * b.other) + 64);
  return b;
}

} // namespace

std::shared_ptr<Gathered> compile_gathered(const k::Kernels& leaf, const Program& p, const Region& r,
                                           const ContractLeaf& l, const GatheredView& a, const GatheredView& b,
                                           const GatheredView& c, std::string* why) {
  auto g = std::make_shared<Gathered>();
  *why = l.accumulate            ? "the contraction is streamed"
         : l.integers            ? "integers"
         : l.b_strides[l.n] == 0 ? "no columns"
                                 : "";
  if (!why->empty()) return nullptr;
  const std::int64_t panels = (l.n_extent + leaf.nr - 1) / leaf.nr;
  auto bound = [&](const GatheredView& v, Side& side, auto&& further) {
    if (!v.view) return;
    Binder binder{p, r, l, v};
    if (binder.run()) binder.why = further(binder.side);
    if (!binder.why.empty())
      *why += (why->empty() ? "" : "; ") + binder.why;
    else
      side = std::move(binder.side);
  };
  bound(a, g->a, [](const Side&) { return std::string(); });
  bound(b, g->b, [&](const Side& s) { return s.lengths ? "lengths of B" : fits(l, s, false); });
  bound(c, g->c, [&](const Side& s) { return s.lengths ? "lengths of the result" : fits(l, s, true); });
  if (!g->a.there() && !g->b.there() && !g->c.there()) return nullptr;
  if (g->b.there()) g->b_panels = by_panel(g->b, l.n, panels);
  if (g->b.there() && g->b.reduced >= 0) g->b_unit = g->b.detector.cells.unit[static_cast<std::size_t>(g->b.reduced)];
  if (g->c.there()) g->c_panels = by_panel(g->c, l.n, panels);
  g->form = Gathered::Form::plain;
  if (g->a.there()) {
    shape_forms(p, l, a.access, *a.view, *g);
    g->merged = g->a.detector;
    for (std::int64_t x = 0; x < l.k_extent; ++x) g->counting.push_back(x);
    for (RegionAxis x : g->a.axis) g->a_dim_stride.push_back(x < 0 ? 0 : l.in_place.strides[x]);
  }
  g->dtype = l.a_type;
  g->plain_sums =
      l.a_type == DType::f32 && l.packed_type == DType::f32 && l.c_type == DType::f32 && l.c_strides[l.n] == 1;
  g->copies = copies_of(r, l);
  g->lies_as_panels = !l.packed && l.taps == 1 && !l.k.empty() && l.b_strides[l.n] == 1 && l.b_type == l.packed_type &&
                      l.n_extent % leaf.nr == 0;
  g->b_copy_bytes =
      g->compact
          ? std::max<std::int64_t>(l.k_extent * leaf.nr * static_cast<std::int64_t>(bytes_of(l.packed_type)), 131072)
          : 0;
  return g;
}

std::shared_ptr<Gathered> compile_buckets(const k::Kernels& leaf, const Program& p, const Region& r, int statement,
                                          const KeyedProduct& keyed, const Stored& b, const ContractLeaf& l,
                                          std::string* why) {
  auto g = std::make_shared<Gathered>();
  *why = "";
  if (l.accumulate)
    *why = "the contraction is streamed";
  else if (l.taps != 1 || l.k.size() > 1 || (l.k_outer >= 0 && l.k_outer != l.k[0]))
    *why = "several axes are reduced";
  const Tensor &key = p.tensor(keyed.key.tensor), &operand = p.tensor(keyed.operand);
  std::vector<std::int64_t> dims, unit;
  std::vector<std::size_t> packed;
  for (std::size_t d = 0; d < keyed.key.at.size(); ++d) {
    const auto plain = plain_axis(keyed.key.at[d]);
    if (!plain && key.dims[d].constant() == 1) {
      g->a.axis.push_back(-1), dims.push_back(1), unit.push_back(1), packed.push_back(d);
      continue;
    }
    const auto image = plain
                           ? plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(*plain)])
                           : std::nullopt;
    const RegionAxis x = image.value_or(-1);
    if (!(x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() == 1) && !is_row(l, x))
      *why = "an axis of the key is not among the rows";
    g->a.axis.push_back(x);
    dims.push_back(key.dims[d].constant());
    if (x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() != dims.back())
      *why = "the key is longer than its axis";
    unit.push_back(1), packed.push_back(d);
  }
  if (!why->empty()) return nullptr;
  g->form = g->way.form = Gathered::Form::buckets;
  g->a.source = keyed.key.tensor;
  g->wrong_key.where = key.name;
  g->keys = operand.dims[keyed.dim].constant(), g->key_stride = b.stride[keyed.dim];
  g->merged = g->a.detector =
      detector(cells(dims, unit, packed), key.dtype, dense_strides(dims, row_major(dims.size())));
  g->copies = g->keys * copies_of(r, l);
  g->key_of.resize(static_cast<std::size_t>(g->merged.cells.count()));
  (void)leaf;
  return g;
}

std::string text(const Gathered& g, const Gathered::Way& way) {
  static constexpr const char* names[] = {"columns", "rows", "pieces", "buckets", "plain"};
  std::string text = names[static_cast<int>(way.form)];
  if (way.form == Gathered::Form::buckets || way.form == Gathered::Form::plain) return text;
  const Cells& c = g.a.detector.cells;
  const std::int64_t wide = g.a.reduced < 0 ? 1 : c.unit[static_cast<std::size_t>(g.a.reduced)] * way.wide;
  return fmt::format("{} of {} x {}", text, g.group_rows * way.tall, wide);
}

} // namespace tilewright::cpu
