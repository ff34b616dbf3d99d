// Casts, and the storage types behind them: how an element in memory becomes an element of a register and back.
//
//   widen(stored)      the register's element: f16 -> float, i8 -> i32, ...
//   narrow_to(x, &s)   to nearest even for floats; integers wrap; bool is x != 0
#pragma once
#include "target/cpu/kernels/vector_functions_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

struct F8E4M3 {
  std::uint8_t bits;
};
struct F8E5M2 {
  std::uint8_t bits;
};
struct Bool {
  std::uint8_t bits;
};

TW_INLINE float widen(F8E5M2 v) {
  return widen(F16{static_cast<std::uint16_t>(v.bits << 8)});
} // the upper byte of a half
TW_INLINE float widen(F8E4M3 v) {
  const std::uint32_t sign = (v.bits & 0x80u) << 24, magnitude = v.bits & 0x7fu;
  const float size = magnitude == 0x7fu ? bits_to_float(0x7fc00000u)
                     : magnitude < 8u   ? static_cast<float>(magnitude) * 0x1p-9f
                                        : bits_to_float((magnitude << 20) + (120u << 23));
  return bits_to_float(float_to_bits(size) | sign);
}
TW_INLINE double widen(double v) { return v; }
TW_INLINE std::int32_t widen(std::int8_t v) { return v; }
TW_INLINE std::int32_t widen(std::uint8_t v) { return v; }
TW_INLINE std::int32_t widen(std::int32_t v) { return v; }
TW_INLINE std::int64_t widen(std::int64_t v) { return v; }
TW_INLINE std::uint8_t widen(Bool v) { return v.bits != 0; }

