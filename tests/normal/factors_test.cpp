// hoist_factors: what does not run with a sum is multiplied in behind it.
#include <gtest/gtest.h>

#include "normal/passes.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }
Program hoisted(const std::string& text) { return hoist_factors(program(text)); }

// What must stay: nothing else would be left, the factor runs with the sum, or the sum without it means something else.
TEST(Factors, StayWhereTheyBelong) {
  const auto same = [](const std::string& declarations, const std::string& statement) {
    const std::string text = "program p(h=2, d=4)\ninput " + declarations + "\n" + statement + "\noutput S\n";
    EXPECT_EQ(hoisted(text).nodes.size(), 1u) << print(hoisted(text));
  };
  same("X[h d], s[h] : f32", "S[h] = sum[d] X[h d]");
  same("X[h d], s[h] : f32", "S[h] = sum[d] s[h]");
  same("X[h d], s[d] : f32", "S[h] = sum[d] X[h d] * s[d]");
  same("X[h d], s[h] : f32", "S[h] = sum[d] s[h] / X[h d]");
  same("X[h d], s[h] : f32", "S[h] = sum[d] (X[h d] + s[h])");
  same("X[h d], s[h] : f32", "S[h] = max[d] X[h d] * s[h]");            // of an s below 0, the least
  same("X[h d], s[h] : f32", "S[h] = sum[d] X[h d] * s[h] where index(d) < 0");   // 0, and not 0 * inf
  same("X[h d], s[h] : f32", "S[h] = sum[d] X[h d] * 1e-30");           // X of 1e38 would overflow
  same("X[h d], s[h] : f32", "S[h] = sum[d] X[h d] * inf");
  same("X[h d], s[h] : i32", "S[h] : i64 = sum[d] X[h d] * s[h]");      // the product wraps in 32 bits, the sum does not
}

TEST(Factors, WrapAroundIsExact) {
  const Program p = program("program p(d=3)\ninput X[d], s : i32\nS = sum[d] X[d] * s\noutput S\n"), q = hoist_factors(p);
  ASSERT_EQ(q.nodes.size(), 2u);
  Values given;
  given[0] = Array::make(DType::i32, {3});
  given[1] = Array::make(DType::i32, {});
  for (int i = 0; i < 3; ++i) given[0].as<std::int32_t>()[i] = 2000000011 - i;
  given[1].as<std::int32_t>()[0] = 2000000033;
  EXPECT_EQ(evaluate(p, given, {}, Evaluation::typed).at(p.outputs[0]).as<std::int32_t>()[0],
            evaluate(q, given, {}, Evaluation::typed).at(q.outputs[0]).as<std::int32_t>()[0]);
}

// A sum of a random product over random axes, integers and floats, guards and pieces of an output included.
Program random_sum(testing::Random& random, bool whole) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  Program p;
  p.name = "sum";
  Builder build(p);
  std::vector<Size> axes;
  for (int i = 0; i < 4; ++i) axes.push_back(1 + below(5));
  std::vector<AxisId> reduced{3};
  if (below(2)) reduced.insert(reduced.begin() + below(2), 1);
  const DType types[] = {DType::f32, DType::f16, DType::f64, DType::i32, DType::i8, DType::i64};
  auto factor = [&]() -> ScalarRef {
    const DType type = types[whole ? 3 + below(3) : below(3)];
    if (below(5) == 0) return whole ? integer(below(7) - 3, compute_type(type)) : number(static_cast<double>(below(9) - 4) / 4);
    if (below(8) == 0) return axis_value(static_cast<AxisId>(below(4)));
    std::vector<Size> dims;
    std::vector<Index> at;
    for (AxisId a = 0; a < 4; ++a)
      if (below(5) < 2) dims.push_back(axes[static_cast<std::size_t>(a)]), at.push_back(axis_index(a));
    const TensorId t = build.tensor("X", type, dims, Kind::input);
    p.inputs.push_back(t);
    return build.read(t, at);
  };
  ScalarRef body = factor();
  for (int n = 1 + static_cast<int>(below(4)); n > 0; --n) {
    const ScalarRef other = factor();
    const std::int64_t k = below(8);
    if (k < 5) body = below(2) ? binary(Op::mul, body, other) : binary(Op::mul, other, body);
    else if (k == 5) body = unary(Op::neg, body);
    else if (k == 6 && !whole) body = binary(Op::div, body, binary(Op::add, unary(Op::abs, other), number(0.5)));
    else body = binary(Op::add, body, other);
  }
  ScalarRef guard;
  if (below(4) == 0) guard = binary(Op::lt, axis_value(below(2) ? 3 : 0), integer(below(4)));
  const DType out = whole ? types[3 + below(3)] : types[below(3)];
  p.outputs = {build.statement("S", out, axes, body, Reducer::sum, reduced, guard)};
  return p;
}

TEST(Factors, EqualTheEvaluator) {
  int changed = 0;
  const auto all = testing::seeds(600, 4000);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    const bool whole = random() % 2;
    const Program p = random_sum(random, whole), q = hoist_factors(p);
    changed += q.nodes.size() != p.nodes.size();
    testing::expect_same_outputs(p, q, testing::random_inputs(p, random), 1e-6);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  if (all.size() > 1) {
    EXPECT_GT(changed, static_cast<int>(all.size()) / 5);
  }
}

// A guard that does not run with a sum of products becomes that of the map: the products are left alone.
TEST(Factors, AGuardThatStandsStillIsLifted) {
  const auto guards = [](const std::string& guard) {
    const Program q = hoisted("program p(h=2, d=4)\ninput X[h d], Y[h d] : f32\ninput n[h] : i32\nS[h] = sum[d] X[h d] * Y[h d] where " + guard + "\noutput S\n");
    std::vector<bool> has;
    for (StatementId id = 0; id < static_cast<StatementId>(q.nodes.size()); ++id) has.push_back(q.statement(id)->guard != nullptr);
    return has;
  };
  EXPECT_EQ(guards("index(h) < n[h]"), (std::vector<bool>{false, true}));
  EXPECT_EQ(guards("index(d) < n[h]"), (std::vector<bool>{true}));
}

TEST(Factors, ComeBehindTheSumInAPiece) {
  const Program p = hoisted("program p(h=2, d=4, o=4)\ninput X[h d] : f32\nS[2*h] : f32 = sum[d] X[h d] * 2\nS[2*h+1] : f32 = sum[d] X[h d] / 4\noutput S\n");
  EXPECT_EQ(p.nodes.size(), 4u) << print(p);
  EXPECT_NO_THROW(verify(p));
}

}  // namespace
}  // namespace tilewright
