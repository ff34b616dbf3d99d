// Which operands are read through slots, and why others are not.
#include <gtest/gtest.h>

#include <numeric>

#include "expr/text.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

struct Views {
  Program p;
  std::vector<OperandAt> list;
  std::string why;

  explicit Views(const std::string& text) : p(fix_sizes(parse("program p" + text, "case.tw"), {})) {
    std::vector<StatementId> all(p.nodes.size());
    std::iota(all.begin(), all.end(), 0);
    const auto r = unify(p, all);
    EXPECT_TRUE(r) << r.reason();
    std::vector<std::string> refusals;
    if (r) list = choose_views(p, *r, &refusals);
    if (!refusals.empty()) why = refusals[0];
  }
};

using Dims = std::vector<std::size_t>;
using Extents = std::vector<std::int64_t>;

TEST(Views, ColumnsOfRowBlocks) {
  const Views v("(m=64, k=50, n=40)\ninput A[m k] : f32 sparse(zeros, tile 32, 1)\ninput B[k n] : f32\nC[m n] = sum[k] "
                "A[m k] * B[k n]\noutput C\n");
  ASSERT_EQ(v.list.size(), 1u) << v.why;
  EXPECT_EQ(v.list[0].unit, (Extents{32, 1}));
  EXPECT_EQ(v.list[0].packed, (Dims{1}));
}

TEST(Views, PiecesRowsAndLengths) {
  const std::string product = "input B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n";
  const Views pieces("(m=64, k=50, n=40)\ninput A[m k] : f32 sparse(zeros, tile 1, 16)\n" + product);
  ASSERT_EQ(pieces.list.size(), 1u) << pieces.why;
  EXPECT_EQ(pieces.list[0].packed, (Dims{0}));
  const Views rows("(m=64, k=50, n=40)\ninput M[m] : bool\ninput A[m k] : f32 sparse(mask M)\n" + product);
  ASSERT_EQ(rows.list.size(), 1u) << rows.why;
  EXPECT_EQ(rows.list[0].dims, (Dims{0}));
  const Views lengths(
      "(b=3, s=9, k=50, n=40)\ninput L[b] : i32\ninput A[b s k] : f32 sparse(lengths L)\ninput B[k n] : f32\n"
      "C[b s n] = sum[k] A[b s k] * B[k n]\noutput C\n");
  ASSERT_EQ(lengths.list.size(), 1u) << lengths.why;
  EXPECT_EQ(lengths.list[0].dims, (Dims{0, 1}));
  EXPECT_EQ(lengths.list[0].packed, (Dims{0, 1})); // tokens of different sequences together
}

TEST(Views, WhyNot) {
  const Views unclear("(m=64, k=64, n=40)\ninput M[m] : bool\ninput A[m k] : f32 sparse(mask M)\ninput B[k n] : f32\n"
                      "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_TRUE(unclear.list.empty());
  EXPECT_EQ(unclear.why, "A not gathered: over which of its dims M lies is not clear");
  const Views whole("(m=8, k=8, n=40)\ninput A[m k] : f32 sparse(zeros, tile 8, 8)\ninput B[k n] : f32\nC[m n] = "
                    "sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_EQ(whole.list.size(), 1u); // one cell: empty or not
  const Views window(
      "(n=2, f=3, m=4, x=5, y=6, i=3, j=3)\ninput A[n m x y] : f32 sparse(zeros)\ninput W[f m i j] : f32\n"
      "C[n f x y] = sum[m i j] A[n, m, x+i-1, y+j-1 else 0] * W[f m i j]\noutput C\n");
  EXPECT_TRUE(window.list.empty());
  EXPECT_NE(window.why.find("A not gathered"), std::string::npos);
  const Views two("(m=64, k=50, n=40)\ninput A[m k] : f32 sparse(zeros)\ninput B[k n] : f32 sparse(zeros)\nC[m n] = "
                  "sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_EQ(two.list.size(), 2u); // both
}

TEST(Views, ChannelsAndWantedResults) {
  const Views channels(
      "(n=2, f=3, m=4, x=5, y=6, i=3, j=3)\ninput A[n m x y] : f32 sparse(zeros, tile 5, 6)\ninput W[f m i j] : f32\n"
      "C[n f x y] = sum[m i j] A[n, m, x+i-1, y+j-1 else 0] * W[f m i j]\noutput C\n");
  ASSERT_EQ(channels.list.size(), 1u) << channels.why;
  EXPECT_EQ(channels.list[0].unit, (Extents{1, 1, 5, 6}));
  EXPECT_EQ(channels.list[0].packed, (Dims{1}));
  const Views wanted("(m=64, k=50, n=40)\ninput S[m n] : f32 sparse(zeros, tile 8, 1)\ninput A[m k], B[k n] : f32\n"
                     "C[m n] = sum[k] A[m k] * B[k n]\nD[m n] = S[m n] * C[m n]\noutput D\n");
  ASSERT_EQ(wanted.list.size(), 1u);
  EXPECT_EQ(wanted.list[0].unit, (Extents{8, 1}));
  const Views added("(m=64, k=50, n=40)\ninput S[m n] : f32 sparse(zeros, tile 8, 1)\ninput A[m k], B[k n] : f32\n"
                    "C[m n] = sum[k] A[m k] * B[k n]\nD[m n] = S[m n] + C[m n]\noutput D\n");
  EXPECT_TRUE(added.list.empty()); // what is added to nothing is wanted
}

TEST(Views, StrictArithmeticSkipsNothingThatCouldShow) {
  const Program p =
      fix_sizes(parse("program p(m=64, k=50, n=40)\ninput A[m k] : f32 sparse(zeros, tile 8, 1)\ninput B[k n] : f32\n"
                      "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n",
                      "case.tw"),
                {});
  std::vector<std::string> why;
  EXPECT_TRUE(choose_views(p, *unify(p, {0}), &why, true).empty());
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0], "A not gathered: another operand may be infinite or no number, and 0 * inf is no number (strict)");
}

// A sparse operand is priced as what is expected to live of it.
TEST(Views, ArePriced) {
  const Program p = fix_sizes(
      parse("program p(m=1024, k=1024, n=1024)\ninput A[m k] : f32 sparse(zeros, tile 32, 1)\ninput B[k n] : f32\n"
            "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n",
            "case.tw"),
      {});
  const Machine m = machine_named("generic-avx2");
  double before = 0;
  for (double live : {0.01, 0.1, 0.4, 1.0}) {
    PlanOptions o{1, "avx2", 6, 16, 8};
    o.live_of["A"] = live;
    const Plan plan = make_plan(std::make_shared<Program>(p), m, o);
    ASSERT_EQ(plan.kernels[0].gathered.size(), 1u);
    const GatheredPlan& g = plan.kernels[0].gathered[0];
    EXPECT_EQ(g.live, live);
    EXPECT_EQ(g.selection.best.along, live < 1 ? Along::k : Along::none) << live;
    EXPECT_LT(g.seconds, 0.1);
    EXPECT_GT(plan.kernels[0].cost.seconds, before);
    before = plan.kernels[0].cost.seconds;
  }
}

} // namespace
} // namespace tilewright
