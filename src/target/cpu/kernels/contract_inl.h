// contract: C[m, n] = sum over (tap, k) of A * B, B packed in panels of nr columns.
//
// The micro-kernel keeps a tile of mr rows x nr columns in registers over the whole sum: for each k it loads the
// panel's nr columns once and broadcasts one element of A a row. A is read in place through one pointer a row, so
// strides, tables of rows and taps all cost the same; a panel is a stream. With 14 x 32 on AVX-512 a step of 28
// multiply-adds loads 128 bytes of B: the L2 cache gives that several times over, so K is not blocked and sums never
// leave the registers.
//
// The driver goes n-block by n-block (panels that fit in half of an L2 cache), in it tile by tile of rows, in it panel
// by panel: the rows of A stay in the L1 cache. Rows are dealt out evenly: 49 rows in 14s are 13 + 12 + 12 + 12. A last
// panel of few columns takes a narrower tile (whole and half vectors).
//
// A in f16 or bf16 is widened into a buffer, a tile of rows and a range of K at a time; so are rows of f32 that would
// fight for the same sets of the L1 cache. Between ranges the sums of up to 16 panels wait on the stack.
//
// Taps of one k may be scattered in A (tap_offset) and in B's panels (b_offset): products of live columns only.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"
#include "target/cpu/kernels/tile_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

static_assert(mr <= most_tile_rows);
constexpr bool half_vectors = lanes >= 8;
constexpr int granule = half_vectors ? lanes / 2 : lanes; // columns by which tiles narrow
constexpr int staged_k = 512;                             // of a row of A, copied at a time
constexpr int staged_panels = 16;                         // that share one copy
constexpr int few_k = 16, listed_k = 256;                 // products of a tap that are not worth a loop; all of them

// One run of the micro-kernel. Pointers to rows stand at column 0 of the block or of a buffer, `column` elements before
// the tile.
struct Step {
  const float* a[mr];
  const std::int64_t* tap;
  std::int64_t taps, k, a_k;
  const void* b;
  std::int64_t b_k; // from one k to the next
  const std::int64_t* b_tap; // taps that are scattered in the panel; null: one after the other
  const float* const* begin; // sums so far; null: 0
  std::int64_t begin_column;
  float* const* end; // where they go
  std::int64_t end_column;
  const float* bias; // at the tile, where the sums begin; the rest only with Quick endings, column by end_column
  const float* const* residual;
  bool limits, scaled;
  float low, high, scale;
  std::int64_t panels, panel; // whole ones, one after the other, of the same rows: all columns move on by nr
};

template <int rows, int whole, bool half, class B> struct Sums {
  using DH = hn::Half<D>;
  V v[rows][whole ? whole : 1];
  hn::Vec<DH> h[rows];

  TW_INLINE void clear() {
    unroll<rows>(TW_UNROLLED(r) {
      unroll<whole>(TW_UNROLLED(i) { v[r.value][i.value] = hn::Zero(D()); });
      if constexpr (half) h[r.value] = hn::Zero(DH());
    });
  }
  // Every element x of the tile becomes f(x, p), where p is the address of its column in a row that row(r) gives.
  template <class P, class Row, class F> TW_INLINE void update(Row&& row, F&& f) {
    unroll<rows>(TW_UNROLLED(r) {
      P* const p = row(r.value);
      unroll<whole>(TW_UNROLLED(i) { f(v[r.value][i.value], p + i.value * lanes, D()); });
      if constexpr (half) f(h[r.value], p + whole * lanes, DH());
    });
  }
  TW_INLINE void multiply_add(const B* b, const float* const* a, std::int64_t at) {
    V column[whole ? whole : 1];
    hn::Vec<DH> column_half;
    unroll<whole>(TW_UNROLLED(i) { column[i.value] = load(b + i.value * lanes); });
    if constexpr (half) column_half = hn::LoadU(DH(), b + whole * lanes);
    unroll<rows>(TW_UNROLLED(r) {
      const float x = a[r.value][at];
      if constexpr (whole > 0) {
        const V element = hn::Set(D(), x);
        unroll<whole>(
            TW_UNROLLED(i) { v[r.value][i.value] = hn::MulAdd(element, column[i.value], v[r.value][i.value]); });
      }
      if constexpr (half) h[r.value] = hn::MulAdd(hn::Set(DH(), x), column_half, h[r.value]);
    });
  }
};

