// Nests as text, reviewed as diffs.
#include "loop/nest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "expr/text.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

void golden(const std::string& name, const std::string& got) {
  const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/golden/loop/" + name;
  if (std::getenv("TILEWRIGHT_UPDATE_GOLDEN")) std::ofstream(path) << got;
  std::ifstream in(path);
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(got, want.str()) << "TILEWRIGHT_UPDATE_GOLDEN=1 writes " << path;
}

TEST(Nest, OfAPlannedConvolution) {
  const auto p = std::make_shared<Program>(fix_sizes(parse("program conv(n=2, c=16, f=32, h=20, w=20, y=20, x=20, i=3, j=3)\n"
                                                          "input X[n c h w], R[n f y x] : f32\nweight W[f c i j], b[f] : f32\n"
                                                          "Y[n f y x] = sum[c i j] X[n, c, y+i-1, x+j-1 else 0] * W[f c i j]\n"
                                                          "Z[n f y x] = max(Y[n f y x] + b[f] + R[n f y x], 0)\noutput Z\n", "conv.tw"), {}));
  const Plan plan = make_plan(p, machine_named("generic-avx2"), {2, "avx2", 6, 16, 8});
  std::string got;
  for (const PlannedKernel& k : plan.kernels) got += print(*p, *k.region, k.schedule, expand(*p, *k.region, k.schedule, k.name));
  golden("convolution.txt", got);
}

TEST(Nest, OfAStreamedContraction) {
  const Program p = fix_sizes(parse("program mm(m=64, n=48, k=100)\ninput A[m k], B[k n], b[n] : f16\n"
                                    "C[m n] : f32 = sum[k] A[m k] * B[k n]\nD[m n] : f16 = C[m n] + b[n]\noutput D\n", "mm.tw"), {});
  const auto r = unify(p, {0, 1});
  ASSERT_TRUE(r) << r.reason();
  Schedule s;
  s.steps = {{AxisStep::How::tile, 0, 32}, {AxisStep::How::tile, 1, 32}, {AxisStep::How::stream, 2, 64}};
  golden("streamed.txt", print(p, *r, s, expand(p, *r, s, "D")));
}

}  // namespace
}  // namespace tilewright
