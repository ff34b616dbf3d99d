// Patterns, covers and packing arithmetic: worked examples whose numbers were computed elsewhere, and properties.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "sparse/packing.h"

namespace tilewright {
namespace {

using Slots = std::vector<std::uint32_t>;

Array matrix(std::int64_t rows, std::int64_t columns) { return Array::make(DType::f32, {rows, columns}); }
Slots slots(const Pattern& p, std::int64_t g) { return {p.group(g).begin(), p.group(g).end()}; }

Array small() {
  Array a = matrix(4, 8);
  const std::int64_t at[][3] = {{0, 0, 1}, {1, 2, 2}, {0, 5, 3}, {1, 7, 4}, {2, 3, 5}, {3, 3, 6}, {3, 6, 7}};
  for (const auto& [i, j, v] : at) a.as<float>()[i * 8 + j] = static_cast<float>(v);
  return a;
}

Pattern pattern(const Array& a, std::vector<std::int64_t> unit, std::vector<std::size_t> packed) {
  const Cells c = cells(a.dims, std::move(unit), std::move(packed));
  return pattern_of(c, cover(a, c));
}

TEST(Cover, ASmallMatrix) {
  const Array a = small();
  const Pattern k = pattern(a, {2, 1}, {1}), m = pattern(a, {1, 4}, {0}), plain = pattern(a, {2, 4}, {0, 1});
  EXPECT_EQ(plain.live(), 4);
  EXPECT_EQ(slots(k, 0), (Slots{0, 2, 5, 7}));
  EXPECT_EQ(slots(k, 1), (Slots{3, 6}));
  EXPECT_EQ(slots(m, 0), (Slots{0, 1, 2, 3}));
  EXPECT_EQ(slots(m, 1), (Slots{0, 1, 3}));
  const Packing along_k = packing(k.cells, k.count, 4), along_m = packing(m.cells, m.count, 2),
                dense = packing(plain.cells, plain.count, 1);
  EXPECT_EQ(dense.dense_tiles, 4);
  EXPECT_EQ(dense.executed, 32);
  EXPECT_NEAR(dense.executed_waste(7), 0.7813, 5e-5);
  EXPECT_EQ(along_k.micro_tiles, 6);
  EXPECT_EQ(along_k.dense_tiles, 2);
  EXPECT_EQ(along_k.executed, 16);
  EXPECT_NEAR(along_k.waste(7), 0.4167, 5e-5);
  EXPECT_NEAR(along_k.executed_waste(7), 0.5625, 5e-5);
  EXPECT_EQ(along_m.micro_tiles, 7);
  EXPECT_EQ(along_m.dense_tiles, 4);
  EXPECT_NEAR(along_m.waste(7), 0.75, 5e-5);
  EXPECT_NEAR(along_m.executed_waste(7), 0.7813, 5e-5);
}

TEST(Cover, TheProductIsThatOfThePackedTilesInAnyOrder) {
  const Array a = small();
  const Pattern p = pattern(a, {2, 1}, {1});
  auto b = [](std::int64_t k, std::int64_t n) { return static_cast<int>((3 * k + 5 * n) % 7) - 3; };
  std::mt19937 random(5);
  for (int turn = 0; turn < 3; ++turn) {
    int c[4][2] = {};
    for (std::int64_t g = 0; g < 2; ++g) {
      Slots order = slots(p, g);
      std::shuffle(order.begin(), order.end(), random);
      for (std::uint32_t k : order)
        for (std::int64_t i = 2 * g; i < 2 * g + 2; ++i)
          for (std::int64_t n = 0; n < 2; ++n) c[i][n] += static_cast<int>(a.as<float>()[i * 8 + k]) * b(k, n);
    }
    const int expected[4][2] = {{-9, 11}, {-6, 10}, {-5, -15}, {1, -25}};
    for (int i = 0; i < 4; ++i)
      for (int n = 0; n < 2; ++n) EXPECT_EQ(c[i][n], expected[i][n]);
  }
}

TEST(Cover, Patterns) {
  struct Case {
    std::function<bool(int, int)> live;
    std::int64_t nnz, plain, k_micro, k_tiles, m_micro, m_tiles;
  };
  const Case cases[] = {{[](int i, int j) { return i == j; }, 64, 4, 64, 4, 64, 4},
                        {[](int, int j) { return j % 16 == 0; }, 256, 16, 16, 4, 256, 16},
                        {[](int i, int) { return i % 16 == 0; }, 256, 16, 256, 16, 16, 4},
                        {[](int i, int j) { return (64 * i + j) % 67 == 0; }, 62, 14, 62, 4, 62, 4}};
  for (const Case& c : cases) {
    Array a = matrix(64, 64);
    std::int64_t nnz = 0;
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j)
        if (c.live(i, j)) a.as<float>()[i * 64 + j] = 1, ++nnz;
    const Pattern k = pattern(a, {16, 1}, {1}), m = pattern(a, {1, 16}, {0});
    EXPECT_EQ(nnz, c.nnz);
    EXPECT_EQ(pattern(a, {16, 16}, {0, 1}).live(), c.plain);
    EXPECT_EQ(k.live(), c.k_micro);
    EXPECT_EQ(dense_tiles(k.count, 16), c.k_tiles);
    EXPECT_EQ(m.live(), c.m_micro);
    EXPECT_EQ(dense_tiles(m.count, 16), c.m_tiles);
  }
}

TEST(Cover, WhatIsZero) {
  auto live = [](std::vector<float> values) {
    Array a = matrix(1, static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), a.as<float>());
    return pattern(a, {1, static_cast<std::int64_t>(values.size())}, {1}).live() == 1;
  };
  EXPECT_TRUE(live({1, -1}));  // a sum would say empty
  EXPECT_TRUE(live({NAN, 0})); // so would a comparison of sums
  EXPECT_FALSE(live({-0.0f}));
  EXPECT_TRUE(live({1e-45f}));
  EXPECT_TRUE(live({INFINITY}));
  EXPECT_TRUE(live({0, -1000})); // masks by large negative numbers are values
}

