#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <cstring>

#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// Columns of tall row blocks are copied side by side first, and the panels of B that they meet: so many rows, and about
// so many bytes of panels, at a time. Of lower ones each panel is read too seldom for that to pay.
constexpr std::int64_t copied_rows = 64, copied_bytes = 128 * 1024;

std::int64_t panel_room(const ContractLeaf& l, int nr) {
  return std::max(l.k_extent * nr * static_cast<std::int64_t>(bytes_of(l.packed_type)), copied_bytes);
}

std::int64_t row_entries(const ContractLeaf& l) {
  return (static_cast<std::int64_t>(l.steps.size()) + 2) * l.row_limit;
}

} // namespace

std::int64_t gathered_scratch(const ContractLeaf& l, const std::vector<std::int64_t>& full_tile) {
  if (!l.gathered) return 0;
  const std::int64_t tables = (2 * row_entries(l) + 2 * l.row_limit + 2 * l.k_extent) * 8;
  const std::int64_t sums = l.gathered->form == Gathered::Form::pieces && l.c_type != DType::f32
                                ? l.row_limit * full_tile[static_cast<std::size_t>(l.n)] * 4 + 64
                                : 0;
  const bool columns = l.gathered->form == Gathered::Form::columns;
  const std::int64_t copies =
      columns ? panel_room(l, l.panel) + copied_rows * l.k_extent * static_cast<std::int64_t>(bytes_of(l.a_type)) + 128
              : 0;
  return tables + sums + copies + 64;
}

namespace {

struct Tile {
  const k::Kernels& leaf;
  const ContractLeaf& l;
  const Gathered& g;
  LeafLoops& loops;
  k::Contract call; // what all calls of the tile share
  std::int64_t rows;
  std::int64_t *tables, *some, *mark, *group, *a_tap, *b_tap; // of all rows: a, c, steps; of chosen rows likewise
  float* sums;
  std::byte *b_copy, *a_copy;
  std::int64_t mark_base = 0, group_base = 0;

  std::size_t lists() const { return l.steps.size() + 2; }
  std::int64_t* all(std::size_t list) const { return tables + static_cast<std::int64_t>(list) * l.row_limit; }
  std::int64_t* chosen(std::size_t list) const { return some + static_cast<std::int64_t>(list) * l.row_limit; }
  const Strides& strides(std::size_t list) const {
    return list == 0 ? l.in_place.strides : list == 1 ? l.c_strides : l.steps[list - 2].strides;
  }
  bool used(std::size_t list) const { return list < 2 || l.steps[list - 2].buffer >= 0; }

