#include "report/prediction.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tilewright {
namespace {

TEST(Prediction, MedianOfErrorsAndOrder) {
  const Prediction p = judge({10, 20, 40}, {12, 20, 60});
  EXPECT_EQ(p.kernels, 3u);
  EXPECT_NEAR(p.median_error, 1.0 / 6, 1e-12);
  EXPECT_NEAR(p.rank_correlation, 1, 1e-12);
}

TEST(Prediction, OrderTheOtherWayRound) {
  EXPECT_NEAR(judge({1, 2, 3, 4}, {4, 3, 2, 1}).rank_correlation, -1, 1e-12);
  EXPECT_NEAR(judge({1, 2, 3, 4}, {1, 1, 1, 1}).rank_correlation, 0, 1e-12);
}

// Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: covariance 4.5, variances 4.5 and 5.
TEST(Prediction, EqualValuesShareTheirRanks) {
  EXPECT_NEAR(judge({1, 2, 2, 3}, {5, 6, 7, 8}).rank_correlation, 4.5 / std::sqrt(4.5 * 5.0), 1e-12);
}

TEST(Prediction, OfNothing) { EXPECT_EQ(judge({}, {}).kernels, 0u); }

} // namespace
} // namespace tilewright
