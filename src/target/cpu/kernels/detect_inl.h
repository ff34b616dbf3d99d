// detect: which cells of some rows hold anything but zeros.
//
// The bits of a column's elements are joined row by row, the sign of floats shifted out at the end: that is all a cell needs, for
// zeros of both signs and nothing else have no other bit. NaN, infinities and denormals have.
#pragma once
#include "target/cpu/kernels/leaves.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr std::int64_t detected_columns = 512; // of all rows at a time: the joined bits stay in the L1 cache

template <class U> void join_row(const U* from, std::int64_t stride, std::int64_t n, U* joined) {
  if (stride == 1)
    for (std::int64_t i = 0; i < n; ++i) joined[i] |= from[i];
  else
    for (std::int64_t i = 0; i < n; ++i) joined[i] |= from[i * stride];
}

template <class U> void detect_rows(const Detect& d) {
  const U mask = d.sign ? static_cast<U>(static_cast<U>(~U{0}) >> 1) : static_cast<U>(~U{0});
  if (d.unit == 1 && d.rows == 1 && d.column == 1) {
    const U* const from = static_cast<const U*>(d.src);
    for (std::int64_t i = 0; i < d.columns; ++i) d.marks[i] |= (from[i] & mask) != 0;
    return;
  }
  U joined[detected_columns];
  std::int64_t cell = 0, left = d.unit; // of the cell that the next column is in
  for (std::int64_t first = 0; first < d.columns; first += detected_columns) {
    const std::int64_t n = d.columns - first < detected_columns ? d.columns - first : detected_columns;
    for (std::int64_t i = 0; i < n; ++i) joined[i] = 0;
    for (std::int64_t r = 0; r < d.rows; ++r)
      join_row(static_cast<const U*>(d.src) + r * d.row + first * d.column, d.column, n, joined);
    if (d.unit == 1) {
      for (std::int64_t i = 0; i < n; ++i) d.marks[first + i] |= (joined[i] & mask) != 0;
      continue;
    }
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t end = i + left < n ? i + left : n;
      U bits = 0;
      left -= end - i;
      for (; i < end; ++i) bits |= joined[i];
      d.marks[cell] |= (bits & mask) != 0;
      if (left == 0) ++cell, left = d.unit;
    }
  }
}

inline void detect_block(const Detect& d) {
  switch (d.bytes) {
  case 1: return detect_rows<std::uint8_t>(d);
  case 2: return detect_rows<std::uint16_t>(d);
  case 4: return detect_rows<std::uint32_t>(d);
  default: return detect_rows<std::uint64_t>(d);
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
