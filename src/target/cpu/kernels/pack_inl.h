// pack_b: B[t, k, n] of any strides into panels [ceil(n / nr)][taps * k][nr], zeros after n.
//
// Where the columns are adjacent in the source a row of a panel is a copy; where k is adjacent (weights stored [n][k])
// a panel is a transpose, done in blocks that stay in the L1 cache; else element by element.
#pragma once
#include "target/cpu/kernels/tile_inl.h"
#include "target/cpu/kernels/transpose_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// One tap of one panel: k rows of nr columns, `columns` of them real.
template <class From, class To> void pack_rows(const From* src, const PackB& p, int columns, To* dst) {
  for (std::int64_t k = 0; k < p.k; ++k, dst += nr) {
    const From* from = src + k * p.b_k;
    for (int j = 0; j < columns; ++j) narrow(widen(from[j * p.b_n]), dst + j);
    for (int j = columns; j < nr; ++j) narrow(0.0f, dst + j);
  }
}

template <class From, class To> void pack_adjacent_columns(const From* src, const PackB& p, int columns, To* dst) {
  for (std::int64_t k = 0; k < p.k; ++k, dst += nr) {
    const From* from = src + k * p.b_k;
    for (int j = 0; j < nr; j += lanes) {
      const int left = columns - j;
      store(left >= lanes ? load(from + j) : left > 0 ? load_part(from + j, left) : hn::Zero(D()), dst + j);
    }
  }
}

// k is adjacent: read 16 of them (a cache line of f32) of four columns before going on.
template <class From, class To> void pack_adjacent_k(const From* src, const PackB& p, int columns, To* dst) {
  constexpr bool whole_f32 = sizeof(From) == 4 && sizeof(To) == 4;
  constexpr std::int64_t block = 16;
  for (std::int64_t k = 0; k < p.k; k += block) {
    const std::int64_t count = least(block, p.k - k), fours = whole_f32 ? count / 4 * 4 : 0;
    const int wide = whole_f32 ? columns / 4 * 4 : 0;
    To* const to = dst + k * nr;
    for (int j = 0; j < wide; j += 4)
      for (std::int64_t i = 0; i < fours; i += 4)
        transpose_4x4(reinterpret_cast<const std::uint32_t*>(src + j * p.b_n + k + i), p.b_n,
                      reinterpret_cast<std::uint32_t*>(to + i * nr + j), nr);
    for (int j = 0; j < columns; ++j)
      for (std::int64_t i = j < wide ? fours : 0; i < count; ++i)
        narrow(widen(src[j * p.b_n + k + i]), to + i * nr + j);
    for (std::int64_t i = 0; i < count; ++i)
      for (int j = columns; j < nr; ++j) narrow(0.0f, to + i * nr + j);
  }
}

template <class From, class To> void pack_panels(const PackB& p) {
  To* dst = static_cast<To*>(p.dst);
  for (std::int64_t n = 0; n < p.n; n += nr) {
    const int columns = static_cast<int>(least<std::int64_t>(nr, p.n - n));
    for (std::int64_t t = 0; t < p.taps; ++t, dst += p.k * nr) {
      const From* src = static_cast<const From*>(p.src) + (p.tap_offset ? p.tap_offset[t] : 0) + n * p.b_n;
      if (p.b_n == 1)
        pack_adjacent_columns(src, p, columns, dst);
      else if (p.b_k == 1)
        pack_adjacent_k(src, p, columns, dst);
      else
        pack_rows(src, p, columns, dst);
    }
  }
}

inline void pack_block(const PackB& p) {
  for_storage(p.src_type, [&](auto* from) {
    for_storage(p.dst_type, [&](auto* to) {
      pack_panels<std::remove_pointer_t<decltype(from)>, std::remove_pointer_t<decltype(to)>>(p);
    });
  });
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
