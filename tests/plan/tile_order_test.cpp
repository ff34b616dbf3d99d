// Shares of blocks that take tiles in turn: the example of the header, and that nothing is lost or taken twice.
#include "plan/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilewright {
namespace {

TEST(TileOrder, RoundsThereAndBack) {
  // 3 3 2 2 1 | then 1 3 3 2 2 backwards | 1 1 backwards is a round of its own, there.
  const auto shares = tile_shares({1, 2, 3}, 4, 1, 2, 5);
  const std::vector<double> turns = {3 + 2 + 1, 3 + 2 + 1, 2 + 3, 2 + 3, 1 + 1};
  for (std::size_t b = 0; b < 5; ++b) EXPECT_EQ(shares[b].turns, turns[b]) << b;
}

TEST(TileOrder, EveryTileOnce) {
  for (std::int64_t inner : {1, 3, 16})
    for (std::int64_t outer : {1, 2})
      for (std::int64_t band : {1, 2, 3, 16})
        for (std::int64_t blocks : {1, 7, 132}) {
          const std::vector<double> lengths = {5, 4, 3, 3, 1, 1, 1};
          double turns = 0;
          std::int64_t tiles = 0;
          for (const TileShare& s : tile_shares(lengths, inner, outer, band, blocks)) turns += s.turns, tiles += s.tiles;
          EXPECT_EQ(turns, 18.0 * static_cast<double>(inner * outer));
          EXPECT_EQ(tiles, 7 * inner * outer);
        }
}

// 16 heads of 16384 tokens, causal, 128 rows a tile and 128 keys a turn: bands of three, which the cache would keep, leave one block
// a seventh above the mean.
TEST(TileOrder, WiderBandsShareBetter) {
  std::vector<double> lengths;
  for (int i = 1; i <= 128; ++i) lengths.push_back(i);
  const auto worst = [&](std::int64_t band) {
    double most = 0, all = 0;
    for (const TileShare& s : tile_shares(lengths, 16, 1, band, 132)) most = std::max(most, s.turns), all += s.turns;
    return most / (all / 132);
  };
  EXPECT_GT(worst(3), 1.1);
  EXPECT_LT(worst(16), 1.01);
}

}  // namespace
}  // namespace tilewright
