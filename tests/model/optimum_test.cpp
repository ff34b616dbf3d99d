// Closed forms, geometric programs and the lattice: the worked numbers of the two-level models, and brute force on
// small cases.
#include "model/optimum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "check/count.h"
#include "cost/cost.h"
#include "expr/text.h"
#include "law/cascades.h"
#include "law/stream_forms.h"
#include "loop/nest.h"
#include "model/columns.h"
#include "model/flow.h"
#include "model/levels.h"
#include "model/live.h"
#include "model_cases.h"
#include "normal/normal.h"

namespace tilewright {
namespace {

using How = AxisStep::How;

TEST(Formula, PrintsAndEvaluates) {
  const Formula q = Formula::symbol("q"), d = Formula::symbol("d"), x = Formula::symbol("x"),
                g = Formula::symbol("g_q");
  const Formula h = 2 * q * d + 2 * x * q * d / g;
  EXPECT_EQ(h.text(), "2*d*q + 2*d*q*x/g_q");
  EXPECT_EQ(h.at({{"q", 8192}, {"x", 8192}, {"d", 128}, {"g_q", 128}}), 136314880 - 0.0);
  EXPECT_EQ((h - h).text(), "0");
  EXPECT_EQ((h * g / q).text(), "2*d*g_q + 2*d*x");
  EXPECT_EQ(power(4 * q * d * d, 0.5).text(), "2*d*q^(1/2)");
}

TEST(ClosedForm, OfAMatmul) {
  const Case c = case_of(
      "program mm(a=4096, b=4096, c=4096)\ninput A[a b], B[b c] : f32\nC[a c] = sum[b] A[a b] * B[b c]\noutput C\n",
      {{"a", 128}, {"c", 128}}, {{"b", 32}});
  const Flow f = flow(c.p, c.r, c.s);
  EXPECT_EQ(f.run(Count::values).text(), "a*c + a*b*c/g_a + a*b*c/g_c");
  EXPECT_EQ(f.run(Count::values).at(f.point), 1090519040); // napkin 14.3
  EXPECT_EQ(f.operands(Count::values).at(f.point), 24576);
  const auto best = c.closed();
  ASSERT_TRUE(best) << best.reason();
  ASSERT_EQ(best->regimes.size(), 2u); // both tiles reach their axes together
  EXPECT_EQ(best->regimes[0].moved.text(), "a*c + 2*a*b*c*M^(-1/2)");
  EXPECT_EQ(best->regimes[0].sizes[0].second.text(), "M^(1/2)");
  EXPECT_NEAR(best->at(24576).moved.with(f.point).at({{"M", 24576}}), 893483744, 1); // napkin 14.3
  EXPECT_NEAR(best->at(65536).moved.with(f.point).at({{"M", 65536}}), 553648128, 1);
  EXPECT_NEAR(best->at(1e12).moved.with(f.point).at({{"M", 1e12}}), 50331648, 1);
  EXPECT_EQ(f.flops.text(), "2*a*b*c");
}

TEST(ClosedForm, OfAStreamedAttention) {
  const Case c = case_of(attention, {{"q", 128}}, {{"x", 64}}, {{"q", 8192}, {"x", 8192}, {"d", 128}});
  const Flow f = flow(c.p, c.r, c.s);
  EXPECT_EQ(f.run(Count::values).text(), "2*d*q + 2*d*q*x/g_q");
  EXPECT_EQ(f.tile(Count::values).text(), "2*d*g_q + 2*d*x");
  EXPECT_EQ(f.operands(Count::values).text(), "2*d*g_q + 2*d*s_x");
  EXPECT_EQ(f.flops.text(), "4*d*q*x");
  EXPECT_EQ(c.exact(), 136314880); // napkin 14.6
  EXPECT_EQ(f.run(Count::values).at(f.point), 136314880);
  const Nest n = expand(c.p, c.r, c.s, "k");
  const Columns early = columns(c.p, c.r, c.s, n), late = columns(c.p, c.r, c.s, n, true);
  EXPECT_EQ(early.peak(Count::values).text(), "2*d*g_q + 2*d*s_x + g_q*s_x + 2*g_q"); // napkin 11.1, both resident
  EXPECT_EQ(late.peak(Count::values).text(), "2*d*g_q + d*s_x + g_q*s_x + 2*g_q");    // one slot for K and V
  EXPECT_EQ(early.peak(Count::values).at(early.point) - 2 * 128, 57344); // napkin 14.6, with the score tile
  const auto best = c.closed();
  ASSERT_TRUE(best) << best.reason();
  EXPECT_EQ(best->regimes[0].moved.text(), "2*d*q + 4*d^2*q*x*M^-1");
  EXPECT_EQ(best->regimes[0].sizes[0].second.text(), "0.5*M/d");
  EXPECT_NEAR(moved_at(*best, f.point, 65536), 69206016, 1e-3); // napkin 14.7
  EXPECT_EQ(best->regimes.back().moved.text(), "2*d*q + 2*d*x");
  for (const auto& [chunk, tile] : {std::pair{0.0, 256.0}, std::pair{16.0, 240.0}, std::pair{64.0, 192.0}}) {
    Point axes = f.point;
    axes.erase("g_q"), axes["s_x"] = chunk == 0 ? 1e-9 : chunk;
    const auto smooth = geometric_program(f.run(Count::values), f.operands(Count::values), 65536, c.tiles(), axes);
    ASSERT_TRUE(smooth) << smooth.reason();
    EXPECT_NEAR(smooth->sizes.at("g_q"), tile, 1e-3 * tile);
  }
}

TEST(Numbers, UnfusedAndGrouped) {
  // 14.1: no partition.
  const Case one = case_of("program p(q=1024, x=1024, d=64)\ninput S[q x], V[x d] : f32\nP[q x] = softmax[x] S[q "
                           "x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n",
                           {}, {{"x", 1024}});
  EXPECT_EQ(one.exact(), 1179648);
  const Flow whole = flow(one.p, one.r, {});
  EXPECT_EQ(whole.run(Count::values).text(), "d*q + d*x + q*x");
  // 14.2: two grouped axes, even and ragged.
  const char* pairs = "program p(a, b, x)\ninput L[a x], R[b x] : f32\nY[a b] = sum[x] L[a x] * R[b x]\noutput Y\n";
  const Cuts cuts = {{"a", 64}, {"b", 32}};
  EXPECT_EQ(case_of(pairs, cuts, {}, {{"a", 1024}, {"b", 512}, {"x", 256}}).exact(), 6815744);
  EXPECT_EQ(case_of(pairs, cuts, {}, {{"a", 1000}, {"b", 500}, {"x", 256}}).exact(), 6644000);
  const Case even = case_of(pairs, cuts, {}, {{"a", 1024}, {"b", 512}, {"x", 256}});
  EXPECT_EQ(flow(even.p, even.r, even.s).run(Count::values).text(), "a*b + a*b*x/g_a + a*b*x/g_b");
  // 14.5: counted tile by tile.
  const Case mm = case_of(matmul, {{"a", 128}, {"c", 64}}, {{"b", 32}}, {{"a", 512}, {"b", 512}, {"c", 512}});
  EXPECT_EQ(mm.exact(), 3407872);
  EXPECT_EQ(count(mm.p, expand(mm.p, mm.r, mm.s, "k"), false).total(), 4 * 3407872);
  const Columns cols = columns(mm.p, mm.r, mm.s, expand(mm.p, mm.r, mm.s, "k"));
  EXPECT_EQ(cols.peak(Count::values).at(cols.point), 14336);
  EXPECT_EQ(cols.peak(Count::values).text(), "g_a*g_c + g_a*s_b + g_c*s_b");
}

// With chunks that are not short: g = -s + sqrt(s^2 + M).
TEST(Numbers, AMatmulWithItsChunks) {
  const Case c = case_of(matmul, {{"a", 64}, {"c", 64}}, {{"b", 32}}, {{"a", 4096}, {"b", 4096}, {"c", 4096}});
  const Flow f = flow(c.p, c.r, c.s);
  Point axes = f.point;
  axes.erase("g_a"), axes.erase("g_c");
  for (double memory : {5e3, 24576.0, 1e5}) {
    const auto best = geometric_program(f.run(Count::values), f.operands(Count::values), memory, c.tiles(), axes);
    ASSERT_TRUE(best);
    EXPECT_NEAR(best->sizes.at("g_a"), -32 + std::sqrt(32 * 32 + memory), 0.01);
  }
  EXPECT_FALSE(geometric_program(f.run(Count::values), f.operands(Count::values), 10, c.tiles(), axes));
}

TEST(Numbers, HeadsAndGroups) {
  // 14.10: many heads: a tile of several would save nothing.
  const Case mha =
      case_of(heads, {{"h", 1}, {"q", 64}}, {{"x", 64}}, {{"h", 32}, {"q", 8192}, {"x", 8192}, {"d", 128}});
  const auto best = mha.closed();
  ASSERT_TRUE(best) << best.reason();
  EXPECT_EQ(best->regimes[0].moved.text(), "2*d*h*q + 4*d^2*h*q*x*M^-1");
  EXPECT_EQ(best->regimes[0].sizes[0], (std::pair<std::string, Formula>{"g_h", 1}));
  const Point axes = flow(mha.p, mha.r, mha.s).point;
  EXPECT_NEAR(moved_at(*best, axes, 65536), 2214592512, 1);
  // Grouped queries: only the product of both tiles counts.
  const Case gqa = case_of(grouped, {{"h", 1}, {"r", 4}, {"q", 64}}, {{"x", 64}},
                           {{"h", 8}, {"r", 4}, {"q", 8192}, {"x", 8192}, {"d", 128}});
  const Flow f = flow(gqa.p, gqa.r, gqa.s);
  EXPECT_EQ(f.run(Count::values).text(), "2*d*h*q*r + 2*d*h*q*r*x/(g_q*g_r)");
  const auto shared = gqa.closed();
  ASSERT_TRUE(shared) << shared.reason();
  EXPECT_EQ(shared->regimes[0].sizes.back().first, "g_r*g_q");
  EXPECT_EQ(shared->regimes[0].sizes.back().second.text(), "0.5*M/d");
  EXPECT_NEAR(moved_at(*shared, f.point, 65536), 2214592512, 1);
  for (std::int64_t r : {4, 1}) {
    Case tiled = gqa;
    tiled.s.steps[1].size = r, tiled.s.steps[2].size = 256 / r;
    EXPECT_EQ(tiled.exact(), 2214592512);
  }
}

// 14.11: one query a head. The cache is read once for all queries that share it.
TEST(Numbers, Decode) {
  auto moved = [](std::int64_t h, std::int64_t r) {
    return case_of(grouped, {{"h", 1}}, {{"x", 64}}, {{"h", h}, {"r", r}, {"q", 1}, {"x", 8192}, {"d", 128}}).exact();
  };
  EXPECT_EQ(moved(32, 1), 67117056);
  EXPECT_EQ(moved(8, 4), 16785408);
  EXPECT_EQ(moved(1, 32), 2105344);
}

// 14.9: turns that see no key are skipped.
TEST(Numbers, ACausalHalf) {
  const Case c = case_of(causal, {{"q", 128}}, {{"x", 64}}, {{"q", 8192}, {"x", 8192}, {"d", 128}});
  EXPECT_EQ(moved_alive(c.p, c.r, c.s, Count::values), 70254592);
  const auto live = live_share(c.p, c.r, c.s);
  ASSERT_TRUE(live && live->extent);
  EXPECT_EQ(live->alive, 4160);
  EXPECT_EQ(live->turns, 8192);
  EXPECT_EQ(live->extent->text(), "0.5*g_q + 0.5*q");
  const Flow f = flow_alive(c.p, c.r, c.s);
  EXPECT_EQ(f.run(Count::values).at(f.point), 70254592);
  EXPECT_EQ(f.run(Count::values).text(), "3*d*q + d*q^2/g_q");
  EXPECT_EQ(c.exact(), 70254592);      // nests skip them too
}

TEST(Numbers, ASlidingWindow) {
  const Case c = case_of("program w(q, x, d)\ninput Q[q d], K[x d], V[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d]\n"
                         "P[q x] = softmax[x] S[q x] where index(x) <= index(q) and index(x) > index(q) - 512\n"
                         "O[q d] = sum[x] P[q x] * V[x d]\noutput O\n",
                         {{"q", 128}}, {{"x", 64}}, {{"q", 8192}, {"x", 8192}, {"d", 128}});
  const auto live = live_share(c.p, c.r, c.s);
  ASSERT_TRUE(live && live->extent);
  EXPECT_EQ(live->extent->text(), "g_q + 511");
  EXPECT_LT(static_cast<double>(live->alive), 0.09 * static_cast<double>(live->turns));
  const Flow f = flow_alive(c.p, c.r, c.s);
  EXPECT_NEAR(f.run(Count::values).at(f.point) / static_cast<double>(moved_alive(c.p, c.r, c.s, Count::values)), 1,
              0.07);
}

} // namespace
} // namespace tilewright
