// Threads of spec fcm 6 that are about size and time, not values (those: tests/onnx/backend/threads.py): elements
// beyond 2^31, depthwise convolutions slower than dense ones, and fast for some shapes only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "check/count.h"
#include "expr/text.h"
#include "loop/nest.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

std::string convolution(bool depthwise, int n, int c, int y, int x, int k, const char* type = "f32", int dilation = 1) {
  const std::string sizes = fmt::format("program t(n={}, c={}, f={}, y={}, x={}, i={}, j={})\ninput X[n c y x] : {}\n",
                                        n, c, c, y, x, k, k, type);
  const std::string at = fmt::format("{0}*i+y-{1}, {0}*j+x-{1} else 0", dilation, dilation * (k / 2));
  return sizes +
         (depthwise
              ? fmt::format("weight W[c i j] : {0}\nY[n c y x] : {0} = sum[i j] X[n, c, {1}] * W[c i j]\n", type, at)
              : fmt::format("weight W[f c i j] : {0}\nY[n f y x] : {0} = sum[c i j] X[n, c, {1}] * W[f c i j]\n", type,
                            at)) +
         "output Y\n";
}

Plan planned(const std::string& text, const char* machine = "generic-avx2") {
  const auto p = std::make_shared<Program>(fix_sizes(parse(text, "case.tw"), {}));
  PlanOptions o{2, "avx2", 6, 16, 8};
  return make_plan(p, machine_named(machine), o);
}

// 15, 17: sizes in elements and bytes are beyond 32 bits.
TEST(Threads, MoreElementsThan31Bits) {
  for (const std::string& text :
       {convolution(true, 33, 64, 1024, 1024, 3), convolution(true, 1, 514, 2048, 2048, 3, "f16")}) {
    const Plan plan = planned(text);
    ASSERT_EQ(plan.kernels.size(), 1u);
    const PlannedKernel& k = plan.kernels[0];
    const Tensor& x = plan.program->tensor(plan.program->inputs[0]);
    std::int64_t elements = 1;
    for (const Size& d : x.dims) elements *= d.constant();
    ASSERT_GT(elements, std::int64_t{1} << 31);
    const auto width = static_cast<std::int64_t>(bytes_of(x.dtype));
    EXPECT_EQ(k.cost.stored, elements * width);
    EXPECT_GE(k.cost.loaded, elements * width);
    EXPECT_LE(k.cost.loaded, elements * width * 2);
    EXPECT_EQ(k.cost.multiply_adds, elements * 9);
    EXPECT_EQ(count(*plan.program, expand(*plan.program, *k.region, k.schedule, k.name), false).total(),
              k.cost.loaded + k.cost.stored);
  }
}

// 18: of equal shapes a depthwise convolution is faster than a dense one.
TEST(Threads, DepthwiseIsFasterThanDense) {
  for (const char* machine : {"h200", "gtx1660"})
    for (const auto& [n, c, side] : {std::tuple{2, 32, 512}, {1, 96, 112}, {1, 384, 14}}) {
      const double depthwise = planned(convolution(true, n, c, side, side, 3), machine).kernels[0].cost.seconds,
                   dense = planned(convolution(false, n, c, side, side, 3), machine).kernels[0].cost.seconds;
      EXPECT_LT(depthwise, dense) << machine << ", " << c << " channels";
    }
}

double seconds_of(const Plan& plan) {
  double sum = 0;
  for (const PlannedKernel& k : plan.kernels) sum += k.cost.seconds;
  return sum;
}

// 19, 20, 42: time follows the work for any kernel, dilation and type; no shape falls off a table of good ones.
TEST(Threads, TimeFollowsTheTaps) {
  for (const char* type : {"f32", "f16", "bf16"})
    for (int dilation : {1, 2}) {
      const double five = seconds_of(planned(convolution(true, 1, 384, 28, 28, 5, type)));
      for (int k : {3, 4, 7, 9, 13, 31}) {
        const double seconds = seconds_of(planned(convolution(true, 1, 384, 28, 28, k, type, dilation)));
        EXPECT_LT(seconds, five * std::max(1.0, 1.5 * k * k / 25))
            << type << ", " << k << " taps, dilation " << dilation;
        EXPECT_TRUE(k < 5 || seconds > five) << k << " taps";
      }
    }
}

} // namespace
} // namespace tilewright
