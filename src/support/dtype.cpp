#include "support/dtype.h"

#include "support/error.h"

#include <array>

namespace tilewright {

namespace {

constexpr std::array<DType, 11> all_dtypes = {DType::f64,    DType::f32,    DType::f16,    DType::bf16,
                                              DType::f8e4m3, DType::f8e5m2, DType::i8,     DType::u8,
                                              DType::i32,    DType::i64,    DType::boolean};

constexpr std::uint32_t f32_infinity = 0x7f800000u;

// Rounds the magnitude of a finite f32 to a float of the given field widths, to nearest even. The exponent may run past
// the top of the format; the caller decides what that means.
template <int exponent_bits, int mantissa_bits> std::uint32_t narrowed(std::uint32_t magnitude) {
  constexpr std::uint32_t bias = (1u << (exponent_bits - 1)) - 1;
  constexpr int dropped = 23 - mantissa_bits;
  constexpr std::uint32_t rebias = (127u - bias) << 23;
  if (magnitude > rebias + 0x007fffffu) { // a normal number there; a carry out of the mantissa raises the exponent
    std::uint32_t bits = magnitude - rebias;
    return (bits + (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u)) >> dropped;
  }
  int shift = dropped + 1 + static_cast<int>(127u - bias) - static_cast<int>(magnitude >> 23);
  if (shift > 24) return 0; // below half of the least subnormal
  std::uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
  return (mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1u)) >> shift;
}

// A half of the magnitude v, which is not negative. NaNs become quiet and keep their payload, as conversion
// instructions do.
float widened(std::uint32_t magnitude, std::uint32_t sign) {
  constexpr std::uint32_t rebias = (127u - 15u) << 23;
  std::uint32_t bits = magnitude << 13;
  if (magnitude >= 0x7c00u) {
    bits |= f32_infinity;
    if (magnitude > 0x7c00u) bits |= 0x00400000u;
  } else if (magnitude >= 0x0400u) {
    bits += rebias;
  } else { // subnormal: count in units of 2^-24, which f32 holds exactly
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(bits | sign);
}

float f8e4m3_to_f32(std::uint8_t v) {
  std::uint32_t sign = static_cast<std::uint32_t>(v & 0x80u) << 24, magnitude = v & 0x7fu;
  std::uint32_t bits = 0;
  if (magnitude == 0x7fu) {
    bits = 0x7fc00000u;
  } else if (magnitude >= 0x08u) {
    bits = (magnitude << 20) + ((127u - 7u) << 23);
  } else {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
  }
  return std::bit_cast<float>(bits | sign);
}

} // namespace

std::size_t bytes_of(DType type) {
  switch (type) {
  case DType::f64:
  case DType::i64: return 8;
  case DType::f32:
  case DType::i32: return 4;
  case DType::f16:
  case DType::bf16: return 2;
  case DType::f8e4m3:
  case DType::f8e5m2:
  case DType::i8:
  case DType::u8:
  case DType::boolean: break;
  }
  return 1;
}

std::string_view name_of(DType type) {
  switch (type) {
  case DType::f64: return "f64";
  case DType::f32: return "f32";
  case DType::f16: return "f16";
  case DType::bf16: return "bf16";
  case DType::f8e4m3: return "f8e4m3";
  case DType::f8e5m2: return "f8e5m2";
  case DType::i8: return "i8";
  case DType::u8: return "u8";
  case DType::i32: return "i32";
  case DType::i64: return "i64";
  case DType::boolean: break;
  }
  return "bool";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (DType type : all_dtypes)
    if (name_of(type) == name) return type;
  return std::nullopt;
}

DType compute_type(DType type) {
  switch (type) {
  case DType::f32:
  case DType::f16:
  case DType::bf16:
  case DType::f8e4m3:
  case DType::f8e5m2: return DType::f32;
  case DType::i8:
  case DType::u8:
  case DType::boolean: return DType::i32;
  case DType::f64:
  case DType::i32:
  case DType::i64: break;
  }
  return type;
}

bool is_float(DType type) {
  return type == DType::f64 || type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
         type == DType::f8e4m3 || type == DType::f8e5m2;
}

bool is_integer(DType type) {
  return type == DType::i8 || type == DType::u8 || type == DType::i32 || type == DType::i64;
}

float f16_to_f32(std::uint16_t v) { return widened(v & 0x7fffu, static_cast<std::uint32_t>(v & 0x8000u) << 16); }

std::uint16_t f32_to_f16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu;
  std::uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > f32_infinity) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  std::uint32_t half = magnitude == f32_infinity ? 0x7c00u : narrowed<5, 10>(magnitude);
  return static_cast<std::uint16_t>(sign | (half < 0x7c00u ? half : 0x7c00u));
}

std::uint16_t f32_to_bf16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > f32_infinity) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f8_to_f32(std::uint8_t v, DType type) {
  if (type == DType::f8e4m3) return f8e4m3_to_f32(v);
  TW_ASSERT(type == DType::f8e5m2);
  return f16_to_f32(static_cast<std::uint16_t>(v << 8)); // the upper byte of a half
}

std::uint8_t f32_to_f8(float value, DType type) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu;
  std::uint32_t sign = (bits >> 24) & 0x80u;
  if (type == DType::f8e4m3) { // no infinity: all that is too large is the one NaN
    std::uint32_t narrow = magnitude >= f32_infinity ? 0x7fu : narrowed<4, 3>(magnitude);
    return static_cast<std::uint8_t>(sign | (narrow < 0x7fu ? narrow : 0x7fu));
  }
  TW_ASSERT(type == DType::f8e5m2);
  if (magnitude > f32_infinity) return static_cast<std::uint8_t>(sign | 0x7eu | ((magnitude >> 21) & 0x3u));
  std::uint32_t narrow = magnitude == f32_infinity ? 0x7cu : narrowed<5, 2>(magnitude);
  return static_cast<std::uint8_t>(sign | (narrow < 0x7cu ? narrow : 0x7cu));
}

} // namespace tilewright
