#include <array>

#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

using ContractTest = OnEveryIsa;
TW_ON_EVERY_ISA(ContractTest);

// One random call with everything it needs. Sizes of operands are exact, so that a stray access faults or is seen.
struct Case {
  Random random;
  std::int64_t m, n, k, taps, a_k, c_n;
  std::vector<std::int64_t> a_table, c_table, tap, b_tap;
  DType a_type, src_type, b_type, c_type;
  bool accumulate;

  explicit Case(unsigned seed) : random(seed) {
    const bool deep = random.chance(0.1);
    m = random.in(1, random.chance(0.3) ? 60 : 16);
    n = random.in(1, random.chance(0.3) ? 100 : 40);
    taps = random.chance(0.6) ? 1 : random.in(1, 12);
    k = deep ? random.in(500, 1300) / taps : random.in(random.chance(0.05) ? 0 : 1, 40);
    a_k = random.chance(0.7) ? 1 : random.in(2, 5);
    c_n = random.chance(0.7) ? 1 : random.in(2, 3);
    const auto type = [&] { return random.of({DType::f32, DType::f32, DType::f16, DType::bf16}); };
    a_type = type(), src_type = type(), b_type = type(), c_type = type();
    accumulate = random.chance(0.3);
  }
};

// Rows at increasing, irregular distances of at least `width`; returns how many elements they span.
std::int64_t scatter_rows(Random& random, std::int64_t rows, std::int64_t width, std::vector<std::int64_t>& table) {
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    table.push_back(at);
    at += width + random.in(0, 7);
  }
  std::shuffle(table.begin(), table.end(), random.engine());
  return *std::max_element(table.begin(), table.end()) + width;
}

