// Instructions of two arguments: arithmetic, comparisons, bits, select; and folding a pair.
#pragma once
#include "target/cpu/kernels/vector_block_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// ---- the meaning of each operation: apply(V, V) for vectors of floats, apply(T, T) for anything else. Integers wrap
// through unsigned.

template <class T> TW_INLINE T wrapped_add(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T> TW_INLINE T wrapped_sub(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
template <class T> TW_INLINE T wrapped_mul(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
}

struct Add {
  static TW_INLINE V apply(V a, V b) { return hn::Add(a, b); }
  static TW_INLINE double apply(double a, double b) { return a + b; }
  template <class T> static TW_INLINE T apply(T a, T b) { return wrapped_add(a, b); }
};
struct Sub {
  static TW_INLINE V apply(V a, V b) { return hn::Sub(a, b); }
  static TW_INLINE double apply(double a, double b) { return a - b; }
  template <class T> static TW_INLINE T apply(T a, T b) { return wrapped_sub(a, b); }
};
struct Mul {
  static TW_INLINE V apply(V a, V b) { return hn::Mul(a, b); }
  static TW_INLINE double apply(double a, double b) { return a * b; }
  template <class T> static TW_INLINE T apply(T a, T b) { return wrapped_mul(a, b); }
};

// Division must not trap: by 0 it gives 0, and the lowest integer by -1 wraps.
struct Div {
  static TW_INLINE V apply(V a, V b) { return hn::Div(a, b); }
  static TW_INLINE double apply(double a, double b) { return a / b; }
  template <class T> static TW_INLINE T apply(T a, T b) {
    return b == 0 ? T(0) : b == -1 ? wrapped_sub(T(0), a) : T(a / b);
  }
};
struct FloorDiv {
  static TW_INLINE V apply(V a, V b) { return hn::Floor(hn::Div(a, b)); }
  static TW_INLINE double apply(double a, double b) { return ::floor(a / b); }
  template <class T> static TW_INLINE T apply(T a, T b) {
    if (b == 0 || b == -1) return b == 0 ? T(0) : wrapped_sub(T(0), a);
    const T q = static_cast<T>(a / b), r = static_cast<T>(a % b);
    return static_cast<T>(q - (r != 0 && (r < 0) != (b < 0)));
  }
};
struct Rem {
  static TW_INLINE float apply(float a, float b) { return ::fmodf(a, b); }
  static TW_INLINE double apply(double a, double b) { return ::fmod(a, b); }
  template <class T> static TW_INLINE T apply(T a, T b) { return b == 0 || b == -1 ? T(0) : T(a % b); }
};
struct Mod {
  template <class T> static TW_INLINE T apply(T a, T b) {
    const T r = Rem::apply(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
};
struct Pow {
  static TW_INLINE float apply(float a, float b) { return ::powf(a, b); }
  static TW_INLINE double apply(double a, double b) { return ::pow(a, b); }
  template <class T> static TW_INLINE T apply(T a, T b) {
    if (b < 0) return a == 1 ? T(1) : a == -1 ? T(b % 2 == 0 ? 1 : -1) : T(0);
    T result = 1;
    for (; b > 0; b = static_cast<T>(b >> 1), a = wrapped_mul(a, a))
      if (b & 1) result = wrapped_mul(result, a);
    return result;
  }
};
struct Max {
  static TW_INLINE V apply(V a, V b) { return max_nan(a, b); }
  static TW_INLINE double apply(double a, double b) { return a != a ? a : a > b ? a : b; }
  template <class T> static TW_INLINE T apply(T a, T b) { return a > b ? a : b; }
};
struct Min {
  static TW_INLINE V apply(V a, V b) { return min_nan(a, b); }
  static TW_INLINE double apply(double a, double b) { return a != a ? a : a < b ? a : b; }
  template <class T> static TW_INLINE T apply(T a, T b) { return a < b ? a : b; }
};

struct Eq {
  static TW_INLINE Mask apply(V a, V b) { return hn::Eq(a, b); }
  template <class T> static TW_INLINE bool apply(T a, T b) { return a == b; }
};
struct Ne {
  static TW_INLINE Mask apply(V a, V b) { return hn::Not(hn::Eq(a, b)); } // hn::Ne is false for NaN
  template <class T> static TW_INLINE bool apply(T a, T b) { return a != b; }
};
struct Lt {
  static TW_INLINE Mask apply(V a, V b) { return hn::Lt(a, b); }
  template <class T> static TW_INLINE bool apply(T a, T b) { return a < b; }
};
struct Le {
  static TW_INLINE Mask apply(V a, V b) { return hn::Le(a, b); }
  template <class T> static TW_INLINE bool apply(T a, T b) { return a <= b; }
};
struct Gt {
  static TW_INLINE Mask apply(V a, V b) { return hn::Gt(a, b); }
  template <class T> static TW_INLINE bool apply(T a, T b) { return a > b; }
};
struct Ge {
  static TW_INLINE Mask apply(V a, V b) { return hn::Ge(a, b); }
  template <class T> static TW_INLINE bool apply(T a, T b) { return a >= b; }
};

struct BitAnd {
  template <class T> static TW_INLINE T apply(T a, T b) { return a & b; }
};
struct BitOr {
  template <class T> static TW_INLINE T apply(T a, T b) { return a | b; }
};
struct BitXor {
  template <class T> static TW_INLINE T apply(T a, T b) { return a ^ b; }
};
struct Shl {
  template <class T> static TW_INLINE T apply(T a, T b) {
    constexpr int width = 8 * sizeof(T);
    const Unsigned<T> n = static_cast<Unsigned<T>>(b);
    return static_cast<T>(n < width ? static_cast<Unsigned<T>>(a) << (n & (width - 1)) : 0);
  }
};
struct Shr {
  template <class T> static TW_INLINE T apply(T a, T b) {
    constexpr int width = 8 * sizeof(T);
    const Unsigned<T> n = static_cast<Unsigned<T>>(b);
    return static_cast<T>(a >> (n < width ? n : width - 1));
  }
};
struct ShrLogical {
  template <class T> static TW_INLINE T apply(T a, T b) {
    constexpr int width = 8 * sizeof(T);
    const Unsigned<T> n = static_cast<Unsigned<T>>(b);
    return static_cast<T>(n < width ? static_cast<Unsigned<T>>(a) >> (n & (width - 1)) : 0);
  }
};

// ---- handlers

template <class F> void on_vectors(const Instruction& i, const Block& b) { // floats to floats
  const float *x = reg<float>(b, i.a), *y = reg<float>(b, i.b);
  produce(
      reg<float>(b, i.dst),
      b.count, [&](std::int64_t k) __attribute__((always_inline)) { return F::apply(load(x + k), load(y + k)); });
}
template <class F> void vectors_compared(const Instruction& i, const Block& b) {
  const float *x = reg<float>(b, i.a), *y = reg<float>(b, i.b);
  produce_mask(
      reg<std::uint8_t>(b, i.dst),
      b.count, [&](std::int64_t k) __attribute__((always_inline)) { return F::apply(load(x + k), load(y + k)); });
}
template <class F, class T> void on_lanes(const Instruction& i, const Block& b) {
  const T *x = reg<T>(b, i.a), *y = reg<T>(b, i.b);
  each_lane(
      reg<T>(b, i.dst), b.count, [&](int k) __attribute__((always_inline)) { return F::apply(x[k], y[k]); });
}
template <class F, class T> void lanes_compared(const Instruction& i, const Block& b) {
  const T *x = reg<T>(b, i.a), *y = reg<T>(b, i.b);
  each_lane(
      reg<std::uint8_t>(b, i.dst),
      b.count, [&](int k) __attribute__((always_inline)) { return static_cast<std::uint8_t>(F::apply(x[k], y[k])); });
}

inline void select_vectors(const Instruction& i, const Block& b) {
  const std::uint8_t* condition = reg<std::uint8_t>(b, i.a);
  const float *yes = reg<float>(b, i.b), *no = reg<float>(b, i.c);
  produce(
      reg<float>(b, i.dst), b.count, [&](std::int64_t k) __attribute__((always_inline)) {
        return hn::IfThenElse(load_mask(condition + k), load(yes + k), load(no + k));
      });
}
template <class T> void select_lanes(const Instruction& i, const Block& b) {
  const std::uint8_t* condition = reg<std::uint8_t>(b, i.a);
  const T *yes = reg<T>(b, i.b), *no = reg<T>(b, i.c);
  each_lane(
      reg<T>(b, i.dst), b.count, [&](int k) __attribute__((always_inline)) { return condition[k] ? yes[k] : no[k]; });
}

// Whether a candidate replaces what is held: NaN beats everything but a NaN that came before.
template <bool greatest, class T> TW_INLINE bool beats(T candidate, T held) {
  if constexpr (is_float_element<T>)
    if (candidate != candidate) return held == held;
  return greatest ? candidate > held : candidate < held;
}
template <bool greatest, class T> void fold_pair(const Instruction& i, const Block& b) {
  T* const best = reg<T>(b, i.dst);
  std::int64_t* const winner = reg<std::int64_t>(b, i.a);
  const T* const value = reg<T>(b, i.b);
  const std::int64_t* const index = reg<std::int64_t>(b, i.c);
  TW_LANES_LOOP
  for (int k = 0; k < b.count; ++k) {
    const bool better = beats<greatest>(value[k], best[k]);
    winner[k] = better ? index[k] : winner[k];
    best[k] = better ? value[k] : best[k];
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
