#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// Columns of tall row blocks are copied side by side first, and the panels of B that they meet: so many rows, and about so many bytes
// of panels, at a time. Of lower ones each panel is read too seldom for that to pay.
constexpr std::int64_t copied_rows = 64, copied_bytes = 128 * 1024, tall = 6;

std::int64_t panel_room(const ContractLeaf& l, int nr) { return std::max(l.k_extent * nr * static_cast<std::int64_t>(bytes_of(l.packed_type)), copied_bytes); }

std::int64_t row_entries(const ContractLeaf& l) { return (static_cast<std::int64_t>(l.steps.size()) + 2) * l.row_limit; }

// The dims that the source is over and a micro-tile's extents along them, by the axes that index them.
std::string bind_axes(const Program& p, const Region& r, int statement, const OperandAt& view, const Access& a, const ContractLeaf& l, Gathered& g) {
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

// The share of live cells from which on the plain call is the faster one. A row of a call costs what it multiplies and brings two
// vectors of B along, so low calls pay more for each product. Copies of columns cost a tall block about a quarter more; taps that
// are scattered cost a low one about as much again as they multiply.
double break_even(const Gathered& g, const k::Kernels& leaf) {
  const auto efficiency = [](double rows) { return rows / (rows + 2); };
  const auto& unit = g.detector.cells.unit;
  double rows = 1;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (static_cast<int>(i) != g.reduced) rows *= static_cast<double>(unit[i]);
  const double full = efficiency(leaf.mr);
  if (g.form == Gathered::Form::columns) {
    const double calls = std::ceil(rows / leaf.mr);
    return (rows >= tall ? 0.8 : 0.5) * efficiency(rows / calls) / full;
  }
  if (g.form == Gathered::Form::rows) return 1;   // nothing is lost where all are live
  // Sums are read and written once a block.
  const double block = static_cast<double>(g.block);
  return 0.9 * block / (block + 8);
}

}  // namespace

std::shared_ptr<Gathered> compile_gathered(const k::Kernels& leaf, const Program& p, const Region& r, int statement, const OperandAt& view, const Access& a,
                                           const ContractLeaf& l, const std::vector<std::int64_t>& full_tile, std::string* why) {
  auto g = std::make_shared<Gathered>();
  *why = "";
  if (l.accumulate) *why = "the contraction is streamed";
  else if (l.taps != 1 || l.k.size() > 1 || (l.k_outer >= 0 && l.k_outer != l.k[0])) *why = "several axes are reduced";
  else if (a.otherwise) *why = "it is read outside its bounds";
  else if (l.b_strides[l.n] == 0) *why = "no columns";
  else *why = bind_axes(p, r, statement, view, a, l, *g);
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
    g->count = std::make_shared<Aligned>(static_cast<std::size_t>(g->detector.cells.groups()) * sizeof(std::uint32_t) + 64);
  }
  for (RegionAxis x : l.far)
    if (l.b_strides[x] != 0) g->copies *= r.axes[static_cast<std::size_t>(x)].constant();
  if (!l.packed)
    g->packed = std::make_shared<Aligned>(static_cast<std::size_t>(g->copies * k::packed_elements(leaf, l.n_extent, l.k_extent)) * bytes_of(l.packed_type) + 64);
  g->most_live = break_even(*g, leaf);
  (void)full_tile;
  return g;
}

