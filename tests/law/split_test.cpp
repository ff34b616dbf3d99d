// A reduction in parts, merged, is the reduction.
#include "law/split.h"

#include <gtest/gtest.h>

#include <map>

#include "expr/random_program.h"
#include "expr/text.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

bool reassociates(const Statement& s) {
  return (s.reducer == Reducer::sum || s.reducer == Reducer::prod) && is_float(compute_type(s.body->dtype));
}

void expect_equal_bits(const Program& p, TensorId t, const Array& got, const Array& want) {
  ASSERT_EQ(got.dims, want.dims);
  EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes()), 0) << p.tensor(t).name;
}

TEST(Split, EqualsTheReduction) {
  std::map<std::string, int> histogram;
  const auto all = testing::seeds(400);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    o.smooth = random() % 2;                       // sums of floats must not decide anything; the others may
    o.infinite = random() % 4 == 0;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    const Values given = testing::random_inputs(p, random);
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const Statement& s = *p.statement(static_cast<StatementId>(n));
      for (AxisId axis : s.reduced) {
        const auto parts = 1 + static_cast<std::int64_t>(random() % 8);
        const auto q = split(p, static_cast<StatementId>(n), axis, parts);
        if (!q) {
          ++histogram["refused"];
          continue;
        }
        if (reassociates(s) && !o.smooth) continue;
        ++histogram[std::string(name_of(s.reducer)) + (s.guard ? " where" : "")];
        ASSERT_NO_THROW(verify(*q)) << "seed " << seed << "\n" << print(p) << print(*q);
        ASSERT_TRUE(same(*q, parse(print(*q), "split.tw"))) << print(*q);
        if (reassociates(s)) {
          testing::expect_same_outputs(p, *q, given, 1e-9);
        } else {
          const Values want = evaluate(p, given, {}, Evaluation::typed), got = evaluate(*q, given, {}, Evaluation::typed);
          for (TensorId t : p.outputs) expect_equal_bits(p, t, got.at(t), want.at(t));
        }
        if (HasFailure()) FAIL() << "seed " << seed << ", statement " << n << ", axis " << axis << ", parts " << parts << "\n" << print(p) << print(*q);
      }
    }
  }
  for (const auto& [kind, count] : histogram) std::printf("  %5d %s\n", count, kind.c_str());
  for (const char* kind : {"sum", "sum where", "prod", "max", "min", "any", "all", "argmax", "argmin"}) {
    EXPECT_TRUE(all.size() == 1 || histogram[kind] > 3) << kind;
  }
}

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

Array reals(std::vector<float> values) {
  Array a = Array::make(DType::f32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), a.as<float>());
  return a;
}

// The first winner, whatever stands in which part: ties, zeros of both signs, NaN, infinities; and points that do not exist.
TEST(Split, FindsTheFirstWinner) {
  const float nan = std::nanf(""), inf = INFINITY;
  const std::vector<std::vector<float>> cases = {{1, 3, 3, 2, 3, 0, 1}, {-0.0f, 0, -1, 0, -0.0f, -2, 0}, {1, 2, nan, 3, nan, 0, 9},
                                                 {-inf, -inf, -inf, -inf, -inf, -inf, -inf}, {inf, inf, 1, 2, inf, nan, 1}, {0, 0, 0, 0, 0, 0, 5}};
  int defined = 0;
  for (const char* reducer : {"argmax", "argmin"})
    for (const char* guard : {"", " where index(v) >= 3", " where index(v) < 4", " where index(v) % 2 == 1", " where m[v] > 0"})
      for (std::int64_t parts : {2, 3, 4, 7, 100})
        for (const auto& values : cases) {
          const Program p = program("program p(v=7)\ninput Z[v], m[v] : f32\nB : index(v) = " + std::string(reducer) + "[v] Z[v]" + guard + "\noutput B\n");
          const auto q = split(p, 0, 0, parts);
          ASSERT_TRUE(q) << q.reason();
          ASSERT_NO_THROW(verify(*q)) << print(*q);
          const Values given{{0, reals(values)}, {1, reals({0, 0, 1, 0, 0, 1, 0})}};
          const Values want = evaluate(p, given, {}, Evaluation::typed), got = evaluate(*q, given, {}, Evaluation::typed);
          ASSERT_EQ(got.at(p.outputs[0]).as<std::int64_t>()[0], want.at(p.outputs[0]).as<std::int64_t>()[0]) << print(*q);
          ++defined;
        }
  EXPECT_EQ(defined, 2 * 5 * 5 * 6);
}

TEST(Split, OfNothingIsStillAnError) {
  const Program p = program("program p(v=5)\ninput Z[v] : f32\nB : index(v) = argmax[v] Z[v] where Z[v] > 2\noutput B\n");
  const auto q = split(p, 0, 0, 2);
  ASSERT_TRUE(q);
  EXPECT_THROW(evaluate(*q, {{0, reals({0, 1, 2, 1, 0})}}, {}, Evaluation::typed), Error);
  EXPECT_EQ(evaluate(*q, {{0, reals({0, 1, 2, 3, 0})}}, {}, Evaluation::typed).at(q->outputs[0]).as<std::int64_t>()[0], 3);
}

TEST(Split, TheLastPartIsAPieceWithoutAGuard) {
  const Program p = program("program p(f=2, c=10)\ninput X[c], W[f c] : f32\nY[f] = sum[c] X[c] * W[f c]\noutput Y\n");
  const auto q = split(p, 0, 1, 4);
  ASSERT_TRUE(q);
  EXPECT_NE(print(*q).find("Y_part[c_part f] : f32 = sum[c_2] X[3*c_part+c_2] * W[f, 3*c_part+c_2]"), std::string::npos) << print(*q);
  EXPECT_NE(print(*q).find("Y_part[3, f]"), std::string::npos) << print(*q);
  EXPECT_EQ(print(*q).find("where"), std::string::npos) << print(*q);
  EXPECT_EQ(split(p, 0, 1, 5)->nodes.size(), 2u);          // five parts of two: no last one
}

TEST(Split, SaysWhyNot) {
  const Program p = program("program p(f=2, c=10, o=1)\ninput X[c], W[f c o] : i8\nY[f] = sum[c o] W[f c o]\nM : i8 = max[c] X[c] where X[c] > 0\noutput Y, M\n");
  EXPECT_EQ(split(p, 0, 0, 2).reason(), "f is not reduced");
  EXPECT_EQ(split(p, 0, 2, 2).reason(), "o has 1 points");
  EXPECT_EQ(split(p, 0, 1, 1).reason(), "1 parts");
  EXPECT_EQ(split(p, 1, 0, 2).reason(), "the max of nothing is another value in i32 than in i8");
}

}  // namespace
}  // namespace tilewright
