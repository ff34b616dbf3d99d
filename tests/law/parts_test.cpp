// Streams in parts: the program with them says the same as without.
#include "law/parts.h"

#include <gtest/gtest.h>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/text.h"
#include "expr/verify.h"
#include "law/stream_forms.h"
#include "law/unscaled.h"
#include "normal/normal.h"

namespace tilewright {
namespace {

const char* const decode = R"(program decode(g=2, r=3, x=24, d=4)
input Q[g r d], K[g x d], V[g x d] : f32
S[g r x] = sum[d] Q[g r d] * K[g x d] / 3
P[g r x] = softmax[x] S[g r x]
O[g r d] = sum[x] P[g r x] * V[g x d]
output O
)";
// A dim of one element, which has no axis, and results whose dims stand in another order than the axes.
const char* const turned = R"(program turned(b=1, g=2, r=3, x=24, d=4)
input Q[b g r d], K[b g x d], V[b g x d] : f32
S[b g r x] = sum[d] Q[b g r d] * K[b g x d] / 3
P[b g r x] = softmax[x] S[b g r x]
O[d b r g] = sum[x] P[b g r x] * V[b g x d]
output O
)";
const char* const masked = R"(program masked(g=2, r=3, x=24, d=4)
input Q[g r d], K[g x d], V[g x d] : f32
input n[g] : index(x)
S[g r x] = sum[d] Q[g r d] * K[g x d] / 3
M[g r x] = select(index(x) <= n[g], S[g r x], -inf)
m[g r] = max[x] M[g r x]
E[g r x] = exp(M[g r x] - m[g r])
Z[g r] = sum[x] E[g r x]
P[g r x] = E[g r x] / Z[g r]
L[g r] = m[g r] + log(Z[g r])
O[g r d] = sum[x] P[g r x] * V[g x d]
output O, L
)";

double value(const Array& a, std::int64_t i) { return a.dtype == DType::f64 ? a.as<double>()[i] : a.as<float>()[i]; }

Program formed(const char* text) { return unscaled(stream_forms(normalise(fix_sizes(parse(text, "parts_test.tw"), {})))); }

TEST(Parts, SayTheSame) {
  for (const char* text : {decode, turned, masked})
    for (int parts : {2, 3, 8}) {
      const Program p = formed(text);
      const auto all = cascades(p);
      ASSERT_EQ(all.size(), 1u);
      const auto parted = stream_in_parts(p, all[0], parts);
      ASSERT_TRUE(parted) << parted.reason();
      SCOPED_TRACE(print(*parted));
      verify(*parted);
      EXPECT_NE(print(*parted).find("_part"), std::string::npos);
      testing::Random random(static_cast<std::uint64_t>(parts));
      Values given;
      for (TensorId t : p.inputs) {
        std::vector<std::int64_t> dims;
        for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
        Array a = Array::make(p.tensor(t).dtype, dims);
        for (std::int64_t i = 0; i < a.count(); ++i) {
          if (a.dtype == DType::f32) a.as<float>()[i] = static_cast<float>(random() % 2001) / 500.0f - 2;
          else a.as<std::int64_t>()[i] = static_cast<std::int64_t>(i == 0 ? 2 : random() % 24);   // parts without a point too
        }
        given[t] = a;
      }
      const Values want = evaluate(p, given, {}, Evaluation::fp64), got = evaluate(*parted, given, {}, Evaluation::fp64);
      for (std::size_t o = 0; o < p.outputs.size(); ++o)
        for (std::int64_t i = 0; i < want.at(p.outputs[o]).count(); ++i)
          EXPECT_NEAR(value(want.at(p.outputs[o]), i), value(got.at(parted->outputs[o]), i), 1e-6);
    }
}

// A cascade of the parts is a stream again.
TEST(Parts, AreStreams) {
  const Program p = formed(decode);
  const auto parted = stream_in_parts(p, cascades(p)[0], 4);
  ASSERT_TRUE(parted) << parted.reason();
  bool shorter = false;
  for (const Cascade& c : cascades(*parted)) shorter |= c.running && c.region.axes[static_cast<std::size_t>(c.axis)] == Size(6);
  EXPECT_TRUE(shorter);
}

TEST(Parts, AreEqual) {
  const Program p = formed(decode);
  const auto parted = stream_in_parts(p, cascades(p)[0], 5);
  ASSERT_FALSE(parted);
  EXPECT_EQ(parted.reason(), "24 does not fall into 5 equal parts");
}

// Factors of elements go behind their extremes: of what a contraction made, and into exponents.
TEST(Unscaled, ComparesWhatAContractionMade) {
  const Program p = formed(decode);
  for (const auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    if (!s || s->reducer != Reducer::max) continue;
    ASSERT_EQ(s->body->op, Op::read);
    const TensorId made = std::get<Access>(s->body->leaf).tensor;
    EXPECT_TRUE(std::any_of(p.nodes.begin(), p.nodes.end(), [&](const auto& n) {
      const Statement* w = std::get_if<Statement>(&n);
      return w && w->out == made && contraction(p, *w);
    })) << print(p);
  }
}

}  // namespace
}  // namespace tilewright
