#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tilewright::cpu {

namespace k = kernels;

namespace {

std::int64_t integer(const std::byte* p, DType t, std::int64_t i) {
  switch (t) {
  case DType::i64: return reinterpret_cast<const std::int64_t*>(p)[i];
  case DType::i32: return reinterpret_cast<const std::int32_t*>(p)[i];
  case DType::u8: return reinterpret_cast<const std::uint8_t*>(p)[i];
  default: return reinterpret_cast<const std::int8_t*>(p)[i];
  }
}

std::pair<std::int64_t, std::int64_t> share(std::int64_t n, int worker, int workers) {
  return {n * worker / workers, n * (worker + 1) / workers};
}

// ---- marks

// s < n[b]: the last dim of the cells is bounded by an element of the source for each point of the others.
void mark_lengths(const Side& s, const std::byte* source, int worker, int workers) {
  const Cells& c = s.detector.cells;
  const std::int64_t run = c.dims.back();
  auto* const marks = reinterpret_cast<std::uint8_t*>(s.marks->data);
  const auto [first, last] = share(run == 0 ? 0 : c.count() / run, worker, workers);
  for (std::int64_t b = first; b < last; ++b) {
    const std::int64_t n = std::clamp<std::int64_t>(integer(source, s.detector.dtype, b), 0, run);
    std::memset(marks + b * run, 1, static_cast<std::size_t>(n));
    std::memset(marks + b * run + n, 0, static_cast<std::size_t>(run - n));
  }
}

void mark_side(const k::Kernels& leaf, const Side& s, std::byte* const* tensors, int worker, int workers) {
  if (!s.there()) return;
  if (s.lengths) return mark_lengths(s, tensors[s.source], worker, workers);
  mark_cells(leaf, s.detector, tensors[s.source], reinterpret_cast<std::uint8_t*>(s.marks->data), worker, workers);
}

// Rows in the order of their keys. One worker does it: a pass over integers.
void sort_keys(Gathered& g, const std::byte* source) {
  g.wrong = false;
  for (std::size_t i = 0; i < g.key_of.size(); ++i) {
    g.key_of[i] = integer(source, g.merged.dtype, static_cast<std::int64_t>(i));
    g.wrong |= g.key_of[i] < 0 || g.key_of[i] >= g.keys;
  }
  if (!g.wrong) g.sorted = sort_by_key(g.key_of, g.keys);
}

// ---- cells of other cells

// Marks of larger cells: of each the marks of the smaller ones that it is made of.
void merge_marks(const Detector& from, const Detector& to, const std::uint8_t* marks, std::uint8_t* out,
                 std::size_t tall, std::int64_t tall_by, std::size_t wide, std::int64_t wide_by, int worker,
                 int workers) {
  const std::size_t rank = from.cells.dims.size();
  std::vector<std::int64_t> low(rank, 0);
  const auto [first, last] = share(to.cells.count() / to.cells.along(to.column), worker, workers);
  const std::int64_t n = from.cells.along(from.column), by = from.column == wide ? wide_by : 1;
  for (std::int64_t i = first; i < last; ++i) {
    std::int64_t rest = i, from_mark = 0, to_mark = 0, rows = 1, step = 0, deep = 1, deep_step = 0;
    for (std::size_t d = rank; d-- > 0;) {
      if (d == to.column) continue;
      const std::int64_t at = rest % to.cells.along(d), unit = d == tall ? tall_by : d == wide ? wide_by : 1;
      rest /= to.cells.along(d);
      from_mark += at * unit * (from.group_stride[d] + from.slot_stride[d]);
      to_mark += at * (to.group_stride[d] + to.slot_stride[d]);
      const std::int64_t some = std::min(unit, from.cells.along(d) - at * unit),
                         stride = from.group_stride[d] + from.slot_stride[d];
      if (d == tall)
        rows = some, step = stride;
      else if (d == wide)
        deep = some, deep_step = stride;
    }
    std::memset(out + to_mark, 0, static_cast<std::size_t>(to.cells.along(to.column)));
    for (std::int64_t r = 0; r < rows * deep; ++r) {
      const std::uint8_t* const row = marks + from_mark + r / deep * step + r % deep * deep_step;
      if (by == 1)
        for (std::int64_t x = 0; x < n; ++x) out[to_mark + x] |= row[x];
      else
        for (std::int64_t x = 0; x < n; x += by)
          out[to_mark + x / by] |= std::memchr(row + x, 1, static_cast<std::size_t>(std::min(by, n - x))) != nullptr;
    }
  }
}

// Whether a cell lives in any column of a panel.
void mark_panels(const Side& s, const ByPanel& b, int nr, int worker, int workers) {
  const Detector& d = s.detector;
  auto stride = [&](std::size_t i) { return d.group_stride[i] + d.slot_stride[i]; };
  const std::int64_t k_step = s.reduced < 0 ? 0 : stride(static_cast<std::size_t>(s.reduced));
  const auto n = static_cast<std::size_t>(std::max(b.dim, 0));
  const std::int64_t unit = b.dim < 0 ? 1 : d.cells.unit[n], across = b.dim < 0 ? 1 : d.cells.along(n),
                     n_step = b.dim < 0 ? 0 : stride(n);
  auto* out = reinterpret_cast<std::uint8_t*>(b.marks->data);
  const auto [first, last] = share(b.far * b.panels, worker, workers);
  for (std::int64_t i = first; i < last; ++i) {
    std::int64_t rest = i / b.panels, base = 0;
    for (std::size_t x = s.axis.size(); x-- > 0;) {
      if (static_cast<int>(x) == b.dim || static_cast<int>(x) == s.reduced) continue;
      base += rest % d.cells.along(x) * stride(x);
      rest /= d.cells.along(x);
    }
    const std::int64_t from = b.dim < 0 ? 0 : i % b.panels * nr / unit,
                       to = b.dim < 0 ? 1 : std::min(across, (i % b.panels * nr + nr - 1) / unit + 1);
    std::uint8_t* const marks = out + i * b.other;
    for (std::int64_t c = 0; c < b.other; ++c) {
      const std::uint8_t* const row = s.marked() + base + c * k_step;
      marks[c] = 0;
      if (n_step == 1)
        marks[c] = std::memchr(row + from, 1, static_cast<std::size_t>(to - from)) != nullptr;
      else
        for (std::int64_t x = from; x < to; ++x) marks[c] |= row[x * n_step];
    }
  }
}

// Bytes of 0 or 1, eight at a time: so often that no sum of a byte's place overflows.
std::int64_t count_marks(const std::uint8_t* marks, std::int64_t n) {
  std::int64_t live = 0, i = 0;
  while (i + 8 <= n) {
    std::uint64_t sums = 0, eight = 0;
    for (std::int64_t end = std::min(i + 255 * 8, n - 7); i < end; i += 8) {
      std::memcpy(&eight, marks + i, 8);
      sums += eight;
    }
    for (int b = 0; b < 8; ++b) live += static_cast<std::int64_t>(sums >> (8 * b) & 255);
  }
  for (; i < n; ++i) live += marks[i];
  return live;
}

// ---- the decision

std::int64_t unit_rows(const Gathered& g) {
  return g.tall_dim < 0 ? 1 : g.a.detector.cells.unit[static_cast<std::size_t>(g.tall_dim)];
}
std::int64_t unit_k(const Gathered& g) {
  return g.a.reduced < 0 ? 1 : g.a.detector.cells.unit[static_cast<std::size_t>(g.a.reduced)];
}
std::int64_t cells_along_k(const Gathered& g) {
  return g.a.reduced < 0 ? 1 : g.a.detector.cells.along(static_cast<std::size_t>(g.a.reduced));
}

// Some rows of cells of A, in runs of neighbours: marks [rows][cells along k].
constexpr std::int64_t sampled_cells = 1 << 18, neighbours = 64;
std::vector<std::uint8_t> sample(const Gathered& g, std::int64_t* rows) {
  const Detector& d = g.a.detector;
  std::vector<std::size_t> dims; // of the rows, outermost first; those that are merged innermost
  for (std::size_t i = 0; i < d.cells.dims.size(); ++i)
    if (static_cast<int>(i) != g.a.reduced && static_cast<int>(i) != g.tall_dim) dims.push_back(i);
  if (g.tall_dim >= 0) dims.push_back(static_cast<std::size_t>(g.tall_dim));
  auto stride = [&](std::size_t i) { return d.group_stride[i] + d.slot_stride[i]; };
  const std::int64_t across = cells_along_k(g), all = d.cells.count() / std::max<std::int64_t>(across, 1);
  const std::int64_t runs = std::max<std::int64_t>(1, sampled_cells / (across * neighbours));
  const std::int64_t step = std::max(neighbours, ceil_div_i64(ceil_div_i64(all, runs), neighbours) * neighbours);
  const std::int64_t k_step = g.a.reduced < 0 ? 0 : stride(static_cast<std::size_t>(g.a.reduced));
  std::vector<std::uint8_t> out;
  *rows = 0;
  for (std::int64_t first = 0; first < all; first += step)
    for (std::int64_t r = first; r < std::min(all, first + neighbours); ++r, ++*rows) {
      std::int64_t rest = r, mark = 0;
      for (std::size_t i = dims.size(); i-- > 0;) {
        mark += rest % d.cells.along(dims[i]) * stride(dims[i]);
        rest /= d.cells.along(dims[i]);
      }
      const std::uint8_t* const row = g.a.marked() + mark;
      if (k_step <= 1)
        out.insert(out.end(), row, row + across);
      else
        for (std::int64_t c = 0; c < across; ++c) out.push_back(row[c * k_step]);
    }
  return out;
}

Selection search(const Gathered& g, const ContractLeaf& l) {
  std::int64_t rows = 0;
  const auto marks = sample(g, &rows);
  const Product product{rows * unit_rows(g), l.n_extent, cells_along_k(g) * unit_k(g), g.dtype};
  return select(product, {unit_rows(g), unit_k(g)}, {marks}, g.tiles, g.costs);
}

// What the leaf makes of a selection; of one that it cannot run, what its cells were declared for.
Gathered::Way way_of(const Gathered& g, const ContractLeaf& l, const Estimate& e) {
  using Form = Gathered::Form;
  const std::int64_t tall = std::max<std::int64_t>(1, e.unit_m / unit_rows(g)),
                     wide = std::max<std::int64_t>(1, e.unit_k / unit_k(g));
  const bool k_cells = cells_along_k(g) > 1, row_cells = g.tall_dim >= 0;
  switch (e.along) {
  case Along::none: return {Form::plain};
  case Along::k: return k_cells ? Gathered::Way{Form::columns, g.merges ? tall : 1} : Gathered::Way{Form::rows};
  case Along::m:
    return row_cells ? Gathered::Way{Form::rows, 1, k_cells ? cells_along_k(g) : 1} : Gathered::Way{Form::columns};
  case Along::m_by_k:
    if (!row_cells || l.taps != 1 || !k_cells) return {k_cells ? Form::columns : Form::rows};
    return {Form::pieces, 1, wide};
  }
  return {Form::plain};
}

void merge_cells(Gathered& g) {
  const Detector& d = g.a.detector;
  std::vector<std::int64_t> unit = d.cells.unit;
  if (g.tall_dim >= 0) unit[static_cast<std::size_t>(g.tall_dim)] *= g.way.tall;
  if (g.a.reduced >= 0) unit[static_cast<std::size_t>(g.a.reduced)] *= g.way.wide;
  std::vector<std::size_t> packed;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if ((static_cast<int>(i) == g.a.reduced) == (g.way.form == Gathered::Form::columns)) packed.push_back(i);
  if (packed.empty()) packed.push_back(0);
  g.merged = d;
  g.merged.cells = cells(d.cells.dims, unit, packed);
  place_marks(g.merged);
  g.rows = g.group_rows * g.way.tall;
}

void reserve(std::shared_ptr<Aligned>& room, std::int64_t bytes) {
  if (!room || room->bytes < static_cast<std::size_t>(bytes) + 64)
    room = std::make_shared<Aligned>(static_cast<std::size_t>(bytes) + 64);
}

// Packing B costs about as much as reading it some times where it lies. Pieces pack it block by block into a core's own
// cache, as long as few tiles do that again.
bool worth_packing(const Gathered& g, const ContractLeaf& l, const k::Kernels& leaf) {
  if (!g.lies_as_panels || g.b.there() || g.way.wide * unit_k(g) > std::max<std::int64_t>(64, unit_k(g))) return true;
  const bool may = g.way.form == Gathered::Form::columns || (g.way.form == Gathered::Form::pieces && g.piece_bytes > 0);
  if (!may) return true;
  if (g.packs_forced) return *g.packs_forced;
  if (g.way.form == Gathered::Form::pieces) return g.tiles_of_rows > 2;
  const std::int64_t marks = g.a.detector.cells.count(), across = std::max<std::int64_t>(cells_along_k(g), 1);
  const double live = static_cast<double>(g.live.load()) / static_cast<double>(std::max<std::int64_t>(marks, 1));
  const double reads = static_cast<double>(marks / across * unit_rows(g)) * live / static_cast<double>(g.rows);
  (void)l;
  return reads > (g.rows > leaf.mr ? 8 : 3);
}

void decide(const k::Kernels& leaf, const ContractLeaf& l, Gathered& g) {
  g.way = {Gathered::Form::plain};
  if (g.a.there()) {
    const std::int64_t all = g.a.detector.cells.count();
    g.live = count_marks(g.a.marked(), all);
    const bool whole_rows = cells_along_k(g) <= 1; // nothing to choose
    g.way = g.forced     ? *g.forced
            : whole_rows ? Gathered::Way{g.live == all ? Gathered::Form::plain : Gathered::Form::rows}
                         : way_of(g, l, g.decisions.at(g.live, all, [&] { return search(g, l); }).best);
    if (g.way.form == Gathered::Form::pieces && (g.b.there() || g.c.there()))
      g.way.form = Gathered::Form::columns, g.way.wide = 1;
    merge_cells(g);
    if (g.way.tall > 1 || g.way.wide > 1) reserve(g.merged_marks, g.merged.cells.count());
    if (g.way.form == Gathered::Form::columns && g.compact) {
      reserve(g.begin, (g.merged.cells.groups() + 1) * 8);
    }
  }
  g.packs = !l.packed && worth_packing(g, l, leaf);
  if (g.packs)
    reserve(g.packed, checked_mul(g.copies * l.taps, k::packed_elements(leaf, l.n_extent, l.k_extent) *
                                                         static_cast<std::int64_t>(bytes_of(l.packed_type))));
}

// ---- lists

std::int64_t* begins(const Gathered& g) { return reinterpret_cast<std::int64_t*>(g.begin->data); }

// The live k of each group, as offsets into B's panels, and the values of the group's rows there side by side.
struct Lister {
  const ContractLeaf& l;
  Gathered& g;
  const std::byte* a;
  std::int64_t b_step;