std::shared_ptr<Gathered> compile_buckets(const k::Kernels& leaf, const Program& p, const Region& r, int statement, const KeyedProduct& keyed, const Stored& b,
                                          const ContractLeaf& l, std::string* why) {
  auto g = std::make_shared<Gathered>();
  *why = "";
  if (l.accumulate) *why = "the contraction is streamed";
  else if (l.taps != 1 || l.k.size() > 1 || (l.k_outer >= 0 && l.k_outer != l.k[0])) *why = "several axes are reduced";
  const Tensor &key = p.tensor(keyed.key.tensor), &operand = p.tensor(keyed.operand);
  std::vector<std::int64_t> dims, unit;
  std::vector<std::size_t> packed;
  for (std::size_t d = 0; d < keyed.key.at.size(); ++d) {
    const auto plain = plain_axis(keyed.key.at[d]);
    if (!plain && key.dims[d].constant() == 1) {
      g->axis.push_back(-1), dims.push_back(1), unit.push_back(1), packed.push_back(d);
      continue;
    }
    const auto image = plain ? plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(*plain)]) : std::nullopt;
    const RegionAxis x = image.value_or(-1);
    bool row = x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() == 1;
    for (const auto& merged : l.rows) row |= std::find(merged.begin(), merged.end(), x) != merged.end();
    if (!row) *why = "an axis of the key is not among the rows";
    g->axis.push_back(x);
    dims.push_back(key.dims[d].constant());
    if (x >= 0 && r.axes[static_cast<std::size_t>(x)].constant() != dims.back()) *why = "the key is longer than its axis";
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
  return std::make_shared<Aligned>(static_cast<std::size_t>(g.copies * k::packed_elements(leaf, l.n_extent, l.k_extent)) * bytes_of(l.packed_type) + 64);
}

std::int64_t gathered_scratch(const ContractLeaf& l, const std::vector<std::int64_t>& full_tile) {
  if (!l.gathered) return 0;
  const std::int64_t tables = (2 * row_entries(l) + 2 * l.row_limit + 2 * l.k_extent) * 8;
  const std::int64_t sums = l.gathered->form == Gathered::Form::pieces ? l.row_limit * full_tile[static_cast<std::size_t>(l.n)] * 4 + 64 : 0;
  const bool columns = l.gathered->form == Gathered::Form::columns;
  const std::int64_t copies = columns ? panel_room(l, l.panel) + copied_rows * l.k_extent * static_cast<std::int64_t>(bytes_of(l.a_type)) + 128 : 0;
  return tables + sums + copies + 64;
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
void pack_panels(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b, int worker, int workers) {
  constexpr std::int64_t block = 64;
  const Gathered& g = *l.gathered;
  const std::int64_t panels = (l.n_extent + leaf.nr - 1) / leaf.nr, each = l.k_extent * leaf.nr, blocks = (l.k_extent + block - 1) / block;
  const std::int64_t from_width = static_cast<std::int64_t>(bytes_of(l.b_type)), to_width = static_cast<std::int64_t>(bytes_of(l.packed_type));
  const std::int64_t all = blocks * g.copies, b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]], b_n = l.b_strides[l.n];
  for (std::int64_t i = all * worker / workers, end = all * (worker + 1) / workers; i < end; ++i) {
    std::int64_t rest = i / blocks, from = l.b_strides.offset;
    const std::int64_t first = i % blocks * block, to = rest * panels * each + first * leaf.nr;
    for (std::size_t f = 0; f < l.far.size(); ++f) {
      if (l.b_strides[l.far[f]] == 0) continue;
      from += rest % l.far_extent[f] * l.b_strides[l.far[f]];
      rest /= l.far_extent[f];
    }
    from += rest * g.key_stride + first * b_k;   // slices outermost
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

}  // namespace

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

}  // namespace

void prepare_gathered(const k::Kernels& leaf, const ContractLeaf& l, std::byte* const* tensors, TensorId b, int worker, int workers) {
  Gathered& g = *l.gathered;
  if (worker == 0) g.live = 0;
  if (g.form == Gathered::Form::buckets) {
    if (worker == 0) sort_keys(g, tensors[g.source]);
  } else if (g.lengths) mark_lengths(g, tensors[g.source], worker, workers);
  else mark_cells(leaf, g.detector, tensors[g.source], reinterpret_cast<std::uint8_t*>(g.marks->data), worker, workers);
  if (!l.packed) pack_panels(leaf, l, tensors[b], worker, workers);
}

void list_gathered(const ContractLeaf& l, int worker, int workers) {
  Gathered& g = *l.gathered;
  if (g.form == Gathered::Form::buckets) return;
  const auto* marks = reinterpret_cast<const std::uint8_t*>(g.marks->data);
  const std::int64_t all = g.detector.cells.count(), first = all * worker / workers, last = all * (worker + 1) / workers;
  std::int64_t live = 0;
  for (std::int64_t i = first; i < last; ++i) live += marks[i];
  g.live += live;
  if (g.form == Gathered::Form::columns)
    list_slots(g.detector, marks, reinterpret_cast<std::uint32_t*>(g.count->data), reinterpret_cast<std::uint32_t*>(g.slot->data), worker, workers);
}

