// Instructions of one argument: functions, rounding, classification; constants, copies, and reductions across the lanes
// of a register.
#pragma once
#include "target/cpu/kernels/vector_arithmetic_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

struct Neg {
  static TW_INLINE V apply(V x) { return hn::Neg(x); }
  static TW_INLINE double apply(double x) { return -x; }
  template <class T> static TW_INLINE T apply(T x) { return wrapped_sub(T(0), x); }
};
struct Abs {
  static TW_INLINE V apply(V x) { return hn::Abs(x); }
  static TW_INLINE double apply(double x) { return __builtin_fabs(x); }
  template <class T> static TW_INLINE T apply(T x) { return x < 0 ? wrapped_sub(T(0), x) : x; }
};
struct Sign { // of NaN: NaN; of a zero: that zero
  static TW_INLINE V apply(V x) {
    const V zero = hn::Zero(D()), one = hn::Set(D(), 1.0f);
    return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
  }
  template <class T> static TW_INLINE T apply(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
};
struct Floor {
  static TW_INLINE V apply(V x) { return hn::Floor(x); }
  static TW_INLINE double apply(double x) { return ::floor(x); }
};
struct Ceil {
  static TW_INLINE V apply(V x) { return hn::Ceil(x); }
  static TW_INLINE double apply(double x) { return ::ceil(x); }
};
struct Trunc {
  static TW_INLINE V apply(V x) { return hn::Trunc(x); }
  static TW_INLINE double apply(double x) { return ::trunc(x); }
};
struct Round {
  static TW_INLINE V apply(V x) {
    if constexpr (scalar_vectors) return hn::Set(D(), ::rintf(hn::GetLane(x))); // Highway's scalar one takes 0.49999997 to 1
    return hn::Round(x);
  }
  static TW_INLINE double apply(double x) { return ::rint(x); }
};
struct Sqrt {
  static TW_INLINE V apply(V x) { return hn::Sqrt(x); }
  static TW_INLINE double apply(double x) { return ::sqrt(x); }
};
struct Exp {
  static TW_INLINE V apply(V x) { return exp(x); }
  static TW_INLINE double apply(double x) { return ::exp(x); }
};
struct Log {
  static TW_INLINE V apply(V x) { return log(x); }
  static TW_INLINE double apply(double x) { return ::log(x); }
};
struct Tanh {
  static TW_INLINE V apply(V x) { return tanh(x); }
  static TW_INLINE double apply(double x) { return ::tanh(x); }
};
struct Erf {
  static TW_INLINE V apply(V x) { return erf(x); }
  static TW_INLINE double apply(double x) { return ::erf(x); }
};
struct Sin {
  static TW_INLINE V apply(V x) { return sin(x); }
  static TW_INLINE double apply(double x) { return ::sin(x); }
};
struct Cos {
  static TW_INLINE V apply(V x) { return cos(x); }
  static TW_INLINE double apply(double x) { return ::cos(x); }
};
struct IsNan {
  static TW_INLINE Mask apply(V x) { return hn::IsNaN(x); }
  static TW_INLINE bool apply(double x) { return x != x; }
};
struct IsInf {
  static TW_INLINE Mask apply(V x) { return hn::IsInf(x); }
  static TW_INLINE bool apply(double x) { return __builtin_fabs(x) == __builtin_inf(); }
};

template <class F> void of_vectors(const Instruction& i, const Block& b) {
  const float* x = reg<float>(b, i.a);
  produce(
      reg<float>(b, i.dst),
      b.count, [&](std::int64_t k) __attribute__((always_inline)) { return F::apply(load(x + k)); });
}
template <class F> void vectors_tested(const Instruction& i, const Block& b) {
  const float* x = reg<float>(b, i.a);
  produce_mask(
      reg<std::uint8_t>(b, i.dst),
      b.count, [&](std::int64_t k) __attribute__((always_inline)) { return F::apply(load(x + k)); });
}
template <class F, class T> void of_lanes(const Instruction& i, const Block& b) {
  const T* x = reg<T>(b, i.a);
  each_lane(
      reg<T>(b, i.dst), b.count, [&](int k) __attribute__((always_inline)) { return F::apply(x[k]); });
}
template <class F> void lanes_tested(const Instruction& i, const Block& b) {
  const double* x = reg<double>(b, i.a);
  each_lane(
      reg<std::uint8_t>(b, i.dst),
      b.count, [&](int k) __attribute__((always_inline)) { return static_cast<std::uint8_t>(F::apply(x[k])); });
}
template <class T, T (*f)(T)> void through_libm(const Instruction& i, const Block& b) {
  const T* x = reg<T>(b, i.a);
  T* const to = reg<T>(b, i.dst);
  for (int k = 0; k < b.count; ++k) to[k] = f(x[k]);
}
template <class T> void bits_inverted(const Instruction& i, const Block& b) {
  const T* x = reg<T>(b, i.a);
  constexpr T ones = sizeof(T) == 1 ? T(1) : T(-1); // b8 is 0 or 1
  each_lane(
      reg<T>(b, i.dst), b.count, [&](int k) __attribute__((always_inline)) { return static_cast<T>(x[k] ^ ones); });
}

template <class T> void set_constant(const Instruction& i, const Block& b) {
  const T value = is_float_element<T> ? static_cast<T>(i.real) : static_cast<T>(i.integer);
  each_lane(
      reg<T>(b, i.dst), b.count, [&](int) __attribute__((always_inline)) { return value; });
}
template <class T> void copy_register(const Instruction& i, const Block& b) {
  if (i.dst != i.a) memcpy(reg<T>(b, i.dst), reg<T>(b, i.a), static_cast<std::size_t>(b.count) * sizeof(T));
}

// ---- across lanes. The tree halves the register until one lane is left: the same order on every instruction set.

template <class F> TW_INLINE void fold_half(float* x, int n, int half) {
  produce(
      x, n - half, [&](std::int64_t k) __attribute__((always_inline)) {
        return F::apply(load(x + k), load(x + half + k));
      });
}
template <class F, class T> TW_INLINE void fold_half(T* x, int n, int half) {
  each_lane(
      x, n - half, [&](int k) __attribute__((always_inline)) { return F::apply(x[k], x[half + k]); });
}
template <class F, class T> void reduce_lanes(const Instruction& i, const Block& b) {
  T* const x = reg<T>(b, i.a);
  for (int n = b.count; n > 1;) {
    const int half = (n + 1) / 2;
    fold_half<F>(x, n, half);
    n = half;
  }
  *reg<T>(b, i.dst) = *x;
}
template <bool greatest, class T> void reduce_pair(const Instruction& i, const Block& b) {
  const T* const x = reg<T>(b, i.a);
  const std::int64_t* const index = reg<std::int64_t>(b, i.b);
  int best = 0;
  for (int k = 1; k < b.count; ++k) {
    const bool equal = x[k] == x[best] || (x[k] != x[k] && x[best] != x[best]);
    if (beats<greatest>(x[k], x[best]) || (equal && index[k] < index[best])) best = k;
  }
  const T value = x[best];
  const std::int64_t winner = index[best];
  *reg<T>(b, i.dst) = value;
  *reg<std::int64_t>(b, i.c) = winner;
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
