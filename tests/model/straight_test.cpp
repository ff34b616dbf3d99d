// A nest written out for the evaluator equals the program that it was made from.
#include "model/straight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "expr/evaluate.h"
#include "model_cases.h"

namespace tilewright {
namespace {

Values random_inputs(const Program& p, std::mt19937& random) {
  Values in;
  for (TensorId t : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
    Array a = Array::make(DType::f64, dims);
    for (std::int64_t i = 0; i < a.count(); ++i) a.as<double>()[i] = std::normal_distribution<>()(random);
    in.emplace(t, a);
  }
  return in;
}

TEST(Straight, EqualsTheProgramForEveryCut) {
  std::mt19937 random(11);
  auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int n = 0; n < 60; ++n) {
    const Case c =
        n % 4 == 0 ? case_of(causal, {{"q", pick(1, 9)}}, {{"x", pick(1, 7)}}, {{"q", pick(2, 9)}, {"x", 9}, {"d", 3}})
        : n % 4 == 1 ? case_of(grouped, {{"h", 1}, {"r", pick(1, 3)}, {"q", pick(1, 5)}}, {{"x", pick(1, 8)}},
                               {{"h", 2}, {"r", 3}, {"q", 5}, {"x", 7}, {"d", 3}})
        : n % 4 == 2 ? case_of("program conv(y, c, f, k, n=y+k-1)\ninput X[n c], W[k c f] : f32\nY[y f] = sum[k c] "
                               "X[y+k, c] * W[k c f]\n"
                               "Z[y f] = max(Y[y f], 0)\noutput Z\n",
                               {{"y", pick(1, 6)}, {"f", pick(1, 5)}}, {{"c", pick(1, 3)}},
                               {{"y", pick(3, 9)}, {"c", 3}, {"f", 5}, {"k", 3}})
                     : case_of("program norm(t, c, f)\ninput X[t c], W[f c] : f32\nM[t] = sum[c] X[t c] / c\nD[t] = "
                               "sum[c] (X[t c] - M[t])^2 / c\n"
                               "Y[t f] = sum[c] (X[t c] - M[t]) / sqrt(D[t] + 1e-5) * W[f c]\noutput Y\n",
                               {{"t", pick(1, 4)}}, {{"c", pick(1, 8)}}, {{"t", 5}, {"c", 7}, {"f", 3}});
    const Values in = random_inputs(c.p, random);
    const auto out = straight(c.p, c.r, expand(c.p, c.r, c.s, "k"));
    ASSERT_TRUE(out) << out.reason();
    verify(*out);
    const Array want = evaluate(c.p, in, {}, Evaluation::fp64).at(c.p.outputs[0]);
    const Array got = evaluate(*out, in, {}, Evaluation::fp64).at(c.p.outputs[0]);
    ASSERT_EQ(want.count(), got.count());
    for (std::int64_t i = 0; i < want.count(); ++i)
      ASSERT_NEAR(want.as<double>()[i], got.as<double>()[i], 1e-9 * (1 + std::abs(want.as<double>()[i])))
          << print(*out);
  }
}

TEST(Straight, StopsWhereItWouldBeLong) {
  const Case c = case_of(attention, {{"q", 1}}, {{"x", 1}}, {{"q", 64}, {"x", 64}, {"d", 2}});
  const auto out = straight(c.p, c.r, expand(c.p, c.r, c.s, "k"), 1000);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.reason(), "more than 1000 statements");
}

TEST(Straight, RefusesWhatItCannotWriteOut) {
  const Case gaps = case_of("program flat(a=4, b=5)\ninput X[a b] : f32\nY[size(b)*a+b] = X[a b]\noutput Y\n", {}, {});
  Schedule s;
  s.steps = {{AxisStep::How::tile, 0, 2}, {AxisStep::How::tile, 1, 2}};
  const auto out = straight(gaps.p, gaps.r, expand(gaps.p, gaps.r, s, "k"));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.reason(), "a tile of Y is stored with gaps");
}

} // namespace
} // namespace tilewright