TEST(Cover, OfEveryType) {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u8,
                  DType::i32, DType::i64, DType::boolean}) {
    Array a = Array::make(t, {3, 5});
    EXPECT_EQ(pattern(a, {1, 1}, {1}).live(), 0) << name_of(t);
    const std::size_t width = bytes_of(t), last = 14 * width + width - 1;
    a.data[last] = std::byte{0x80}; // the sign of a float, a value of an integer
    EXPECT_EQ(pattern(a, {1, 1}, {1}).live(), is_float(t) ? 0 : 1) << name_of(t);
    a.data[14 * width] |= std::byte{1};
    const Pattern p = pattern(a, {1, 1}, {1});
    EXPECT_EQ(p.live(), 1) << name_of(t);
    EXPECT_EQ(slots(p, 2), (Slots{4})) << name_of(t);
  }
}

TEST(Cover, CoarserCellsAreThoseOfTheElements) {
  std::mt19937_64 random(11);
  for (int n = 0; n < 400; ++n) {
    auto below = [&](std::int64_t x) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(x)); };
    Array a = Array::make(DType::u8, {1 + below(3), 1 + below(20), 1 + below(20)});
    const std::uint64_t share = 1 + random() % 20;
    for (std::int64_t i = 0; i < a.count(); ++i) a.as<std::uint8_t>()[i] = random() % share == 0;
    const std::size_t dim = random() % 3;
    const Cells fine = cells(a.dims, {1, 1 + below(3), 1 + below(3)}, {dim});
    const Cells coarse =
        cells(a.dims, {1, fine.unit[1] * (1 + below(3)), fine.unit[2] * (1 + below(4))}, {random() % 3});
    const auto marks = cover(a, coarse);
    EXPECT_EQ(coarser(cover(a, fine), fine, coarse), marks);
    EXPECT_EQ(marks_of(pattern_of(coarse, marks)), marks);
  }
}

TEST(Cover, EmptyFullAndSingle) {
  Array a = matrix(7, 9);
  EXPECT_EQ(pattern(a, {2, 1}, {1}).live(), 0);
  a.as<float>()[62] = 1;
  EXPECT_EQ(slots(pattern(a, {2, 1}, {1}), 3), (Slots{8}));
  std::fill_n(a.as<float>(), 63, 2.0f);
  const Pattern full = pattern(a, {2, 1}, {1});
  EXPECT_EQ(full.live(), 4 * 9);
  EXPECT_EQ(full.cells.groups(), 4);
  EXPECT_EQ(pattern(matrix(0, 5), {2, 1}, {1}).live(), 0);
  EXPECT_EQ(pattern(matrix(5, 0), {2, 1}, {1}).cells.length(), 0);
}