  std::int64_t mark_of(std::int64_t n) const {
    std::int64_t mark = 0;
    for (std::size_t d = g.merged.cells.dims.size(); d-- > 0;) {
      if (g.merged.cells.is_packed(d)) continue;
      mark += n % g.merged.cells.along(d) * g.merged.group_stride[d];
      n /= g.merged.cells.along(d);
    }
    return mark;
  }
  // Terms of a group's list. The last cell of a row may be cut.
  std::int64_t count(std::int64_t n) const {
    const auto d = static_cast<std::size_t>(g.a.reduced);
    const std::int64_t cells = g.merged.cells.along(d), block = g.merged.cells.unit[d],
                       step = g.merged.group_stride[d] + g.merged.slot_stride[d];
    const std::uint8_t* const marks = g.marks() + mark_of(n);
    std::int64_t live = 0;
    if (step == 1)
      live = count_marks(marks, cells);
    else
      for (std::int64_t c = 0; c < cells; ++c) live += marks[c * step];
    return live * block - (marks[(cells - 1) * step] ? cells * block - l.k_extent : 0);
  }

  std::int64_t list(std::int64_t mark, std::int64_t* taps) const {
    const auto d = static_cast<std::size_t>(g.a.reduced);
    const std::int64_t n = g.merged.cells.along(d), block = g.merged.cells.unit[d],
                       step = g.merged.group_stride[d] + g.merged.slot_stride[d];
    const std::uint8_t* const marks = g.marks() + mark;
    std::int64_t count = 0;
    const auto add = [&](std::int64_t cell) {
      for (std::int64_t at = cell * block, end = std::min(at + block, l.k_extent); at < end; ++at)
        taps[count++] = at * b_step;
    };
    std::int64_t c = 0;
    for (std::uint64_t eight = 0; step == 1 && c + 8 <= n; c += 8)
      for (std::memcpy(&eight, marks + c, 8); eight != 0; eight &= eight - 1) add(c + std::countr_zero(eight) / 8);
    for (; c < n; ++c)
      if (marks[c * step]) add(c);
    return count;
  }

