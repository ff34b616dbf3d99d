// The conversions are checked on every pattern of each format against its definition in double arithmetic, and rounding
// at every pair of neighbours: at both ends, at the midpoint and just beside it.
#include "support/dtype.h"

#include "support/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tilewright {
namespace {

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  bool has_infinity;
  float (*widen)(std::uint32_t);
  std::uint32_t (*narrow)(float);
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  std::uint32_t sign() const { return 1u << (bits() - 1); }
  std::uint32_t last_finite() const {
    return has_infinity ? (((1u << exponent_bits) - 1) << mantissa_bits) - 1 : sign() - 2;
  }
};

const Format formats[] = {
    {"f16", 5, 10, true, [](std::uint32_t v) { return f16_to_f32(static_cast<std::uint16_t>(v)); },
     [](float x) { return std::uint32_t{f32_to_f16(x)}; }},
    {"bf16", 8, 7, true, [](std::uint32_t v) { return bf16_to_f32(static_cast<std::uint16_t>(v)); },
     [](float x) { return std::uint32_t{f32_to_bf16(x)}; }},
    {"f8e5m2", 5, 2, true, [](std::uint32_t v) { return f8_to_f32(static_cast<std::uint8_t>(v), DType::f8e5m2); },
     [](float x) { return std::uint32_t{f32_to_f8(x, DType::f8e5m2)}; }},
    {"f8e4m3", 4, 3, false, [](std::uint32_t v) { return f8_to_f32(static_cast<std::uint8_t>(v), DType::f8e4m3); },
     [](float x) { return std::uint32_t{f32_to_f8(x, DType::f8e4m3)}; }},
};

// The value of a finite pattern by the definition of the format; it also extends past the last finite one.
double defined_value(const Format& f, std::uint32_t magnitude) {
  int bias = (1 << (f.exponent_bits - 1)) - 1;
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  int mantissa = static_cast<int>(magnitude & ((1u << f.mantissa_bits) - 1));
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - f.mantissa_bits);
  return std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - bias - f.mantissa_bits);
}

TEST(DType, EveryPatternWidensToItsDefinedValueAndBack) {
  for (const Format& f : formats)
    for (std::uint32_t v = 0; v < (1u << f.bits()); ++v) {
      std::uint32_t magnitude = v & ~f.sign();
      float wide = f.widen(v);
      ASSERT_EQ(std::signbit(wide), (v & f.sign()) != 0) << f.name << " " << v;
      if (magnitude <= f.last_finite()) {
        ASSERT_EQ(std::fabs(static_cast<double>(wide)), defined_value(f, magnitude)) << f.name << " " << v;
        ASSERT_EQ(f.narrow(wide), v) << f.name;
      } else if (f.has_infinity && magnitude == f.last_finite() + 1) {
        ASSERT_TRUE(std::isinf(wide)) << f.name << " " << v;
        ASSERT_EQ(f.narrow(wide), v) << f.name;
      } else {
        ASSERT_TRUE(std::isnan(wide)) << f.name << " " << v;
        ASSERT_TRUE(std::isnan(f.widen(f.narrow(wide)))) << f.name << " " << v;
        ASSERT_EQ(f.narrow(wide) & f.sign(), v & f.sign()) << f.name << " " << v;
      }
    }
}

TEST(DType, RoundingIsToNearestEvenBetweenAllNeighbours) {
  for (const Format& f : formats)
    for (std::uint32_t low = 0; low <= f.last_finite(); ++low) {
      std::uint32_t high = low + 1; // above the last finite pattern: infinity, or the NaN of f8e4m3
      double middle = (defined_value(f, low) + defined_value(f, high)) / 2;
      float tie = static_cast<float>(middle);
      if (static_cast<double>(tie) != middle || std::isinf(tie)) { // only between bf16 at the ends of f32's own range
        ASSERT_STREQ(f.name, "bf16");
        continue;
      }
      std::uint32_t even = (low & 1u) == 0 ? low : high;
      for (std::uint32_t sign : {0u, f.sign()}) {
        float s = sign ? -1.0f : 1.0f;
        ASSERT_EQ(f.narrow(s * tie), even | sign) << f.name << " " << low;
        ASSERT_EQ(f.narrow(s * std::nextafterf(tie, 0.0f)), low | sign) << f.name << " " << low;
        ASSERT_EQ(f.narrow(s * std::nextafterf(tie, INFINITY)), high | sign) << f.name << " " << low;
      }
    }
}

TEST(DType, NarrowingIsMonotoneOnRandomBits) {
  std::mt19937 random(7);
  for (const Format& f : formats)
    for (int i = 0; i < 300000; ++i) {
      float a = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7fffffffu);
      float b = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7fffffffu);
      if (std::isnan(a) || std::isnan(b)) continue;
      if (a > b) std::swap(a, b);
      ASSERT_LE(f.narrow(a), f.narrow(b)) << f.name << " " << a << " " << b;
      ASSERT_EQ(f.narrow(-a), f.narrow(a) | f.sign()) << f.name << " " << a;
    }
}

TEST(DType, EndsOfTheRange) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_f8(448.0f, DType::f8e4m3), 0x7e);
  EXPECT_EQ(f32_to_f8(464.0f, DType::f8e4m3), 0x7e); // half way to what would be 480: even
  EXPECT_EQ(f32_to_f8(464.001f, DType::f8e4m3), 0x7f);
  EXPECT_EQ(f32_to_f8(-INFINITY, DType::f8e4m3), 0xff);
  EXPECT_EQ(f32_to_f8(57344.0f, DType::f8e5m2), 0x7b);
  EXPECT_EQ(f32_to_f8(61440.0f, DType::f8e5m2), 0x7c);
}

TEST(DType, NamesSizesAndComputeTypes) {
  int count = 0;
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i, ++count) {
    DType type = static_cast<DType>(i);
    EXPECT_EQ(dtype_named(name_of(type)), type);
    EXPECT_FALSE(is_float(type) && is_integer(type));
    EXPECT_EQ(is_float(type) || is_integer(type), type != DType::boolean);
    EXPECT_GE(bytes_of(compute_type(type)), bytes_of(type));
    EXPECT_EQ(is_float(compute_type(type)), is_float(type));
  }
  EXPECT_EQ(count, 11);
  EXPECT_FALSE(dtype_named("float32"));
  EXPECT_EQ(compute_type(DType::boolean), DType::i32);
  EXPECT_EQ(compute_type(DType::bf16), DType::f32);
  EXPECT_EQ(bytes_of(DType::f64), 8u);
  EXPECT_EQ(bytes_of(DType::f8e5m2), 1u);
  EXPECT_THROW(f8_to_f32(0, DType::f16), Error);
}

} // namespace
} // namespace tilewright