// Causal rows in blocks of 64 that see some columns, and diagonals in bands of 64 keys: the keys that a row block needs
// are the live columns of its row of micro-tiles, wherever the bands begin.
TEST(Cover, ColumnsAndDiagonals) {
  auto pattern = [](std::int64_t n, const std::vector<std::int64_t>& columns,
                    const std::vector<std::int64_t>& offsets) {
    Array mask = Array::make(DType::boolean, {n, n});
    for (std::int64_t q = 0; q < n; ++q)
      for (std::int64_t key = 0; key <= q; ++key) {
        bool live = std::count(columns.begin(), columns.end(), key) > 0;
        for (std::int64_t o : offsets) live |= key >= q / 64 * 64 - o && key < q / 64 * 64 - o + 64;
        mask.data[q * n + key] = std::byte{live};
      }
    const Cells c = cells({n, n}, {64, 1}, {1});
    return pattern_of(c, cover(mask, c));
  };
  const Pattern a = pattern(256, {0, 5, 70, 130, 200}, {0, 64, 150});
  EXPECT_EQ(a.count[3], 194u);
  EXPECT_EQ(a.count[2], 170u);
  EXPECT_EQ(dense_tiles(std::span(a.count).subspan(3, 1), 64), 4); // three blocks, and one of loose columns 0 and 5
  const std::vector<std::uint32_t> third(a.group(3).begin(), a.group(3).begin() + 3);
  EXPECT_EQ(third, (std::vector<std::uint32_t>{0, 5, 42}));
  const Pattern b = pattern(512, {0, 1, 7, 100, 300}, {0});
  EXPECT_EQ(dense_tiles(b.count, 64), 15);
  EXPECT_EQ(dense_tiles(std::span(b.count).first(1), 64), 1);
  EXPECT_EQ(b.count[1], 64u + 3);
  EXPECT_EQ(b.count[2], 64u + 4);
  EXPECT_EQ(b.count[5], 64u + 5);
  EXPECT_EQ(dense_tiles(pattern(512, {}, {0, 64, 128, 192, 256, 320, 384, 448}).count, 64), 36); // all that is causal
}

TEST(Cover, OffsetsPastTwoToThe31) {
  const Cells c = cells({262144, 28672}, {1, 64}, {1});
  EXPECT_EQ(c.count(), 117440512);
  EXPECT_EQ(c.dims[0] * c.dims[1] - 1, 7516192767);
  EXPECT_EQ(c.table_bytes(), (std::int64_t{448} + 1) * 262144 * 4);
  EXPECT_GT(cells({1 << 20, 1 << 20}, {1, 1}, {1}).table_bytes(), std::int64_t{1} << 41);
  EXPECT_THROW(cells({std::int64_t{1} << 20, std::int64_t{1} << 20}, {1, 1}, {0, 1}), Error); // a slot has 32 bits
  EXPECT_THROW(cells({4, 4}, {0, 1}, {1}), Error);
  EXPECT_THROW(cells({4, 4}, {1, 1}, {2}), Error);
  EXPECT_THROW(cells({4, 4}, {1, 1}, {}), Error);
}

// ---- packing

TEST(Packing, Experts) {
  const std::vector<std::int64_t> routes{2, 0, 2, 2, 5, 0, 2, 5, 2, 2, 0, 2};
  const Sorted s = sort_by_key(routes, 6);
  EXPECT_EQ(s.order, (Slots{1, 5, 10, 0, 2, 3, 6, 8, 9, 11, 4, 7}));
  Slots counts;
  for (int e = 0; e < 6; ++e)
    counts.push_back(
        static_cast<std::uint32_t>(s.begin[static_cast<std::size_t>(e) + 1] - s.begin[static_cast<std::size_t>(e)]));
  EXPECT_EQ(counts, (Slots{3, 0, 7, 0, 0, 2}));
  const std::int64_t tiles[][2] = {{1, 12}, {4, 4}, {8, 3}, {16, 3}};
  for (const auto& [rows, total] : tiles) {
    EXPECT_EQ(dense_tiles(counts, rows), total);
    EXPECT_EQ(tile_pointers(counts, rows).back(), total);
  }
  EXPECT_EQ(tile_pointers(counts, 4), (std::vector<std::int64_t>{0, 1, 1, 3, 3, 3, 4}));
  EXPECT_EQ(1 - 12.0 / static_cast<double>(dense_tiles(counts, 4) * 4), 0.25);
  EXPECT_THROW(sort_by_key(std::vector<std::int64_t>{0, 6}, 6), Error);
  EXPECT_THROW(sort_by_key(std::vector<std::int64_t>{0, -1}, 6), Error);
  EXPECT_EQ(sort_by_key({}, 3).begin, (std::vector<std::int64_t>{0, 0, 0, 0}));
}

TEST(Packing, FourThousandTokensForOneExpertStayWithIt) {
  const Sorted s =
      sort_by_key(std::vector<std::int64_t>(4097, 0), 2); // a list of fixed capacity would run into the next
  EXPECT_EQ(s.begin, (std::vector<std::int64_t>{0, 4097, 4097}));
}