// One panel, whose columns begin `moved` behind those of the first.
template <int rows, int whole, bool half, class B>
TW_INLINE void sum_panel(const Step& s, const float* const* a, const B* panel, std::int64_t moved) {
  Sums<rows, whole, half, B> sums;
  const auto read = [](auto& x, const float* p, auto d) __attribute__((always_inline)) { x = hn::LoadU(d, p); };
  const auto add = [](auto& x, const float* p, auto d) __attribute__((always_inline)) {
    x = hn::Add(x, hn::LoadU(d, p));
  };
  const auto write = [](auto& x, float* p, auto d) __attribute__((always_inline)) { hn::StoreU(x, d, p); };
  const auto end = [&](int r) __attribute__((always_inline)) { return s.end[r] + (s.end_column + moved); };
  if (s.begin)
    sums.template update<const float>(
        [&](int r) __attribute__((always_inline)) { return s.begin[r] + (s.begin_column + moved); }, read);
  else if (s.bias)
    sums.template update<const float>(
        [&](int) __attribute__((always_inline)) { return s.bias + moved; }, read);
  else
    sums.clear();
  const B* b = panel;
  const std::int64_t b_k = s.b_k;
  if (s.k == 1 && s.tap && !s.b_tap)
    for (std::int64_t t = 0; t < s.taps; ++t, b += b_k) sums.multiply_add(b, a, s.tap[t]);
  else
    for (std::int64_t t = 0; t < s.taps; ++t) {
      std::int64_t at = s.tap ? s.tap[t] : 0;
      if (s.b_tap) b = panel + s.b_tap[t];
      for (std::int64_t k = 0; k < s.k; ++k, at += s.a_k, b += b_k) sums.multiply_add(b, a, at);
    }
  if constexpr (sizeof(B) == 4) { // a Quick ending
    if (s.scaled)
      sums.template update<float>(
          end, [&](auto& x, float*, auto d) __attribute__((always_inline)) { x = hn::Mul(x, hn::Set(d, s.scale)); });
    if (s.residual)
      sums.template update<const float>(
          [&](int r) __attribute__((always_inline)) { return s.residual[r] + (s.end_column + moved); }, add);
    if (s.limits)
      sums.template update<float>(
          end, [&](auto& x, float*, auto d) __attribute__((always_inline)) {
            x = min_limit(hn::Set(d, s.high), max_limit(hn::Set(d, s.low), x));
          });
  }
  sums.template update<float>(end, write);
}

template <int rows, int whole, bool half, class B> HWY_NOINLINE void micro_kernel(const Step& s) {
  const float* a[rows];
  unroll<rows>(TW_UNROLLED(r) { a[r.value] = s.a[r.value]; });
  const B* panel = static_cast<const B*>(s.b);
  for (std::int64_t i = 0; i < s.panels; ++i, panel += s.panel) sum_panel<rows, whole, half>(s, a, panel, i * nr);
}

// ---- the choice of the micro-kernel: by rows and by granules of columns. B in f16 or bf16 has only
// whole panels and no Quick ending: such models store C so too.
using MicroKernel = void (*)(const Step&);
constexpr int widths = nr / granule;

struct MicroKernels {
  MicroKernel f32[widths][mr], f16[mr], bf16[mr];
};
template <int rows> constexpr void fill_rows(MicroKernels& table) {
  unroll<widths>([&](auto w) {
    constexpr int columns = (decltype(w)::value + 1) * granule;
    table.f32[decltype(w)::value][rows - 1] = micro_kernel<rows, columns / lanes, columns % lanes != 0, float>;
  });
  table.f16[rows - 1] = micro_kernel<rows, panel_vectors, false, F16>;
  table.bf16[rows - 1] = micro_kernel<rows, panel_vectors, false, Bf16>;
  if constexpr (rows > 1) fill_rows<rows - 1>(table);
}
constexpr MicroKernels make_micro_kernels() {
  MicroKernels table{};
  fill_rows<mr>(table);
  return table;
}
constexpr MicroKernels micro_kernels = make_micro_kernels();

TW_INLINE MicroKernel micro_kernel_for(DType b, int width, int rows) {
  switch (b) {
  case DType::f16: return micro_kernels.f16[rows - 1];
  case DType::bf16: return micro_kernels.bf16[rows - 1];
  default: return micro_kernels.f32[width - 1][rows - 1];
  }
}

// ---- the driver

TW_INLINE std::int64_t bytes_of_storage(DType type) { return type == DType::f32 ? 4 : 2; }

// What one tile of rows needs while its panels are walked.
struct RowTile {
  std::int64_t row;
  int rows;
  float* c[mr]; // of Quick endings
  const float* residual[mr];
  float* spill[mr];           // rows of sums[0]
  alignas(64) float bias[nr]; // of a panel that ends before its vectors do
  alignas(64) float sums[staged_panels][mr * nr];
  alignas(64) float staged[mr * staged_k];
};

struct Panel {
  const void* b;
  std::int64_t column;
  int columns, width;     // width in granules
  int slot;               // of the tile's sums
  std::int64_t count = 1; // panels like this one, which end in registers; columns are those of all
};

