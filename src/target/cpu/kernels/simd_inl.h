// What every leaf needs from the instruction set: vectors of floats, loads and stores of the storage types, partial
// ones, and NaN-propagating max and min. Included by files that are compiled once an instruction set, with TW_ISA
// defined as its name.
//
// Everything here has internal linkage. An inline function of std or of our own headers that was compiled with AVX-512
// flags would be merged by the linker with its baseline twin and then run on machines without AVX-512; so these files
// use none of them, and no member functions of shared structs either.
#pragma once
#ifndef HWY_COMPILE_ONLY_SCALAR
#define HWY_COMPILE_ONLY_STATIC
#endif
#include "target/cpu/kernels/leaves.h"
#include "target/cpu/kernels/vector_program.h"
#include <hwy/highway.h>
#include <math.h>
#include <string.h>

#define TW_INLINE inline __attribute__((always_inline))

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;
using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

constexpr bool scalar_vectors = HWY_TARGET == HWY_SCALAR;
constexpr bool masked_memory = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;
constexpr int lanes = static_cast<int>(HWY_LANES(float));

// ---- compile-time loops: f(Int<0>{}), ..., f(Int<n - 1>{}), so that arrays of vectors stay in registers.
template <int i> struct Int { static constexpr int value = i; };
template <int... i> struct Ints {};
template <int n, int... i> struct Count : Count<n - 1, n - 1, i...> {};
template <int... i> struct Count<0, i...> { using type = Ints<i...>; };

template <class F, int... i> TW_INLINE constexpr void each(Ints<i...>, F&& f) { (f(Int<i>{}), ...); }
template <int n, class F> TW_INLINE constexpr void unroll(F&& f) { each(typename Count<n>::type{}, f); }
#define TW_UNROLLED(i) [&](auto i) __attribute__((always_inline))

template <class T> TW_INLINE T least(T a, T b) { return a < b ? a : b; }

// ---- storage types of floats. The structs only give the bits a type to overload on.
struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

TW_INLINE float bits_to_float(std::uint32_t v) {
  float f;
  memcpy(&f, &v, 4);
  return f;
}
TW_INLINE std::uint32_t float_to_bits(float f) {
  std::uint32_t v;
  memcpy(&v, &f, 4);
  return v;
}

[[maybe_unused]] TW_INLINE float widen(float v) { return v; }
[[maybe_unused]] TW_INLINE float widen(Bf16 v) { return bits_to_float(static_cast<std::uint32_t>(v.bits) << 16); }
[[maybe_unused]] TW_INLINE float widen(F16 v) {
  const std::uint32_t sign = (v.bits & 0x8000u) << 16, magnitude = v.bits & 0x7fffu;
  if (magnitude < 0x400u) return bits_to_float(float_to_bits(static_cast<float>(magnitude) * 0x1p-24f) | sign);
  const std::uint32_t bits = (magnitude << 13) + (magnitude < 0x7c00u ? 112u << 23 : 224u << 23);
  return bits_to_float(bits | sign | (magnitude > 0x7c00u ? 0x400000u : 0u));
}

