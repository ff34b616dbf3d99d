#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// The dims that the source is over and a micro-tile's extents along them, by the axes that index them.
std::string bind_axes(const Program& p, const Region& r, int statement, const OperandAt& view, const Access& a,
                      const ContractLeaf& l, Gathered& g) {
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    const auto plain = plain_axis(a.at[view.dims[i]]);
    RegionAxis x = -1;
    if (plain) {
      const auto image = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(*plain)]);
      if (!image) return "an axis of its micro-tiles is none of the kernel's";
      x = *image;
    }
    if (x < 0 && p.tensor(a.tensor).dims[view.dims[i]].constant() != 1) return "a dim of its micro-tiles is no axis";
    if (x >= 0 && !l.k.empty() && x == l.k[0]) g.reduced = static_cast<int>(i);
    g.axis.push_back(x);
  }
  return "";
}

std::vector<std::int64_t> source_dims(const Program& p, const OperandAt& view, const Access& a) {
  std::vector<std::int64_t> dims;
  for (std::size_t d : view.dims) dims.push_back(p.tensor(a.tensor).dims[d].constant());
  return dims;
}

// The share of live cells from which on the plain call is the faster one. A row of a call costs what it multiplies and
// brings two vectors of B along, so low calls pay more for each product. Copies of columns cost a tall block about a
// quarter more; taps that are scattered cost a low one about as much again as they multiply.
double break_even(const Gathered& g, const k::Kernels& leaf) {
  const auto efficiency = [](double rows) { return rows / (rows + 2); };
  const auto& unit = g.detector.cells.unit;
  double rows = 1;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (static_cast<int>(i) != g.reduced) rows *= static_cast<double>(unit[i]);
  const double full = efficiency(leaf.mr);
  if (g.form == Gathered::Form::columns) {
    const double calls = std::ceil(rows / leaf.mr);
    return (rows >= tall_block ? 0.8 : 0.5) * efficiency(rows / calls) / full;
  }
  if (g.form == Gathered::Form::rows) return 1; // nothing is lost where all are live
  // Sums are read and written once a block.
  const double block = static_cast<double>(g.block);
  return 0.9 * block / (block + 8);
}

} // namespace

std::shared_ptr<Gathered> compile_gathered(const k::Kernels& leaf, const Program& p, const Region& r, int statement,
                                           const OperandAt& view, const Access& a, const ContractLeaf& l,
                                           const std::vector<std::int64_t>& full_tile, std::string* why) {
  auto g = std::make_shared<Gathered>();
  *why = "";
  if (l.accumulate)
    *why = "the contraction is streamed";
  else if (l.taps != 1 || l.k.size() > 1 || (l.k_outer >= 0 && l.k_outer != l.k[0]))
    *why = "several axes are reduced";
  else if (a.otherwise)
    *why = "it is read outside its bounds";
  else if (l.b_strides[l.n] == 0)
    *why = "no columns";
  else
    *why = bind_axes(p, r, statement, view, a, l, *g);
  if (!why->empty()) return nullptr;
  g->source = view.source, g->lengths = view.lengths;
  const auto dims = source_dims(p, view, a);
  Cells c = cells(dims, view.unit, view.packed);
  g->block = g->reduced >= 0 ? c.unit[static_cast<std::size_t>(g->reduced)] : l.k_extent;
  const bool columns = g->reduced >= 0 && c.is_packed(static_cast<std::size_t>(g->reduced));
  const bool whole = g->reduced < 0 || c.along(static_cast<std::size_t>(g->reduced)) <= 1;
  g->form = columns ? Gathered::Form::columns : whole ? Gathered::Form::rows : Gathered::Form::pieces;
  if (columns && c.packed.size() != 1) return *why = "columns are packed with another dim", nullptr;
  g->detector = detector(std::move(c), p.tensor(view.source).dtype, dense_strides(dims, row_major(dims.size())));
  const auto count = static_cast<std::size_t>(g->detector.cells.count());
  g->marks = std::make_shared<Aligned>(count + 64);
  if (columns) {
    g->slot = std::make_shared<Aligned>(count * sizeof(std::uint32_t) + 64);
    g->count =
        std::make_shared<Aligned>(static_cast<std::size_t>(g->detector.cells.groups()) * sizeof(std::uint32_t) + 64);
  }
  for (RegionAxis x : l.far)
    if (l.b_strides[x] != 0) g->copies *= r.axes[static_cast<std::size_t>(x)].constant();
  if (!l.packed)
    g->packed = std::make_shared<Aligned>(
        static_cast<std::size_t>(g->copies * k::packed_elements(leaf, l.n_extent, l.k_extent)) *
            bytes_of(l.packed_type) +
        64);
  g->most_live = break_even(*g, leaf);
  (void)full_tile;
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
      g->axis.push_back(-1), dims.push_back(1), unit.push_back(1), packed.push_back(d);
      continue;
    }
    const auto image = plain
                           ? plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(*plain)])
                           : std::nullopt;
    const RegionAxis x = image.value_or(-1);
    bool row = x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() == 1;
    for (const auto& merged : l.rows) row |= std::find(merged.begin(), merged.end(), x) != merged.end();
    if (!row) *why = "an axis of the key is not among the rows";
    g->axis.push_back(x);
    dims.push_back(key.dims[d].constant());
    if (x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() != dims.back())
      *why = "the key is longer than its axis";
    unit.push_back(1), packed.push_back(d);
  }
  if (!why->empty()) return nullptr;
  g->form = Gathered::Form::buckets;
  g->source = keyed.key.tensor;
  g->wrong_key.where = key.name;
  g->keys = operand.dims[keyed.dim].constant(), g->key_stride = b.stride[keyed.dim];
  g->block = l.k_extent;
  g->detector = detector(cells(dims, unit, packed), key.dtype, dense_strides(dims, row_major(dims.size())));
  g->copies = g->keys;
  for (RegionAxis x : l.far)
    if (l.b_strides[x] != 0) g->copies *= r.axes[static_cast<std::size_t>(x)].constant();
  g->key_of.resize(static_cast<std::size_t>(g->detector.cells.count()));
  (void)leaf;
  return g;
}

