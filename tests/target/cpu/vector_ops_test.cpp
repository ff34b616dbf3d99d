#include "support/error.h"
#include "target/cpu/vector_testing.h"

namespace tilewright::kernels {
namespace {

using VectorOpsTest = OnEveryIsa;
TW_ON_EVERY_ISA(VectorOpsTest);

template <class T, class Out = T, class F> void check_two(const Kernels& leaf, Op op, F&& meaning) {
  Random random(static_cast<unsigned>(op));
  std::vector<T> a, b;
  pairs_of(random, a, b);
  const std::vector<Out> got = apply<Out>(leaf, {.op = op, .type = type_of<T>()}, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Out want = static_cast<Out>(meaning(a[i], b[i]));
    ASSERT_TRUE(same(got[i], want)) << "op " << int(op) << " type " << int(type_of<T>()) << ": " << +a[i] << ", "
                                    << +b[i] << " gave " << +got[i] << " not " << +want;
  }
}
template <class T, class Out = T, class F> void check_one(const Kernels& leaf, Op op, F&& meaning) {
  Random random(static_cast<unsigned>(op));
  std::vector<T> a = interesting<T>();
  for (int i = 0; i < 501; ++i) a.push_back(random_value<T>(random));
  const std::vector<Out> got = apply<Out>(leaf, {.op = op, .type = type_of<T>()}, a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Out want = static_cast<Out>(meaning(a[i]));
    ASSERT_TRUE(same(got[i], want)) << "op " << int(op) << " type " << int(type_of<T>()) << ": " << +a[i] << " gave "
                                    << +got[i] << " not " << +want;
  }
}

using Wide = __int128;

template <class T> Wide floor_div(T a, T b) {
  if (b == 0) return 0;
  const Wide q = Wide(a) / Wide(b);
  return q - (Wide(a) % Wide(b) != 0 && (a < 0) != (b < 0));
}

template <class T> void check_integers(const Kernels& leaf) {
  using U = std::make_unsigned_t<T>;
  constexpr int width = 8 * sizeof(T);
  check_two<T>(leaf, Op::add, [](T a, T b) { return U(a) + U(b); });
  check_two<T>(leaf, Op::sub, [](T a, T b) { return U(a) - U(b); });
  check_two<T>(leaf, Op::mul, [](T a, T b) { return U(a) * U(b); });
  check_two<T>(leaf, Op::div, [](T a, T b) { return b == 0 ? 0 : Wide(a) / Wide(b); });
  check_two<T>(leaf, Op::floor_div, [](T a, T b) { return floor_div(a, b); });
  check_two<T>(leaf, Op::mod, [](T a, T b) { return b == 0 ? 0 : Wide(a) - floor_div(a, b) * Wide(b); });
  check_two<T>(leaf, Op::rem, [](T a, T b) { return b == 0 ? 0 : Wide(a) % Wide(b); });
  check_two<T>(leaf, Op::max, [](T a, T b) { return std::max(a, b); });
  check_two<T>(leaf, Op::min, [](T a, T b) { return std::min(a, b); });
  check_two<T>(leaf, Op::bit_and, [](T a, T b) { return a & b; });
  check_two<T>(leaf, Op::bit_or, [](T a, T b) { return a | b; });
  check_two<T>(leaf, Op::bit_xor, [](T a, T b) { return a ^ b; });
  check_two<T>(leaf, Op::shl, [](T a, T b) { return b < 0 || b >= width ? U(0) : U(a) << b; });
  check_two<T>(leaf, Op::shr, [](T a, T b) { return a >> (b < 0 || b >= width ? width - 1 : b); });
  check_two<T>(leaf, Op::shr_logical, [](T a, T b) { return b < 0 || b >= width ? U(0) : U(a) >> b; });
  check_two<T>(leaf, Op::pow, [](T a, T b) -> T {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    U result = 1, base = U(a);
    for (T e = b; e > 0; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return T(result);
  });
  check_one<T>(leaf, Op::neg, [](T a) { return U(0) - U(a); });
  check_one<T>(leaf, Op::abs, [](T a) { return a < 0 ? U(0) - U(a) : U(a); });
  check_one<T>(leaf, Op::sign, [](T a) { return (a > 0) - (a < 0); });
  check_one<T>(leaf, Op::bit_not, [](T a) { return ~a; });
}

template <class T> T floored_mod(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class T> void check_floats(const Kernels& leaf) {
  check_two<T>(leaf, Op::add, [](T a, T b) { return a + b; });
  check_two<T>(leaf, Op::sub, [](T a, T b) { return a - b; });
  check_two<T>(leaf, Op::mul, [](T a, T b) { return a * b; });
  check_two<T>(leaf, Op::div, [](T a, T b) { return a / b; });
  check_two<T>(leaf, Op::floor_div, [](T a, T b) { return std::floor(a / b); });
  check_two<T>(leaf, Op::rem, [](T a, T b) { return std::fmod(a, b); });
  check_two<T>(leaf, Op::mod, [](T a, T b) { return floored_mod(a, b); });
  check_two<T>(leaf, Op::max, [](T a, T b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); });
  check_two<T>(leaf, Op::min, [](T a, T b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); });
  check_two<T>(leaf, Op::pow, [](T a, T b) { return std::pow(a, b); });
  check_one<T>(leaf, Op::neg, [](T a) { return -a; });
  check_one<T>(leaf, Op::abs, [](T a) { return std::abs(a); });
  check_one<T>(leaf, Op::sign, [](T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; });
  check_one<T>(leaf, Op::floor, [](T a) { return std::floor(a); });
  check_one<T>(leaf, Op::ceil, [](T a) { return std::ceil(a); });
  check_one<T>(leaf, Op::trunc, [](T a) { return std::trunc(a); });
  check_one<T>(leaf, Op::round, [](T a) { return std::nearbyint(a); });
  check_one<T>(leaf, Op::sqrt, [](T a) { return std::sqrt(a); });
  check_one<T, std::uint8_t>(leaf, Op::isnan, [](T a) { return std::isnan(a); });
  check_one<T, std::uint8_t>(leaf, Op::isinf, [](T a) { return std::isinf(a); });
  check_one<T>(leaf, Op::tan, [](T a) { return std::tan(a); });
  check_one<T>(leaf, Op::asin, [](T a) { return std::asin(a); });
  check_one<T>(leaf, Op::acos, [](T a) { return std::acos(a); });
  check_one<T>(leaf, Op::atan, [](T a) { return std::atan(a); });
  check_one<T>(leaf, Op::sinh, [](T a) { return std::sinh(a); });
  check_one<T>(leaf, Op::cosh, [](T a) { return std::cosh(a); });
  check_one<T>(leaf, Op::asinh, [](T a) { return std::asinh(a); });
  check_one<T>(leaf, Op::acosh, [](T a) { return std::acosh(a); });
  check_one<T>(leaf, Op::atanh, [](T a) { return std::atanh(a); });
}

template <class T> void check_comparisons(const Kernels& leaf) {
  check_two<T, std::uint8_t>(leaf, Op::eq, [](T a, T b) { return a == b; });
  check_two<T, std::uint8_t>(leaf, Op::ne, [](T a, T b) { return a != b; });
  check_two<T, std::uint8_t>(leaf, Op::lt, [](T a, T b) { return a < b; });
  check_two<T, std::uint8_t>(leaf, Op::le, [](T a, T b) { return a <= b; });
  check_two<T, std::uint8_t>(leaf, Op::gt, [](T a, T b) { return a > b; });
  check_two<T, std::uint8_t>(leaf, Op::ge, [](T a, T b) { return a >= b; });
}

TEST_P(VectorOpsTest, Integers32) { check_integers<std::int32_t>(leaf()); }
TEST_P(VectorOpsTest, Integers64) { check_integers<std::int64_t>(leaf()); }
TEST_P(VectorOpsTest, Floats32) { check_floats<float>(leaf()); }
TEST_P(VectorOpsTest, Floats64) { check_floats<double>(leaf()); }

TEST_P(VectorOpsTest, Comparisons) {
  check_comparisons<float>(leaf());
  check_comparisons<double>(leaf());
  check_comparisons<std::int32_t>(leaf());
  check_comparisons<std::int64_t>(leaf());
  check_comparisons<std::uint8_t>(leaf());
}

TEST_P(VectorOpsTest, Booleans) {
  using B = std::uint8_t;
  check_two<B>(leaf(), Op::bit_and, [](B a, B b) { return a && b; });
  check_two<B>(leaf(), Op::bit_or, [](B a, B b) { return a || b; });
  check_two<B>(leaf(), Op::bit_xor, [](B a, B b) { return a != b; });
  check_one<B>(leaf(), Op::bit_not, [](B a) { return !a; });
}

TEST_P(VectorOpsTest, FunctionsOfF64AreThoseOfTheLibrary) {
  check_one<double>(leaf(), Op::exp, [](double a) { return std::exp(a); });
  check_one<double>(leaf(), Op::log, [](double a) { return std::log(a); });
  check_one<double>(leaf(), Op::tanh, [](double a) { return std::tanh(a); });
  check_one<double>(leaf(), Op::erf, [](double a) { return std::erf(a); });
  check_one<double>(leaf(), Op::sin, [](double a) { return std::sin(a); });
  check_one<double>(leaf(), Op::cos, [](double a) { return std::cos(a); });
}

template <class T> void check_select_and_copy(const Kernels& leaf) {
  Random random(1);
  std::vector<T> a, b;
  pairs_of(random, a, b);
  std::vector<std::uint8_t> on;
  for (std::size_t i = 0; i < a.size(); ++i) on.push_back(static_cast<std::uint8_t>(random.in(0, 1)));
  const std::vector<T> chosen = apply<T>(leaf, {.op = Op::select, .type = type_of<T>()}, on, a, b);
  const std::vector<T> copied = apply<T>(leaf, {.op = Op::copy, .type = type_of<T>()}, a);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(same(chosen[i], on[i] ? a[i] : b[i]) && same(copied[i], a[i])) << i;
}

TEST_P(VectorOpsTest, SelectAndCopy) {
  check_select_and_copy<float>(leaf());
  check_select_and_copy<double>(leaf());
  check_select_and_copy<std::int32_t>(leaf());
  check_select_and_copy<std::int64_t>(leaf());
  check_select_and_copy<std::uint8_t>(leaf());
}

// ---- casts: what the header says, written once more with plain C++

template <class T> std::int64_t limited(T v, std::int64_t low, std::int64_t high) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return 0;
    const long double whole = std::trunc(static_cast<long double>(v));
    return whole < static_cast<long double>(low)    ? low
           : whole > static_cast<long double>(high) ? high
                                                    : static_cast<std::int64_t>(whole);
  } else {
    return high == 127         ? static_cast<std::int8_t>(v)
           : high == 255       ? static_cast<std::uint8_t>(v)
           : high == INT32_MAX ? static_cast<std::int32_t>(v)
                               : static_cast<std::int64_t>(v);
  }
}

