// coalesce: axes that travel together are one, wherever all who see them agree; the inverse of refine.
#include <gtest/gtest.h>

#include "normal/normal.h"
#include "normal/passes.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }
std::string coalesced(const std::string& text) { return print(coalesce(program(text))); }

TEST(Coalesce, DigitsBecomeTheirNumber) {
  const Program q = coalesce(program("program p(h=3, d=4, n=2, hd=12)\ninput X[n hd] : f32\nT[n h d] = tanh(X[n, size(d)*h+d])\n"
                                     "U[n h d] = T[n h d] * 2\nY[n, size(d)*h+d] = U[n h d] + T[n h d]\noutput Y\n"));
  for (const auto& node : q.nodes) EXPECT_EQ(std::get<Statement>(node).axes.size(), 2u) << print(q);
  EXPECT_EQ(q.tensor(q.statement(0)->out).dims, (std::vector<Size>{2, 12}));
}

TEST(Coalesce, ReducedAxesKeepTheirOrder) {
  const std::string head = "program p(h=3, d=4, f=2, hd=12)\ninput X[hd], W[hd f] : f32\nT[h d] = tanh(X[size(d)*h+d])\n";
  EXPECT_NE(coalesced(head + "Y[f] = sum[h d] T[h d] * W[size(d)*h+d, f]\noutput Y\n").find("sum[hd]"), std::string::npos);
  EXPECT_EQ(coalesced(head + "Y[f] = sum[d h] T[h d] * W[size(d)*h+d, f]\noutput Y\n").find("sum[hd]"), std::string::npos);
}

TEST(Coalesce, StaysWhereSomebodySeesTheAxesApart) {
  const auto same = [](const std::string& statements) {
    const Program p = program("program p(h=3, d=4, hd=12, g=4, k=6)\ninput X[hd], Z[h d] : f32\ninput id[h] : index(h)\nT[h d] = tanh(X[size(d)*h+d])\n" + statements + "\n");
    EXPECT_EQ(print(coalesce(p)), print(p));
  };
  same("Y[h d] = T[h d] + 1\noutput Y");                            // the caller
  same("Y[size(d)*h+d] = T[h d] + Z[h d]\noutput Y");
  same("Y[size(d)*h+d] = T[h d] + 1\noutput Y, T");
  same("Y[size(h)*d+h] = T[h d] + 1\noutput Y");                    // the other way round
  same("Y[size(d)*h+d] = T[h d] * index(d)\noutput Y");             // the value of one
  same("Y[size(d)*h+d] = T[h d] where index(h) > 0\noutput Y");
  same("S[h] = sum[d] T[h d]\nY[size(d)*h+d] = T[h d] - S[h]\noutput Y");
  same("Y[size(d)*h+d] = T[id[h], d]\noutput Y");                   // a gather
  same("Y[size(d)*h+d] = T[h, d-1 else 0]\noutput Y");              // a shift
  same("A[h] = argmax[d] T[h d]\noutput A");
}

// A chain of maps and reductions over reshaped data, with some statements that forbid it.
TEST(Coalesce, EqualsTheEvaluator) {
  int changed = 0;
  const auto all = testing::seeds(400);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
    const auto size = [&](int low, int n) { return std::to_string(low + static_cast<int>(random() % static_cast<std::uint64_t>(n))); };
    const std::string a = size(1, 3), b = size(2, 3), c = size(1, 4), f = size(1, 3);
    std::string text = "program p(a=" + a + ", b=" + b + ", c=" + c + ", f=" + f + ", ab=a*b, bc=b*c, abc=a*b*c)\ninput X[abc], Z[ab c], Q[a bc] : f32\nweight W[f abc], V[a b c] : f32\n";
    const auto in = [&] { return pick({"X[size(bc)*a+size(c)*b+c]", "Z[size(b)*a+b, c]", "Q[a, size(c)*b+c]", "V[a b c]"}); };
    text += "T0[a b c] = tanh(" + in() + " + " + in() + ")\n";
    const int n = 1 + static_cast<int>(random() % 4);
    for (int i = 1; i <= n; ++i) {
      const std::string last = "T" + std::to_string(i - 1) + "[a b c]", me = "T" + std::to_string(i);
      text += me + "[a b c] = " + last + " * " + pick({in(), "2", "T0[a b c]", "W[0, size(bc)*a+size(c)*b+c]", "index(c)", "V[a, b, 0]"}) + "\n";
    }
    const std::string last = "T" + std::to_string(n) + "[a b c]";
    text += pick({"Y[size(bc)*a+size(c)*b+c] = " + last + " + 1\n", "Y[size(b)*a+b, c] = -" + last + "\n", "Y[f] = sum[a b c] " + last + " * W[f, size(bc)*a+size(c)*b+c]\n",
                  "Y[f c] = sum[b a] " + last + " * W[f, size(bc)*a+size(c)*b+c]\n", "Y[c] = max[a b] " + last + "\n", "Y[a b c] = " + last + "\n",
                  "Y[c f] = sum[a b] " + last + " * W[f, size(bc)*a+size(c)*b+c]\n"});
    const Program p = program(text + "output Y\n");
    Program known = p;
    const Values given = testing::random_inputs(p, random);
    testing::make_known(known, given);
    const Program q = coalesce(known), again = refine(q);
    changed += print(q) != print(p);
    // Not a bit of the typed result changes: the order of every reduction is kept.
    const Values want = evaluate(p, given, {}, Evaluation::typed), got = evaluate(q, testing::asked_for(q, given), {}, Evaluation::typed);
    ASSERT_EQ(std::memcmp(got.at(q.outputs[0]).data, want.at(p.outputs[0]).data, want.at(p.outputs[0]).bytes()), 0) << print(p) << print(q);
    ASSERT_TRUE(same(q, parse(print(q), "again.tw"))) << print(q);
    testing::expect_same_outputs(known, again, given, 1e-9);
    testing::expect_same_outputs(known, normalise(known), given, 1e-5);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_TRUE(all.size() == 1 || changed > static_cast<int>(all.size()) / 4) << changed;
}

TEST(Coalesce, RandomProgramsKeepTheirOutputs) {
  for (std::uint64_t seed : testing::seeds(300)) {
    testing::Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    const Values given = testing::random_inputs(p, random);
    const Program q = coalesce(refine(p));
    ASSERT_NO_THROW(verify(q)) << print(p) << print(q);
    const Values want = evaluate(refine(p), given, {}, Evaluation::typed), got = evaluate(q, given, {}, Evaluation::typed);
    for (TensorId t : p.outputs) ASSERT_EQ(std::memcmp(got.at(t).data, want.at(t).data, want.at(t).bytes()), 0) << "seed " << seed << print(p) << print(q);
  }
}

}  // namespace
}  // namespace tilewright