std::shared_ptr<Aligned> room_for_slices(const k::Kernels& leaf, const ContractLeaf& l, const Gathered& g) {
  return std::make_shared<Aligned>(
      static_cast<std::size_t>(g.copies * k::packed_elements(leaf, l.n_extent, l.k_extent)) * bytes_of(l.packed_type) +
      64);
}

// ---- before the tiles

namespace {

std::int64_t integer(const std::byte* p, DType t, std::int64_t i) {
  switch (t) {
  case DType::i64: return reinterpret_cast<const std::int64_t*>(p)[i];
  case DType::i32: return reinterpret_cast<const std::int32_t*>(p)[i];
  case DType::u8: return reinterpret_cast<const std::uint8_t*>(p)[i];
  default: return reinterpret_cast<const std::int8_t*>(p)[i];
  }
}

// s < n[b]: the last dim of the cells is bounded by an element of the source for each point of the others.
void mark_lengths(const Gathered& g, const std::byte* source, int worker, int workers) {
  const std::vector<std::int64_t>& dims = g.detector.cells.dims;
  const std::int64_t run = dims.back(), rows = run == 0 ? 0 : g.detector.cells.count() / run;
  auto* const marks = reinterpret_cast<std::uint8_t*>(g.marks->data);
  const DType t = g.detector.dtype;
  for (std::int64_t b = rows * worker / workers; b < rows * (worker + 1) / workers; ++b) {
    const std::int64_t n = std::clamp<std::int64_t>(integer(source, t, b), 0, run);
    std::memset(marks + b * run, 1, static_cast<std::size_t>(n));
    std::memset(marks + b * run + n, 0, static_cast<std::size_t>(run - n));
  }
}

// All copies of B, a block of k at a time through all panels: so few rows of B lie on few pages.
// used: of the slices those that some row reads; null: all.
void pack_panels(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b, int worker, int workers,
                 const std::vector<bool>* used = nullptr) {
  constexpr std::int64_t block = 64;
  const Gathered& g = *l.gathered;
  const std::int64_t panels = (l.n_extent + leaf.nr - 1) / leaf.nr, each = l.k_extent * leaf.nr,
                     blocks = (l.k_extent + block - 1) / block;
  const std::int64_t from_width = static_cast<std::int64_t>(bytes_of(l.b_type)),
                     to_width = static_cast<std::int64_t>(bytes_of(l.packed_type));
  const std::int64_t all = blocks * g.copies, b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]], b_n = l.b_strides[l.n];
  for (std::int64_t i = all * worker / workers, end = all * (worker + 1) / workers; i < end; ++i) {
    std::int64_t rest = i / blocks, from = l.b_strides.offset;
    const std::int64_t first = i % blocks * block, to = rest * panels * each + first * leaf.nr;
    for (std::size_t f = 0; f < l.far.size(); ++f) {
      if (l.b_strides[l.far[f]] == 0) continue;
      from += rest % l.far_extent[f] * l.b_strides[l.far[f]];
      rest /= l.far_extent[f];
    }
    if (used && !(*used)[static_cast<std::size_t>(rest)]) continue;
    from += rest * g.key_stride + first * b_k; // slices outermost
    for (std::int64_t j = 0; j < panels; ++j)
      leaf.pack_b({.n = std::min<std::int64_t>(leaf.nr, l.n_extent - j * leaf.nr),
                   .k = std::min(block, l.k_extent - first),
                   .taps = 1,
                   .src = b + (from + j * leaf.nr * b_n) * from_width,
                   .src_type = l.b_type,
                   .b_k = b_k,
                   .b_n = b_n,
                   .dst = g.packed->data + (to + j * each) * to_width,
                   .dst_type = l.packed_type});
  }
}

} // namespace