// `split`: by contract_split, whose packed operand keeps the type of its source.
void check_case(const Kernels& leaf, unsigned seed, bool split = false) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Case c(seed);
  if (split) c.b_type = c.src_type, c.k = std::max<std::int64_t>(c.k, 1), c.m += static_cast<std::int64_t>(seed % 3) * 25;
  Random& random = c.random;
  // A: taps overlap (offsets smaller than a row), as windows do.
  for (std::int64_t t = 0; t < c.taps; ++t) c.tap.push_back(random.in(0, 3 * c.taps));
  const std::int64_t reach =
      *std::max_element(c.tap.begin(), c.tap.end()) + std::max<std::int64_t>(c.k - 1, 0) * c.a_k + 1;
  Stored a(c.a_type, scatter_rows(random, c.m, reach, c.a_table));
  for (std::int64_t i = 0; i < a.count(); ++i) a.set(i, random.real());
  // B: any strides.
  const bool k_adjacent = random.chance(0.5);
  const std::int64_t b_k = k_adjacent ? 1 : c.n + random.in(0, 2), b_n = k_adjacent ? c.k + random.in(0, 2) : 1;
  const std::int64_t spread = random.chance(0.2) ? 2 : 1; // neither adjacent
  const std::int64_t tap_size = (std::max<std::int64_t>(c.k - 1, 0) * b_k + (c.n - 1) * b_n) * spread + 1;
  for (std::int64_t t = 0; t < c.taps; ++t) c.b_tap.push_back(t * tap_size);
  Stored src(c.src_type, tap_size * c.taps);
  for (std::int64_t i = 0; i < src.count(); ++i) src.set(i, random.real());
  Stored b(split ? DType::u8 : c.b_type, split ? (c.n + leaf.nr - 1) / leaf.nr * leaf.split_panel(c.k * c.taps, c.b_type)
                                              : packed_elements(leaf, c.n, c.k, c.taps));
  (split ? leaf.pack_split : leaf.pack_b)({.n = c.n,
               .k = c.k,
               .taps = c.taps,
               .src = src.data(),
               .src_type = c.src_type,
               .b_k = b_k * spread,
               .b_n = b_n * spread,
               .tap_offset = c.b_tap.data(),
               .dst = b.data(),
               .dst_type = c.b_type});
  Stored out(c.c_type, scatter_rows(random, c.m, (c.n - 1) * c.c_n + 1, c.c_table));
  std::vector<double> before(static_cast<std::size_t>(c.m * c.n), 0.0);
  if (c.accumulate)
    for (std::int64_t r = 0; r < c.m; ++r)
      for (std::int64_t j = 0; j < c.n; ++j) {
        const std::int64_t at = c.c_table[static_cast<std::size_t>(r)] + j * c.c_n;
        out.set(at, random.real());
        before[static_cast<std::size_t>(r * c.n + j)] = out.get(at);
      }
  (split ? leaf.contract_split : leaf.contract)({.m = c.m,
                 .n = c.n,
                 .k = c.k,
                 .taps = c.taps,
                 .a = a.data(),
                 .a_type = c.a_type,
                 .a_rows = {0, c.a_table.data()},
                 .a_k = c.a_k,
                 .tap_offset = c.tap.data(),
                 .b = b.data(),
                 .b_type = c.b_type,
                 .c = out.data(),
                 .c_type = c.c_type,
                 .c_rows = {0, c.c_table.data()},
                 .c_n = c.c_n,
                 .accumulate = c.accumulate});
  std::vector<bool> written(static_cast<std::size_t>(out.count()), false);
  for (std::int64_t r = 0; r < c.m; ++r)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = before[static_cast<std::size_t>(r * c.n + j)], size = std::abs(sum);
      for (std::int64_t t = 0; t < c.taps; ++t)
        for (std::int64_t k = 0; k < c.k; ++k) {
          const std::size_t at = static_cast<std::size_t>(t);
          double w = src.get(c.b_tap[at] + (k * b_k + j * b_n) * spread);
          if (c.b_type == DType::f16) w = static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(w))));
          if (c.b_type == DType::bf16) w = static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(w))));
          const double product = a.get(c.a_table[static_cast<std::size_t>(r)] + c.tap[at] + k * c.a_k) * w;
          sum += product;
          size += std::abs(product);
        }
      const std::int64_t at = c.c_table[static_cast<std::size_t>(r)] + j * c.c_n;
      written[static_cast<std::size_t>(at)] = true;
      ASSERT_NEAR(out.get(at), sum, size * 1e-6 + std::abs(sum) * step_of(c.c_type) + 1e-7)
          << "row " << r << " column " << j;
    }
  for (std::int64_t i = 0; i < out.count(); ++i)
    ASSERT_TRUE(written[static_cast<std::size_t>(i)] || out.untouched(i)) << "element " << i;
}

TEST_P(ContractTest, EqualsTheSumOverRandomShapes) {
  for (int i = 0; i < cases(250); ++i) check_case(leaf(), static_cast<unsigned>(i));
}

TEST_P(ContractTest, EqualsTheSumWhereFloatsAreSplit) {
  if (!leaf().contract_split) GTEST_SKIP() << "this CPU multiplies no tiles of bf16";
  for (int i = 0; i < cases(250); ++i) check_case(leaf(), static_cast<unsigned>(i), true);
}

