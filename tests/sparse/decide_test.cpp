// Decisions are kept by how much lives, and change neither at every edge nor never.
#include <gtest/gtest.h>

#include "sparse/decide.h"

namespace tilewright {
namespace {

struct Decided {
  Decisions decisions;
  int searches = 0;
  double last = -1;

  // Of a search its number stands for what it found.
  int at(std::int64_t live, std::int64_t cells = 1000) {
    return static_cast<int>(decisions
                                .at(live, cells,
                                    [&] {
                                      Selection s;
                                      s.best.micro_tiles = ++searches;
                                      return s;
                                    })
                                .best.micro_tiles);
  }
};

TEST(Decisions, BucketsAreHalfOctaves) {
  EXPECT_EQ(bucket_of(1000, 1000), 0);
  EXPECT_EQ(bucket_of(500, 1000), 2);
  EXPECT_EQ(bucket_of(250, 1000), 4);
  EXPECT_EQ(bucket_of(0, 1000), bucket_of(0, 0));
  EXPECT_GT(bucket_of(0, 1000), bucket_of(1, std::int64_t{1} << 62));
}

TEST(Decisions, AreKept) {
  Decided d;
  for (std::int64_t live : {50, 51, 48, 52, 50}) EXPECT_EQ(d.at(live), 1);
  EXPECT_EQ(d.at(400), 2); // far away: at once
  EXPECT_EQ(d.at(420), 2);
  EXPECT_EQ(d.at(50), 1); // known from before
  EXPECT_EQ(d.searches, 2);
}

TEST(Decisions, AnEdgeIsNoDrift) {
  Decided d;
  EXPECT_EQ(d.at(100), 1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(d.at(i % 2 ? 104 : 109), 1) << i; // to and fro over the border, within the rim
  for (int i = 1; i < Decisions::patience; ++i) EXPECT_EQ(d.at(120), 1) << i; // the next bucket, but not for long
  EXPECT_EQ(d.at(100), 1);
  for (int i = 1; i < Decisions::patience; ++i) EXPECT_EQ(d.at(120), 1) << i;
  EXPECT_EQ(d.at(120), 2); // for long
}

TEST(Decisions, AreLookedForAgainAfterManyRuns) {
  Decided d;
  for (int i = 0; i < Decisions::trust; ++i) EXPECT_EQ(d.at(100), 1);
  EXPECT_EQ(d.at(100), 2);
}

} // namespace
} // namespace tilewright
