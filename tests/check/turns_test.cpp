// Turns of a stream that are left out: the worked number of spec napkin 14, and cost equals count for any condition.
#include <gtest/gtest.h>

#include "check/count.h"
#include "cost/cost.h"
#include "normal/same_outputs.h"
#include "expr/text.h"
#include "loop/nest.h"

namespace tilewright {
namespace {

struct Streamed {
  Program p;
  Region r;
  Schedule s;
};

// Rows in tiles, what lies along x in turns.
Streamed streamed(const std::string& where, std::int64_t q, std::int64_t x, std::int64_t d, std::int64_t tile, std::int64_t chunk) {
  const std::string sizes = "(q=" + std::to_string(q) + ", x=" + std::to_string(x) + ", d=" + std::to_string(d) + ")";
  Streamed out{fix_sizes(parse("program t" + sizes + "\ninput Q[q d], K[x d], V[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d]\n"
                               "m[q] = max[x] S[q x] where " + where + "\nE[q x] = exp(S[q x] - m[q]) where " + where +
                               "\nz[q] = sum[x] E[q x]\nU[q d] = sum[x] E[q x] * V[x d]\nO[q d] = U[q d] / z[q]\noutput O\n", "case.tw"), {}), {}, {}};
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < out.p.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  out.r = *unify(out.p, all);
  for (std::size_t a = 0; a < out.r.axes.size(); ++a)
    if (out.r.names[a] == "q") out.s.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), tile});
  for (std::size_t a = 0; a < out.r.axes.size(); ++a)
    if (out.r.names[a] == "x") out.s.steps.push_back({AxisStep::How::stream, static_cast<RegionAxis>(a), chunk});
  return out;
}

TEST(Turns, HalfOfATriangle) {
  const Machine m = machine_named("generic-avx2");
  const Streamed t = streamed("index(x) <= index(q)", 8192, 8192, 128, 128, 64);
  ASSERT_TRUE(legality(t.p, t.r, t.s, m).empty());
  const Cost c = cost(t.p, t.r, t.s, m);
  EXPECT_EQ((c.loaded + c.stored) / 4, 70254592);
  EXPECT_EQ(count(t.p, expand(t.p, t.r, t.s, "k"), false).total(), c.loaded + c.stored);
  EXPECT_EQ(c.multiply_adds, std::int64_t{8192} * (8192 + 128) * 128);
  EXPECT_NE(print(t.p, t.r, t.s, expand(t.p, t.r, t.s, "k")).find("turns where index(x) <= index(q)"), std::string::npos);
}

TEST(Turns, NoneWhereOneSumTakesAll) {
  for (const char* text : {"program t(q=64, x=64)\ninput S[q x] : f32\nm[q] = max[x] S[q x]\nz[q] = sum[x] exp(S[q x] - m[q]) where index(x) <= index(q)\noutput z\n"}) {
    const Program p = fix_sizes(parse(text, "case.tw"), {});
    const auto r = unify(p, {0, 1});
    ASSERT_TRUE(r);
    for (RegionAxis a = 0; a < 2; ++a)
      EXPECT_TRUE(live_turns(p, *r, {{{AxisStep::How::stream, a, 16}}, 1, {}, {}, {}}).every()) << text;
  }
}

TEST(Turns, AreLeftOutOnlyWhereNothingLives) {
  const Machine m = machine_named("generic-avx2");
  std::int64_t left_out = 0, taken = 0;
  for (std::uint64_t seed : testing::seeds(60)) {
    testing::Random random(seed);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    const auto number = [&](int n) { return std::to_string(below(n)); };
    std::string where;
    switch (below(7)) {
      case 0: where = "index(x) <= index(q) + " + number(20) + " - 9"; break;
      case 1: where = "index(x) <= index(q) and index(q) - index(x) < " + std::to_string(1 + below(12)); break;
      case 2: where = "index(x) // 8 == index(q) // 8"; break;
      case 3: where = "not (2 * index(x) > 3 * index(q) + " + number(9) + ")"; break;
      case 4: where = "index(x) <= index(q) or index(x) < " + number(20); break;
      case 5: where = "index(x) % 16 < " + std::to_string(1 + below(6)) + " and max(index(x), 5) >= index(q) - 7"; break;
      default: where = "index(x) >= " + number(40) + " and -index(x) > index(q) - " + std::to_string(30 + below(40)); break;
    }
    const Streamed t = streamed(where, 1 + below(60), 1 + below(60), 3, 1 + below(9), 1 + below(9));
    const Turns turns = live_turns(t.p, t.r, t.s);
    ASSERT_FALSE(turns.every()) << where;
    const Cost c = cost(t.p, t.r, t.s, m);
    const Nest nest = expand(t.p, t.r, t.s, "k");
    EXPECT_EQ(c.loaded + c.stored, count(t.p, nest, true).total()) << "seed " << seed << ": " << where;
    // Which points live, the evaluator says.
    const std::int64_t q = t.r.axes[static_cast<std::size_t>(t.s.steps[0].axis)].constant(), x = t.r.axes[static_cast<std::size_t>(t.s.steps[1].axis)].constant();
    Program live = fix_sizes(parse("program l(q=" + std::to_string(q) + ", x=" + std::to_string(x) + ")\nL[q x] : f32 = 1 where " + where + "\noutput L\n", "case.tw"), {});
    const Array lives = evaluate(live, {}, {}, Evaluation::typed).at(live.outputs[0]);
    for (std::int64_t q0 = 0; q0 < q; q0 += t.s.steps[0].size)
      for (std::int64_t x0 = 0; x0 < x; x0 += t.s.steps[1].size) {
        const std::int64_t variables[4] = {q0, std::min(q0 + t.s.steps[0].size, q), x0, std::min(x0 + t.s.steps[1].size, x)};
        bool any = false;
        for (std::int64_t i = q0; i < variables[1]; ++i)
          for (std::int64_t j = x0; j < variables[3]; ++j) any |= lives.as<float>()[i * x + j] != 0;
        const bool run = turns.live(variables);
        ASSERT_TRUE(run || !any) << "seed " << seed << ": " << where << " at " << q0 << ", " << x0;
        (run ? taken : left_out) += 1;
      }
    if (HasFailure()) return;
  }
  std::printf("  %ld turns taken, %ld left out\n", static_cast<long>(taken), static_cast<long>(left_out));
  EXPECT_GT(left_out, taken / 4);
}

}  // namespace
}  // namespace tilewright