std::shared_ptr<Aligned> pack_slices(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b) {
  l.gathered->packed = room_for_slices(leaf, l, *l.gathered);
  if (b) pack_panels(leaf, l, b, 0, 1);
  return l.gathered->packed;
}

namespace {

// Rows in the order of their keys. One worker does it: a pass over integers.
void sort_keys(Gathered& g, const std::byte* source) {
  g.wrong = false;
  for (std::size_t i = 0; i < g.key_of.size(); ++i) {
    g.key_of[i] = integer(source, g.detector.dtype, static_cast<std::int64_t>(i));
    g.wrong |= g.key_of[i] < 0 || g.key_of[i] >= g.keys;
  }
  if (!g.wrong) g.sorted = sort_by_key(g.key_of, g.keys);
}

} // namespace

void prepare_gathered(const k::Kernels& leaf, const ContractLeaf& l, std::byte* const* tensors, TensorId b, int worker,
                      int workers) {
  Gathered& g = *l.gathered;
  if (worker == 0) g.live = 0;
  if (g.form == Gathered::Form::buckets) {
    if (worker == 0) sort_keys(g, tensors[g.source]);
  } else if (g.lengths)
    mark_lengths(g, tensors[g.source], worker, workers);
  else
    mark_cells(leaf, g.detector, tensors[g.source], reinterpret_cast<std::uint8_t*>(g.marks->data), worker, workers);
  if (l.packed) return;
  if (g.form != Gathered::Form::buckets) return pack_panels(leaf, l, tensors[b], worker, workers);
  std::vector<bool> used(static_cast<std::size_t>(g.keys), false);
  for (std::int64_t i = 0, rows = g.detector.cells.count(); i < rows; ++i)
    if (const std::int64_t key = integer(tensors[g.source], g.detector.dtype, i); key >= 0 && key < g.keys)
      used[static_cast<std::size_t>(key)] = true;
  pack_panels(leaf, l, tensors[b], worker, workers, &used);
}

void list_gathered(const ContractLeaf& l, int worker, int workers) {
  Gathered& g = *l.gathered;
  if (g.form == Gathered::Form::buckets) return;
  const auto* marks = reinterpret_cast<const std::uint8_t*>(g.marks->data);
  const std::int64_t all = g.detector.cells.count(), first = all * worker / workers,
                     last = all * (worker + 1) / workers;
  std::int64_t live = 0;
  for (std::int64_t i = first; i < last; ++i) live += marks[i];
  g.live += live;
  if (g.form == Gathered::Form::columns)
    list_slots(g.detector, marks, reinterpret_cast<std::uint32_t*>(g.count->data),
               reinterpret_cast<std::uint32_t*>(g.slot->data), worker, workers);
}

} // namespace tilewright::cpu