  template <class T>
  void copy(const T* from, T* to, const std::int64_t* taps, std::int64_t count, std::int64_t a_k) const {
    for (std::int64_t t = 0; t < count; ++t) to[t] = from[taps[t] / b_step * a_k];
  }

  void group(std::int64_t n) const {
    const Cells& c = g.merged.cells;
    std::int64_t rest = n, offset = l.in_place.strides.offset, rows = 1, row_step = 0;
    for (std::size_t d = c.dims.size(); d-- > 0;) {
      if (c.is_packed(d)) continue;
      const std::int64_t at = rest % c.along(d);
      rest /= c.along(d);
      offset += at * c.unit[d] * g.a_dim_stride[d];
      if (static_cast<int>(d) == g.tall_dim)
        rows = std::min(c.unit[d], c.dims[d] - at * c.unit[d]), row_step = g.a_dim_stride[d];
    }
    auto* const taps = reinterpret_cast<std::int64_t*>(g.taps->data) + begins(g)[n];
    const std::int64_t count = list(mark_of(n), taps), a_k = l.in_place.strides[l.k[0]];
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t to = begins(g)[n] * g.rows + r * count, from = offset + r * row_step;
      if (bytes_of(l.a_type) == 4)
        copy(reinterpret_cast<const std::uint32_t*>(a) + from, reinterpret_cast<std::uint32_t*>(g.values->data) + to,
             taps, count, a_k);
      else
        copy(reinterpret_cast<const std::uint16_t*>(a) + from, reinterpret_cast<std::uint16_t*>(g.values->data) + to,
             taps, count, a_k);
    }
  }
};