// What is infinite, no number, or overflows on its way is what fused multiply-adds make of it; so are rows that lie turned.
TEST_P(ContractTest, SplitFloatsKeepWhatIsNotFinite) {
  if (!leaf().contract_split) GTEST_SKIP() << "this CPU multiplies no tiles of bf16";
  const double infinity = INFINITY;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::int64_t m = random.in(1, 70), n = random.in(1, 70), k = random.in(1, 200), panels = (n + leaf().nr - 1) / leaf().nr;
    const bool turned = seed % 2;
    Stored a(DType::f32, m * k), w(DType::f32, k * n), b(DType::f32, packed_elements(leaf(), n, k)), s(DType::u8, panels * leaf().split_panel(k, DType::f32)),
        c(DType::f32, m * n), d(DType::f32, m * n);
    for (std::int64_t i = 0; i < m * k; ++i) a.set(i, random.real());
    for (std::int64_t i = 0; i < k * n; ++i) w.set(i, random.real());
    for (int i = 0; i < 4; ++i) {
      Stored& where = random.chance(0.5) ? a : w;
      where.set(random.in(0, where.count() - 1), random.of({infinity, -infinity, static_cast<double>(NAN), 3e38, -3e38, 0.0, 1e-40}));
    }
    a.as<std::uint32_t>()[random.in(0, m * k - 1)] = 0x7f800001u;            // a number that its upper half takes for infinite
    w.as<std::uint32_t>()[random.in(0, k * n - 1)] = 0xff800001u;
    const PackB pack{.n = n, .k = k, .src = w.data(), .b_k = n, .b_n = 1, .dst = b.data()};
    leaf().pack_b(pack);
    PackB split = pack;
    std::uint32_t wild = 0;
    split.dst = s.data(), split.wild = &wild;
    leaf().pack_split(split);
    EXPECT_EQ(wild, 1u);
    Contract call{.m = m, .n = n, .k = k, .a = a.data(), .a_rows = {turned ? 1 : k}, .a_k = turned ? m : 1, .b = b.data(), .c = c.data(), .c_rows = {n}};
    leaf().contract(call);
    call.b = s.data(), call.c = d.data(), call.b_wild = &wild;
    leaf().contract_split(call);
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double x = c.get(i), y = d.get(i);
      if (std::isfinite(x) && std::abs(x) < 1e30) ASSERT_NEAR(y, x, 1e-4) << "seed " << seed << " element " << i;
      else if (std::isnan(x)) ASSERT_TRUE(std::isnan(y)) << "seed " << seed << " element " << i << ": " << y;
      else if (std::isinf(x)) ASSERT_EQ(y, x) << "seed " << seed << " element " << i;
      else ASSERT_NEAR(y / x, 1, 1e-5) << "seed " << seed << " element " << i;
    }
  }
}

// Many rows, columns and products: several blocks of each, sums that wait between them, with and without an ending.
TEST_P(ContractTest, SplitFloatsInBlocks) {
  if (!leaf().contract_split) GTEST_SKIP() << "this CPU multiplies no tiles of bf16";
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{300, 600, 900}, {41, 530, 1000}, {270, 48, 4000}}) {
    Random random(static_cast<unsigned>(m));
    Stored a(DType::f32, m * k), w(DType::f32, k * n), b(DType::f32, packed_elements(leaf(), n, k)),
        s(DType::u8, (n + leaf().nr - 1) / leaf().nr * leaf().split_panel(k, DType::f32)), c(DType::f32, m * n), d(DType::f32, m * n), bias(DType::f32, n);
    for (Stored* x : {&a, &w, &bias})
      for (std::int64_t i = 0; i < x->count(); ++i) x->as<float>()[i] = static_cast<float>(random.real());
    PackB pack{.n = n, .k = k, .src = w.data(), .b_k = n, .b_n = 1, .dst = b.data()};
    leaf().pack_b(pack);
    pack.dst = s.data();
    leaf().pack_split(pack);
    const EpilogueStep steps[] = {{.op = StepOp::add, .operand = bias.data()}, {.op = StepOp::max, .a = -3.0f}};
    for (const Epilogue& end : {Epilogue{}, Epilogue{steps, 2}}) {
      Contract call{.m = m, .n = n, .k = k, .a = a.data(), .a_rows = {k}, .b = b.data(), .c = c.data(), .c_rows = {n}, .epilogue = end};
      leaf().contract(call);
      call.b = s.data(), call.c = d.data();
      leaf().contract_split(call);
      for (std::int64_t i = 0; i < m * n; ++i) ASSERT_NEAR(d.as<float>()[i], c.as<float>()[i], 1e-6 * std::sqrt(static_cast<double>(k)) * 30) << m << ": " << i;
    }
  }
}

