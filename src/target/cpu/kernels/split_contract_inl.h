// contract on the unit that multiplies tiles of bf16 (AMX): floats are split into planes whose sum they are (split_planes_inl.h), and
// the products of planes are summed in fp32, smallest first:
//
//   a * b = a0*b2 + a0*b1 + a1*b1 + a1*b0 + a2*b0 + a0*b0          left out: a1*b2, a2*b1, a2*b2, below 2^-22 of |a * b|
//
// Six products of bf16 instead of one of floats, and still two and a half times as fast as fused multiply-adds in vectors. Of f16
// four products are exact, of bf16 one is.
//
// The unit has eight tiles: four sums of 16 x 16, two tiles of A and two of B. The driver splits 32 rows and a range of products at
// a time, for up to 16 panels. Of these a block of products stays in the L2 cache for up to 256 rows; where there are several blocks,
// sums wait between them.
//
// The unit takes what is not normal for 0. Where an operand holds something infinite or no number, a range is computed product by
// product: such have no planes.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"
#include "target/cpu/kernels/split_planes_inl.h"
#include "target/cpu/kernels/tile_shapes_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int tile_rows = 32;             // of A that are split together
constexpr int range_k = 128;              // products that are
constexpr int most_panels = 16;           // that share them
constexpr int most_tiles = 8;             // of rows that share a block of B
constexpr std::int64_t panel_cache = 1024 * 1024;

// Products of planes, smallest first, each with one operand of the one before.
struct Pair {
  int a, b;
};
struct Pairs {
  Pair list[6];
  int count;
};
constexpr Pairs pairs_of[most_planes][most_planes] = {
    {{{{0, 0}}, 1}, {{{0, 1}, {0, 0}}, 2}, {{{0, 2}, {0, 1}, {0, 0}}, 3}},
    {{{{1, 0}, {0, 0}}, 2}, {{{0, 1}, {1, 1}, {1, 0}, {0, 0}}, 4}, {{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {0, 0}}, 5}},
    {{{{2, 0}, {1, 0}, {0, 0}}, 3},
     {{{0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}, 5},
     {{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}, 6}}};

struct Operands {
  const char *a, *b;        // the first tiles
  std::int64_t a_half;      // bytes to those of the second 16 rows
  std::int64_t blocks;
  float* sums;
  std::int64_t row;         // of the sums, in bytes
  bool fresh;               // they begin at 0
  const char* ahead;        // what the next call will read of B, where it is not in the cache yet; null: it is
};

// A range of products of `high` x 16 rows and `wide` x 16 columns, onto the sums.
template <int high, int wide, int a_planes, int b_planes> HWY_NOINLINE void multiply_tiles(const Operands& o) {
  const std::int64_t row = o.row;
  constexpr const Pairs& pairs = pairs_of[a_planes - 1][b_planes - 1];
  if (o.fresh) {
    _tile_zero(0);
    if constexpr (wide > 1) _tile_zero(1);
    if constexpr (high > 1) _tile_zero(2);
    if constexpr (high > 1 && wide > 1) _tile_zero(3);
  } else {
    _tile_loadd(0, o.sums, row);
    if constexpr (wide > 1) _tile_loadd(1, o.sums + 16, row);
    if constexpr (high > 1) _tile_loadd(2, reinterpret_cast<char*>(o.sums) + 16 * row, row);
    if constexpr (high > 1 && wide > 1) _tile_loadd(3, reinterpret_cast<char*>(o.sums) + 16 * row + 64, row);
  }
  const char *a = o.a, *b = o.b, *ahead = o.ahead;
  const std::int64_t a_half = o.a_half;
  constexpr int block_lines = b_planes * 2 * tile_bytes / 64;
  for (std::int64_t n = 0; n < o.blocks; ++n, a += a_planes * tile_bytes, b += b_planes * 2 * tile_bytes, ahead += ahead ? block_lines * 64 : 0)
    unroll<pairs.count>(TW_UNROLLED(i) {
      constexpr int now = decltype(i)::value, before = now ? now - 1 : 0;
      constexpr Pair pair = pairs.list[now], last = pairs.list[before];
      if constexpr (now == 0 || pair.a != last.a) {
        _tile_loadd(4, a + pair.a * tile_bytes, 64);
        if constexpr (high > 1) _tile_loadd(5, a + a_half + pair.a * tile_bytes, 64);
      }
      if constexpr (now == 0 || pair.b != last.b) {
        _tile_loadd(6, b + pair.b * 2 * tile_bytes, 64);
        if constexpr (wide > 1) _tile_loadd(7, b + pair.b * 2 * tile_bytes + tile_bytes, 64);
      }
      if (ahead)
        for (int line = now * block_lines / pairs.count; line < (now + 1) * block_lines / pairs.count; ++line)
          _mm_prefetch(ahead + line * 64, _MM_HINT_T0);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (wide > 1) _tile_dpbf16ps(1, 4, 7);
      if constexpr (high > 1) _tile_dpbf16ps(2, 5, 6);
      if constexpr (high > 1 && wide > 1) _tile_dpbf16ps(3, 5, 7);
    });
  _tile_stored(0, o.sums, row);
  if constexpr (wide > 1) _tile_stored(1, o.sums + 16, row);
  if constexpr (high > 1) _tile_stored(2, reinterpret_cast<char*>(o.sums) + 16 * row, row);
  if constexpr (high > 1 && wide > 1) _tile_stored(3, reinterpret_cast<char*>(o.sums) + 16 * row + 64, row);
}

using MultiplyTiles = void (*)(const Operands&);
template <int a, int b> struct MultiplyShapes {
  static constexpr MultiplyTiles of[2][2] = {{multiply_tiles<1, 1, a, b>, multiply_tiles<1, 2, a, b>},
                                             {multiply_tiles<2, 1, a, b>, multiply_tiles<2, 2, a, b>}};
};
TW_INLINE MultiplyTiles multiply_for(int a_planes, int b_planes, bool high, bool wide) {
  constexpr const MultiplyTiles (*table[3][3])[2] = {
      {MultiplyShapes<1, 1>::of, MultiplyShapes<1, 2>::of, MultiplyShapes<1, 3>::of},
      {MultiplyShapes<2, 1>::of, MultiplyShapes<2, 2>::of, MultiplyShapes<2, 3>::of},
      {MultiplyShapes<3, 1>::of, MultiplyShapes<3, 2>::of, MultiplyShapes<3, 3>::of}};
  return table[a_planes - 1][b_planes - 1][high][wide];
}

struct SplitTile {
  std::int64_t row;
  int rows;
  alignas(64) char a[2 * range_k / block_k * most_planes * tile_bytes];
  alignas(64) float staged[tile_rows * range_k];
  alignas(64) float sums[most_panels][tile_rows * nr];
};

// Elements of one row of A in a range, one after the other.
template <class T> TW_INLINE void line_up(const Contract& c, const T* row, std::int64_t from, std::int64_t count, float* to) {
  for (std::int64_t at = from, end = from + count; at < end;) {
    const std::int64_t tap = at / c.k, k = at % c.k, run = least(c.k - k, end - at);
    const T* const p = row + (c.tap_offset ? c.tap_offset[tap] : 0) + k * c.a_k;
    if (c.a_k == 1)
      by_vectors(run, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
        constexpr bool all = decltype(whole)::value;
        store_if<all>(load_if<all>(p + i, run - i), to + i, run - i);
      });
    else
      for (std::int64_t i = 0; i < run; ++i) to[i] = widen(p[i * c.a_k]);
    at += run, to += run;
  }
}