// All copies of B, a block of k at a time through all panels: so few rows of B lie on few pages.
// used: of the slices those that some row reads; null: all.
void pack_panels(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b, int worker, int workers,
                 const std::vector<bool>* used = nullptr) {
  constexpr std::int64_t block = 64;
  const Gathered& g = *l.gathered;
  const std::int64_t panels = (l.n_extent + leaf.nr - 1) / leaf.nr, each = l.taps * l.k_extent * leaf.nr,
                     blocks = (l.k_extent + block - 1) / block;
  const std::int64_t from_width = static_cast<std::int64_t>(bytes_of(l.b_type)),
                     to_width = static_cast<std::int64_t>(bytes_of(l.packed_type));
  const std::int64_t b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]], b_n = l.b_strides[l.n];
  const auto [begin, end] = share(blocks * l.taps * g.copies, worker, workers);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t tap = i / blocks % l.taps, first = i % blocks * block;
    std::int64_t rest = i / blocks / l.taps, from = l.b_strides.offset;
    const std::int64_t to = rest * panels * each + (tap * l.k_extent + first) * leaf.nr;
    for (std::size_t f = 0; f < l.far.size(); ++f) {
      if (l.b_strides[l.far[f]] == 0) continue;
      from += rest % l.far_extent[f] * l.b_strides[l.far[f]];
      rest /= l.far_extent[f];
    }
    if (used && !(*used)[static_cast<std::size_t>(rest)]) continue;
    from += rest * g.key_stride + first * b_k + l.b_taps[static_cast<std::size_t>(tap)]; // slices outermost
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

