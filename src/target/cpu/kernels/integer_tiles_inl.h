// contract of bytes on the unit that multiplies tiles (AMX): 16 rows of 64 bytes of A, 16 groups of four products of 16 columns of B,
// into 16 x 16 sums of i32. A panel is that of dots, with groups up to a whole tile: they are read where they lie. So are rows of A
// whose bytes are whole tiles; others are copied, a range of the sum at a time.
#pragma once
#include "target/cpu/kernels/integer_contract_inl.h"
#include "target/cpu/kernels/tile_shapes_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int unit_rows = 32, unit_bytes = 64, unit_range = 1024, unit_panels = 16;

struct ByteTiles {
  const std::uint8_t *a, *b; // the first ones
  std::int64_t a_row;        // bytes from a row to the next
  std::int64_t blocks;
  std::int32_t* sums;        // [unit_rows][nr]
  bool fresh;                // they begin at 0
};

template <int high, int wide, bool is_signed> HWY_NOINLINE void multiply_bytes(const ByteTiles& o) {
  constexpr std::int64_t row = nr * 4;
  if (o.fresh) {
    _tile_zero(0);
    if constexpr (wide > 1) _tile_zero(1);
    if constexpr (high > 1) _tile_zero(2);
    if constexpr (high > 1 && wide > 1) _tile_zero(3);
  } else {
    _tile_loadd(0, o.sums, row);
    if constexpr (wide > 1) _tile_loadd(1, o.sums + 16, row);
    if constexpr (high > 1) _tile_loadd(2, o.sums + 16 * nr, row);
    if constexpr (high > 1 && wide > 1) _tile_loadd(3, o.sums + 16 * nr + 16, row);
  }
  const std::uint8_t *a = o.a, *b = o.b;
  const std::int64_t a_row = o.a_row;
  for (std::int64_t n = 0; n < o.blocks; ++n, a += unit_bytes, b += 16 * row) {
    _tile_loadd(4, a, a_row);
    if constexpr (high > 1) _tile_loadd(5, a + 16 * a_row, a_row);
    _tile_loadd(6, b, row);
    if constexpr (wide > 1) _tile_loadd(7, b + 64, row);
    if constexpr (is_signed) {
      _tile_dpbssd(0, 4, 6);
      if constexpr (wide > 1) _tile_dpbssd(1, 4, 7);
      if constexpr (high > 1) _tile_dpbssd(2, 5, 6);
      if constexpr (high > 1 && wide > 1) _tile_dpbssd(3, 5, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      if constexpr (wide > 1) _tile_dpbusd(1, 4, 7);
      if constexpr (high > 1) _tile_dpbusd(2, 5, 6);
      if constexpr (high > 1 && wide > 1) _tile_dpbusd(3, 5, 7);
    }
  }
  _tile_stored(0, o.sums, row);
  if constexpr (wide > 1) _tile_stored(1, o.sums + 16, row);
  if constexpr (high > 1) _tile_stored(2, o.sums + 16 * nr, row);
  if constexpr (high > 1 && wide > 1) _tile_stored(3, o.sums + 16 * nr + 16, row);
}

using MultiplyBytes = void (*)(const ByteTiles&);
constexpr MultiplyBytes multiply_bytes_of[2][2][2] = {
    {{multiply_bytes<1, 1, false>, multiply_bytes<1, 1, true>}, {multiply_bytes<1, 2, false>, multiply_bytes<1, 2, true>}},
    {{multiply_bytes<2, 1, false>, multiply_bytes<2, 1, true>}, {multiply_bytes<2, 2, false>, multiply_bytes<2, 2, true>}}};

struct ByteRows {
  alignas(64) std::int32_t sums[unit_panels][unit_rows * nr];
  alignas(64) std::uint8_t staged[unit_rows * unit_range];
};

inline void end_bytes(const Contract& c, const IntegerQuick& quick, std::int32_t* sums, std::int64_t row, int rows, std::int64_t column, int columns) {
  ShortEnd end;
  if (!short_end(quick, column, columns, nullptr, &end)) {
    for (int r = 0; r < rows; r += mr)
      finish_integers({sums + r * nr, nr, static_cast<int>(least(rows - r, mr)), columns, row + r, column, nullptr}, quick, c.epilogue,
                      {c.c, c.c_type, c.c_rows, c.c_n, 0});
    return;
  }
  for (int r = 0; r < rows; ++r) {
    std::uint8_t* const to = static_cast<std::uint8_t*>(c.c) + row_at(c.c_rows, row + r) + column;
    const std::int32_t* const from = sums + r * nr;
    if (columns > lanes)
      end_two(wide_load(from), wide_load(from + lanes), end, to);
    else
      end_one(wide_load(from), end, to);
  }
}

inline void contract_byte_tiles(const Contract& c) {
  const std::int64_t depth = c.taps * c.k, panel = c.b_panel ? c.b_panel : panel_bytes(depth, true), panels = (c.n + nr - 1) / nr;
  const std::int64_t cache = 1024 * 1024, fitting = panel >= cache ? 1 : cache / panel, group = least<std::int64_t>(fitting, unit_panels);
  const IntegerQuick quick = integer_quick(c.epilogue, c.c_type, c.c_n);
  const bool in_place = c.a_k == 1 && c.taps == 1 && !c.tap_offset && c.k % unit_bytes == 0 && !c.a_rows.table;
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  ByteRows t;
  for (std::int64_t first = 0; first < panels; first += group) {
    const std::int64_t end = least(first + group, panels);
    for (std::int64_t row = 0; row < c.m; row += unit_rows) {
      const int rows = static_cast<int>(least<std::int64_t>(unit_rows, c.m - row));
      const bool direct = in_place && rows % 16 == 0;
      const auto end_panel = [&](std::int64_t j) {
        end_bytes(c, quick, t.sums[j - first], row, rows, j * nr, static_cast<int>(least<std::int64_t>(nr, c.n - j * nr)));
      };
      const std::int64_t range = direct ? depth : unit_range;
      for (std::int64_t from = 0; from < depth; from += range) {
        const std::int64_t count = least(range, depth - from);
        for (int r = 0; !direct && r < rows; ++r) stage_integers(c, row + r, from, count, true, t.staged + r * unit_range);
        const std::uint8_t* const a = direct ? static_cast<const std::uint8_t*>(c.a) + row * c.a_rows.stride : t.staged;
        for (std::int64_t j = first; j < end; ++j) {
          const auto* const b = static_cast<const std::uint8_t*>(c.b) + j * panel + 4 * nr + from * nr;
          multiply_bytes_of[rows > 16][c.n - j * nr > 16][c.a_type == DType::i8](
              {a, b, direct ? c.a_rows.stride : unit_range, (count + unit_bytes - 1) / unit_bytes, t.sums[j - first], from == 0});
          if (from + range >= depth && j > first) end_panel(j - 1);
        }
      }
      end_panel(end - 1);
    }
  }
  _tile_release();
}

// Few rows are left to vectors: most of a tile would be empty.
inline bool fills_tiles(const Contract& c) { return as_dots(c.b_type) && c.m >= 8 && c.n > 4 && c.taps * c.k > 8; }

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