// ---- a tile

namespace {

struct Tile {
  const k::Kernels& leaf;
  const ContractLeaf& l;
  const Gathered& g;
  LeafLoops& loops;
  k::Contract call;                          // what all calls of the tile share
  std::int64_t rows;
  std::int64_t *tables, *some, *mark, *group, *a_tap, *b_tap;   // of all rows: a, c, steps; of chosen rows likewise
  float* sums;
  std::byte *b_copy, *a_copy;
  std::int64_t mark_base = 0, group_base = 0;

  std::size_t lists() const { return l.steps.size() + 2; }
  std::int64_t* all(std::size_t list) const { return tables + static_cast<std::int64_t>(list) * l.row_limit; }
  std::int64_t* chosen(std::size_t list) const { return some + static_cast<std::int64_t>(list) * l.row_limit; }
  const Strides& strides(std::size_t list) const { return list == 0 ? l.in_place.strides : list == 1 ? l.c_strides : l.steps[list - 2].strides; }
  bool used(std::size_t list) const { return list < 2 || l.steps[list - 2].buffer >= 0; }

  std::int64_t cell(RegionAxis x, std::int64_t at, const std::vector<std::int64_t>& stride) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < g.axis.size(); ++i)
      if (g.axis[i] == x && static_cast<int>(i) != g.reduced) sum += at / g.detector.cells.unit[i] * stride[i];
    return sum;
  }

  // Offsets of every row from the tile's first in each operand, and its cell. Rows run through the merged axes, the last fastest.
  void number_rows() {
    std::vector<RegionAxis> axes;
    for (const auto& merged : l.rows) axes.insert(axes.end(), merged.begin(), merged.end());
    std::int64_t at[32];
    for (std::size_t i = 0; i < axes.size(); ++i) at[i] = loops.low[axes[i]];
    for (std::int64_t r = 0; r < rows; ++r) {
      if (g.form == Gathered::Form::buckets) {
        number_by_key(axes, at, r);
        next(axes, at);
        continue;
      }
      for (std::size_t list = 0; list < lists(); ++list) {
        if (!used(list)) continue;
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < axes.size(); ++i) offset += (at[i] - loops.low[axes[i]]) * strides(list)[axes[i]];
        all(list)[r] = offset;
      }
      mark[r] = group[r] = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) {
        mark[r] += cell(axes[i], at[i], g.detector.group_stride) + cell(axes[i], at[i], g.detector.slot_stride);
        group[r] += cell(axes[i], at[i], group_numbers);
      }
      next(axes, at);
    }
  }
  void next(const std::vector<RegionAxis>& axes, std::int64_t* at) const {
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (++at[i] < loops.high[axes[i]]) break;
      at[i] = loops.low[axes[i]];
    }
  }

  // The row that stands at this place in the order of keys: its coordinates along the key's axes are another row's.
  void number_by_key(const std::vector<RegionAxis>& axes, const std::int64_t* at, std::int64_t r) {
    const std::vector<std::int64_t>& dims = g.detector.cells.dims;
    std::int64_t place = 0, row[32];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto x = std::find(axes.begin(), axes.end(), g.axis[d]);
      place = place * dims[d] + (x == axes.end() ? 0 : at[x - axes.begin()]);
    }
    std::int64_t other = g.within_tiles ? place : g.sorted.order[static_cast<std::size_t>(place)];
    group[r] = g.key_of[static_cast<std::size_t>(other)];
    std::copy_n(at, axes.size(), row);
    for (std::size_t d = dims.size(); d-- > 0; other /= dims[d]) {
      const auto x = std::find(axes.begin(), axes.end(), g.axis[d]);
      if (x != axes.end()) row[x - axes.begin()] = other % dims[d];
    }
    for (std::size_t list = 0; list < lists(); ++list) {
      if (!used(list)) continue;
      all(list)[r] = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) all(list)[r] += (row[i] - loops.low[axes[i]]) * strides(list)[axes[i]];
    }
  }

  std::vector<std::int64_t> group_numbers{};   // how the table counts groups: row-major over the dims that are not packed
  void count_groups() {
    const Cells& c = g.detector.cells;
    group_numbers.assign(c.dims.size(), 0);
    std::int64_t n = 1;
    for (std::size_t d = c.dims.size(); d-- > 0;)
      if (!c.is_packed(d)) group_numbers[d] = n, n *= c.along(d);
  }

  // The cell's part that lies along the far axes of this point.
  void stand_at(const std::int64_t* point) {
    mark_base = group_base = 0;
    for (RegionAxis x : l.far) {
      mark_base += cell(x, point[x], g.detector.group_stride) + cell(x, point[x], g.detector.slot_stride);
      group_base += cell(x, point[x], group_numbers);
    }
  }

  // A call with rows [first, first + m) of `from`'s tables.
  void with_rows(bool of_chosen, std::int64_t first, std::int64_t m) {
    auto table = [&](std::size_t list) { return k::Rows{0, (of_chosen ? chosen(list) : all(list)) + first}; };
    call.m = m;
    call.a_rows = table(0), call.c_rows = table(1);
    for (std::size_t i = 0; i < l.steps.size(); ++i)
      if (used(i + 2)) loops.epilogue[i].rows = table(i + 2);
  }
  void choose(std::int64_t r, std::int64_t n) const {
    for (std::size_t list = 0; list < lists(); ++list)
      if (used(list)) chosen(list)[n] = all(list)[r];
  }

  void scattered_columns(std::int64_t r, std::int64_t m, std::int64_t taps) {
    with_rows(false, r, m);
    k::Contract part = call;
    part.k = 1, part.taps = taps;
    part.tap_offset = a_tap, part.b_offset = b_tap;
    leaf.contract(part);
  }

  template <class T> void copy_rows(std::int64_t r, std::int64_t m, std::int64_t taps) const {
    T* to = reinterpret_cast<T*>(a_copy);
    for (std::int64_t i = 0; i < m; ++i, to += taps) {
      const T* const from = static_cast<const T*>(call.a) + all(0)[r + i];
      for (std::int64_t t = 0; t < taps; ++t) to[t] = from[a_tap[t]];
    }
  }

  // The live columns of A side by side, and as many panels of B as fit, of which the leaf then sees nothing but a shorter sum.
  void copied_columns(std::int64_t r, std::int64_t m, std::int64_t taps) {
    if (bytes_of(l.a_type) == 4) copy_rows<std::uint32_t>(r, m, taps);
    else copy_rows<std::uint16_t>(r, m, taps);
    with_rows(false, r, m);
    k::Contract part = call;
    part.k = taps, part.taps = 1;
    part.a = a_copy, part.a_rows = {taps, nullptr}, part.a_k = 1;
    part.b = b_copy, part.b_panel = 0;
    const std::int64_t width = static_cast<std::int64_t>(bytes_of(l.packed_type)), panels = (call.n + leaf.nr - 1) / leaf.nr;
    const std::int64_t some_panels = std::max<std::int64_t>(1, panel_room(l, leaf.nr) / std::max<std::int64_t>(1, taps * leaf.nr * width));
    std::array<k::EpilogueStep, most_steps> steps = loops.epilogue;
    part.epilogue.steps = steps.data();
    for (std::int64_t first = 0; first < panels; first += some_panels) {
      const std::int64_t last = std::min(panels, first + some_panels), column = first * leaf.nr;
      for (std::int64_t j = first; j < last; ++j)
        leaf.pack_b({.n = leaf.nr, .k = 1, .taps = taps, .src = static_cast<const std::byte*>(call.b) + j * call.b_panel * width, .src_type = l.packed_type,
                     .b_k = 0, .b_n = 1, .tap_offset = b_tap, .dst = b_copy + (j - first) * taps * leaf.nr * width, .dst_type = l.packed_type});
      part.n = std::min(call.n, last * leaf.nr) - column;
      part.c = static_cast<std::byte*>(call.c) + column * call.c_n * static_cast<std::int64_t>(bytes_of(l.c_type));
      for (std::size_t i = 0; i < l.steps.size(); ++i)
        if (used(i + 2))
          steps[i].operand = static_cast<const std::byte*>(loops.epilogue[i].operand) + column * steps[i].column * static_cast<std::int64_t>(bytes_of(steps[i].dtype));
      leaf.contract(part);
    }
  }

  // Columns: the live k of a row block, as taps.
  void columns() {
    const std::int64_t length = g.detector.cells.length(), a_k = call.a_k;
    const auto *count = reinterpret_cast<const std::uint32_t*>(g.count->data), *slot = reinterpret_cast<const std::uint32_t*>(g.slot->data);
    for (std::int64_t r = 0; r < rows;) {
      std::int64_t end = r + 1;
      while (end < rows && group[end] == group[r]) ++end;
      const std::int64_t list = group_base + group[r];
      std::int64_t taps = 0;
      for (std::uint32_t i = 0; i < count[list]; ++i) {
        const std::int64_t first = slot[list * length + i] * g.block, last = std::min(first + g.block, l.k_extent);
        for (std::int64_t at = first; at < last; ++at, ++taps) a_tap[taps] = at * a_k, b_tap[taps] = at * leaf.nr;
      }
      for (std::int64_t at = r; at < end; at += copied_rows)
        if (const std::int64_t m = std::min(copied_rows, end - at); m >= tall) copied_columns(at, m, taps);
        else scattered_columns(at, m, taps);
      r = end;
    }
  }

  void whole_rows() {
    for (const bool live : {true, false}) {
      std::int64_t n = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        if ((g_marks()[mark_base + mark[r]] != 0) == live) choose(r, n++);
      if (n == 0) continue;
      with_rows(true, 0, n);
      call.k = live ? l.k_extent : 0, call.taps = 1;
      leaf.contract(call);
    }
  }

  // Pieces: sums of the tile in scratch, a block of k after the other.
  void pieces() {
    const std::int64_t blocks = g.detector.cells.along(static_cast<std::size_t>(g.reduced)), width = call.n;
    const auto d = static_cast<std::size_t>(g.reduced);
    const std::int64_t step = g.detector.group_stride[d] + g.detector.slot_stride[d];
    std::memset(sums, 0, static_cast<std::size_t>(rows * width) * sizeof(float));
    k::Contract part = call;
    part.c = sums, part.c_type = DType::f32, part.c_n = 1, part.accumulate = true, part.epilogue = {};
    part.taps = 1, part.a_rows = {0, chosen(0)}, part.c_rows = {0, chosen(1)};
    for (std::int64_t j = 0; j < blocks; ++j) {
      std::int64_t n = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        if (g_marks()[mark_base + mark[r] + j * step]) chosen(0)[n] = all(0)[r], chosen(1)[n++] = r * width;
      if (n == 0) continue;
      const std::int64_t first = j * g.block;
      part.m = n, part.k = std::min(g.block, l.k_extent - first);
      part.a = static_cast<const std::byte*>(call.a) + first * call.a_k * static_cast<std::int64_t>(bytes_of(l.a_type));
      part.b = static_cast<const std::byte*>(call.b) + first * leaf.nr * static_cast<std::int64_t>(bytes_of(l.packed_type));
      leaf.contract(part);
    }
    // What is left is the end: nothing but the sums, and the steps behind.
    with_rows(false, 0, rows);
    std::array<k::EpilogueStep, most_steps + 1> steps;
    steps[0] = {k::StepOp::add, sums, DType::f32, {width, nullptr}, 1, 0, 0};
    std::copy_n(loops.epilogue.begin(), l.steps.size(), steps.begin() + 1);
    k::Contract end = call;
    end.k = 0, end.taps = 1, end.epilogue = {steps.data(), static_cast<int>(l.steps.size()) + 1};
    leaf.contract(end);
  }

  // The tile's rows by key, equal ones in their order: the chosen tables, and their keys in `group`. Once a tile.
  void sort_rows() {
    if (sorted) return;
    sorted = true;
    for (std::int64_t r = 0; r < rows; ++r) mark[r] = r;
    std::sort(mark, mark + rows, [&](std::int64_t x, std::int64_t y) { return std::pair(group[x], x) < std::pair(group[y], y); });
    for (std::int64_t r = 0; r < rows; ++r) choose(mark[r], r);
    for (std::int64_t r = 0; r < rows; ++r) mark[r] = group[mark[r]];
    std::copy_n(mark, rows, group);
  }
  bool sorted = false;

  // Runs of one key, each with its slice of B.
  void by_key() {
    const std::int64_t slice = g.copies / g.keys * ((l.n_extent + leaf.nr - 1) / leaf.nr) * l.k_extent * leaf.nr;
    const void* const first = call.b;
    call.k = l.k_extent, call.taps = 1;
    if (g.within_tiles) sort_rows();
    for (std::int64_t r = 0; r < rows;) {
      std::int64_t end = r + 1;
      while (end < rows && group[end] == group[r]) ++end;
      with_rows(g.within_tiles, r, end - r);
      call.b = static_cast<const std::byte*>(first) + group[r] * slice * static_cast<std::int64_t>(bytes_of(l.packed_type));
      leaf.contract(call);
      r = end;
    }
    call.b = first;
  }

  const std::uint8_t* g_marks() const { return reinterpret_cast<const std::uint8_t*>(g.marks->data); }

  void plain() {
    with_rows(false, 0, rows);
    call.k = l.k_extent, call.taps = 1;
    leaf.contract(call);
  }

  void run() {
    call.tap_offset = nullptr, call.b_offset = nullptr;
    if (g.form != Gathered::Form::buckets && g.dense()) return plain();
    switch (g.form) {
    case Gathered::Form::buckets: return by_key();
    case Gathered::Form::columns: return columns();
    case Gathered::Form::rows: return whole_rows();
    case Gathered::Form::pieces: return pieces();
    }
  }
};

}  // namespace