struct Range { // of the flattened (tap, k)
  std::int64_t from, count;
  bool first, last;
};

// Rows of A in f32 are read in place, unless they lie a multiple of 2 KiB apart: then a tile of them falls on a few
// sets of the L1 cache, and every load would miss.
inline bool must_stage(const Contract& c) {
  if (c.a_type != DType::f32) return true;
  const std::int64_t apart = c.m > 1 ? row_at(c.a_rows, 1) - row_at(c.a_rows, 0) : 1;
  return c.m > 4 && c.taps * c.k >= 128 && apart != 0 && apart % 512 == 0;
}

inline void point_at_rows(const Contract& c, const Quick& quick, RowTile& t, Step& s) {
  for (int r = 0; r < t.rows; ++r) {
    if (c.a_type == DType::f32) s.a[r] = static_cast<const float*>(c.a) + row_at(c.a_rows, t.row + r);
    if (quick.possible) t.c[r] = static_cast<float*>(c.c) + row_at(c.c_rows, t.row + r);
    if (quick.residual)
      t.residual[r] = static_cast<const float*>(quick.residual->operand) + row_at(quick.residual->rows, t.row + r);
    t.spill[r] = t.sums[0] + r * nr;
  }
  s.tap = c.tap_offset;
  s.taps = c.taps;
  s.k = c.k;
  s.a_k = c.a_k;
}

template <class T> void widen_rows(const Contract& c, RowTile& t, const Range& range) {
  for (int r = 0; r < t.rows; ++r) {
    const T* const row = static_cast<const T*>(c.a) + row_at(c.a_rows, t.row + r);
    float* to = t.staged + r * staged_k;
    if (c.k == 1 && c.tap_offset) { // taps alone: gathered one by one
      for (std::int64_t i = 0; i < range.count; ++i) to[i] = widen(row[c.tap_offset[range.from + i]]);
      continue;
    }
    for (std::int64_t at = range.from, end = at + range.count; at < end;) {
      const std::int64_t tap = at / c.k, k = at % c.k, run = least(c.k - k, end - at);
      const T* p = row + (c.tap_offset ? c.tap_offset[tap] : 0) + k * c.a_k;
      if (c.a_k == 1)
        by_vectors(
            run, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
              store_if<decltype(whole)::value>(load_if<decltype(whole)::value>(p + i, run - i), to + i, run - i);
            });
      else
        for (std::int64_t i = 0; i < run; ++i) to[i] = widen(p[i * c.a_k]);
      at += run;
      to += run;
    }
  }
}

struct Counting {
  std::int64_t at[staged_k]{};
  constexpr Counting() {
    for (int i = 0; i < staged_k; ++i) at[i] = i;
  }
};
constexpr Counting counting;

// Copies a range of the tile's rows, in f32, side by side.
inline void stage(const Contract& c, RowTile& t, Step& s, const Range& range) {
  for_storage(c.a_type, [&](auto* type) { widen_rows<std::remove_pointer_t<decltype(type)>>(c, t, range); });
  for (int r = 0; r < t.rows; ++r) s.a[r] = t.staged + r * staged_k;
  s.tap = c.b_offset ? counting.at : nullptr; // staged one after the other, but not so in the panels
  s.taps = c.b_offset ? range.count : 1;
  s.k = c.b_offset ? 1 : range.count;
  s.a_k = 1;
}

// C's stored values, as the beginning of the sums of a spilled tile.
inline void load_tile(const Contract& c, RowTile& t, const Panel& p) {
  for_storage(
      c.c_type, [&](auto* type) __attribute__((always_inline)) {
        for (int r = 0; r < t.rows; ++r) {
          const auto* from = static_cast<decltype(type)>(c.c) + row_at(c.c_rows, t.row + r) + p.column * c.c_n;
          for (int i = 0; i < p.columns; ++i) t.sums[p.slot][r * nr + i] = widen(from[i * c.c_n]);
        }
      });
}

