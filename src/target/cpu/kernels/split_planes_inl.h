// Floats as sums of bf16, for the unit that multiplies tiles of them: 24 bits of a float are those of three bf16, 11 of an f16
// those of two, and no bit is lost.
//
//   x = 0x1.fffffep0:     1.9921875 + 0.00775146484375 + 0.0000607967376708984375        (each its leading 8 bits)
//
// Planes lie in the form that the unit reads: tiles of 16 rows of 64 bytes. One of A is 16 rows by 32 products; one of B 32 products
// by 16 columns. Both have the same order of products in them, in pairs: the i-th with the one 16 behind it, so that two vectors of
// floats become one of pairs by a shift and a mask.
#pragma once
#include <immintrin.h>

#include <type_traits>

#include "target/cpu/kernels/tile_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

using DU = hn::RebindToUnsigned<D>;
using VU = hn::Vec<DU>;
static_assert(lanes == 16 && nr == 32);

constexpr int block_k = 32;               // products of a tile
constexpr int tile_bytes = 1024;
constexpr int most_planes = 3;

TW_INLINE constexpr int planes_of(DType type) { return type == DType::f32 ? 3 : type == DType::f16 ? 2 : 1; }
TW_INLINE std::int64_t blocks_of(std::int64_t depth) { return (depth + block_k - 1) / block_k; }

TW_INLINE VU upper(V v) { return hn::And(hn::BitCast(DU(), v), hn::Set(DU(), 0xffff0000u)); }
TW_INLINE V rest_of(V v) { return hn::Sub(v, hn::BitCast(D(), upper(v))); }

// Two vectors as one of pairs a plane; planes are `apart` bytes from each other.
template <int planes> TW_INLINE void store_planes(V v0, V v1, char* to, std::int64_t apart) {
  unroll<planes>(TW_UNROLLED(p) {
    const VU pairs = hn::Or(hn::ShiftRight<16>(hn::BitCast(DU(), v0)), upper(v1));
    hn::StoreU(pairs, DU(), reinterpret_cast<std::uint32_t*>(to + p.value * apart));
    if constexpr (p.value + 1 < planes) v0 = rest_of(v0), v1 = rest_of(v1);
  });
}

// What is infinite or no number stays so in its first plane, and has no others: so that it can be put together again.
template <int planes> TW_INLINE void store_planes_of_any(V v0, V v1, char* to, std::int64_t apart) {
  const auto quiet = [](V v) __attribute__((always_inline)) {
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(D(), hn::Or(upper(v), hn::Set(DU(), 0x00400000u))), v);
  };
  const auto finite0 = hn::IsFinite(v0), finite1 = hn::IsFinite(v1);
  v0 = quiet(v0), v1 = quiet(v1);
  unroll<planes>(TW_UNROLLED(p) {
    const VU pairs = hn::Or(hn::ShiftRight<16>(hn::BitCast(DU(), v0)), upper(v1));
    hn::StoreU(pairs, DU(), reinterpret_cast<std::uint32_t*>(to + p.value * apart));
    if constexpr (p.value + 1 < planes)
      v0 = hn::IfThenElseZero(finite0, rest_of(v0)), v1 = hn::IfThenElseZero(finite1, rest_of(v1));
  });
}

// ---- B: [blocks of products][planes][16 columns twice][tile]

TW_INLINE std::int64_t bytes_of_split_panel(std::int64_t depth, DType type) { return blocks_of(depth) * planes_of(type) * 2 * tile_bytes; }

// 0 while all that it has met is finite: 0 times anything else is no number.
struct Finite {
  V sum = hn::Zero(D());
  TW_INLINE void meet(V v) { sum = hn::MulAdd(v, hn::Zero(D()), sum); }
  TW_INLINE bool all() const { return hn::AllTrue(D(), hn::Eq(sum, hn::Zero(D()))); }
};

