// turn_ends: inputs and results of windows that would slide along what lies contiguously are turned, and nothing else is.
#include <gtest/gtest.h>

#include "normal/same_outputs.h"
#include "plan/ends.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

struct Case {
  Program p;
  Values given;
};

Case known(const std::string& text) {
  Case c{fix_sizes(parse("program p(n=2, c=16, f=5, y=9, x=7, i=3)\ninput X[n c y x] : f32\nweight W[c i], b[c] : f32\n" + text, "case.tw"), {}), {}};
  testing::Random random(1);
  c.given = testing::random_inputs(c.p, random);
  testing::make_known(c.p, c.given);
  return c;
}

const char* const window_along = "Y[n c y x] = sum[i] X[n, c, y, x+i-1 else 0] * W[c i]\n";

PlanOptions options() { return {2, "avx2", 6, 16, 8}; }

TEST(Ends, OfAWindowThatSlidesAlongThemAreTurned) {
  const Case c = known(std::string(window_along) + "Z[n c y x] = max(Y[n c y x] + b[c], 0)\noutput Z\n");
  const auto q = turn_ends(c.p);
  ASSERT_TRUE(q.has_value());
  EXPECT_EQ(q->nodes.size(), c.p.nodes.size() + 2);
  testing::expect_same_outputs(c.p, *q, c.given, 0);
  // Channels are innermost in what lies between the ends.
  const auto layouts = choose_layouts(*q);
  int last = 0;
  for (std::size_t t = 0; t < q->tensors.size(); ++t) {
    if (q->tensors[t].kind != Kind::intermediate || q->is_result(static_cast<TensorId>(t))) continue;
    EXPECT_EQ(layouts[t].back(), 1) << q->tensors[t].name;
    ++last;
  }
  EXPECT_EQ(last, 3);
  // The result is no ending of the window, which could not be one of vectors then.
  const Grouping g = fold_maps(*q);
  EXPECT_EQ(g.groups.size(), 3u);
  bool said = false;
  for (const auto& list : g.refusals)
    for (const std::string& why : list) said |= why.find("lies along an axis in which") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(Ends, AreTurnedByTimeOnly) {
  const Case c = known(std::string(window_along) + "output Y\n");
  PlanOptions by_time = options(), by_bytes = options();
  by_bytes.objective = Objective::bytes;
  const auto p = std::make_shared<Program>(c.p);
  EXPECT_EQ(make_plan(p, machine_named("generic-avx2"), by_time).program->nodes.size(), 3u);
  EXPECT_EQ(make_plan(p, machine_named("generic-avx2"), by_bytes).program->nodes.size(), 1u);
  EXPECT_EQ(make_plan(p, machine_named("h200"), by_time).program->nodes.size(), 1u);
}

TEST(Ends, OfOthersStay) {
  const auto stays = [](const std::string& text) { EXPECT_FALSE(turn_ends(known(text).p).has_value()) << text; };
  stays("weight V[f c] : f32\nY[n f y x] = sum[c] X[n c y x] * V[f c]\noutput Y\n");                          // no window
  stays("input T[n x y c] : f32\nY[n x y c] = sum[i] T[n, x+i-1, y, c else 0] * W[c i]\noutput Y\n");                                 // slides along another dim
  stays("input S[y x] : f32\nweight v[i] : f32\nY[y x] = sum[i] S[y, x+i-1 else 0] * v[i]\noutput Y\n");      // no other axis of eight
  // What others have made lies as it is best.
  stays("A[n c y x] = tanh(X[n c y x])\nY[n c y x] = sum[i] A[n, c, y, x+i-1 else 0] * W[c i]\nT[n c] = sum[y x] Y[n c y x]\noutput T\n");
}

} // namespace
} // namespace tilewright
