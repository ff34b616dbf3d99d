// Streams of few rows on a CPU: shared out by their elements where there are fewer rows than threads, and only there.
#include "plan/in_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expr/text.h"
#include "machine/host.h"
#include "plan/fuse.h"

namespace tilewright {
namespace {

std::string decode(int heads, int keys) {
  return fmt::format("program decode(h={}, x={}, d=64)\ninput Q[h d], K[h x d], V[h x d] : f32\nS[h x] = sum[d] Q[h d] * K[h x d] / 8\nP[h x] = softmax[x] S[h x]\n"
                     "O[h d] = sum[x] P[h x] * V[h x d]\noutput O\n", heads, keys);
}

// Tiles of the kernel that streams the keys.
std::int64_t tiles(int heads, int keys, int threads) {
  PlanOptions o{threads, "avx512", 16, 32, 14};
  const Plan plan = make_plan(std::make_shared<Program>(fix_sizes(parse(decode(heads, keys), "case.tw"), {})), machine_named("generic-avx512"), o);
  std::int64_t most = 0, moved = 0;
  for (const PlannedKernel& k : plan.kernels) {
    if (k.cost.loaded > moved) moved = k.cost.loaded, most = k.cost.tiles;
    const bool streams = std::any_of(k.schedule.steps.begin(), k.schedule.steps.end(), [](const AxisStep& s) { return s.how == AxisStep::How::stream; });
    EXPECT_TRUE(!streams || k.cost.loaded <= k.cost.compulsory * 11 / 10) << heads << " heads: keys are read once";
  }
  return most;
}

TEST(InParts, OneRowIsSharedByItsKeys) {
  EXPECT_GE(tiles(1, 65536, 2), 2);
  EXPECT_GE(tiles(1, 65536, 4), 4);
  EXPECT_GE(tiles(2, 32768, 4), 4);
}

TEST(InParts, RowsAreSharedFirst) {
  const Machine m = machine_named("generic-avx512");
  EXPECT_TRUE(in_parts(fix_sizes(parse(decode(1, 65536), "case.tw"), {}), m, 2).has_value());
  EXPECT_FALSE(in_parts(fix_sizes(parse(decode(8, 8192), "case.tw"), {}), m, 2).has_value());
  EXPECT_FALSE(in_parts(fix_sizes(parse(decode(1, 65536), "case.tw"), {}), m, 1).has_value());
  EXPECT_GE(tiles(8, 8192, 2), 2);
}

}  // namespace
}  // namespace tilewright