void run_gathered(const k::Kernels& leaf, const ContractLeaf& l, const std::vector<View>& views, const std::int64_t* low, const std::int64_t* high,
                  std::byte* scratch) {
  const Gathered& g = *l.gathered;
  auto* const words = reinterpret_cast<std::int64_t*>(scratch);
  const std::int64_t tables = row_entries(l), limit = l.row_limit;
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, words};
  Tile t{leaf, l, g, loops, {}, loops.row_count(), words, words + tables, words + 2 * tables, words + 2 * tables + limit,
         words + 2 * tables + 2 * limit, words + 2 * tables + 2 * limit + l.k_extent, nullptr, nullptr, nullptr};
  t.sums = reinterpret_cast<float*>(words + (2 * tables + 2 * limit + 2 * l.k_extent + 7) / 8 * 8);
  t.b_copy = reinterpret_cast<std::byte*>(t.sums);
  t.a_copy = t.b_copy + (panel_room(l, leaf.nr) + 63) / 64 * 64;
  k::Contract& call = t.call;
  call.n = loops.extent(l.n);
  if (t.rows == 0 || call.n == 0) return;
  call.a_type = l.a_type, call.b_type = l.packed_type, call.c_type = l.c_type;
  call.a_k = l.k.empty() ? 0 : l.in_place.strides[l.k[0]];
  call.b_panel = l.k_extent * leaf.nr;
  call.c_n = l.c_strides[l.n];
  for (std::size_t i = 0; i < l.steps.size(); ++i) {
    const StepOf& s = l.steps[i];
    loops.epilogue[i] = {s.op, nullptr, s.dtype, {}, s.buffer < 0 ? 0 : s.strides[l.n], s.a, s.b};
  }
  call.epilogue = {loops.epilogue.data(), static_cast<int>(l.steps.size())};
  if (g.form == Gathered::Form::buckets && g.wrong) return;
  t.count_groups();
  t.number_rows();
  const std::byte* const packed = l.packed ? l.packed->data : g.packed->data;
  loops.each(l.c_strides.axis.size(), [&](const std::int64_t* point) {
    std::int64_t from = low[l.n] / leaf.nr * call.b_panel;
    for (std::size_t i = 0; i < l.far.size(); ++i) from += point[l.far[i]] * l.packed_far[i];
    call.a = loops.address(l.a, l.in_place.strides, l.a_type, point);
    call.b = packed + from * static_cast<std::int64_t>(bytes_of(l.packed_type));
    call.c = loops.address(l.c, l.c_strides, l.c_type, point);
    t.stand_at(point);
    t.run();
  });
}

}  // namespace tilewright::cpu