// Rows of A in a range of products, as planes. False where some element is not finite.
template <class T> bool split_rows(const Contract& c, SplitTile& t, std::int64_t from, std::int64_t count, std::int64_t a_half) {
  Finite seen;
  constexpr int planes = sizeof(T) == 4 ? 3 : std::is_same_v<T, F16> ? 2 : 1;
  const T* const a = static_cast<const T*>(c.a);
  // Inside of one tap, rows lie as they are read.
  const std::int64_t tap = from / c.k;
  const bool inside = (from + count - 1) / c.k == tap;
  const std::int64_t offset = (c.tap_offset ? c.tap_offset[tap] : 0) + from % c.k * c.a_k;
  if (inside && c.a_k != 1 && !c.a_rows.table && c.a_rows.stride == 1) {
    for (int r = 0; r < t.rows; r += lanes)
      split_turned(a + t.row + r + offset, c.a_k, count, static_cast<int>(least(t.rows - r, lanes)), t.a + r / 16 * a_half, seen);
    return seen.all();
  }
  for (int r = 0; r < t.rows; ++r) {
    char* const to = t.a + r / 16 * a_half + r % 16 * 64;
    const T* const row = a + row_at(c.a_rows, t.row + r);
    if (inside && c.a_k == 1) {
      split_row(row + offset, count, to, seen);
      continue;
    }
    float* const staged = t.staged + r * range_k;
    line_up(c, row, from, count, staged);
    // As many planes as the type has: the float's others are 0.
    std::int64_t k = 0;
    for (char* at = to; k < count; k += block_k, at += planes * tile_bytes) {
      const std::int64_t left = count - k;
      const V v0 = left >= lanes ? load(staged + k) : load_part(staged + k, left);
      const V v1 = left >= block_k ? load(staged + k + lanes) : left > lanes ? load_part(staged + k + lanes, left - lanes) : hn::Zero(D());
      seen.meet(v0), seen.meet(v1);
      store_planes<planes>(v0, v1, at, tile_bytes);
    }
  }
  return seen.all();
}

