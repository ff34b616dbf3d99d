// window: out[x, c] = reduce over taps of A[row(x) + tap_offset[t] + c] (* W[t, c]): depthwise convolutions and pools.
//
// One tile is `strip` positions x one vector of channels: for each tap the weights are loaded once and meet one load of
// A a position, so a step costs one load a multiply-add, which is what the cores can do. Neighbouring positions read
// the same lines again, from the L1 cache. Positions are walked inside channels, so that the weights of a vector of
// channels stay near too.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int strip = HWY_TARGET == HWY_AVX3 ? 8 : 6;

template <WindowReduce reduce> TW_INLINE V window_start() {
  const float infinity = bits_to_float(0x7f800000u);
  return hn::Set(D(), reduce == WindowReduce::sum ? 0.0f : reduce == WindowReduce::max ? -infinity : infinity);
}
template <WindowReduce reduce, bool weighted> TW_INLINE V window_step(V sum, V x, V w) {
  if constexpr (reduce == WindowReduce::max) return max_nan(x, sum);
  if constexpr (reduce == WindowReduce::min) return min_nan(x, sum);
  if constexpr (weighted) return hn::MulAdd(x, w, sum);
  return hn::Add(sum, x);
}

struct Strip {
  std::int64_t x, c;
  int count;         // positions
  std::int64_t left; // channels from c on
};

template <WindowReduce reduce, bool weighted, bool whole, int count, class T>
TW_INLINE void window_sums(const Window& w, const Strip& at, V (&sum)[count]) {
  const T* a[count];
  unroll<count>(TW_UNROLLED(i) {
    a[i.value] = static_cast<const T*>(w.a) + row_at(w.a_rows, at.x + i.value) + at.c;
    sum[i.value] = window_start<reduce>();
  });
  for (std::int64_t t = 0; t < w.taps; ++t) {
    const std::int64_t offset = w.tap_offset[t];
    V weight = hn::Zero(D());
    if constexpr (weighted)
      weight = load_if<whole>(w.w + (w.weight_offset ? w.weight_offset[t] : t * w.w_t) + at.c, at.left);
    unroll<count>(TW_UNROLLED(i) {
      sum[i.value] = window_step<reduce, weighted>(sum[i.value], load_if<whole>(a[i.value] + offset, at.left), weight);
    });
  }
}

template <WindowReduce reduce, bool weighted, bool whole, int count, class T>
HWY_NOINLINE void window_strip(const Window& w, const Quick& quick, const Strip& at) {
  V sum[count];
  window_sums<reduce, weighted, whole, count, T>(w, at, sum);
  if (!quick.possible) {
    alignas(64) float values[count * lanes];
    unroll<count>(TW_UNROLLED(i) { store(sum[i.value], values + i.value * lanes); });
    const int columns = whole ? lanes : static_cast<int>(at.left);
    return finish_tile({values, lanes, count, columns, at.x, at.c, nullptr}, w.epilogue,
                       {w.out, w.out_type, w.out_rows, 1, at.x});
  }
  if (quick.bias) {
    const V bias = load_if<whole>(quick.bias + at.c, at.left);
    unroll<count>(TW_UNROLLED(i) { sum[i.value] = hn::Add(sum[i.value], bias); });
  }
  if (quick.residual)
    unroll<count>(TW_UNROLLED(i) {
      const auto* p = static_cast<const float*>(quick.residual->operand) + row_at(quick.residual->rows, at.x + i.value);
      sum[i.value] = hn::Add(sum[i.value], load_if<whole>(p + at.c, at.left));
    });
  if (quick.limits)
    unroll<count>(TW_UNROLLED(i) {
      sum[i.value] = min_limit(hn::Set(D(), quick.high), max_limit(hn::Set(D(), quick.low), sum[i.value]));
    });
  float* to[count];
  unroll<count>(TW_UNROLLED(i) {
    to[i.value] = static_cast<float*>(w.out) + row_at(w.out_rows, at.x + i.value) + at.c;
    store_if<whole>(sum[i.value], to[i.value], at.left);
  });
  if (quick.function) quick.function(*quick.last, nullptr, to, 0, count, whole ? lanes : static_cast<int>(at.left));
}

// Positions are dealt out evenly over strips. Only whole vectors of a weighted sum in f32 have a kernel for every
// count; the rest is rare enough for tiles of four and of one.
template <WindowReduce reduce, bool weighted, bool whole, class T, int count>
TW_INLINE void window_strip_of(const Window& w, const Quick& quick, const Strip& at) {
  if constexpr (count > 1)
    if (at.count < count) return window_strip_of<reduce, weighted, whole, T, count - 1>(w, quick, at);
  window_strip<reduce, weighted, whole, count, T>(w, quick, at);
}

template <WindowReduce reduce, bool weighted, bool whole, class T>
void window_column(const Window& w, const Quick& quick, std::int64_t c) {
  if constexpr (weighted && whole && sizeof(T) == 4) {
    const std::int64_t strips = (w.x + strip - 1) / strip;
    for (std::int64_t i = 0; i < strips; ++i) {
      const std::int64_t x = i * w.x / strips;
      const Strip at{x, c, static_cast<int>((i + 1) * w.x / strips - x), w.c - c};
      window_strip_of<reduce, weighted, whole, T, strip>(w, quick, at);
    }
  } else {
    std::int64_t x = 0;
    for (; x + 4 <= w.x; x += 4) window_strip<reduce, weighted, whole, 4, T>(w, quick, {x, c, 4, w.c - c});
    for (; x < w.x; ++x) window_strip<reduce, weighted, whole, 1, T>(w, quick, {x, c, 1, w.c - c});
  }
}

template <WindowReduce reduce, bool weighted, class T> void window_columns(const Window& w, const Quick& quick) {
  by_vectors(
      w.c, [&](std::int64_t c, auto whole) __attribute__((always_inline)) {
        window_column<reduce, weighted, decltype(whole)::value, T>(w, quick, c);
      });
}

inline void window_block(const Window& w) {
  if (w.x <= 0 || w.c <= 0) return;
  const Quick quick = quick_ending(w.epilogue, w.out_type, 1);
  for_storage(w.a_type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    switch (w.reduce) {
    case WindowReduce::sum:
      return w.w ? window_columns<WindowReduce::sum, true, T>(w, quick)
                 : window_columns<WindowReduce::sum, false, T>(w, quick);
    case WindowReduce::max: return window_columns<WindowReduce::max, false, T>(w, quick);
    case WindowReduce::min: return window_columns<WindowReduce::min, false, T>(w, quick);
    }
  });
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
