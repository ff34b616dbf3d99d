// Element types. A dtype is how a value is stored; the compute type is how it is calculated with (design: f32 for the
// narrow floats, i32 for i8, u8 and bool, else the type itself).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

enum class DType : std::uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, i64, boolean };

std::size_t bytes_of(DType);                       // bytes of one element
std::string_view name_of(DType);                   // "f32", "bool", ... as in the text language
std::optional<DType> dtype_named(std::string_view);
DType compute_type(DType);
bool is_float(DType);
bool is_integer(DType);                            // i8, u8, i32, i64; not bool

// Storage formats of the narrow floats; rounding is to nearest even, overflow to infinity (f8e4m3: to NaN).
float f16_to_f32(std::uint16_t);
std::uint16_t f32_to_f16(float);
inline float bf16_to_f32(std::uint16_t v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v) << 16); }
std::uint16_t f32_to_bf16(float);
float f8_to_f32(std::uint8_t, DType);
std::uint8_t f32_to_f8(float, DType);

}  // namespace tilewright