// A range of products onto the sums of `columns` columns, one by one: what is not finite has no planes.
HWY_NOINLINE inline void multiply_plainly(const Contract& c, const SplitTile& t, const char* panel, int b_planes, std::int64_t from, std::int64_t count,
                                          const Operands& o, int columns) {
  alignas(64) float b[nr];
  const auto sums = [&](int r) { return reinterpret_cast<float*>(reinterpret_cast<char*>(o.sums) + r * o.row); };
  for (int r = 0; o.fresh && r < t.rows; ++r)
    for (int j = 0; j < columns; j += lanes) store(hn::Zero(D()), sums(r) + j);
  for (std::int64_t d = from; d < from + count; ++d) {
    joined_columns(panel, b_planes, d, b);
    const std::int64_t offset = (c.tap_offset ? c.tap_offset[d / c.k] : 0) + d % c.k * c.a_k;
    for_storage(c.a_type, [&](auto* type) __attribute__((always_inline)) {
      for (int r = 0; r < t.rows; ++r) {
        const V x = hn::Set(D(), widen(static_cast<decltype(type)>(const_cast<void*>(c.a))[row_at(c.a_rows, t.row + r) + offset]));
        for (int j = 0; j < columns; j += lanes) store(hn::MulAdd(x, load(b + j), load(sums(r) + j)), sums(r) + j);
      }
    });
  }
}

// What Quick does in registers, from the stack.
TW_INLINE void end_quickly(const Contract& c, const Quick& quick, const SplitTile& t, const float* sums, std::int64_t column, int columns) {
  const V low = hn::Set(D(), quick.low), high = hn::Set(D(), quick.high), scale = hn::Set(D(), quick.scale);
  float* rows[tile_rows];
  for (int r = 0; r < t.rows; ++r) {
    rows[r] = static_cast<float*>(c.c) + row_at(c.c_rows, t.row + r);
    float* const to = rows[r] + column;
    const float* const residual = quick.residual ? static_cast<const float*>(quick.residual->operand) + row_at(quick.residual->rows, t.row + r) + column : nullptr;
    by_vectors(columns, [&](std::int64_t j, auto whole) __attribute__((always_inline)) {
      constexpr bool all = decltype(whole)::value;
      const std::int64_t left = columns - j;
      V x = load(sums + r * nr + j);
      if (c.accumulate) x = hn::Add(x, load_if<all>(to + j, left));
      if (quick.bias) x = hn::Add(x, load_if<all>(quick.bias + column + j, left));
      if (quick.scaled) x = hn::Mul(x, scale);
      if (residual) x = hn::Add(x, load_if<all>(residual + j, left));
      if (quick.limits) x = min_limit(high, max_limit(low, x));
      store_if<all>(x, to + j, left);
    });
  }
  for (int r = 0; quick.function && r < t.rows; r += most_tile_rows)
    quick.function(*quick.last, nullptr, rows + r, column, static_cast<int>(least(t.rows - r, most_tile_rows)), columns);
}

inline void end_tile(const Contract& c, const Quick& quick, const SplitTile& t, float* sums, std::int64_t column, int columns) {
  if (quick.possible) return end_quickly(c, quick, t, sums, column, columns);
  if (c.accumulate)
    for_storage(c.c_type, [&](auto* type) __attribute__((always_inline)) {
      for (int r = 0; r < t.rows; ++r) {
        const auto* from = static_cast<decltype(type)>(c.c) + row_at(c.c_rows, t.row + r) + column * c.c_n;
        for (int i = 0; i < columns; ++i) sums[r * nr + i] += widen(from[i * c.c_n]);
      }
    });
  if (quick.bias)
    for (int r = 0; r < t.rows; ++r)
      for (int i = 0; i < columns; ++i) sums[r * nr + i] += quick.bias[column + i];
  for (int r = 0; r < t.rows; r += most_tile_rows)
    finish_tile({sums + r * nr, nr, static_cast<int>(least(t.rows - r, most_tile_rows)), columns, t.row + r, column, nullptr},
                c.accumulate ? c.epilogue : quick.rest, {c.c, c.c_type, c.c_rows, c.c_n, t.row + r});
}

