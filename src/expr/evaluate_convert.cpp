// Conversions between registers and stored elements: casts, loads, stores.
#include "expr/evaluate_lanes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace tilewright::evaluator {

namespace {

// Float to integer: towards zero, saturating, NaN to 0. Integer to integer: wrap-around.
template <class To, class From> To to_integer(From v) {
  if constexpr (std::is_floating_point_v<From>) {
    if (v != v) return 0;
    double d = static_cast<double>(v);
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double beyond = 2.0 * static_cast<double>(std::numeric_limits<To>::max() / 2 + 1);
    if (d <= low) return std::numeric_limits<To>::min();
    if (d >= beyond) return std::numeric_limits<To>::max();
    return static_cast<To>(d);
  } else {
    return static_cast<To>(v);
  }
}

// One stored element type: how it looks in memory, what it is in a register, and the way between.
template <DType> struct Format;
template <class Memory> struct Integer {
  using Stored = Memory;
  using Value = std::conditional_t<sizeof(Memory) == 8, std::int64_t, std::int32_t>;
  static Value widen(Stored v) { return v; }
  template <class From> static Stored narrow(From v) { return to_integer<Stored>(v); }
};
template <class Memory, auto widened, auto narrowed> struct Narrow {
  using Stored = Memory;
  using Value = float;
  static Value widen(Stored v) { return widened(v); }
  template <class From> static Stored narrow(From v) { return narrowed(static_cast<float>(v)); }
};
template <class T> struct Plain {
  using Stored = T;
  using Value = T;
  static Value widen(Stored v) { return v; }
  template <class From> static Stored narrow(From v) { return static_cast<T>(v); }
};
template <DType type> float widen_f8(std::uint8_t v) { return f8_to_f32(v, type); }
template <DType type> std::uint8_t narrow_f8(float v) { return f32_to_f8(v, type); }

template <> struct Format<DType::f64> : Plain<double> {};
template <> struct Format<DType::f32> : Plain<float> {};
template <> struct Format<DType::f16> : Narrow<std::uint16_t, f16_to_f32, f32_to_f16> {};
template <> struct Format<DType::bf16> : Narrow<std::uint16_t, bf16_to_f32, f32_to_bf16> {};
template <> struct Format<DType::f8e4m3> : Narrow<std::uint8_t, widen_f8<DType::f8e4m3>, narrow_f8<DType::f8e4m3>> {};
template <> struct Format<DType::f8e5m2> : Narrow<std::uint8_t, widen_f8<DType::f8e5m2>, narrow_f8<DType::f8e5m2>> {};
template <> struct Format<DType::i8> : Integer<std::int8_t> {};
template <> struct Format<DType::u8> : Integer<std::uint8_t> {};
template <> struct Format<DType::i32> : Integer<std::int32_t> {};
template <> struct Format<DType::i64> : Integer<std::int64_t> {};
template <> struct Format<DType::boolean> {
  using Stored = std::uint8_t;
  using Value = std::int32_t;
  static Value widen(Stored v) { return v != 0; }
  template <class From> static Stored narrow(From v) { return v != 0; }
};

template <class F> void with_format(DType type, F f) {
  switch (type) {
  case DType::f64: return f(Format<DType::f64>());
  case DType::f32: return f(Format<DType::f32>());
  case DType::f16: return f(Format<DType::f16>());
  case DType::bf16: return f(Format<DType::bf16>());
  case DType::f8e4m3: return f(Format<DType::f8e4m3>());
  case DType::f8e5m2: return f(Format<DType::f8e5m2>());
  case DType::i8: return f(Format<DType::i8>());
  case DType::u8: return f(Format<DType::u8>());
  case DType::i32: return f(Format<DType::i32>());
  case DType::i64: return f(Format<DType::i64>());
  case DType::boolean: return f(Format<DType::boolean>());
  }
}

template <class F> void with_source(Lane lane, const void* in, F f) {
  switch (lane) {
  case Lane::i32: return f(static_cast<const std::int32_t*>(in));
  case Lane::i64: return f(static_cast<const std::int64_t*>(in));
  case Lane::f32: return f(static_cast<const float*>(in));
  case Lane::f64: return f(static_cast<const double*>(in));
  }
}

} // namespace

void cast(Lane from, const void* in, DType to, int n, void* out) {
  with_source(from, in, [&](const auto* source) {
    with_format(to, [&](auto format) {
      using F = decltype(format);
      auto* result = static_cast<typename F::Value*>(out);
      for (int l = 0; l < n; ++l) result[l] = F::widen(F::narrow(source[l]));
    });
  });
}

void load(DType type, const std::byte* data, std::int64_t base, const std::int64_t* offset, const std::int32_t* live,
          int n, void* out) {
  with_format(type, [&](auto format) {
    using F = decltype(format);
    const auto* source = reinterpret_cast<const typename F::Stored*>(data) + (live ? 0 : base);
    auto* result = static_cast<typename F::Value*>(out);
    if (live) {
      for (int l = 0; l < n; ++l)
        result[l] = live[l] ? F::widen(source[base + (offset ? offset[l] : l)]) : typename F::Value(0);
    } else if (offset) {
      for (int l = 0; l < n; ++l) result[l] = F::widen(source[offset[l]]);
    } else {
      for (int l = 0; l < n; ++l) result[l] = F::widen(source[l]);
    }
  });
}

void store(DType type, std::byte* data, std::int64_t base, const std::int64_t* offset, int n, Lane from,
           const void* in) {
  with_source(from, in, [&](const auto* source) {
    with_format(type, [&](auto format) {
      using F = decltype(format);
      auto* target = reinterpret_cast<typename F::Stored*>(data) + base;
      for (int l = 0; l < n; ++l) target[offset ? offset[l] : l] = F::narrow(source[l]);
    });
  });
}

} // namespace tilewright::evaluator
