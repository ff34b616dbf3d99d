// fold_scales and fold_scales_ahead: scales on both sides of a contraction go into its weights, and only where that is the same.
#include <gtest/gtest.h>

#include "normal/normal.h"
#include "normal/passes.h"
#include "normal/same_outputs.h"
#include "support/error.h"

namespace tilewright {
namespace {

struct Case {
  Program p;
  Values given;
};

Case known(const std::string& text, std::uint64_t seed = 1) {
  Case c{fix_sizes(parse(text, "case.tw"), {}), {}};
  testing::Random random(seed);
  c.given = testing::random_inputs(c.p, random);
  testing::make_known(c.p, c.given);
  return c;
}

std::size_t statements_after(const std::string& text) {
  const Case c = known(text);
  const Program q = normalise(c.p);
  testing::expect_same_outputs(c.p, q, c.given, 1e-5);
  return q.nodes.size();
}

const char* const head = "program p(n=2, c=5, f=4, y=6, x=6, i=3, v=9)\ninput X[n c y x] : f32\nweight W[f c], V[f c i i], D[c i], s[c], t[c], u[f], U[v c] : f32\n";

TEST(ScalesAhead, GoIntoThePointwiseWeights) {
  EXPECT_EQ(statements_after(std::string(head) + "G[n c y x] = tanh(X[n c y x])\nA[n c y x] = G[n c y x] * s[c] + t[c]\n"
                             "Y[n f y x] = sum[c] A[n c y x] * W[f c]\noutput Y\n"), 3u);   // G, the sum, and the shift behind it
  EXPECT_EQ(statements_after(std::string(head) + "G[n c y x] = tanh(X[n c y x])\nA[n c y x] = (G[n c y x] - t[c]) / (s[c] * s[c] + 1)\n"
                             "Y[n f y x] = sum[c] A[n c y x] * W[f c]\noutput Y\n"), 3u);
}

TEST(ScalesAhead, PaddingKeepsTheScaleAndNotTheShift) {
  const std::string scale = std::string(head) + "A[n c y x] = X[n c y x] * s[c]\n";
  EXPECT_EQ(statements_after(scale + "Y[n c y x] = sum[i] A[n, c, y+i-1, x else 0] * D[c i]\noutput Y\n"), 1u);
  const std::string shifted = std::string(head) + "A[n c y x] = X[n c y x] * s[c] + t[c]\n";
  EXPECT_EQ(statements_after(shifted + "Y[n c y x] = sum[i] A[n, c, y+i-1, x else 0] * D[c i]\noutput Y\n"), 2u);
}

// A scale behind what the sum's map adds goes into the weights all the same, and what is added is scaled; also where the dims have
// changed their order on the way.
TEST(Scales, BehindABiasGoIntoTheWeights) {
  const auto scaled = [](const std::string& maps, std::size_t left) {
    const Case c = known(std::string(head) + "S[n f y x] = sum[c] X[n c y x] * W[f c]\nB[n f y x] = S[n f y x] + u[f]\n" + maps + "\n");
    const Program q = fold_scales(c.p);
    testing::expect_same_outputs(c.p, q, c.given, 1e-5);
    const std::string text = print(q);
    EXPECT_EQ(text.find(" * g["), std::string::npos) << text;
    EXPECT_EQ(normalise(c.p).nodes.size(), left) << print(normalise(c.p));
  };
  const std::string g = "weight g[f] : f32\ninput R[n f y x] : f32\n";
  scaled(g + "Y[n f y x] = B[n f y x] * g[f] + R[n f y x]\noutput Y", 3u);
  scaled(g + "Y[n y x f] = g[f] * B[n, f, y, x] - 2\noutput Y", 3u);
}
TEST(Scales, BehindABiasStayWhereTheyBelong) {
  const auto same = [](const std::string& maps) {
    const Case c = known(std::string(head) + "S[n f y x] = sum[c] X[n c y x] * W[f c]\n" + maps + "\n");
    EXPECT_EQ(print(fold_scales(c.p)), print(c.p));
  };
  same("input R[n f y x] : f32\nB[n f y x] = S[n f y x] + R[n f y x]\nY[n f y x] = B[n f y x] * u[f]\noutput Y");   // what is added is not known
  same("B[n f y x] = S[n f y x] + u[f]\nY[n f y x] = B[n f y x] * u[f]\noutput Y, B");                              // B is needed all the same
  same("B[n f y x] = S[n f y x] + u[f]\nY[n f y x] = tanh(B[n f y x]) * u[f]\noutput Y");                           // not linear
  same("weight h[x] : f32\nB[n f y x] = S[n f y x] + u[f]\nY[n f y x] = B[n f y x] * h[x]\noutput Y");            // no axis of the weights
}

// What would not be the same, or gains nothing.
TEST(ScalesAhead, StayWhereTheyBelong) {
  const auto same = [](const std::string& map, const std::string& sum, const std::string& outputs = "Y") {
    Case c = known(std::string(head) + map + "\n" + sum + "\noutput " + outputs + "\n");
    const Program q = fold_scales_ahead(c.p);
    EXPECT_EQ(print(q), print(c.p));
  };
  const std::string pointwise = "Y[n f y x] = sum[c] A[n c y x] * W[f c]";
  same("A[n c y x] = tanh(X[n c y x] * s[c])", pointwise);                                   // not linear
  same("A[n c y x] = X[n c y x] * s[c]", pointwise, "Y, A");                                 // A is needed all the same
  same("A[n c y x] = X[n c y x] * s[c]\nB[n c y x] = A[n c y x] + 1", pointwise, "Y, B");
  same("A[n c y x] = X[n c y x] + t[c]", pointwise);                                         // no scale
  same("A[n c y x] = X[n c y x] / 49", pointwise);                                           // one number: nothing is saved
  same("A[n c y x] = X[n c y x] * s[c] where index(y) > 1", pointwise);                      // 0 where the guard fails
  same("A[n c y x] = X[n c y x] * s[c]", "Y[n c y x] = sum[i] A[n, c, y+i-1, x else 1] * D[c i]");
  same("A[n c y x] = X[n, c, y+1, x else 3] * s[c]", "Y[n c y x] = sum[i] A[n, c, y+i-1, x else 0] * D[c i]");   // another edge
  same("A[n c y x] = X[n c y x] * s[c]", "Y[n v y x] = sum[c] A[n c y x] * U[v, size(c)-1-c]");   // not along the weights
  same("A[n c y x] : f16 = X[n c y x] * s[c]", pointwise);                                   // A rounds
}

TEST(Scales, StayWhereTheyBelong) {
  const auto same = [](const std::string& text) {
    const Case c = known(std::string(head) + text);
    testing::expect_same_outputs(c.p, fold_scales(c.p), c.given, 1e-5);
  };
  same("Y[n f y x] = sum[c] X[n c y x] * W[f c]\nZ[n f y x] = Y[n, f, y+1, x else 5] * 2\noutput Z\n");        // 5 is not scaled
  same("Y[n i y x] = sum[c] X[n c y x] * W[i c]\nZ[n i y x] = Y[n i y x] * u[i]\noutput Z\n");                  // W has a row more
  same("Y[n f y x] = sum[c] X[n c y x] * W[f c]\nZ[n y x] = Y[n, 1, y, x] * u[3]\noutput Z\n");
  same("Y[f i] = sum[c] W[f c] * W[i c]\nZ[f i] = Y[f i] * u[f]\noutput Z\n");                                  // both factors
}

TEST(ScalesAhead, EqualTheEvaluator) {
  int changed = 0;
  const auto all = testing::seeds(400);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    const auto pick = [&](std::vector<std::string> from) { return from[random() % from.size()]; };
    const std::string map = pick({"X[n c y x]", "tanh(X[n c y x])", "X[n, c, x, y]", "X[n, c, y-1, x else 2]", "max(X[n c y x], 0)"});
    std::string linear = "G[n c y x]";
    for (int k = static_cast<int>(random() % 4); k >= 0; --k)
      linear = pick({"(" + linear + " * s[c])", "(" + linear + " + t[c])", "(" + linear + " / (s[c] * s[c] + 1))", "(t[c] - " + linear + ")",
                     "(" + linear + " * -0.5)", "-" + linear, "(" + linear + " * s[index(x) % 5])"});
    const std::string sum = pick({"Y[n f y x] = sum[c] A[n c y x] * W[f c]", "Y[n f y x] = sum[c] W[f c] * A[n c x y]",
                                  "Y[n c y x] = sum[i] A[n, c, y+i-1, x else 0] * D[c i]", "Y[n c x] = sum[i] A[n, c, 2*i, x] * D[c i]",
                                  "Y[n f x] = sum[c i] A[n, c, i+1, x] * V[f, c, i, 0]", "Y[n v y x] = sum[c] A[n c y x] * U[v c]"});
    const std::string text = std::string(head) + "G[n c y x] = " + map + "\nA[n c y x] = " + linear + "\n" + sum + "\noutput Y\n";
    Case c;
    try {
      c = known(text, seed);
    } catch (const Error&) {
      continue;                                                                              // an index out of bounds
    }
    const Program q = fold_scales_ahead(c.p);
    changed += print(q) != print(c.p);
    testing::expect_same_outputs(c.p, q, c.given, 1e-5);
    testing::expect_same_outputs(c.p, normalise(c.p), c.given, 1e-5);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_TRUE(all.size() == 1 || changed > static_cast<int>(all.size()) / 5) << changed;
}

}  // namespace
}  // namespace tilewright
