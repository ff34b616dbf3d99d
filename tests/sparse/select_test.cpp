// Selection against numbers that were computed elsewhere, and its time.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>

#include "sparse/select.h"

namespace tilewright {
namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::vector<std::uint8_t> marks(std::int64_t rows, std::int64_t columns, std::uint64_t seed, double sparsity) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(rows * columns));
  const auto limit = static_cast<std::uint64_t>(std::floor(sparsity * 0x1p53));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = splitmix64(seed ^ i) >> 11 >= limit;
  return out;
}

// A line fitted to a published table: milliseconds = 0.372 + 1.34850e-5 a dense tile of 32 x 64 x 32.
constexpr double fitted = 1.34850e-8, start = 0.372e-3;
const TileForm tile{32, 32, 64, fitted};
SelectionCosts costs() {
  SelectionCosts c;
  c.launch = start;
  c.accumulate = 1e-30;
  return c;
}

TEST(Select, TheHashIsTheUsualOne) {
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(1), 0x910a2dec89025cc1u);
}

TEST(Select, DeterministicMasks) {
  struct Row {
    Along along;
    double sparsity;
    std::int64_t micro, least, most, tiles;
    double fill;
    std::int64_t plain;
    double ms;
  };
  const Row rows[] = {{Along::k, 0.50, 261700, 1952, 2118, 4153, 0.9846, 8192, 7.5404},
                      {Along::k, 0.90, 52272, 350, 465, 886, 0.9218, 8186, 1.9013},
                      {Along::k, 0.95, 26205, 160, 261, 487, 0.8408, 7898, 1.2126},
                      {Along::k, 0.99, 5159, 26, 61, 128, 0.6298, 3878, 0.5929},
                      {Along::m_by_k, 0.50, 130657, 1975, 2124, 4113, 0.9927, 8192, 7.4714},
                      {Along::m_by_k, 0.90, 26260, 355, 451, 852, 0.9632, 7893, 1.8426},
                      {Along::m_by_k, 0.95, 13213, 174, 241, 444, 0.9300, 6613, 1.1384},
                      {Along::m_by_k, 0.99, 2629, 31, 58, 125, 0.6573, 2266, 0.5878}};
  const Product product{4096, 4096, 4096, DType::f32};
  for (const Row& r : rows) {
    const bool k = r.along == Along::k;
    const MicroTile unit = k ? MicroTile{32, 1} : MicroTile{1, 64};
    const auto sample = k ? marks(128, 4096, 1, r.sparsity) : marks(4096, 64, 2, r.sparsity);
    const Cells c = cells({4096, 4096}, {unit.m, unit.k}, {k ? std::size_t{1} : 0}),
                plain = cells({4096, 4096}, {32, 64}, {k ? std::size_t{1} : 0});
    std::vector<std::uint8_t> grouped = sample;
    if (!k)
      for (std::int64_t i = 0; i < 4096; ++i)
        for (std::int64_t j = 0; j < 64; ++j)
          grouped[static_cast<std::size_t>(j * 4096 + i)] = sample[static_cast<std::size_t>(i * 64 + j)];
    const Pattern p = pattern_of(c, grouped);
    EXPECT_EQ(p.live(), r.micro);
    EXPECT_EQ(*std::min_element(p.count.begin(), p.count.end()), r.least);
    EXPECT_EQ(*std::max_element(p.count.begin(), p.count.end()), r.most);
    EXPECT_NEAR(packing(c, p.count, k ? 64 : 32).fill, r.fill, 5e-5);
    const auto covered = coarser(grouped, c, plain);
    EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), r.plain);
    const Selection s = select(product, unit, {sample}, {tile}, costs());
    const auto mine =
        std::find_if(s.tried.begin(), s.tried.end(), [&](const Estimate& e) { return e.along == r.along; });
    ASSERT_NE(mine, s.tried.end());
    EXPECT_EQ(mine->micro_tiles, static_cast<double>(r.micro));
    EXPECT_EQ(mine->dense_tiles, static_cast<double>(r.tiles));
    EXPECT_NEAR(mine->seconds * 1e3, r.ms, 1e-4);
    EXPECT_EQ(s.best.along, r.along) << s.reason;
  }
}

TEST(Select, BreaksEvenWithDense) {
  // 32 x 64 cells that are all live but for some: as many dense tiles as cells.
  SelectionCosts c = costs();
  c.margin = 0;
  const Product product{4096, 4096, 4096, DType::f32};
  auto chosen = [&](std::int64_t tiles) {
    std::vector<std::uint8_t> sample(128 * 64, 0);
    std::fill_n(sample.begin(), tiles, std::uint8_t{1});
    TileForm dense = tile;
    dense.seconds = (10.22e-3 - start) / (128.0 * 64 * 128); // as one dense kernel takes
    Selection s = select(product, {32, 64}, {sample}, {tile}, c);
    const auto along =
        std::find_if(s.tried.begin(), s.tried.end(), [](const Estimate& e) { return e.along == Along::k; });
    EXPECT_EQ(along->dense_tiles, static_cast<double>(tiles));
    return along->seconds < select(product, {32, 64}, {sample}, {dense}, c).dense.seconds;
  };
  EXPECT_TRUE(chosen(5705));
  EXPECT_FALSE(chosen(5706));
}

