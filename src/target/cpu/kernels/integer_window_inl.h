// window of integers of eight bits, exact in i32: out[x, c] = begin[c] + sum over taps of A[row(x) + tap_offset[t] + c]
// * W[t, c].
//
// As for floats a tile is some positions x a block of channels (nr). Two taps are taken together: their bytes, widened
// to 16 bits and interleaved, are pairs that one instruction multiplies with pairs of weights and adds up in i32.
#pragma once
#include "target/cpu/kernels/integer_contract_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int integer_strip = HWY_TARGET == HWY_AVX3 ? 8 : 4;

struct IntegerStrip {
  std::int64_t x, c;
  int count, columns; // positions, channels
};

TW_INLINE const std::int16_t* weights_at(const Window& w, std::int64_t t, std::int64_t c) {
  return w.w16 + (w.weight_offset ? w.weight_offset[t] : t * w.w_t) + c;
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// nr values of 16 bits.
#if HWY_TARGET == HWY_AVX3
template <bool whole, bool is_signed> TW_INLINE Wide bytes_as_words(const std::uint8_t* p, std::uint32_t mask) {
  const __m256i v = whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi8(mask, p);
  return is_signed ? _mm512_cvtepi8_epi16(v) : _mm512_cvtepu8_epi16(v);
}
template <bool whole> TW_INLINE Wide words(const std::int16_t* p, std::uint32_t mask) {
  return whole ? wide_load(p) : _mm512_maskz_loadu_epi16(mask, p);
}
TW_INLINE Wide low_pairs(Wide a, Wide b) { return _mm512_unpacklo_epi16(a, b); }
TW_INLINE Wide high_pairs(Wide a, Wide b) { return _mm512_unpackhi_epi16(a, b); }
// What the halves of each quarter hold, in order.
struct InOrder {
  Wide first, second;
};
TW_INLINE InOrder in_order(Wide low, Wide high) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  return {_mm512_permutex2var_epi32(low, first, high), _mm512_permutex2var_epi32(low, second, high)};
}
#else
template <bool whole, bool is_signed> TW_INLINE Wide bytes_as_words(const std::uint8_t* p, std::uint32_t mask) {
  __m128i v;
  if constexpr (whole) {
    v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  } else {
    alignas(16) std::uint8_t part[16] = {};
    for (int i = 0; mask >> i & 1; ++i) part[i] = p[i];
    v = _mm_load_si128(reinterpret_cast<const __m128i*>(part));
  }
  return is_signed ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v);
}
template <bool whole> TW_INLINE Wide words(const std::int16_t* p, std::uint32_t mask) {
  if constexpr (whole) return wide_load(p);
  alignas(32) std::int16_t part[16] = {};
  for (int i = 0; mask >> i & 1; ++i) part[i] = p[i];
  return wide_load(part);
}
TW_INLINE Wide low_pairs(Wide a, Wide b) { return _mm256_unpacklo_epi16(a, b); }
TW_INLINE Wide high_pairs(Wide a, Wide b) { return _mm256_unpackhi_epi16(a, b); }
struct InOrder {
  Wide first, second;
};
TW_INLINE InOrder in_order(Wide low, Wide high) {
  return {_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}
#endif

// Two taps, or one: `pair` false.
template <int count, bool whole, bool is_signed, bool pair>
TW_INLINE void add_taps(const Window& w, const IntegerStrip& at, std::int64_t t, std::uint32_t mask,
                        const std::uint8_t* const (&a)[count], Wide (&low)[count], Wide (&high)[count]) {
  const std::int64_t first = w.tap_offset[t], second = pair ? w.tap_offset[t + 1] : 0;
  Wide w0 = wide_splat(0x00010001), w1 = pair ? w0 : wide_zero();
  if (w.w16) {
    w0 = words<whole>(weights_at(w, t, at.c), mask);
    if constexpr (pair) w1 = words<whole>(weights_at(w, t + 1, at.c), mask);
  }
  const Wide w_low = low_pairs(w0, w1), w_high = high_pairs(w0, w1);
  unroll<count>(TW_UNROLLED(i) {
    const Wide x0 = bytes_as_words<whole, is_signed>(a[i.value] + first, mask);
    Wide x1 = wide_zero();
    if constexpr (pair) x1 = bytes_as_words<whole, is_signed>(a[i.value] + second, mask);
    low[i.value] = add_pairs_of(low[i.value], low_pairs(x0, x1), w_low);
    high[i.value] = add_pairs_of(high[i.value], high_pairs(x0, x1), w_high);
  });
}

template <int count, bool whole, bool is_signed>
HWY_NOINLINE void typed_window_sums(const Window& w, const IntegerStrip& at, [[maybe_unused]] const ShortEnd* end,
                                    std::int32_t* sums) {
  static_assert(panel_vectors == 2);
  const std::uint32_t mask = at.columns >= 32 ? ~0u : (1u << at.columns) - 1;
  const std::uint8_t* a[count];
  Wide low[count], high[count];
  unroll<count>(TW_UNROLLED(i) {
    a[i.value] = static_cast<const std::uint8_t*>(w.a) + row_at(w.a_rows, at.x + i.value) + at.c;
    low[i.value] = high[i.value] = wide_zero();
  });
  std::int64_t t = 0;
  for (; t + 1 < w.taps; t += 2) add_taps<count, whole, is_signed, true>(w, at, t, mask, a, low, high);
  if (t < w.taps) add_taps<count, whole, is_signed, false>(w, at, t, mask, a, low, high);
#if HWY_TARGET == HWY_AVX3
  if (end) {
    unroll<count>(TW_UNROLLED(i) {
      const auto [first, second] = in_order(low[i.value], high[i.value]);
      end_two(first, second, *end, static_cast<std::uint8_t*>(w.out) + row_at(w.out_rows, at.x + i.value) + at.c);
    });
    return;
  }
#endif
  unroll<count>(TW_UNROLLED(i) {
    const auto [first, second] = in_order(low[i.value], high[i.value]);
    wide_store(first, sums + i.value * nr);
    wide_store(second, sums + i.value * nr + lanes);
  });
}

template <int count, bool whole>
TW_INLINE void integer_window_sums(const Window& w, const IntegerStrip& at, const ShortEnd* end, std::int32_t* sums) {
  if (w.a_type == DType::i8)
    typed_window_sums<count, whole, true>(w, at, end, sums);
  else
    typed_window_sums<count, whole, false>(w, at, end, sums);
}

#else

template <int count, bool whole>
void integer_window_sums(const Window& w, const IntegerStrip& at, const ShortEnd*, std::int32_t* sums) {
  const bool is_signed = w.a_type == DType::i8;
  for (int i = 0; i < count; ++i) {
    const std::uint8_t* const a = static_cast<const std::uint8_t*>(w.a) + row_at(w.a_rows, at.x + i) + at.c;
    std::int32_t* const sum = sums + i * nr;
    for (int c = 0; c < nr; ++c) sum[c] = 0;
    for (std::int64_t t = 0; t < w.taps; ++t) {
      const std::uint8_t* const p = a + w.tap_offset[t];
      const std::int16_t* const weights = w.w16 ? weights_at(w, t, at.c) : nullptr;
      for (int c = 0; c < at.columns; ++c) {
        const std::int32_t v = is_signed ? static_cast<std::int8_t>(p[c]) : p[c];
        const std::int32_t product = weights ? v * weights[c] : v;
        sum[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum[c]) + static_cast<std::uint32_t>(product));
      }
    }
  }
}