void pack_used_slices(const BeforeTiles& s, int worker, int workers) {
  const Gathered& g = *s.l.gathered;
  if (g.wrong) return;
  std::vector<bool> used(static_cast<std::size_t>(g.keys), false);
  for (std::int64_t key : g.key_of) used[static_cast<std::size_t>(key)] = true;
  pack_panels(s.leaf, s.l, s.tensors[s.b], worker, workers, &used);
}

} // namespace

namespace {

Lister lister_of(const BeforeTiles& s) {
  Gathered& g = *s.l.gathered;
  return {s.l, g, s.tensors[s.a], s.l.packed || g.packs ? s.leaf.nr : s.l.b_strides[s.l.k[0]]};
}

// Where each group's list begins. One worker: a pass over marks.
void count_lists(const BeforeTiles& s, int worker, int workers) {
  if (worker != 0) return;
  (void)workers;
  Gathered& g = *s.l.gathered;
  const Lister lister = lister_of(s);
  const std::int64_t groups = g.merged.cells.groups();
  begins(g)[0] = 0;
  for (std::int64_t n = 0; n < groups; ++n) begins(g)[n + 1] = checked_add(begins(g)[n], lister.count(n));
  const std::int64_t all = begins(g)[groups];
  reserve(g.taps, checked_mul(all, 8) + 64);
  reserve(g.values, checked_mul(checked_mul(all, g.rows), static_cast<std::int64_t>(bytes_of(s.l.a_type))) + 64);
}

} // namespace