  std::int64_t cell(RegionAxis x, std::int64_t at, const std::vector<std::int64_t>& stride) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < g.axis.size(); ++i)
      if (g.axis[i] == x && static_cast<int>(i) != g.reduced) sum += at / g.detector.cells.unit[i] * stride[i];
    return sum;
  }

  // Offsets of every row from the tile's first in each operand, and its cell. Rows run through the merged axes, the
  // last fastest.
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
      for (std::size_t i = 0; i < axes.size(); ++i)
        all(list)[r] += (row[i] - loops.low[axes[i]]) * strides(list)[axes[i]];
    }
  }

  std::vector<std::int64_t> group_numbers{}; // how the table counts groups: row-major over the dims that are not packed
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

  // The live columns of A side by side, and as many panels of B as fit, of which the leaf then sees nothing but a
  // shorter sum.
  void copied_columns(std::int64_t r, std::int64_t m, std::int64_t taps) {
    if (bytes_of(l.a_type) == 4)
      copy_rows<std::uint32_t>(r, m, taps);
    else
      copy_rows<std::uint16_t>(r, m, taps);
    with_rows(false, r, m);
    k::Contract part = call;
    part.k = taps, part.taps = 1;
    part.a = a_copy, part.a_rows = {taps, nullptr}, part.a_k = 1;
    part.b = b_copy, part.b_panel = 0;
    const std::int64_t width = static_cast<std::int64_t>(bytes_of(l.packed_type)),
                       panels = (call.n + leaf.nr - 1) / leaf.nr;
    const std::int64_t some_panels =
        std::max<std::int64_t>(1, panel_room(l, leaf.nr) / std::max<std::int64_t>(1, taps * leaf.nr * width));
    std::array<k::EpilogueStep, most_steps> steps = loops.epilogue;
    part.epilogue.steps = steps.data();
    for (std::int64_t first = 0; first < panels; first += some_panels) {
      const std::int64_t last = std::min(panels, first + some_panels), column = first * leaf.nr;
      for (std::int64_t j = first; j < last; ++j)
        leaf.pack_b({.n = leaf.nr,
                     .k = 1,
                     .taps = taps,
                     .src = static_cast<const std::byte*>(call.b) + j * call.b_panel * width,
                     .src_type = l.packed_type,
                     .b_k = 0,
                     .b_n = 1,
                     .tap_offset = b_tap,
                     .dst = b_copy + (j - first) * taps * leaf.nr * width,
                     .dst_type = l.packed_type});
      part.n = std::min(call.n, last * leaf.nr) - column;
      part.c = static_cast<std::byte*>(call.c) + column * call.c_n * static_cast<std::int64_t>(bytes_of(l.c_type));
      for (std::size_t i = 0; i < l.steps.size(); ++i)
        if (used(i + 2))
          steps[i].operand = static_cast<const std::byte*>(loops.epilogue[i].operand) +
                             column * steps[i].column * static_cast<std::int64_t>(bytes_of(steps[i].dtype));
      leaf.contract(part);
    }
  }

  // Columns: the live k of a row block, as taps.
  void columns() {
    const std::int64_t length = g.detector.cells.length(), a_k = call.a_k;
    const auto *count = reinterpret_cast<const std::uint32_t*>(g.count->data),
               *slot = reinterpret_cast<const std::uint32_t*>(g.slot->data);
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
        if (const std::int64_t m = std::min(copied_rows, end - at); m >= tall_block)
          copied_columns(at, m, taps);
        else
          scattered_columns(at, m, taps);
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

  // Pieces: onto sums, a block of k after the other. Sums stand in the result itself where that is wide enough, else in
  // scratch.
  void pieces() {
    const std::int64_t blocks = g.detector.cells.along(static_cast<std::size_t>(g.reduced)), width = call.n;
    const auto d = static_cast<std::size_t>(g.reduced);
    const std::int64_t step = g.detector.group_stride[d] + g.detector.slot_stride[d];
    const bool direct = l.c_type == DType::f32;
    k::Contract part = call;
    part.epilogue = {}, part.taps = 1, part.k = 0;
    with_rows(false, 0, rows);
    if (direct) {
      part.m = rows, part.c_rows = call.c_rows, part.a_rows = call.a_rows;
      leaf.contract(part); // zeros
    } else {
      std::memset(sums, 0, static_cast<std::size_t>(rows * width) * sizeof(float));
      part.c = sums, part.c_type = DType::f32, part.c_n = 1;
    }
    part.accumulate = true, part.a_rows = {0, chosen(0)}, part.c_rows = {0, chosen(1)};
    for (std::int64_t j = 0; j < blocks; ++j) {
      std::int64_t n = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        if (g_marks()[mark_base + mark[r] + j * step])
          chosen(0)[n] = all(0)[r], chosen(1)[n++] = direct ? all(1)[r] : r * width;
      if (n == 0) continue;
      const std::int64_t first = j * g.block;
      part.m = n, part.k = std::min(g.block, l.k_extent - first);
      part.a = static_cast<const std::byte*>(call.a) + first * call.a_k * static_cast<std::int64_t>(bytes_of(l.a_type));
      part.b =
          static_cast<const std::byte*>(call.b) + first * leaf.nr * static_cast<std::int64_t>(bytes_of(l.packed_type));
      leaf.contract(part);
    }
    finish(direct, width);
  }

  // What is left is the end: nothing but the sums, and the steps behind.
  void finish(bool direct, std::int64_t width) {
    if (direct && l.steps.empty()) return;
    with_rows(false, 0, rows);
    k::Contract end = call;
    end.k = 0, end.taps = 1, end.accumulate = direct;
    std::array<k::EpilogueStep, most_steps + 1> steps;
    if (!direct) {
      steps[0] = {k::StepOp::add, sums, DType::f32, {width, nullptr}, 1, 0, 0};
      std::copy_n(loops.epilogue.begin(), l.steps.size(), steps.begin() + 1);
      end.epilogue = {steps.data(), static_cast<int>(l.steps.size()) + 1};
    }
    leaf.contract(end);
  }

  // The tile's rows by key, equal ones in their order: the chosen tables, and their keys in `group`. Once a tile.
  void sort_rows() {
    if (sorted) return;
    sorted = true;
    for (std::int64_t r = 0; r < rows; ++r) mark[r] = r;
    std::sort(mark, mark + rows,
              [&](std::int64_t x, std::int64_t y) { return std::pair(group[x], x) < std::pair(group[y], y); });
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
      call.b =
          static_cast<const std::byte*>(first) + group[r] * slice * static_cast<std::int64_t>(bytes_of(l.packed_type));
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

} // namespace

void run_gathered(const k::Kernels& leaf, const ContractLeaf& l, const std::vector<View>& views,
                  const std::int64_t* low, const std::int64_t* high, std::byte* scratch) {
  const Gathered& g = *l.gathered;
  auto* const words = reinterpret_cast<std::int64_t*>(scratch);
  const std::int64_t tables = row_entries(l), limit = l.row_limit;
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, words};
  Tile t{leaf,
         l,
         g,
         loops,
         {},
         loops.row_count(),
         words,
         words + tables,
         words + 2 * tables,
         words + 2 * tables + limit,
         words + 2 * tables + 2 * limit,
         words + 2 * tables + 2 * limit + l.k_extent,
         nullptr,
         nullptr,
         nullptr};
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

} // namespace tilewright::cpu