// Sums between blocks of products.
struct WaitingSums {
  alignas(64) float of[most_tiles][most_panels][tile_rows * nr];
};
inline WaitingSums& waiting_sums() {
  static thread_local WaitingSums sums;
  return sums;
}

struct SplitDriver {
  const Contract& c;
  Quick quick;
  int a_planes, b_planes;
  std::int64_t depth, panel, panels, block; // products of a block
  bool b_finite, plain;                     // plain: sums that nothing is done with are made where they belong

  int columns_of(std::int64_t j) const { return static_cast<int>(least<std::int64_t>(nr, c.n - j * nr)); }
  bool in_place(const SplitTile& t, std::int64_t j) const { return plain && t.rows % 16 == 0 && columns_of(j) % 16 == 0; }
  const char* slab(std::int64_t j, std::int64_t from) const {
    return static_cast<const char*>(c.b) + j * panel + from / block_k * b_planes * 2 * tile_bytes;
  }
  void end_panel(const SplitTile& t, float* sums, std::int64_t j) const {
    if (!in_place(t, j)) end_tile(c, quick, t, sums, j * nr, columns_of(j));
  }

  // A range of products of 32 rows, and panels [first, end). sums: of the first panel. `cold`: nobody has read these slabs yet.
  void range(SplitTile& t, float (*sums)[tile_rows * nr], std::int64_t first, std::int64_t end, std::int64_t from, std::int64_t count, bool cold) const {
    const std::int64_t blocks = blocks_of(count), a_half = blocks * a_planes * tile_bytes;
    bool finite = b_finite;
    for_storage(c.a_type, [&](auto* type) { finite &= split_rows<std::remove_pointer_t<decltype(type)>>(c, t, from, count, a_half); });
    const bool last = from + count >= depth;
    for (std::int64_t j = first; j < end; ++j) {
      const bool there = in_place(t, j);
      float* const to = there ? static_cast<float*>(c.c) + t.row * c.c_rows.stride + j * nr : sums[j - first];
      const Operands o{t.a, slab(j, from), a_half, blocks, to, (there ? c.c_rows.stride : nr) * 4, from == 0 && !(there && c.accumulate),
                       cold && j + 1 < end ? slab(j + 1, from) : nullptr};
      if (finite)
        multiply_for(a_planes, b_planes, t.rows > 16, columns_of(j) > 16)(o);
      else
        multiply_plainly(c, t, slab(j, 0), b_planes, from, count, o, there ? columns_of(j) : nr);
      if (last && j > first) end_panel(t, sums[j - 1 - first], j - 1); // the unit goes on meanwhile
    }
    if (last) end_panel(t, sums[end - 1 - first], end - 1);
  }

  void run(SplitTile& t) const {
    const bool several = block < depth;
    for (std::int64_t first = 0; first < panels; first += most_panels)
      for (std::int64_t row = 0; row < c.m; row += most_tiles * tile_rows)
        for (std::int64_t from = 0; from < depth; from += block)
          for (int i = 0; i < most_tiles && row + i * tile_rows < c.m; ++i) {
            t.row = row + i * tile_rows;
            t.rows = static_cast<int>(least<std::int64_t>(tile_rows, c.m - t.row));
            for (std::int64_t at = from, end = least(from + block, depth); at < end; at += range_k)
              range(t, several ? waiting_sums().of[i] : t.sums, first, least(first + most_panels, panels), at, least<std::int64_t>(range_k, end - at), i == 0);
          }
  }
};

inline void contract_split_block(const Contract& c) {
  const std::int64_t depth = c.taps * c.k;
  if (c.m <= 0 || c.n <= 0) return;
  SplitDriver d{c, quick_ending(c.epilogue, c.c_type, c.c_n, !c.accumulate), planes_of(c.a_type), planes_of(c.b_type), depth, 0, 0, 0, false, false};
  if (c.accumulate && d.quick.bias) d.quick.possible = false, d.quick.bias = nullptr; // it is added behind the sum
  d.panel = c.b_panel ? c.b_panel : bytes_of_split_panel(depth, c.b_type);
  d.panels = (c.n + nr - 1) / nr;
  const std::int64_t bytes = least<std::int64_t>(d.panels, most_panels) * d.b_planes * nr * 2; // of a product
  d.block = panel_cache / bytes / range_k * range_k;
  if (d.block < range_k) d.block = range_k;
  d.b_finite = !c.b_wild || *c.b_wild == 0;
  d.plain = c.c_type == DType::f32 && c.c_n == 1 && !c.c_rows.table && c.epilogue.count == 0;
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  SplitTile t;
  d.run(t);
  _tile_release();
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
