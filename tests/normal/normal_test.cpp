// normalise keeps every output of every program, and its passes do what their headers say.
#include "normal/normal.h"

#include <gtest/gtest.h>

#include "normal/passes.h"
#include "normal/same_outputs.h"
#include "support/error.h"

namespace tilewright {
namespace {

TEST(Normal, KeepsEveryOutput) {
  for (std::uint64_t seed : testing::seeds(500, 4000)) {
    testing::Random random(seed);
    // Scalars of constants fold in f32 even where nothing else does. In half of the cases weights are known and constants fold, rounded to f32: no narrow dtypes then, whose roundings would show.
    const bool known = random() % 2;
    testing::RandomOptions o;
    o.free_sizes = false;
    o.smooth = true;
    o.narrow = !known;
    Program p = fix_sizes(testing::random_program(random, o), {});
    const Values given = testing::random_inputs(p, random);
    if (known) testing::make_known(p, given);
    const Program q = normalise(p, known ? std::vector<std::string>{} : std::vector<std::string>{"constants", "constants again"});
    testing::expect_same_outputs(p, q, given, known ? 1e-4 : 1e-6);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

std::string normal(const std::string& text) { return print(normalise(fix_sizes(parse(text, "case.tw"), {}))); }

TEST(Normal, ViewsAreReadThrough) {
  const std::string text = normal("program p(a=3, b=4, n=5)\ninput X[b a], W[b n] : f32\n"
                                  "T[a b] = X[b a]\nY[a n] = sum[b] T[a b] * W[b n]\noutput Y\n");
  EXPECT_EQ(text.find("T["), std::string::npos) << text;
}

TEST(Normal, AReshapeBetweenContractionsLeavesNoQuotient) {
  const std::string text = normal("program p(q=5, h=2, d=3, c=6, f=4)\ninput A[h q d], W[f c] : f32\n"
                                  "R[q c] = A[c // 3, q, c % 3]\nY[q f] = sum[c] R[q c] * W[f c]\noutput Y\n");
  EXPECT_EQ(text.find("R["), std::string::npos) << text;
  EXPECT_EQ(text.find("//"), std::string::npos) << text;
}

TEST(Normal, APadBecomesAWindow) {
  const std::string text = normal("program p(h=6, y=6, i=3, hp=8)\ninput X[h], W[i] : f32\n"
                                  "P[hp] = X[hp - 1 else 0]\nY[y] = sum[i] P[y + i] * W[i]\noutput Y\n");
  EXPECT_EQ(text.find("P["), std::string::npos) << text;
}

TEST(Normal, APassCanBeLeftOut) {
  EXPECT_THROW(normalise(Program{}, {"no such pass"}), Error);
}

}  // namespace
}  // namespace tilewright
