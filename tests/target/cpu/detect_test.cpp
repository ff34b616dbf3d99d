// The detector finds what the plain cover finds: all types, ranks, units, packed dims, layouts, threads and instruction
// sets.
#include "target/cpu/detect.h"

#include <chrono>
#include <gtest/gtest.h>

#include "schedule/layout.h"
#include "target/cpu/kernels_testing.h"

namespace tilewright::cpu {
namespace {

using kernels::cases;

struct Random {
  std::mt19937_64 engine;
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n)); }
};

void fill(Array& a, Random& random, std::int64_t one_in) {
  const std::int64_t width = static_cast<std::int64_t>(bytes_of(a.dtype));
  for (std::int64_t i = 0; i < a.count(); ++i) {
    std::byte* const p = a.data + i * width;
    if (random.below(one_in) == 0)
      p[random.below(width)] = a.dtype == DType::boolean ? std::byte{1} : static_cast<std::byte>(1 + random.below(255));
    else if (is_float(a.dtype) && random.below(3) == 0)
      p[width - 1] = std::byte{0x80}; // -0
  }
}

TEST(Detect, AgreesWithTheCover) {
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::f64,     DType::i8,
                             DType::u8,  DType::i32, DType::i64,  DType::boolean, DType::f8e4m3};
  std::int64_t live = 0, dead = 0;
  Pool pools[] = {Pool(1), Pool(3)};
  for (int n = 0; n < cases(1500); ++n) {
    Random random{std::mt19937_64(static_cast<std::uint64_t>(n))};
    const std::size_t rank = static_cast<std::size_t>(1 + random.below(4));
    std::vector<std::int64_t> dims, unit;
    for (std::size_t d = 0; d < rank; ++d) {
      dims.push_back(random.below(20) == 0 ? 0 : 1 + random.below(rank > 2 ? 9 : d + 1 == rank ? 1100 : 40));
      unit.push_back(1 + random.below(random.below(2) == 0 ? 1 : 40));
    }
    Array a = Array::make(types[random.below(std::size(types))], dims);
    fill(a, random, 1 + random.below(60));
    std::vector<std::size_t> packed;
    for (std::size_t d = 0; d < rank; ++d)
      if (random.below(2) == 0) packed.push_back(d);
    if (packed.empty()) packed.push_back(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(rank))));
    const Cells c = cells(dims, unit, packed);
    const Pattern expected = pattern_of(c, cover(a, c));
    // The same elements in another order of dims.
    DimOrder order = row_major(rank);
    std::shuffle(order.begin(), order.end(), random.engine);
    const std::vector<std::int64_t> plain = dense_strides(dims, row_major(rank)), stride = dense_strides(dims, order);
    Array moved = Array::make(a.dtype, dims);
    const auto width = bytes_of(a.dtype);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      std::int64_t rest = i, to = 0;
      for (std::size_t d = 0; d < rank; ++d) to += rest / plain[d] * stride[d], rest %= plain[d];
      std::memcpy(moved.data + static_cast<std::size_t>(to) * width, a.data + static_cast<std::size_t>(i) * width,
                  width);
    }
    for (Isa isa : kernels::available_isas())
      for (Pool& pool : pools) {
        const Pattern found = detect(kernels::kernels_for(isa), detector(c, a.dtype, stride), moved.data, pool);
        ASSERT_EQ(found.count, expected.count) << "seed " << n;
        for (std::int64_t g = 0; g < c.groups(); ++g)
          ASSERT_TRUE(std::equal(found.group(g).begin(), found.group(g).end(), expected.group(g).begin()))
              << "seed " << n;
      }
    live += expected.live(), dead += c.count() - expected.live();
  }
  std::printf("%lld micro-tiles live, %lld empty\n", static_cast<long long>(live), static_cast<long long>(dead));
  EXPECT_GT(live, 1000);
  EXPECT_GT(dead, 1000);
}

TEST(Detect, WhatIsZero) {
  Pool pool(1);
  for (Isa isa : kernels::available_isas())
    for (const auto& [values, expected] : {std::pair<std::vector<float>, int>{{1, -1}, 1},
                                           {{NAN, 0}, 1},
                                           {{-0.0f, 0}, 0},
                                           {{1e-45f, 0}, 1},
                                           {{0, INFINITY}, 1}}) {
      Array a = Array::make(DType::f32, {2});
      std::copy(values.begin(), values.end(), a.as<float>());
      EXPECT_EQ(detect(kernels::kernels_for(isa), detector(cells({2}, {2}, {0}), DType::f32, {1}), a.data, pool).live(),
                expected);
    }
}

TEST(Detect, ReadsAboutAsFastAsMemory) {
  const std::int64_t n = 2048;
  Array a = Array::make(DType::f32, {n, n});
  Random random{std::mt19937_64(1)};
  for (std::int64_t i = 0; i < n * n; ++i) a.as<float>()[i] = random.below(20) == 0 ? 1.0f : 0.0f;
  Pool pool(1);
  for (const std::vector<std::int64_t>& unit : {std::vector<std::int64_t>{32, 1}, {1, 64}, {1, 1}}) {
    const Detector d = detector(cells({n, n}, unit, {unit[1] == 1 ? std::size_t{1} : 0}), DType::f32, {n, 1});
    std::vector<std::uint8_t> marks(static_cast<std::size_t>(d.cells.count()));
    std::vector<std::uint32_t> count(static_cast<std::size_t>(d.cells.groups())), slot(marks.size());
    double best = 1;
    for (int i = 0; i < 5; ++i) {
      const auto then = std::chrono::steady_clock::now();
      mark_cells(kernels::kernels_for(detect_isa()), d, a.data, marks.data(), 0, 1);
      list_slots(d, marks.data(), count.data(), slot.data(), 0, 1);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count());
    }
    std::printf("%lld x %lld: %.2f ms, %.1f GB/s\n", static_cast<long long>(unit[0]), static_cast<long long>(unit[1]),
                best * 1e3, static_cast<double>(n * n * 4) / best * 1e-9);
    EXPECT_GT(best, 0);
  }
}

} // namespace
} // namespace tilewright::cpu
