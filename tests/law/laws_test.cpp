#include <gtest/gtest.h>

#include <algorithm>

#include "expr/text.h"
#include "law/region.h"
#include "normal/normal.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

Program depthwise() {
  return program("program dw(n=2, c=8, y=5, x=6, h=11, w=13, i=3, j=3)\ninput X[n c h w], W[c i j], b[c] : f32\n"
                 "Y[n c y x] = sum[i j] X[n, c, 2*y+i-1, 2*x+j-1 else 0] * W[c i j]\n"
                 "Z[n c y x] = max(Y[n c y x] + b[c], 0)\noutput Z\n");
}

TEST(Roles, OfADepthwiseConvolution) {
  const auto r = roles(depthwise(), 0);   // axes n c y x i j
  ASSERT_EQ(r.size(), 6u);
  EXPECT_TRUE(r[0].plain && !r[0].windowed && r[0].reducer == Reducer::none);
  EXPECT_TRUE(r[1].plain);
  EXPECT_TRUE(r[2].windowed && !r[2].plain);
  EXPECT_TRUE(r[4].windowed && r[4].reducer == Reducer::sum);
}

TEST(Roles, DigitsOfOneIndexAreNoWindow) {
  const auto r = roles(program("program p(h=4, d=8, hd=32)\ninput X[hd] : f32\nY[h d] = X[size(d)*h+d]\noutput Y\n"), 0);
  EXPECT_FALSE(r[0].windowed || r[1].windowed);
  EXPECT_FALSE(r[0].plain);
}

TEST(Roles, AGatheredAxisIsIndirect) {
  const auto r = roles(program("program p(t=4, v=9, d=3)\ninput E[v d] : f32\ninput id[t] : index(v)\nY[t d] = E[id[t], d]\noutput Y\n"), 0);
  EXPECT_TRUE(r[0].indirect);
  EXPECT_FALSE(r[1].indirect);
}

TEST(Region, UnifiesAReductionWithItsMap) {
  const Program p = depthwise();
  const auto r = unify(p, {0, 1});
  ASSERT_TRUE(r) << r.reason();
  EXPECT_EQ(r->axes.size(), 6u);          // n c y x, and i j of the sum
  const Boundary b = boundary(p, *r);
  EXPECT_EQ(b.inner.size(), 1u);
  EXPECT_EQ(b.outputs.size(), 1u);
  EXPECT_EQ(b.inputs.size(), 3u);
}

TEST(Region, RefusesTwoMaps) {
  const Program p = program("program p(q=4, d=3)\ninput X[q d] : f32\nT[q d] = X[q d] * 2\nS[q] = sum[d] T[q d] * T[d, d]\noutput S\n");
  const auto r = unify(p, {0, 1});
  ASSERT_FALSE(r);
  EXPECT_NE(r.reason().find("read through two maps"), std::string::npos) << r.reason();
}

TEST(Region, RefusesWhatIsNotConvex) {
  const Program p = program("program p(q=4)\ninput X[q] : f32\nA[q] = X[q] * 2\nB[q] = A[q] + 1\nC[q] = A[q] + B[q]\noutput C\n");
  const auto r = unify(p, {0, 2});
  ASSERT_FALSE(r);
  EXPECT_NE(r.reason().find("not convex"), std::string::npos) << r.reason();
}

TEST(Laws, SayWhyNot) {
  const Program p = depthwise();
  const auto r = unify(p, {0, 1});
  ASSERT_TRUE(r);
  auto axis = [&](const std::string& name) {
    return static_cast<RegionAxis>(std::find(r->names.begin(), r->names.end(), name) - r->names.begin());
  };
  const Laws c = laws(p, *r, axis("c")), y = laws(p, *r, axis("y")), i = laws(p, *r, axis("i"));
  EXPECT_TRUE(c.tile && c.permute && c.bucket);
  EXPECT_FALSE(c.split || c.stream || c.walk);
  EXPECT_TRUE(y.tile && y.walk);
  EXPECT_EQ(y.permute.reason(), "y is not plain: it slides in a window");
  EXPECT_TRUE(i.split && i.stream);
  EXPECT_EQ(i.tile.reason(), "i is reduced with sum: tiles hold partial results (split it)");
}

TEST(Contraction, SortsItsAxes) {
  const Program p = program("program p(b=2, m=3, n=5, k=7)\ninput A[b m k], B[b k n] : f32\nC[b m n] = sum[k] A[b m k] * B[b k n]\noutput C\n");
  const auto c = contraction(p, *p.statement(0));
  ASSERT_TRUE(c) << c.reason();
  EXPECT_EQ(c->batch, (std::vector<AxisId>{0}));
  EXPECT_EQ(c->m, (std::vector<AxisId>{1}));
  EXPECT_EQ(c->n, (std::vector<AxisId>{2}));
  EXPECT_EQ(c->k, (std::vector<AxisId>{3}));
}

TEST(Contraction, ScalesDoNotHideIt) {
  for (const char* body : {"Q[h x d] * K[h y d] / sqrt(64)", "Q[h x d] * K[h y d] * 0.125", "Q[h x d] * 0.125 * K[h y d]",
                           "0.125 * (Q[h x d] * K[h y d])", "Q[h x d] * K[h y d] * s[h]", "-(Q[h x d] / s[h] * K[h y d])"}) {
    const Program p = normalise(program("program p(h=2, x=3, y=5, d=64)\ninput Q[h x d], K[h y d], s[h] : f32\nS[h x y] = sum[d] " +
                                        std::string(body) + "\noutput S\n"));
    ASSERT_EQ(p.nodes.size(), 2u) << print(p);
    EXPECT_TRUE(contraction(p, *p.statement(0))) << print(p);
  }
}

TEST(Contraction, ADepthwiseConvolutionIsAWindow) {
  const Program p = depthwise();
  const auto c = contraction(p, *p.statement(0));
  EXPECT_FALSE(c);
  EXPECT_NE(c.reason().find("nothing is used twice"), std::string::npos) << c.reason();
  const auto w = window(p, *p.statement(0));
  ASSERT_TRUE(w) << w.reason();
  EXPECT_EQ(w->lanes, (std::vector<AxisId>{1}));
  EXPECT_EQ(w->taps, (std::vector<AxisId>{4, 5}));
}

}  // namespace
}  // namespace tilewright