TEST_P(ContractTest, EveryTileSizeIsExactOnIntegers) { // all register tiles, f32 throughout: integers leave no rounding
  for (std::int64_t m = 1; m <= 2 * leaf().mr; ++m)
    for (std::int64_t n = 1; n <= 2 * leaf().nr; n += m % 3 ? 1 : 5) {
      const std::int64_t k = 1 + (m * 7 + n) % 9;
      Stored a(DType::f32, m * k), w(DType::f32, k * n), b(DType::f32, packed_elements(leaf(), n, k)),
          c(DType::f32, m * n);
      for (std::int64_t i = 0; i < m * k; ++i) a.set(i, double((i * 7) % 11 - 5));
      for (std::int64_t i = 0; i < k * n; ++i) w.set(i, double((i * 5) % 13 - 6));
      leaf().pack_b({.n = n, .k = k, .src = w.data(), .b_k = n, .b_n = 1, .dst = b.data()});
      leaf().contract(
          {.m = m, .n = n, .k = k, .a = a.data(), .a_rows = {k}, .b = b.data(), .c = c.data(), .c_rows = {n}});
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i) sum += a.get(r * k + i) * w.get(i * n + j);
          ASSERT_EQ(c.get(r * n + j), sum) << m << " x " << n << " x " << k << " at " << r << ", " << j;
        }
    }
}

TEST_P(ContractTest, PackPadsWithZeros) {
  const std::int64_t nr = leaf().nr, n = nr + 1, k = 3;
  Stored w(DType::f32, n * k), b(DType::f32, 2 * nr * k);
  for (std::int64_t i = 0; i < n * k; ++i) w.set(i, double(i + 1));
  leaf().pack_b({.n = n, .k = k, .src = w.data(), .b_k = n, .b_n = 1, .dst = b.data()});
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < 2 * nr; ++j)
      EXPECT_EQ(b.get((j / nr * k + i) * nr + j % nr), j < n ? double(i * n + j + 1) : 0.0);
}

TEST_P(ContractTest,
       BlocksOfColumnsAndOfDepthGiveTheWhole) { // panels by pointer; K split through b_panel and accumulate
  const std::int64_t m = 17, k = 50, nr = leaf().nr, n = 3 * nr + 2, cut = 21;
  Stored a(DType::f32, m * k), w(DType::f32, k * n), b(DType::f32, packed_elements(leaf(), n, k)), c(DType::f32, m * n);
  for (std::int64_t i = 0; i < m * k; ++i) a.set(i, double(i % 7 - 3));
  for (std::int64_t i = 0; i < k * n; ++i) w.set(i, double(i % 5 - 2));
  leaf().pack_b({.n = n, .k = k, .src = w.data(), .b_k = n, .b_n = 1, .dst = b.data()});
  for (std::int64_t j = 0; j < n; j += 2 * nr)
    for (std::int64_t from : {std::int64_t(0), cut})
      leaf().contract({.m = m,
                       .n = std::min(2 * nr, n - j),
                       .k = from ? k - cut : cut,
                       .a = a.as<float>() + from,
                       .a_rows = {k},
                       .b = b.as<float>() + j * k + from * nr,
                       .b_panel = k * nr,
                       .c = c.as<float>() + j,
                       .c_rows = {n},
                       .accumulate = from > 0});
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += a.get(r * k + i) * w.get(i * n + j);
      ASSERT_EQ(c.get(r * n + j), sum);
    }
}

TEST_P(ContractTest, NanAndInfinityPassThrough) {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  Stored a(DType::f32, 3), w(DType::f32, 1), b(DType::f32, packed_elements(leaf(), 1, 1)), c(DType::f32, 3);
  a.as<float>()[0] = nan, a.as<float>()[1] = inf, a.as<float>()[2] = -inf;
  w.set(0, 2);
  leaf().pack_b({.n = 1, .k = 1, .src = w.data(), .b_k = 1, .b_n = 1, .dst = b.data()});
  const EpilogueStep limits[] = {{.op = StepOp::max, .a = -3}, {.op = StepOp::min, .a = 6}};
  leaf().contract({.m = 3,
                   .n = 1,
                   .k = 1,
                   .a = a.data(),
                   .a_rows = {1},
                   .b = b.data(),
                   .c = c.data(),
                   .c_rows = {1},
                   .epilogue = {limits, 2}});
  EXPECT_TRUE(std::isnan(c.get(0)));
  EXPECT_EQ(c.get(1), 6);
  EXPECT_EQ(c.get(2), -3);
}

} // namespace
} // namespace tilewright::kernels
