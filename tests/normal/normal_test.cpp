// normalise keeps every output of every program, and its passes do what their headers say.
#include "normal/normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "expr/random_program.h"
#include "expr/text.h"
#include "normal/passes.h"
#include "support/error.h"

namespace tilewright {
namespace {

void expect_close(const Program& p, TensorId t, const Array& got, const Array& want, double slack) {
  ASSERT_EQ(got.dims, want.dims);
  if (!is_float(want.dtype)) {
    EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes()), 0) << p.tensor(t).name;
    return;
  }
  // fp64 evaluation: floats are held as f64.
  double scale = 1;
  for (std::int64_t i = 0; i < want.count(); ++i)
    if (std::isfinite(want.as<double>()[i])) scale = std::max(scale, std::abs(want.as<double>()[i]));
  for (std::int64_t i = 0; i < want.count(); ++i) {
    const double g = got.as<double>()[i], w = want.as<double>()[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    EXPECT_NEAR(g, w, slack * scale) << p.tensor(t).name << "[" << i << "]";
    if (std::abs(g - w) > slack * scale) return;
  }
}

TEST(Normal, KeepsEveryOutput) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 4000 : 500;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    testing::Random random(seed);
    // Scalars of constants fold in f32 even where nothing else does. In half of the cases weights are known and constants fold, rounded to f32: no narrow dtypes then, whose roundings would show.
    const bool known = random() % 2;
    testing::RandomOptions o;
    o.free_sizes = false;
    o.smooth = true;
    o.narrow = !known;
    Program p = fix_sizes(testing::random_program(random, o), {});
    Values given = testing::random_inputs(p, random);
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (known && p.tensors[t].kind == Kind::weight) {
        const Array& a = given.at(static_cast<TensorId>(t));
        p.tensors[t].data = {a.data, a.bytes()};
        p.tensors[t].owner = a.owner;
      }
    const Program q = normalise(p, known ? std::vector<std::string>{} : std::vector<std::string>{"constants", "constants again"});
    ASSERT_NO_THROW(verify(q)) << print(p);
    ASSERT_EQ(p.inputs, q.inputs);
    const Values want = evaluate(p, given, {}, Evaluation::fp64), got = evaluate(q, given, {}, Evaluation::fp64);
    for (std::size_t i = 0; i < p.outputs.size(); ++i) expect_close(p, p.outputs[i], got.at(q.outputs[i]), want.at(p.outputs[i]), known ? 1e-4 : 1e-6);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed << "\n" << print(p) << print(q);
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
