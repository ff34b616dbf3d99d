#include "target/cpu/vector_testing.h"

namespace tilewright::kernels {
namespace {

using MathTest = OnEveryIsa;
TW_ON_EVERY_ISA(MathTest);

// Distance of a float from the exact value, in units of the last place of that value.
double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isinf(static_cast<float>(exact)) || std::isinf(got) || std::isnan(got)) {
    const float want = static_cast<float>(exact);
    return same(got, want) || (std::isinf(want) && got == std::copysign(FLT_MAX, want)) ? 0 : HUGE_VAL;
  }
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every `stride`-th float of a range of bit patterns, both signs.
std::vector<float> floats_between(float low, float high, std::size_t count) {
  const auto from = std::bit_cast<std::uint32_t>(low), to = std::bit_cast<std::uint32_t>(high);
  const std::uint32_t stride = std::max<std::uint32_t>(1, (to - from) / static_cast<std::uint32_t>(count));
  std::vector<float> values;
  for (std::uint64_t bits = from; bits <= to; bits += stride)
    for (std::uint32_t sign : {0u, 0x80000000u})
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits) | sign));
  return values;
}

void check(const Kernels& leaf, Op op, double (*exact)(double), float low, float high, double limit) {
  const std::vector<float> x = floats_between(low, high, long_run() ? 100'000'000 : 300'000);
  const std::vector<float> y = apply<float>(leaf, {.op = op}, x);
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const double u = ulps(y[i], exact(static_cast<double>(x[i]))); u > worst) worst = u, at = i;
  EXPECT_LE(worst, limit) << "op " << int(op) << " of " << x[at] << " gave " << y[at] << ", not "
                          << exact(static_cast<double>(x[at]));
  testing::Test::RecordProperty("ulp_" + std::to_string(int(op)), std::to_string(worst));
  if (std::getenv("TILEWRIGHT_PRINT_ULPS"))
    std::printf("%s op %d in [%g, %g]: %.3f ulp at %.9g\n", std::string(name_of(leaf.isa)).c_str(), int(op), low, high,
                worst, x[at]);
}

constexpr float inf = std::numeric_limits<float>::infinity();

TEST_P(MathTest, Exp) { check(leaf(), Op::exp, std::exp, 0, inf, 1.5); }
TEST_P(MathTest, ExpDownToSubnormals) { check(leaf(), Op::exp, std::exp, 87, 106, 1.5); }
TEST_P(MathTest, Log) { check(leaf(), Op::log, std::log, 0, inf, 1.5); }
TEST_P(MathTest, Tanh) { check(leaf(), Op::tanh, std::tanh, 0, inf, 2); }
TEST_P(MathTest, Erf) { check(leaf(), Op::erf, std::erf, 0, inf, 2.5); }
TEST_P(MathTest, SinCos) {
  check(leaf(), Op::sin, std::sin, 0, inf, 2);
  check(leaf(), Op::cos, std::cos, 0, inf, 2);
  check(leaf(), Op::sin, std::sin, 1, 12000, 2); // denser where the reduction works, and across its end
  check(leaf(), Op::cos, std::cos, 1, 12000, 2);
}

TEST_P(MathTest, NearMultiplesOfHalfPi) {
  std::vector<float> x;
  for (int n = 1; n < 6000; ++n) {
    const float f = static_cast<float>(n * 1.5707963267948966);
    x.push_back(f), x.push_back(std::nextafterf(f, 0)), x.push_back(std::nextafterf(f, inf));
  }
  const std::vector<float> s = apply<float>(leaf(), {.op = Op::sin}, x), c = apply<float>(leaf(), {.op = Op::cos}, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(s[i], std::sin(static_cast<double>(x[i]))), 2) << x[i];
    ASSERT_LE(ulps(c[i], std::cos(static_cast<double>(x[i]))), 2) << x[i];
  }
}

} // namespace
} // namespace tilewright::kernels