std::shared_ptr<Aligned> pack_slices(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b) {
  l.gathered->packed = std::make_shared<Aligned>(
      static_cast<std::size_t>(l.gathered->copies * k::packed_elements(leaf, l.n_extent, l.k_extent)) *
          bytes_of(l.packed_type) +
      64);
  if (b) pack_panels(leaf, l, b, 0, 1);
  return l.gathered->packed;
}

void before_tiles(const BeforeTiles& s, int step, int worker, int workers) {
  Gathered& g = *s.l.gathered;
  const bool buckets = g.form == Gathered::Form::buckets;
  switch (step) {
  case 0:
    if (!buckets)
      for (const Side* side : {&g.a, &g.b, &g.c}) mark_side(s.leaf, *side, s.tensors, worker, workers);
    else if (worker == 0)
      sort_keys(g, s.tensors[g.a.source]);
    break;
  case 1:
    if (!buckets && worker == 0) decide(s.leaf, s.l, g);
    break;
  case 2:
    if (buckets) break;
    if (g.way.tall > 1 || g.way.wide > 1)
      merge_marks(g.a.detector, g.merged, g.a.marked(), reinterpret_cast<std::uint8_t*>(g.merged_marks->data),
                  static_cast<std::size_t>(g.tall_dim), g.way.tall, static_cast<std::size_t>(g.a.reduced), g.way.wide,
                  worker,
                  workers); // a dim that is not there is none of them
    if (g.b.there()) mark_panels(g.b, g.b_panels, s.leaf.nr, worker, workers);
    if (g.c.there()) mark_panels(g.c, g.c_panels, s.leaf.nr, worker, workers);
    break;
  case 3:
    if (buckets || g.way.form != Gathered::Form::columns || !g.compact) break;
    count_lists(s, worker, workers);
    break;
  default:
    if (buckets) {
      if (!s.l.packed && g.slice_bytes == 0) pack_used_slices(s, worker, workers);
      break;
    }
    if (worker == 0)
      for (ByPanel* b : {&g.b_panels, &g.c_panels})
        if (b->marks) {
          const std::int64_t all = b->far * b->panels * b->other;
          b->used = static_cast<double>(count_marks(reinterpret_cast<const std::uint8_t*>(b->marks->data), all)) <
                    0.85 * static_cast<double>(all);
        }
    if (g.way.form == Gathered::Form::columns && g.compact) {
      const Lister lister = lister_of(s);
      const auto [first, last] = share(g.merged.cells.groups(), worker, workers);
      for (std::int64_t n = first; n < last; ++n) lister.group(n);
    }
    if (g.packs) pack_panels(s.leaf, s.l, s.tensors[s.b], worker, workers);
  }
}

} // namespace tilewright::cpu