// A range of the sum of one tile and panel, from its beginning or from the tile's sums, to its end or to the tile's
// sums.
inline void sum_range(const Contract& c, const Quick& quick, RowTile& t, Step& s, const Panel& p, const Range& range) {
  const bool direct = p.count > 1 || (quick.possible && c.b_type == DType::f32 && p.columns == p.width * granule);
  s.panels = p.count;
  const std::int64_t spilled = p.slot * mr * nr;
  if (range.first && c.accumulate && !direct) load_tile(c, t, p);
  s.begin = !range.first ? t.spill : !c.accumulate ? nullptr : direct ? t.c : t.spill;
  s.begin_column = range.first && direct ? p.column : spilled;
  const bool ends = range.last && direct;
  s.end = ends ? t.c : t.spill;
  s.end_column = ends ? p.column : spilled;
  s.bias = quick.bias && range.first ? quick.bias + p.column : nullptr;
  if (s.bias && p.columns < p.width * granule) {
    for (int i = 0; i < p.columns; ++i) t.bias[i] = s.bias[i];
    s.bias = t.bias;
  }
  s.residual = ends && quick.residual ? t.residual : nullptr;
  s.limits = ends && quick.limits;
  s.scaled = ends && quick.scaled;
  s.b_k = c.b_k ? c.b_k : nr;
  s.b = static_cast<const char*>(p.b) + (c.b_offset ? 0 : range.from * s.b_k * bytes_of_storage(c.b_type));
  s.b_tap = c.b_offset ? c.b_offset + range.from : nullptr;
  micro_kernel_for(c.b_type, p.width, t.rows)(s);
  if (ends && quick.function) quick.function(*quick.last, nullptr, t.c, p.column, t.rows, p.columns);
  if (range.last && !direct)
    finish_tile({t.sums[p.slot], nr, t.rows, p.columns, t.row, p.column, nullptr},
                c.accumulate ? c.epilogue : quick.rest, {c.c, c.c_type, c.c_rows, c.c_n, t.row});
}

// Taps of few products, as one list of taps of one product.
inline bool list_products(const Contract& c, std::int64_t (&list)[listed_k]) {
  if (c.taps <= 1 || c.k <= 1 || c.k >= few_k || c.taps * c.k > listed_k || c.b_offset || c.a_type != DType::f32)
    return false;
  for (std::int64_t t = 0; t < c.taps; ++t)
    for (std::int64_t k = 0; k < c.k; ++k) list[t * c.k + k] = (c.tap_offset ? c.tap_offset[t] : 0) + k * c.a_k;
  return true;
}

inline void contract_panels(const Contract& c) {
  Quick quick = quick_ending(c.epilogue, c.c_type, c.c_n, !c.accumulate);
  if (c.accumulate && quick.bias) quick.possible = false, quick.bias = nullptr; // it is added behind the sum
  const bool staged = must_stage(c);
  const std::int64_t depth = c.taps * c.k, range = staged && depth ? least<std::int64_t>(depth, staged_k) : depth;
  const std::int64_t b_bytes = bytes_of_storage(c.b_type), panel = c.b_panel ? c.b_panel : depth * nr;
  const std::int64_t panels = (c.n + nr - 1) / nr, read = depth * nr * b_bytes, cache = 512 * 1024;
  const std::int64_t fitting = read >= cache ? 1 : read == 0 ? panels : cache / read;
  const std::int64_t group = staged ? least<std::int64_t>(fitting, staged_panels) : fitting;
  const std::int64_t tiles = (c.m + mr - 1) / mr;
  const bool joins = quick.possible && !staged && c.b_type == DType::f32; // whole panels that one call goes through
  Step s;
  s.panel = panel;
  RowTile t;
  s.low = quick.low;
  s.high = quick.high;
  s.scale = quick.scale;
  for (std::int64_t first = 0; first < panels; first += group)
    for (std::int64_t i = 0; i < tiles; ++i) {
      t.row = i * c.m / tiles;
      t.rows = static_cast<int>((i + 1) * c.m / tiles - t.row);
      point_at_rows(c, quick, t, s);
      for (std::int64_t from = 0; from == 0 || from < depth; from += range + (range == 0)) {
        const Range part = {from, least(range, depth - from), from == 0, from + range >= depth};
        if (staged) stage(c, t, s, part);
        std::int64_t j = first;
        if (joins) {
          const std::int64_t count = least(first + group, c.n / nr) - first;
          if (count > 1) {
            sum_range(c, quick, t, s,
                      {static_cast<const float*>(c.b) + first * panel, first * nr, static_cast<int>(count * nr), widths,
                       0, count},
                      part);
            j += count;
          }
        }
        for (; j < least(first + group, panels); ++j) {
          const int columns = static_cast<int>(least<std::int64_t>(nr, c.n - j * nr));
          const int width = c.b_type == DType::f32 ? (columns + granule - 1) / granule : widths;
          const void* b = static_cast<const char*>(c.b) + j * panel * b_bytes;
          sum_range(c, quick, t, s, {b, j * nr, columns, width, staged ? static_cast<int>(j - first) : 0}, part);
        }
      }
    }
}

inline void contract_block(const Contract& c) {
  if (c.m <= 0 || c.n <= 0) return;
  std::int64_t list[listed_k];
  if (!list_products(c, list)) return contract_panels(c);
  Contract listed = c;
  listed.b_panel = c.b_panel ? c.b_panel : c.taps * c.k * nr;
  listed.taps = c.taps * c.k, listed.k = 1, listed.tap_offset = list;
  contract_panels(listed);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
