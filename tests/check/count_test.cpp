// cost == count: what the model says a schedule moves is what the expanded nest moves, to the byte, tensor by tensor.
#include "check/count.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cost/cost.h"
#include "expr/random_program.h"
#include "expr/text.h"
#include "loop/nest.h"
#include "plan/fuse.h"

namespace tilewright {
namespace {

void expect_equal(const Program& p, const Region& r, const Schedule& s, const Machine& m, bool points) {
  const Nest nest = expand(p, r, s, "k");
  Counted counted;
  try {
    counted = count(p, nest, points);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\n" << print(p, r, s, nest);
  }
  const Cost c = cost(p, r, s, m);
  std::map<TensorId, std::int64_t> loaded, stored;
  for (const Moved& moved : c.moved) (moved.store ? stored : loaded)[moved.tensor] += moved.bytes;
  EXPECT_EQ(loaded, counted.loaded) << print(p, r, s, nest);
  EXPECT_EQ(stored, counted.stored) << print(p, r, s, nest);
}

TEST(Count, EqualsCostOnRandomSchedules) {
  const Machine m = machine_named("generic-avx2");
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 4000 : 500;
  int regions = 0, fused = 0;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    testing::Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    Grouping g = fold_maps(p);
    if (seed % 2) fused += testing::fuse(p, g, random);
    for (const auto& group : g.groups) {
      if (group.empty()) continue;
      const auto r = unify(p, group);
      ASSERT_TRUE(r) << r.reason();
      expect_equal(p, *r, testing::random_schedule(p, *r, random), m, true);
      ++regions;
    }
    if (HasFailure()) ADD_FAILURE() << "seed " << seed << "\n" << print(p);
  }
  RecordProperty("regions", regions);
  std::printf("%llu programs, %d regions, %d joins\n", static_cast<unsigned long long>(cases), regions, fused);
  EXPECT_GT(fused, static_cast<int>(cases) / 10);
}

// Pointwise and depthwise layers and their tiles from the table of worked numbers (spec fcm 4, model E), in elements.
std::int64_t elements(const std::string& text, const std::vector<std::pair<std::string, std::int64_t>>& tiles) {
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  const auto r = unify(p, {0});
  EXPECT_TRUE(r);
  Schedule s;
  for (const auto& [name, size] : tiles)
    for (std::size_t a = 0; a < r->axes.size(); ++a)
      if (r->names[a] == name) s.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), size});
  expect_equal(p, *r, s, machine_named("generic-avx2"), false);
  const Cost c = cost(p, *r, s, machine_named("generic-avx2"));
  return (c.loaded + c.stored) / 4;
}

TEST(Count, WorkedNumbersOfLayers) {
  // T1: pointwise 64 -> 128 on 56 x 56.
  EXPECT_EQ(elements("program t1(c=64, f=128, y=56, x=56)\ninput X[c y x], W[f c] : f32\n"
                     "Y[f y x] = sum[c] X[c y x] * W[f c]\noutput Y\n", {{"f", 32}, {"y", 14}, {"x", 28}}), 1269760);
  // T2: depthwise 128 channels, 56 x 56, 3x3, stride 1, pad 1; weights are sent again to each spatial tile.
  EXPECT_EQ(elements("program t2(c=128, y=56, x=56, i=3, j=3)\ninput X[c y x], W[c i j] : f32\n"
                     "Y[c y x] = sum[i j] X[c, y+i-1, x+j-1 else 0] * W[c i j]\noutput Y\n", {{"y", 28}, {"x", 28}}), 836608);
  // T3: depthwise 64 channels, 112 -> 56, stride 2, pads 0 0 1 1.
  EXPECT_EQ(elements("program t3(c=64, h=112, y=56, x=56, i=3, j=3)\ninput X[c h h], W[c i j] : f32\n"
                     "Y[c y x] = sum[i j] X[c, 2*y+i, 2*x+j else 0] * W[c i j]\noutput Y\n", {{"y", 14}, {"x", 28}}), 1036992);
  // T12: a pointwise convolution of stride 2 reads the sampled pixels only.
  EXPECT_EQ(elements("program t12(c=256, f=728, h=28, y=14, x=14)\ninput X[c h h], W[f c] : f32\n"
                     "Y[f y x] = sum[c] X[c, 2*y, 2*x] * W[f c]\noutput Y\n", {{"f", 56}, {"y", 7}, {"x", 14}}), 1167712);
}

}  // namespace
}  // namespace tilewright