// One block of a panel: 32 products of 32 columns, adjacent ones. False where some element is not finite.
template <int planes, class T> TW_INLINE bool split_block(const T* from, std::int64_t row, char* to) {
  Finite seen[2];
  unroll<2>(TW_UNROLLED(half) {
    for (int i = 0; i < block_k / 2; ++i) {
      const V v0 = load(from + i * row + half.value * lanes), v1 = load(from + (i + lanes) * row + half.value * lanes);
      const T* const ahead = from + (block_k + i + half.value * lanes) * row; // the next block, which is often cold
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + lanes), _MM_HINT_T0);
      seen[0].meet(v0), seen[1].meet(v1);
      store_planes<planes>(v0, v1, to + half.value * tile_bytes + i * 64, 2 * tile_bytes);
    }
  });
  if (seen[0].all() && seen[1].all()) return true;
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < block_k / 2; ++i)
      store_planes_of_any<planes>(load(from + i * row + half * lanes), load(from + (i + lanes) * row + half * lanes),
                                  to + half * tile_bytes + i * 64, 2 * tile_bytes);
  return false;
}

template <class From> void pack_split_panels(const PackB& p) {
  constexpr int planes = sizeof(From) == 4 ? 3 : std::is_same_v<From, F16> ? 2 : 1;
  const std::int64_t depth = p.taps * p.k;
  char* to = static_cast<char*>(p.dst);
  bool finite = true;
  alignas(64) float block[block_k * nr];
  for (std::int64_t n = 0; n < p.n; n += nr) {
    const int columns = static_cast<int>(least<std::int64_t>(nr, p.n - n));
    for (std::int64_t from = 0; from < depth; from += block_k, to += planes * 2 * tile_bytes) {
      const int count = static_cast<int>(least<std::int64_t>(block_k, depth - from));
      const auto at = [&](std::int64_t product) __attribute__((always_inline)) {
        return static_cast<const From*>(p.src) + (p.tap_offset ? p.tap_offset[product / p.k] : 0) + product % p.k * p.b_k + n * p.b_n;
      };
      const bool whole = count == block_k && columns == nr;
      if (whole && p.b_n == 1 && from % p.k + count <= p.k) {
        finite &= split_block<planes>(at(from), p.b_k, to);
        continue;
      }
      if (!whole)
        for (int i = 0; i < block_k * nr; i += lanes) store(hn::Zero(D()), block + i);
      for (int i = 0; i < count;) {
        const int run = static_cast<int>(least<std::int64_t>(count - i, p.k - (from + i) % p.k));
        const From* const src = at(from + i);
        if (p.b_n == 1)
          for (int d = 0; d < run; ++d)
            by_vectors(columns, [&](std::int64_t j, auto all) __attribute__((always_inline)) {
              store_if<decltype(all)::value>(load_if<decltype(all)::value>(src + d * p.b_k + j, columns - j), block + (i + d) * nr + j, columns - j);
            });
        else
          for (int j = 0; j < columns; ++j)
            for (int d = 0; d < run; ++d) block[(i + d) * nr + j] = widen(src[d * p.b_k + j * p.b_n]);
        i += run;
      }
      finite &= split_block<planes>(block, nr, to);
    }
  }
  if (p.wild) *p.wild = !finite;
}

inline void pack_split_block(const PackB& p) {
  for_storage(p.src_type, [&](auto* from) { pack_split_panels<std::remove_pointer_t<decltype(from)>>(p); });
}

// Columns of one product of a panel, put together again.
TW_INLINE void joined_columns(const char* panel, int planes, std::int64_t product, float* to) {
  const char* at = panel + product / block_k * planes * 2 * tile_bytes + product % lanes * 64;
  const bool second = product % block_k >= lanes;
  for (int half = 0; half < 2; ++half) {
    V sum = hn::Zero(D());
    for (int p = planes - 1; p >= 0; --p) {
      const VU pairs = hn::LoadU(DU(), reinterpret_cast<const std::uint32_t*>(at + (p * 2 + half) * tile_bytes));
      sum = hn::Add(sum, hn::BitCast(D(), second ? hn::And(pairs, hn::Set(DU(), 0xffff0000u)) : hn::ShiftLeft<16>(pairs)));
    }
    store(sum, to + half * lanes);
  }
}