template <class From> double cast_meaning(DType to, From v) {
  const float f = static_cast<float>(v);
  switch (to) {
  case DType::f64: return static_cast<double>(v);
  case DType::f32: return static_cast<double>(f);
  case DType::f16: return static_cast<double>(f16_to_f32(f32_to_f16(f)));
  case DType::bf16: return static_cast<double>(bf16_to_f32(f32_to_bf16(f)));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(f32_to_f8(f, to), to));
  case DType::boolean: return v != From(0);
  default: return 0;
  }
}

template <class T> std::vector<double> as_doubles(const std::vector<T>& v) { return {v.begin(), v.end()}; }

template <class From> void check_casts(const Kernels& leaf) {
  Random random(3);
  std::vector<From> a = interesting<From>();
  for (int i = 0; i < 3000; ++i) a.push_back(random_value<From>(random));
  if constexpr (std::is_floating_point_v<From>)
    for (double edge : {127.0,
                        128.0,
                        127.9,
                        -128.0,
                        -128.9,
                        -129.0,
                        255.0,
                        255.5,
                        256.0,
                        -0.9,
                        2147483647.0,
                        2147483648.0,
                        -2147483648.0,
                        -2147483904.0,
                        9223372036854775807.0,
                        -9223372036854775808.0,
                        9223371487098961920.0,
                        65504.0,
                        65519.0,
                        65520.0,
                        448.0,
                        464.0,
                        465.0,
                        57344.0,
                        61440.0,
                        0x1p-9,
                        0x1p-10,
                        0x1.8p-10,
                        0x1p-16,
                        0x1p-24,
                        0x1p-25})
      a.push_back(static_cast<From>(edge)), a.push_back(static_cast<From>(-edge));
  for (DType to : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::boolean}) {
    const Instruction i = {.op = Op::cast, .type = type_of<From>(), .dtype = to};
    std::vector<double> got(a.size());
    if (to == DType::f64)
      got = apply<double>(leaf, i, a);
    else if (to == DType::boolean)
      got = as_doubles(apply<std::uint8_t>(leaf, i, a));
    else
      got = as_doubles(apply<float>(leaf, i, a));
    for (std::size_t k = 0; k < a.size(); ++k)
      ASSERT_TRUE(same(got[k], cast_meaning(to, a[k])))
          << name_of(to) << " of " << +a[k] << " gave " << got[k] << " not " << cast_meaning(to, a[k]);
  }
  const auto check = [&](DType to, auto&& got, std::int64_t low, std::int64_t high) {
    for (std::size_t k = 0; k < a.size(); ++k)
      ASSERT_EQ(got[k], limited(a[k], low, high))
          << name_of(to) << " of " << +a[k] << " from type " << int(type_of<From>());
  };
  const auto to = [&](DType t) { return Instruction{.op = Op::cast, .type = type_of<From>(), .dtype = t}; };
  check(DType::i8, apply<std::int32_t>(leaf, to(DType::i8), a), -128, 127);
  check(DType::u8, apply<std::int32_t>(leaf, to(DType::u8), a), 0, 255);
  check(DType::i32, apply<std::int32_t>(leaf, to(DType::i32), a), INT32_MIN, INT32_MAX);
  check(DType::i64, apply<std::int64_t>(leaf, to(DType::i64), a), INT64_MIN, INT64_MAX);
}

TEST_P(VectorOpsTest, Casts) {
  check_casts<float>(leaf());
  check_casts<double>(leaf());
  check_casts<std::int32_t>(leaf());
  check_casts<std::int64_t>(leaf());
  check_casts<std::uint8_t>(leaf());
}

TEST(VectorProgramTest, PrepareRefusesRegistersOfTheWrongType) {
  VectorProgram p;
  p.registers = {Type::f32, Type::i32};
  p.body = {binary(Op::add, Type::f32, 0, 0, 1)};
  EXPECT_THROW(prepare(p), Error);
  p.body = {binary(Op::add, Type::f32, 0, 0, 2)};
  EXPECT_THROW(prepare(p), Error);
  p.body = {unary(Op::reduce_sum, Type::f32, 0, 0)};
  EXPECT_THROW(prepare(p), Error);
  p.body = {unary(Op::exp, Type::i32, 1, 1)};
  EXPECT_THROW(prepare(p), Error);
  p.body = {load(1, DType::f16, 0)};
  EXPECT_THROW(prepare(p), Error);
}

} // namespace
} // namespace tilewright::kernels
