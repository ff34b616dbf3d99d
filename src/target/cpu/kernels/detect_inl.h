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

template <class U> void mark_columns(const U* joined, std::int64_t n, bool sign, std::uint8_t* marks) {
  const U mask = sign ? static_cast<U>(static_cast<U>(~U{0}) >> 1) : static_cast<U>(~U{0});
  for (std::int64_t i = 0; i < n; ++i) marks[i] |= (joined[i] & mask) != 0;
}

template <class U> void detect_rows(const Detect& d) {
  U joined[detected_columns];
  std::uint8_t live[detected_columns];
  for (std::int64_t first = 0; first < d.columns; first += detected_columns) {
    const std::int64_t n = d.columns - first < detected_columns ? d.columns - first : detected_columns;
    for (std::int64_t i = 0; i < n; ++i) joined[i] = 0, live[i] = 0;
    for (std::int64_t r = 0; r < d.rows; ++r)
      join_row(static_cast<const U*>(d.src) + r * d.row + first * d.column, d.column, n, joined);
    if (d.unit == 1) {
      mark_columns(joined, n, d.sign, d.marks + first);
      continue;
    }
    mark_columns(joined, n, d.sign, live);
    for (std::int64_t i = 0; i < n; ++i) d.marks[(first + i) / d.unit] |= live[i];
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