// The published profile of h x 1 micro-tiles on k: milliseconds at the profiled sparsities. The cheapest entry at or
// below the sparsity that a pattern has when it is covered; dense takes 10.22.
TEST(Select, ThePublishedTable) {
  const std::map<int, std::map<double, double>> table{
      {32, {{0, 14.472}, {0.5, 7.522}, {0.8, 3.290}, {0.9, 1.755}, {0.95, 0.941}, {0.99, 0.387}}},
      {16, {{0, 16.075}, {0.5, 11.016}, {0.65, 8.038}, {0.8, 4.288}, {0.9, 2.497}, {0.95, 1.365}}},
      {8, {{0, 28.913}, {0.5, 19.921}, {0.65, 13.870}, {0.8, 8.290}, {0.9, 4.481}, {0.95, 2.344}}},
      {4, {{0, 53.657}, {0.5, 43.868}, {0.65, 30.754}, {0.8, 17.389}, {0.9, 8.786}, {0.95, 4.609}}}};
  auto cheapest = [&](double pattern, double sparsity) {
    std::pair<int, double> best{0, 10.22};
    for (const auto& [height, entries] : table)
      for (const auto& [profiled, ms] : entries)
        if (profiled <= covered_sparsity(sparsity, pattern, height) && ms < best.second) best = {height, ms};
    return best;
  };
  using P = std::pair<int, double>;
  EXPECT_EQ(cheapest(2, 0.90), P(0, 10.22));
  EXPECT_EQ(cheapest(2, 0.95), P(16, 8.038));
  EXPECT_EQ(cheapest(2, 0.99), P(8, 2.344));
  EXPECT_EQ(cheapest(4, 0.90), P(16, 8.038));
  EXPECT_EQ(cheapest(4, 0.95), P(16, 4.288));
  EXPECT_EQ(cheapest(4, 0.99), P(16, 1.365));
  EXPECT_EQ(cheapest(8, 0.90), P(16, 4.288));
  EXPECT_EQ(cheapest(8, 0.95), P(8, 2.344)); // at, not strictly below
  EXPECT_EQ(cheapest(8, 0.99), P(32, 0.941));
}

TEST(Select, MicroTilesFillATransaction) {
  SelectionCosts c;
  c.transaction = 32;
  const Product f32{64, 64, 64, DType::f32}, f16{64, 64, 64, DType::f16};
  const TileForm t{32, 64, 64, 1};
  EXPECT_EQ(micro_tile(f32, t, Along::k, c).k, 8); // 32 x 8 where k is adjacent
  EXPECT_EQ(micro_tile(f16, t, Along::k, c).k, 16);
  EXPECT_EQ(micro_tile(f32, t, Along::m_by_k, c).m, 1); // 64 elements side by side are enough
  c.k_adjacent = false;
  EXPECT_EQ(micro_tile(f32, t, Along::k, c).k, 1); // 32 x 1 where rows are adjacent
  EXPECT_EQ(micro_tile(f32, t, Along::m_by_k, c).m, 8);
}

TEST(Select, DenseWhereNothingIsSaved) {
  const Product product{1024, 1024, 1024, DType::f32};
  const Selection full = select(product, {32, 1}, {std::vector<std::uint8_t>(32 * 1024, 1)}, {tile}, costs());
  EXPECT_EQ(full.best.along, Along::none);
  EXPECT_NE(full.reason.find("dense"), std::string::npos) << full.reason;
  const Selection empty = select(product, {32, 1}, {std::vector<std::uint8_t>(32 * 1024, 0)}, {tile}, costs());
  EXPECT_NE(empty.best.along, Along::none);
  EXPECT_EQ(empty.best.dense_tiles, 0);
}

TEST(Select, ShippedMachinesChooseByTheirRates) {
  const Product product{2048, 2048, 2048, DType::f32};
  for (const std::string& name : machine_names()) {
    const Machine m = machine_named(name);
    const auto forms = tile_forms(m, DType::f32);
    ASSERT_FALSE(forms.empty()) << name;
    const SelectionCosts c = selection_costs(m);
    EXPECT_EQ(select(product, {1, 1}, {marks(2048, 2048, 1, 0.1)}, forms, c).best.along, Along::none) << name;
    std::vector<std::uint8_t> half(2048 / 32 * 2048, 0);
    for (std::size_t i = 0; i < half.size(); i += 100) half[i] = 1;
    EXPECT_NE(select(product, {32, 1}, {half}, forms, c).best.along, Along::none) << name;
  }
}

TEST(Select, TakesLessThanAMillisecond) {
  const Product product{4096, 4096, 4096, DType::f16};
  const Machine m = machine_named("h200");
  const auto forms = tile_forms(m, DType::f16);
  const std::vector<std::vector<std::uint8_t>> samples{marks(64, 4096, 1, 0.95)};
  SelectionCosts costs = selection_costs(m);
  costs.k_adjacent = false; // as a producer would write it for this reader
  double best = 1;
  for (int i = 0; i < 20; ++i) {
    const auto then = std::chrono::steady_clock::now();
    const Selection s = select(product, {64, 1}, samples, forms, costs);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count());
    ASSERT_EQ(s.best.along, Along::k) << s.reason;
  }
  std::printf("selection among %zu tiles: %.0f us\n", forms.size(), best * 1e6);
  EXPECT_LT(best, 1e-3);
}

} // namespace
} // namespace tilewright
