// Sums over levels, exchange between children, and thresholds: the worked numbers of napkin 7 and 14.
#include "model/levels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model_cases.h"

namespace tilewright {
namespace {

constexpr double tensor = 132 * 4096 * 1.83e9; // operations a second in f16: 14.13

struct Model2 {
  ClosedForm form;
  Point axes;
  Formula flops;
};
Model2 model_of(const char* text, const Cuts& tiles, const Cuts& streams, const Binding& sizes) {
  const Case c = case_of(text, tiles, streams, sizes);
  const auto form = c.closed();
  EXPECT_TRUE(form) << form.reason();
  const Flow f = flow(c.p, c.r, c.s);
  Point axes;
  for (const std::string& a : f.names.axes) axes[a] = f.point.at(a);
  return {*form, axes, f.flops};
}
Model2 matmul_of(std::int64_t n) {
  return model_of(matmul, {{"a", 64}, {"c", 64}}, {{"b", 32}}, {{"a", n}, {"b", n}, {"c", n}});
}
Model2 attention_of(std::int64_t n, std::int64_t d) {
  return model_of(attention, {{"q", 64}}, {{"x", 64}}, {{"q", n}, {"x", n}, {"d", d}});
}

TEST(Levels, HalvingTheWidth) { // 14.12
  EXPECT_EQ(speedup_of_halving(0), 2);
  EXPECT_NEAR(speedup_of_halving(0.5), 2.828, 1e-3);
  EXPECT_EQ(speedup_of_halving(1), 4);
  // The same from the formula: q bytes a value, M and rates in bytes.
  const Model2 m = matmul_of(8192);
  auto seconds = [&](double width) {
    Point point = m.axes;
    double total = 0;
    for (const auto& [beta, alpha] : by_beta(m.form.regimes[0].moved))
      total += beta > 0 ? alpha.at(point) * std::pow(1e5 / width, -beta) * width / 3e12 : 0;
    return total;
  };
  EXPECT_NEAR(seconds(2) / seconds(1), 2.828, 1e-3);
}

TEST(Levels, TwoLevelsOfAMatmul) { // 14.14
  const Model2 m = matmul_of(8192);
  const auto costs = over_levels(m.form, m.axes, {{"l2", 25e6, 1 / 1.675e12}, {"shared", 116224, 1 / 6.0e12}});
  EXPECT_NEAR(costs[0].weighted * 1e6, 171.3, 0.06);
  EXPECT_NEAR(costs[1].weighted * 1e6, 548.7, 0.06);
  EXPECT_NEAR((costs[0].weighted + costs[1].weighted) * 1e6, 720.1, 0.06);
  EXPECT_NEAR(m.flops.at(m.axes) / tensor * 1e6, 1111.3, 0.06);
}

TEST(Levels, ChildrenThatExchange) { // 14.16: H800 rates; the share of the parent's cost that is saved
  for (const auto& [form, n2, n4] :
       {std::tuple{matmul_of(1 << 20), 0.1102, 0.1151}, std::tuple{attention_of(1 << 24, 128), 0.1881, 0.1726}}) {
    auto share = [&, f = form](int n, double rate) {
      const double parent = moved_at(f.form, f.axes, 116224) / 2.04e12;
      return exchange_saving(f.form, f.axes, 116224, n, 2.04e12, rate) / parent;
    };
    // The compulsory part, which cannot be saved, is small at these sizes.
    EXPECT_NEAR(share(2, 3.27e12), n2, 4e-4);
    EXPECT_NEAR(share(4, 2.65e12), n4, 4e-4);
  }
  const Model2 a = attention_of(1 << 24, 128), m = matmul_of(1 << 20);
  const std::vector<Exchange> sizes = {{2, 3.27e12}, {4, 2.65e12}};
  EXPECT_EQ(best_cluster(a.form, a.axes, 116224, 2.04e12, sizes).children, 2); // napkin H7
  EXPECT_EQ(best_cluster(m.form, m.axes, 116224, 2.04e12, sizes).children, 4);
  EXPECT_EQ(best_cluster(m.form, m.axes, 116224, 4e12, sizes).children, 1); // no exchange is faster than the parent
}

TEST(Levels, ThresholdsOfAnH100) { // 14.13
  const Model2 m = matmul_of(8192);
  const Roofline r = roofline(m.form, m.flops, m.axes, 116224, 1.675e12, tensor);
  EXPECT_NEAR(r.rho, 1.6929e-3, 1e-7);
  ASSERT_EQ(r.terms.size(), 2u);
  const Threshold& tiles = r.terms[0].memory ? r.terms[0] : r.terms[1];
  const Threshold& whole = r.terms[0].memory ? r.terms[1] : r.terms[0];
  EXPECT_NEAR(*tiles.memory, 348932, 1);
  EXPECT_EQ(tiles.term.text(), "M^(-1/2)");
  EXPECT_EQ(whole.term.text(), "0.5/b");
  EXPECT_NEAR(whole.axes.at("b"), 295.35, 0.01);
  EXPECT_TRUE(r.transfers);
  ASSERT_TRUE(r.memory);
  EXPECT_NEAR(moved_at(m.form, m.axes, *r.memory) / m.flops.at(m.axes), r.rho, 1e-9);
  EXPECT_GT(*r.memory, *tiles.memory);
  // From shared memory, whose tiles are those of the registers: 82 values, or 151 and 160 with what a tile's memory is.
  EXPECT_NEAR(1 / (2 * 6.0e12 / tensor), 82.45, 0.01);
  // Attention: from which memory on, and so from which tile of queries, is it bound by operations?
  const Model2 a = attention_of(1 << 24, 128);
  const Roofline s = roofline(a.form, a.flops, a.axes, 116224, 1.675e12, tensor);
  for (const Threshold& t : s.terms)
    if (t.memory) {
      EXPECT_NEAR(*t.memory / (2 * 128), 295.35, 0.01);
    }
}

TEST(Levels, TheMachineFiles) {
  for (const char* name : {"h100", "h200", "a100"}) {
    const auto levels = storages(machine_named(name), 2, Weight::seconds);
    ASSERT_EQ(levels.size(), 2u) << name;
    EXPECT_GT(levels[0].memory, levels[1].memory);
    EXPECT_GT(levels[0].weight, levels[1].weight); // DRAM is slower than the L2
    const auto joules = storages(machine_named(name), 2, Weight::joules);
    EXPECT_GT(joules[0].weight, joules[1].weight);
    const auto forwarded = storages(machine_named(name), 2, Weight::seconds, true);
    EXPECT_GT(forwarded[0].memory, 100 * forwarded[1].memory);
  }
}

// 14.22: experts that each see t = T*k/E tokens are balanced where 1/(2t) is below rho.
TEST(Levels, BalanceOfExperts) {
  const Model2 m =
      model_of("program expert(t, m, f)\ninput X[t m], W[m f] : f16\nY[t f] : f16 = sum[m] X[t m] * W[m f]\noutput Y\n",
               {{"t", 64}, {"f", 64}}, {{"m", 64}}, {{"t", 512}, {"m", 4096}, {"f", 4096}});
  const Roofline r = roofline(m.form, m.flops, m.axes, 1e9, 1.675e12, tensor);
  // All operands once: the weights m*f against 2*t*m*f operations.
  double tokens = 0;
  const Formula ratio = m.form.regimes.back().moved / m.flops;
  for (const Formula::Product& p : ratio.products())
    if (p.power_of("t") == -1) tokens = p.factor / r.rho;
  EXPECT_EQ(std::ceil(tokens * 256 / 8), 9452);
  EXPECT_EQ(std::ceil(tokens * 8 / 2), 1182);
}

} // namespace
} // namespace tilewright