TEST(Packing, ManyExpertsAndManyTokens) {
  std::mt19937_64 random(3);
  std::vector<std::int64_t> key(100000);
  for (std::int64_t& k : key) k = static_cast<std::int64_t>(random() % 4096);
  const Sorted s = sort_by_key(key, 4096);
  EXPECT_EQ(s.begin.back(), 100000);
  for (std::size_t i = 1; i < s.order.size(); ++i)
    ASSERT_TRUE(std::pair(key[s.order[i - 1]], s.order[i - 1]) < std::pair(key[s.order[i]], s.order[i]));
}

TEST(Packing, Lengths) {
  const std::int64_t lengths[] = {5, 32, 0, 17};
  const std::int64_t expected[][4] = {
      {8, 16, 8, 7}, {16, 8, 5, 4}, {32, 4, 3, 2}}; // rows, dense, skipped by sequence, packed
  for (const auto& [rows, all, by_sequence, packed] : expected) {
    Array mask = Array::make(DType::boolean, {4, 32});
    for (int b = 0; b < 4; ++b) std::fill_n(mask.data + b * 32, lengths[b], std::byte{1});
    const Pattern apart = pattern(mask, {1, 1}, {1}), together = pattern(mask, {1, 1}, {0, 1});
    EXPECT_EQ(4 * ceil_div_i64(32, rows), all);
    EXPECT_EQ(dense_tiles(apart.count, rows), by_sequence);
    EXPECT_EQ(dense_tiles(together.count, rows), packed);
  }
}

// Keys that blocks of 64 rows need: a slash admits a band of a block's width, a vertical one column; causal within the diagonal block.
std::vector<std::uint32_t> keys_of(std::int64_t n, const std::vector<std::int64_t>& verticals, const std::vector<std::int64_t>& slashes) {
  Array mask = Array::make(DType::boolean, {n, n});
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t block = i / 64 * 64;
    const auto admit = [&](std::int64_t key) {
      if (key >= 0 && key < n && (key < block || (key < block + 64 && key <= i))) mask.data[i * n + key] = std::byte{1};
    };
    for (std::int64_t o : slashes)
      for (std::int64_t key = block - o; key < block - o + 64; ++key) admit(key);
    for (std::int64_t key : verticals) admit(key);
  }
  return pattern(mask, {64, 1}, {1}).count;
}

TEST(Packing, VerticalsAndSlashes) {
  const Slots keys = keys_of(256, {0, 5, 70, 130, 200}, {0, 64, 150});
  EXPECT_EQ(keys[3], 194u);
  EXPECT_EQ(keys[2], 170u);
  EXPECT_EQ(dense_tiles(Slots{keys[3]}, 64), 4);
  const Slots long_ = keys_of(512, {0, 1, 7, 100, 300}, {0});
  EXPECT_EQ(long_, (Slots{64, 67, 68, 68, 68, 69, 69, 69}));
  EXPECT_EQ(dense_tiles(long_, 64), 15);
  // No verticals; slashes that all lie beyond the first rows; nothing at all.
  EXPECT_EQ(keys_of(192, {}, {0, 128}), (Slots{64, 64, 128}));
  EXPECT_EQ(keys_of(192, {}, {128}), (Slots{0, 0, 64}));
  EXPECT_EQ(keys_of(192, {}, {}), (Slots{0, 0, 0}));
}

TEST(Packing, BothOperands) {
  const Slots a[] = {{1, 3, 4, 9, 12}, {0, 2, 9}}, b[] = {{3, 4, 5, 12, 15}, {0, 9, 10}};
  EXPECT_EQ(intersection(a[0], b[0]), (Slots{3, 4, 12}));
  EXPECT_EQ(intersection(a[0], b[1]), (Slots{9}));
  EXPECT_EQ(intersection(a[1], b[0]), (Slots{}));
  EXPECT_EQ(intersection(a[1], b[1]), (Slots{0, 9}));
  std::int64_t both = 0, one = 0;
  for (const Slots& x : a)
    for (const Slots& y : b) {
      both += (static_cast<std::int64_t>(intersection(x, y).size()) + 3) / 4;
      one += (static_cast<std::int64_t>(x.size()) + 3) / 4;
    }
  EXPECT_EQ(both, 3);
  EXPECT_EQ(one, 6);
}

TEST(Packing, RandomPatternsUnderLargerCells) {
  EXPECT_NEAR(covered_sparsity(0.95, 2, 16), 0.6634, 5e-5);
  EXPECT_NEAR(covered_sparsity(0.95, 4, 16), 0.8145, 5e-5);
  EXPECT_NEAR(covered_sparsity(0.99, 2, 8), 0.9606, 5e-5);
  EXPECT_EQ(covered_sparsity(0.9, 32, 8), 0.9);
}

} // namespace
} // namespace tilewright