#endif

// What all positions of a block of channels share.
struct IntegerChannels {
  alignas(64) std::int32_t begin[nr] = {};
  ShortEnd end;
  bool ends = false;
};

template <int count>
TW_INLINE void integer_window_strip(const Window& w, const IntegerQuick& quick, const IntegerChannels& channels,
                                    const IntegerStrip& at) {
  alignas(64) std::int32_t sums[count * nr];
  const ShortEnd* const end = channels.ends ? &channels.end : nullptr;
  if (at.columns == nr)
    integer_window_sums<count, true>(w, at, end, sums);
  else
    integer_window_sums<count, false>(w, at, end, sums);
  if (end) return;
  finish_integers({sums, nr, count, at.columns, at.x, at.c, w.begin ? channels.begin : nullptr}, quick, w.epilogue,
                  {w.out, w.out_type, w.out_rows, 1, 0});
}

template <int count>
TW_INLINE void integer_window_strip_of(const Window& w, const IntegerQuick& quick, const IntegerChannels& channels,
                                       const IntegerStrip& at) {
  if constexpr (count > 1)
    if (at.count < count) return integer_window_strip_of<count - 1>(w, quick, channels, at);
  integer_window_strip<count>(w, quick, channels, at);
}

inline void window_integer_block(const Window& w) {
  if (w.x <= 0 || w.c <= 0) return;
  const IntegerQuick quick = integer_quick(w.epilogue, w.out_type, 1);
  const std::int64_t strips = (w.x + integer_strip - 1) / integer_strip;
  IntegerChannels channels;
  for (std::int64_t c = 0; c < w.c; c += nr) {
    const int columns = static_cast<int>(least<std::int64_t>(nr, w.c - c));
    if (w.begin)
      for (int k = 0; k < columns; ++k) channels.begin[k] = w.begin[c + k];
    channels.ends = short_end(quick, c, columns, w.begin ? channels.begin : nullptr, &channels.end);
    for (std::int64_t i = 0; i < strips; ++i) {
      const std::int64_t x = i * w.x / strips;
      integer_window_strip_of<integer_strip>(w, quick, channels,
                                             {x, c, static_cast<int>((i + 1) * w.x / strips - x), columns});
    }
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
