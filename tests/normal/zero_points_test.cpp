// distribute_zero_points: exact, and only where it pays.
#include <gtest/gtest.h>

#include "normal/normal.h"
#include "normal/passes.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

TEST(ZeroPoints, LeaveAPlainProduct) {
  Program p = program("program p(m=8, n=6, k=5)\ninput A[m k], za : u8\nweight W[k n], zw : i8\n"
                      "Y[m n] = sum[k] (A[m k] - za) * (W[k n] - zw)\noutput Y\n");
  testing::Random random(1);
  const Values given = testing::random_inputs(p, random);
  testing::make_known(p, given);
  const std::string text = print(normalise(p));
  EXPECT_NE(text.find("sum[k] A[m k] * Y_weights[n k]"), std::string::npos) << text;   // with their zero point, in eight bits
  EXPECT_NE(text.find("Y_sum[m n] - za * Y_w[n]"), std::string::npos) << text;         // the sum of the weights is a weight
}

TEST(ZeroPoints, StayWhereNothingIsGained) {
  const auto same = [](const std::string& statement) {
    const Program q = distribute_zero_points(program("program p(m=3, n=40, k=5)\ninput A[m k], W[k n], z, y[m], x[k] : i8\ninput F[m k], G[k n] : f32\n" + statement + "\noutput Y\n"));
    EXPECT_EQ(q.nodes.size(), 1u) << print(q);
  };
  same("Y[m n] = sum[k] A[m k] * (W[k n] - z) where index(k) < m");       // the sum of A would need the guard
  same("Y[m n] = sum[k] (A[m k] - z) * W[k n]");                          // the sum of W is a third of the work
  same("Y[m n] = sum[k] A[m k] * (W[k n] - x[k])");                       // no point: it runs with the sum
  same("Y[m n] = sum[k] (F[m k] - 3) * (G[k n] - 1)");                    // floats round
  same("Y[m n] = max[k] A[m k] * (W[k n] - z)");
  same("Y[m n] : i64 = sum[k] A[m k] * (W[k n] - z)");                    // the product wraps in 32 bits, the sum does not
}

TEST(ZeroPoints, EqualTheEvaluator) {
  int changed = 0;
  const auto all = testing::seeds(500);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    Program p;
    p.name = "zero";
    Builder build(p);
    const std::vector<Size> axes{1 + below(8), 1 + below(8), 1 + below(4), 1 + below(3)};
    const DType types[] = {DType::i8, DType::u8, DType::i32, DType::i64};
    auto tensor = [&](int axes_of) {
      std::vector<Size> dims;
      std::vector<Index> at;
      for (AxisId a = 0; a < 4; ++a)
        if (axes_of >> a & 1) dims.push_back(axes[static_cast<std::size_t>(a)]), at.push_back(axis_index(a));
      if (below(4) == 0 && !at.empty()) {                                 // a window with padding
        at[0] = at[0] + axis_index(3) - constant_index(1);
        const TensorId t = build.tensor("X", types[below(3)], dims, Kind::input);
        p.inputs.push_back(t);
        return build.read(t, at, integer(below(5) - 2));
      }
      const TensorId t = build.tensor("X", types[below(20) ? below(3) : 3], dims, below(2) ? Kind::weight : Kind::input);
      if (p.tensor(t).kind == Kind::input) p.inputs.push_back(t);
      return build.read(t, at);
    };
    auto factor = [&](int axes_of) {
      const ScalarRef x = tensor(axes_of);
      const ScalarRef zero = below(2) ? integer(below(200) - 100) : tensor(static_cast<int>(below(4)));
      switch (below(5)) {
        case 0: return x;
        case 1: return binary(Op::add, x, zero);
        case 2: return binary(Op::add, zero, x);
        default: return binary(Op::sub, x, zero);
      }
    };
    const ScalarRef a = factor(1 | 4 | static_cast<int>(below(2)) * 8), w = factor(2 | 4 | static_cast<int>(below(2)) * 8);
    const DType out = types[below(4)];
    p.outputs = {build.statement("Y", out, axes, below(2) ? binary(Op::mul, a, w) : binary(Op::mul, w, a), Reducer::sum, {2, 3})};
    const Values given = testing::random_inputs(p, random);
    testing::make_known(p, given);
    const Program q = distribute_zero_points(p);
    changed += q.nodes.size() > 1;
    testing::expect_same_outputs(p, q, given, 0);
    testing::expect_same_outputs(p, normalise(p), given, 0);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_TRUE(all.size() == 1 || changed > static_cast<int>(all.size()) / 5) << changed;
}

}  // namespace
}  // namespace tilewright
