#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expr/text.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

std::size_t kernels(const Grouping& g) {
  return static_cast<std::size_t>(std::count_if(g.groups.begin(), g.groups.end(), [](const auto& group) { return !group.empty(); }));
}

const char* convolution =
    "program conv(n=2, c=16, f=32, h=20, w=20, y=20, x=20, i=3, j=3)\ninput X[n c h w], R[n f y x] : f32\n"
    "weight W[f c i j], b[f] : f32\n"
    "Y[n f y x] = sum[c i j] X[n, c, y+i-1, x+j-1 else 0] * W[f c i j]\nB[n f y x] = Y[n f y x] + b[f]\n"
    "A[n f y x] = B[n f y x] + R[n f y x]\nZ[n f y x] = max(A[n f y x], 0)\noutput Z\n";

TEST(FoldMaps, MapsGoIntoTheReductionBeforeThem) { EXPECT_EQ(kernels(fold_maps(program(convolution))), 1u); }

TEST(FoldMaps, TwoKernelsThatWaitForEachOtherStayApart) {
  // D would join A's kernel, but needs C, which needs A.
  const Program p = program("program p(q=4, k=3)\ninput X[q k], Y[q k] : f32\nA[q] = sum[k] X[q k]\nB[q] = sum[k] Y[q k] + A[q]\n"
                            "D[q] = A[q] * B[q]\noutput D\n");
  const Grouping g = fold_maps(p);
  const Plan plan = plan_groups(std::make_shared<Program>(p), machine_named("generic-avx2"), {1, "base", 1, 1, 1}, g);
  EXPECT_EQ(plan.kernels.size(), kernels(g));
  EXPECT_EQ(kernels(g), 2u);
}

TEST(FoldMaps, AMapWithMoreAxesSaysWhyNot) {
  const Grouping g = fold_maps(program("program p(q=4, k=3)\ninput X[q k] : f32\nM[q] = max[k] X[q k]\nE[q k] = X[q k] - M[q]\noutput E\n"));
  ASSERT_EQ(kernels(g), 2u);
  ASSERT_EQ(g.refusals[1].size(), 1u);
  EXPECT_NE(g.refusals[1][0].find("reads M at other points"), std::string::npos) << g.refusals[1][0];
}

TEST(Layouts, FiltersLieInnermostBetweenKernels) {
  const Program p = program("program p(c=8, f=16, y=6, x=6, g=4)\ninput X[c y x] : f32\nweight W[f c], V[g f] : f32\n"
                            "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[g y x] = sum[f] Y[f y x] * V[g f]\noutput Z\n");
  const auto layouts = choose_layouts(p);
  const TensorId y = p.statement(0)->out, z = p.statement(1)->out;
  EXPECT_EQ(layouts[static_cast<std::size_t>(y)], (DimOrder{1, 2, 0}));
  EXPECT_EQ(layouts[static_cast<std::size_t>(z)], row_major(3));     // an output keeps the caller's layout
}

TEST(Plan, IsAPureFunction) {
  const auto p = std::make_shared<Program>(program(convolution));
  const PlanOptions o{2, "avx2", 6, 16, 8};
  const Plan a = make_plan(p, machine_named("generic-avx2"), o), b = make_plan(p, machine_named("generic-avx2"), o);
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (std::size_t k = 0; k < a.kernels.size(); ++k) EXPECT_EQ(text(*a.kernels[k].region, a.kernels[k].schedule), text(*b.kernels[k].region, b.kernels[k].schedule));
}

TEST(Plan, CutsTheWorkForEveryThread) {
  const auto p = std::make_shared<Program>(program(convolution));
  for (int threads : {1, 2, 3, 4}) {
    const Plan plan = make_plan(p, machine_named("generic-avx2"), {threads, "avx2", 6, 16, 8});
    EXPECT_GE(plan.kernels[0].cost.tiles, threads);
  }
}

}  // namespace
}  // namespace tilewright
