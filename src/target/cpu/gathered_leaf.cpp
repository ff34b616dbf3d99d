#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

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
// vectors of B along, so low calls pay more for each product; marking and listing cost a pass over the source.
double break_even(const Gathered& g, const k::Kernels& leaf) {
  const auto efficiency = [](double rows) { return rows / (rows + 2); };
  const auto& unit = g.detector.cells.unit;
  double rows = 1;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (static_cast<int>(i) != g.reduced) rows *= static_cast<double>(unit[i]);
  const double full = efficiency(leaf.mr);
  if (g.form == Gathered::Form::columns) {
    const double calls = std::ceil(rows / leaf.mr);
    return std::min(0.9, 0.95 * efficiency(rows / calls) / full);
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

std::int64_t gathered_scratch(const ContractLeaf& l, const std::vector<std::int64_t>& full_tile) {
  if (!l.gathered) return 0;
  const std::int64_t tables = (2 * row_entries(l) + 2 * l.row_limit + 2 * l.k_extent) * 8;
  const std::int64_t sums = l.gathered->form == Gathered::Form::pieces ? l.row_limit * full_tile[static_cast<std::size_t>(l.n)] * 4 + 64 : 0;
  return tables + sums + 64;
}

// ---- before the tiles

namespace {

// s < n[b]: the last dim of the cells is bounded by an element of the source for each point of the others.
void mark_lengths(const Gathered& g, const std::byte* source, int worker, int workers) {
  const std::vector<std::int64_t>& dims = g.detector.cells.dims;
  const std::int64_t run = dims.back(), rows = run == 0 ? 0 : g.detector.cells.count() / run;
  auto* const marks = reinterpret_cast<std::uint8_t*>(g.marks->data);
  const DType t = g.detector.dtype;
  for (std::int64_t b = rows * worker / workers; b < rows * (worker + 1) / workers; ++b) {
    std::int64_t n = 0;
    switch (t) {
    case DType::i64: n = reinterpret_cast<const std::int64_t*>(source)[b]; break;
    case DType::i32: n = reinterpret_cast<const std::int32_t*>(source)[b]; break;
    case DType::u8: n = reinterpret_cast<const std::uint8_t*>(source)[b]; break;
    default: n = reinterpret_cast<const std::int8_t*>(source)[b];
    }
    n = std::clamp<std::int64_t>(n, 0, run);
    std::memset(marks + b * run, 1, static_cast<std::size_t>(n));
    std::memset(marks + b * run + n, 0, static_cast<std::size_t>(run - n));
  }
}

// Panels of all copies of B, dealt out to the workers.
void pack_panels(const k::Kernels& leaf, const ContractLeaf& l, const std::byte* b, int worker, int workers) {
  const Gathered& g = *l.gathered;
  const std::int64_t panels = (l.n_extent + leaf.nr - 1) / leaf.nr, all = panels * g.copies, each = l.k_extent * leaf.nr;
  for (std::int64_t i = all * worker / workers, end = all * (worker + 1) / workers; i < end; ++i) {
    std::int64_t rest = i / panels, from = l.b_strides.offset;
    const std::int64_t column = i % panels * leaf.nr;
    for (std::size_t f = 0; f < l.far.size(); ++f) {
      if (l.b_strides[l.far[f]] == 0) continue;
      from += rest % l.far_extent[f] * l.b_strides[l.far[f]];
      rest /= l.far_extent[f];
    }
    leaf.pack_b({.n = std::min<std::int64_t>(leaf.nr, l.n_extent - column),
                 .k = l.k_extent,
                 .taps = 1,
                 .src = b + (from + column * l.b_strides[l.n]) * static_cast<std::int64_t>(bytes_of(l.b_type)),
                 .src_type = l.b_type,
                 .b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]],
                 .b_n = l.b_strides[l.n],
                 .dst = g.packed->data + i * each * static_cast<std::int64_t>(bytes_of(l.packed_type)),
                 .dst_type = l.packed_type});
  }
}

}  // namespace

void prepare_gathered(const k::Kernels& leaf, const ContractLeaf& l, std::byte* const* tensors, TensorId b, int worker, int workers) {
  Gathered& g = *l.gathered;
  if (worker == 0) g.live = 0;
  if (g.lengths) mark_lengths(g, tensors[g.source], worker, workers);
  else mark_cells(leaf, g.detector, tensors[g.source], reinterpret_cast<std::uint8_t*>(g.marks->data), worker, workers);
  if (!l.packed) pack_panels(leaf, l, tensors[b], worker, workers);
}

void list_gathered(const ContractLeaf& l, int worker, int workers) {
  Gathered& g = *l.gathered;
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
      for (std::size_t i = axes.size(); i-- > 0;) {
        if (++at[i] < loops.high[axes[i]]) break;
        at[i] = loops.low[axes[i]];
      }
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
      with_rows(false, r, end - r);
      call.k = 1, call.taps = taps;
      call.tap_offset = a_tap, call.b_offset = b_tap;
      leaf.contract(call);
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

  const std::uint8_t* g_marks() const { return reinterpret_cast<const std::uint8_t*>(g.marks->data); }

  void plain() {
    with_rows(false, 0, rows);
    call.k = l.k_extent, call.taps = 1;
    leaf.contract(call);
  }

  void run() {
    call.tap_offset = nullptr, call.b_offset = nullptr;
    if (g.dense()) return plain();
    switch (g.form) {
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
         words + 2 * tables + 2 * limit, words + 2 * tables + 2 * limit + l.k_extent, nullptr};
  t.sums = reinterpret_cast<float*>(words + (2 * tables + 2 * limit + 2 * l.k_extent + 7) / 8 * 8);
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