// The magnitude of a finite f32 in a float of few bits: normal numbers round by adding half of what is dropped,
// subnormal ones by an addition to a number whose last place is the least subnormal. May carry past the largest number.
template <int exponent_bits, int mantissa_bits> TW_INLINE std::uint32_t few_bits(std::uint32_t magnitude) {
  constexpr std::uint32_t rebias = 128u - (1u << (exponent_bits - 1)), dropped = 23u - mantissa_bits;
  constexpr std::uint32_t unit = (rebias + dropped + 1u) << 23; // as a float: 2^23 times the least subnormal
  if (magnitude < (rebias + 1u) << 23) return float_to_bits(bits_to_float(magnitude) + bits_to_float(unit)) - unit;
  const std::uint32_t half = (1u << (dropped - 1)) - 1u + ((magnitude >> dropped) & 1u);
  return (magnitude - (rebias << 23) + half) >> dropped;
}
TW_INLINE void narrow_to(float v, F8E4M3* to) {
  const std::uint32_t bits = float_to_bits(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  const std::uint32_t few = magnitude >= 0x7f800000u ? 0x7fu : few_bits<4, 3>(magnitude);
  to->bits = static_cast<std::uint8_t>(sign | least(few, 0x7fu)); // no infinity
}
TW_INLINE void narrow_to(float v, F8E5M2* to) {
  const std::uint32_t bits = float_to_bits(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  const std::uint32_t few = magnitude > 0x7f800000u    ? 0x7eu | ((magnitude >> 21) & 3u)
                            : magnitude == 0x7f800000u ? 0x7cu
                                                       : least(few_bits<5, 2>(magnitude), 0x7cu);
  to->bits = static_cast<std::uint8_t>(sign | few);
}
TW_INLINE void narrow_to(float v, float* to) { *to = v; }
TW_INLINE void narrow_to(float v, F16* to) { narrow(v, to); }
TW_INLINE void narrow_to(float v, Bf16* to) { narrow(v, to); }
TW_INLINE void narrow_to(double v, double* to) { *to = v; }
TW_INLINE void narrow_to(std::int32_t v, std::int8_t* to) { *to = static_cast<std::int8_t>(v); }
TW_INLINE void narrow_to(std::int32_t v, std::uint8_t* to) { *to = static_cast<std::uint8_t>(v); }
TW_INLINE void narrow_to(std::int32_t v, std::int32_t* to) { *to = v; }
TW_INLINE void narrow_to(std::int64_t v, std::int64_t* to) { *to = v; }
TW_INLINE void narrow_to(std::uint8_t v, Bool* to) { to->bits = v; }

// What a register holds of a storage type.
template <class S> using ElementFor = decltype(widen(S{}));
// Storage types that Highway loads and stores as vectors of f32.
template <class S> constexpr bool is_vector_storage = false;
template <> constexpr bool is_vector_storage<float> = true;
template <> constexpr bool is_vector_storage<F16> = true;
template <> constexpr bool is_vector_storage<Bf16> = true;

// Calls f with a null pointer of the storage type.
template <class F> TW_INLINE void for_dtype(DType type, F&& f) {
  switch (type) {
  case DType::f64: return f(static_cast<double*>(nullptr));
  case DType::f32: return f(static_cast<float*>(nullptr));
  case DType::f16: return f(static_cast<F16*>(nullptr));
  case DType::bf16: return f(static_cast<Bf16*>(nullptr));
  case DType::f8e4m3: return f(static_cast<F8E4M3*>(nullptr));
  case DType::f8e5m2: return f(static_cast<F8E5M2*>(nullptr));
  case DType::i8: return f(static_cast<std::int8_t*>(nullptr));
  case DType::u8: return f(static_cast<std::uint8_t*>(nullptr));
  case DType::i32: return f(static_cast<std::int32_t*>(nullptr));
  case DType::i64: return f(static_cast<std::int64_t*>(nullptr));
  case DType::boolean: return f(static_cast<Bool*>(nullptr));
  }
}

// ---- casts: register element to register element of the storage type, limited to what that type holds

// Truncates; NaN is 0, and what is out of [low, high] is the nearest of them. high + 1 is a power of two, hence exact.
template <class To, class From> TW_INLINE To saturated(From v, To low, To high) {
  const From below = static_cast<From>(low), above = static_cast<From>(static_cast<double>(high / 2 + 1) * 2.0);
  const From inside = v >= below && v < above ? v : From(0);
  const To value = static_cast<To>(inside);
  return v >= above ? high : v < below ? low : value;
}
template <class S> struct Limits;
template <> struct Limits<std::int8_t> { static constexpr std::int32_t low = -128, high = 127; };
template <> struct Limits<std::uint8_t> { static constexpr std::int32_t low = 0, high = 255; };
template <> struct Limits<std::int32_t> { static constexpr std::int32_t low = INT32_MIN, high = INT32_MAX; };
template <> struct Limits<std::int64_t> { static constexpr std::int64_t low = INT64_MIN, high = INT64_MAX; };

template <class S, class From> TW_INLINE ElementFor<S> converted(From v) {
  using To = ElementFor<S>;
  if constexpr (sizeof(To) == 1) {
    return static_cast<To>(v != From(0));
  } else if constexpr (is_float_element<To>) {
    S stored{};
    narrow_to(static_cast<To>(v), &stored);
    return widen(stored);
  } else if constexpr (is_float_element<From>) {
    return saturated<To, From>(v, Limits<S>::low, Limits<S>::high);
  } else {
    S stored{};
    narrow_to(static_cast<To>(v), &stored);
    return widen(stored);
  }
}

template <class S, class From> void cast_lanes(const Instruction& i, const Block& b) {
  using To = ElementFor<S>;
  const From* const x = reg<From>(b, i.a);
  To* const to = reg<To>(b, i.dst);
  if constexpr (is_vector_storage<S> && sizeof(From) == 4 && is_float_element<From>) {
    produce(
        to, b.count, [&](std::int64_t k) __attribute__((always_inline)) {
          alignas(64) S stored[lanes];
          store(load(x + k), stored);
          return load(stored);
        });
  } else {
    each_lane(
        to, b.count, [&](int k) __attribute__((always_inline)) { return converted<S>(x[k]); });
  }
}

template <class From> void cast_from(const Instruction& i, const Block& b) {
  for_dtype(i.dtype, [&](auto* type) { cast_lanes<std::remove_pointer_t<decltype(type)>, From>(i, b); });
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
