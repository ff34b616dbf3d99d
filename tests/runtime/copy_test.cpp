// Copies between strides, against the plainest loop over all points.
#include "runtime/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

using namespace tilewright;

namespace {

using Random = std::mt19937_64;

// Random dims, and strides that make no two elements meet: a random order of dims, random gaps, some signs turned.
struct Layout {
  std::vector<std::int64_t> strides;
  std::int64_t elements = 1, first = 0; // of the memory, and where element [0...0] lies in it
};

Layout random_layout(const std::vector<std::int64_t>& dims, Random& random) {
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  Layout l{std::vector<std::int64_t>(dims.size()), 1, 0};
  for (std::size_t d : order) {
    l.strides[d] = l.elements + static_cast<std::int64_t>(random() % 3);
    l.elements = std::max<std::int64_t>(1, l.strides[d] * dims[d]);
    if (random() % 3 == 0 && dims[d] > 0) {
      l.first += l.strides[d] * (dims[d] - 1);
      l.strides[d] = -l.strides[d];
    }
  }
  return l;
}

std::int64_t offset(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& strides) {
  return std::inner_product(at.begin(), at.end(), strides.begin(), std::int64_t{0});
}

template <class F> void for_each_point(const std::vector<std::int64_t>& dims, F&& f) {
  std::int64_t count = 1;
  for (std::int64_t d : dims) count *= d;
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    f(at);
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
}

TEST(Copy, EqualsTheLoopOverAllPoints) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    const DType dtype = std::vector{DType::i8, DType::f16, DType::f32, DType::f64}[random() % 4];
    const std::size_t width = bytes_of(dtype);
    std::vector<std::int64_t> dims(random() % 6);
    for (std::int64_t& d : dims) d = static_cast<std::int64_t>(random() % 5);
    const Layout from = random_layout(dims, random), to = random_layout(dims, random);
    const std::size_t shift = random() % width; // unaligned memory too
    std::vector<std::byte> source(static_cast<std::size_t>(from.elements) * width + shift),
        target(static_cast<std::size_t>(to.elements) * width + shift);
    for (std::byte& b : source) b = static_cast<std::byte>(random());
    for (std::byte& b : target) b = static_cast<std::byte>(random());
    std::vector<std::byte> want = target;
    const auto bytes = static_cast<std::int64_t>(width), skip = static_cast<std::int64_t>(shift);
    for_each_point(dims, [&](const std::vector<std::int64_t>& at) {
      std::memcpy(want.data() + skip + (to.first + offset(at, to.strides)) * bytes,
                  source.data() + skip + (from.first + offset(at, from.strides)) * bytes, width);
    });
    copy_elements({dtype, dims, to.strides, target.data() + skip + to.first * bytes},
                  {dtype, dims, from.strides, source.data() + skip + from.first * bytes});
    ASSERT_EQ(target, want) << "round " << round << " of seed 1";
  }
}

TEST(Copy, KnowsDenseAndOverlapping) {
  alignas(8) std::byte memory[64];
  const auto at = [&](std::int64_t byte, std::vector<std::int64_t> dims, std::vector<std::int64_t> strides) {
    return Strided{DType::f32, std::move(dims), std::move(strides), memory + byte};
  };
  EXPECT_TRUE(is_dense(at(0, {2, 3}, {3, 1})));
  EXPECT_TRUE(is_dense(at(0, {}, {})));
  EXPECT_TRUE(is_dense(at(0, {1, 3}, {99, 1}))) << "the stride of an extent of 1 does not count";
  EXPECT_TRUE(is_dense(at(1, {0, 3}, {5, 7}))) << "nothing lies anywhere";
  EXPECT_FALSE(is_dense(at(0, {2, 3}, {1, 2})));
  EXPECT_FALSE(is_dense(at(0, {2, 3}, {4, 1})));
  EXPECT_FALSE(is_dense(at(2, {2, 3}, {3, 1}))) << "not aligned";
  EXPECT_FALSE(is_dense(at(20, {3}, {-1})));
  EXPECT_TRUE(overlap(at(0, {4}, {1}), at(12, {4}, {1})));
  EXPECT_FALSE(overlap(at(0, {4}, {1}), at(16, {4}, {1})));
  EXPECT_TRUE(overlap(at(16, {4}, {-1}), at(4, {1}, {1})));
  EXPECT_FALSE(overlap(at(16, {4}, {-1}), at(20, {1}, {1})));
  EXPECT_FALSE(overlap(at(0, {0}, {1}), at(0, {4}, {1})));
}

} // namespace