[[maybe_unused]] TW_INLINE void narrow(float v, float* to) { *to = v; }
[[maybe_unused]] TW_INLINE void narrow(float v, Bf16* to) {
  const std::uint32_t bits = float_to_bits(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  to->bits = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
[[maybe_unused]] TW_INLINE void narrow(float v, F16* to) {
  const std::uint32_t bits = float_to_bits(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  std::uint32_t half;
  if (magnitude > 0x7f800000u)
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  else if (magnitude >= 0x477ff000u)
    half = 0x7c00u; // 65520 and more
  else if (magnitude >= 0x38800000u)
    half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  else
    half = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000u; // the addition rounds to multiples of 2^-24
  to->bits = static_cast<std::uint16_t>(sign | half);
}

// ---- whole vectors
[[maybe_unused]] TW_INLINE V load(const float* p) { return hn::LoadU(D(), p); }
[[maybe_unused]] TW_INLINE V load(const Bf16* p) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> wide;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(D(), hn::ShiftLeft<16>(bits));
}
[[maybe_unused]] TW_INLINE V load(const F16* p) {
  if constexpr (scalar_vectors) {
    return hn::Set(D(), widen(*p));
  } else {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(D(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
  }
}

[[maybe_unused]] TW_INLINE void store(V v, float* p) { hn::StoreU(v, D(), p); }
[[maybe_unused]] TW_INLINE void store(V v, Bf16* p) {
  const hn::RebindToUnsigned<D> wide;
  const DI wide_signed;
  const hn::Rebind<std::uint16_t, D> half;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide, 0x40u));
  const auto nan = hn::RebindMask(wide, hn::IsNaN(v));
  const auto result = hn::IfThenElse(nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(wide_signed, result)), half, reinterpret_cast<std::uint16_t*>(p));
}
[[maybe_unused]] TW_INLINE void store(V v, F16* p) {
  if constexpr (scalar_vectors) {
    narrow(hn::GetLane(v), p);
  } else {
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
  }
}

// ---- the first n lanes, 0 < n < lanes: the rest of memory is not touched; loaded lanes behind are 0.
template <class T> TW_INLINE V load_part(const T* p, std::int64_t n) {
  alignas(64) T padded[lanes] = {};
  memcpy(padded, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(padded);
}
template <class T> TW_INLINE void store_part(V v, T* p, std::int64_t n) {
  alignas(64) T padded[lanes];
  store(v, padded);
  memcpy(p, padded, static_cast<std::size_t>(n) * sizeof(T));
}
[[maybe_unused]] TW_INLINE V load_part(const float* p, std::int64_t n) {
  if constexpr (masked_memory) return hn::MaskedLoad(hn::FirstN(D(), static_cast<std::size_t>(n)), D(), p);
  return load_part<float>(p, n);
}
[[maybe_unused]] TW_INLINE void store_part(V v, float* p, std::int64_t n) {
  if constexpr (masked_memory)
    hn::BlendedStore(v, hn::FirstN(D(), static_cast<std::size_t>(n)), D(), p);
  else
    store_part<float>(v, p, n);
}

// Walks count elements in vectors: body(i, Whole<true>) for whole ones, body(i, Whole<false>) for the last part.
template <bool whole> struct Whole { static constexpr bool value = whole; };
template <class F> TW_INLINE void by_vectors(std::int64_t count, F&& body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, Whole<true>{});
  if (i < count) body(i, Whole<false>{});
}
template <bool whole, class T> TW_INLINE V load_if(const T* p, std::int64_t left) {
  if constexpr (whole)
    return load(p);
  else
    return load_part(p, left);
}
template <bool whole, class T> TW_INLINE void store_if(V v, T* p, std::int64_t left) {
  if constexpr (whole)
    store(v, p);
  else
    store_part(v, p, left);
}

// ---- max and min that propagate NaN. x86 instructions give the second argument when the two are unordered, so
// max(limit, x) with a limit that is no NaN is one instruction; ARM's propagate.
template <class Vec> TW_INLINE Vec max_limit(Vec limit, Vec x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(limit, x);
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  return Vec{vmaxq_f32(limit.raw, x.raw)};
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}
template <class Vec> TW_INLINE Vec min_limit(Vec limit, Vec x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(limit, x);
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  return Vec{vminq_f32(limit.raw, x.raw)};
#else
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#endif
}
[[maybe_unused]] TW_INLINE V max_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, max_limit(a, b)); }
[[maybe_unused]] TW_INLINE V min_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, min_limit(a, b)); }

TW_INLINE std::int64_t row_at(const Rows& rows, std::int64_t r) { return rows.table ? rows.table[r] : r * rows.stride; }

// Calls f with a null pointer of the storage type, so that generic code is compiled once a type.
template <class F> TW_INLINE void for_storage(DType type, F&& f) {
  switch (type) {
  case DType::f16: return f(static_cast<F16*>(nullptr));
  case DType::bf16: return f(static_cast<Bf16*>(nullptr));
  default: return f(static_cast<float*>(nullptr));
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