// ---- A: [16 rows twice][blocks of a range][planes][tile]

// Rows whose products are adjacent, from the first of a range on.
template <class T> TW_INLINE void split_row(const T* row, std::int64_t count, char* to, Finite& seen) {
  constexpr int planes = sizeof(T) == 4 ? 3 : std::is_same_v<T, F16> ? 2 : 1;
  std::int64_t k = 0;
  for (; k + block_k <= count; k += block_k, to += planes * tile_bytes) {
    const V v0 = load(row + k), v1 = load(row + k + lanes);
    seen.meet(v0), seen.meet(v1);
    store_planes<planes>(v0, v1, to, tile_bytes);
  }
  const std::int64_t left = count - k;
  if (left <= 0) return;
  const V v0 = left >= lanes ? load(row + k) : load_part(row + k, left);
  const V v1 = left > lanes ? load_part(row + k + lanes, left - lanes) : hn::Zero(D());
  seen.meet(v0), seen.meet(v1);
  store_planes<planes>(v0, v1, to, tile_bytes);
}

// v[i] lane r becomes v[r] lane i.
TW_INLINE void transpose_square(V (&v)[lanes]) {
  __m512 t[lanes], r[lanes];
  unroll<lanes / 2>(TW_UNROLLED(n) {
    constexpr int i = 2 * decltype(n)::value;
    t[i] = _mm512_unpacklo_ps(v[i].raw, v[i + 1].raw), t[i + 1] = _mm512_unpackhi_ps(v[i].raw, v[i + 1].raw);
  });
  const auto low = [](__m512 x, __m512 y) __attribute__((always_inline)) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  const auto high = [](__m512 x, __m512 y) __attribute__((always_inline)) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  unroll<lanes / 4>(TW_UNROLLED(n) {
    constexpr int i = 4 * decltype(n)::value;
    r[i] = low(t[i], t[i + 2]), r[i + 1] = high(t[i], t[i + 2]);
    r[i + 2] = low(t[i + 1], t[i + 3]), r[i + 3] = high(t[i + 1], t[i + 3]);
  });
  // Of each four rows, columns j, j + 4, j + 8 and j + 12 lie side by side.
  unroll<4>(TW_UNROLLED(n) {
    constexpr int j = decltype(n)::value, even = 0x88, odd = 0xdd;
    const __m512 a = _mm512_shuffle_f32x4(r[j], r[j + 4], even), b = _mm512_shuffle_f32x4(r[j], r[j + 4], odd);
    const __m512 c = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], even), d = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], odd);
    v[j] = V{_mm512_shuffle_f32x4(a, c, even)}, v[j + 4] = V{_mm512_shuffle_f32x4(b, d, even)};
    v[j + 8] = V{_mm512_shuffle_f32x4(a, c, odd)}, v[j + 12] = V{_mm512_shuffle_f32x4(b, d, odd)};
  });
}

// Rows that are adjacent in memory (A transposed): up to 16 of them, from the first product of a range on.
template <class T> TW_INLINE void split_turned(const T* from, std::int64_t a_k, std::int64_t count, int rows, char* to, Finite& seen) {
  constexpr int planes = sizeof(T) == 4 ? 3 : std::is_same_v<T, F16> ? 2 : 1;
  for (std::int64_t k = 0; k < count; k += block_k, to += planes * tile_bytes) {
    V v[2][lanes];
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < lanes; ++i) {
        const std::int64_t at = k + half * lanes + i;
        const T* const p = from + at * a_k;
        v[half][i] = at >= count ? hn::Zero(D()) : rows == lanes ? load(p) : load_part(p, rows);
      }
      transpose_square(v[half]);
    }
    for (int r = 0; r < rows; ++r) {
      seen.meet(v[0][r]), seen.meet(v[1][r]);
      store_planes<planes>(v[0][r], v[1][r], to + r * 64, tile_bytes);
    }
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
