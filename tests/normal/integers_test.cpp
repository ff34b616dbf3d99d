// sum_integers and gather_roundings: what they make of a quantised product, and where they leave it alone.
#include <gtest/gtest.h>

#include "normal/integers.h"
#include "normal/normal.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

// With weights that are known: bytes 0, 1, ..., scales 0.01, 0.02, ..., integers 1, 2, ...
Program known(const std::string& text) {
  Program p = program(text);
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].kind != Kind::weight) continue;
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensors[t].dims) dims.push_back(d.constant());
    Array a = Array::make(p.tensors[t].dtype, dims);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.dtype == DType::f32)
        a.as<float>()[i] = 0.01f * static_cast<float>(i + 1);
      else if (a.dtype == DType::i32)
        a.as<std::int32_t>()[i] = static_cast<std::int32_t>(i + 1);
      else
        a.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    }
    given.emplace(static_cast<TensorId>(t), a);
  }
  testing::make_known(p, given);
  return p;
}

bool over_integers(const Program& p) {
  for (const auto& node : p.nodes)
    if (const auto* s = std::get_if<Statement>(&node); s && s->reducer == Reducer::sum && !is_integer(s->body->dtype))
      return false;
  return true;
}

const std::string head = "program p(m=4, k=6, n=5)\ninput X[m k] : u8\nweight W[k n] : i8\nweight s[n], b[n], t[k] : "
                         "f32\nweight B[n] : i32\n";

TEST(Integers, AQuantisedProductIsOneSumAndOneScale) {
  const Program p = normalise(known(
      head +
      "A[m k] = f32(X[m k] - 3) * 0.5\nC[k n] = f32(W[k n]) * s[n]\nY[m n] = sum[k] A[m k] * C[k n]\n"
      "Z[m n] = Y[m n] + f32(B[n]) * (0.5 * s[n])\nQ[m n] : u8 = u8(round(max(Z[m n], 0) / 0.25) + 9)\noutput Q\n"));
  const std::string text = print(p);
  EXPECT_NE(text.find("Y_sum_sum[m n] : i32 = sum[k] X[m k] * W[k n]"), std::string::npos) << text;
  EXPECT_NE(text.find("Q[m n] : u8 = u8(max(round((Y_sum_sum[m n] + Q_zero[n]) * Q_ratio[n]) + 9, 9))"),
            std::string::npos)
      << text;
  EXPECT_EQ(p.nodes.size(), 2u) << text;
}

TEST(Integers, PaddingBecomesTheZeroPoint) {
  const Program p = sum_integers(known("program p(h=6, i=3, c=2, f=3)\ninput X[h c] : u8\nweight W[i c f] : i8\n"
                                       "A[h c] = f32(X[h c] - 7) * 0.5\nC[i c f] = f32(W[i c f]) * 0.25\n"
                                       "Y[h f] = sum[i c] A[h+i-1, c else 0] * C[i c f]\noutput Y\n"));
  EXPECT_NE(print(p).find("(X[h+i-1, c else 7] - 7) * W[i c f]"), std::string::npos) << print(p);
}

TEST(Integers, StayFloatsWhereTheyMust) {
  const auto floats = [](const std::string& sizes, const std::string& statements) {
    const Program p = known("program p(" + sizes + ")\n" + statements + "output Y\n");
    EXPECT_FALSE(over_integers(sum_integers(p))) << print(sum_integers(p));
  };
  const std::string tensors = "input X[m k] : u8\nweight W[k n] : i8\nweight s[k], g[k n] : f32\n";
  floats("m=4, k=6, n=5",
         tensors +
             "A[m k] = f32(X[m k]) * s[k]\nC[k n] = f32(W[k n]) * 0.5\nY[m n] = sum[k] A[m k] * C[k n]\n"); // a scale
                                                                                                            // that runs
  floats("m=4, k=6, n=5",
         tensors + "A[m k] = f32(X[m k]) * 0.5\nY[m n] = sum[k] A[m k] * g[k n]\n"); // floats beside it
  floats(
      "m=1, k=70000, n=1",
      tensors +
          "A[m k] = f32(X[m k]) * 0.5\nC[k n] = f32(W[k n]) * 0.5\nY[m n] = sum[k] A[m k] * C[k n]\n"); // may leave i32
  floats(
      "m=4, k=6, n=5",
      tensors +
          "A[m k] = f32(X[m k]) * 0.5 + 1\nC[k n] = f32(W[k n]) * 0.5\nY[m n] = sum[k] A[m k] * C[k n]\n"); // no
                                                                                                            // product
  // Outside of a window is 1, not 0.
  const std::string window =
      "input X[h c] : u8\nweight W[i c] : i8\nA[h c] = f32(X[h c] - 7) * 0.5\nC[i c] = f32(W[i c]) * 0.25\n";
  floats("h=6, i=3, c=2", window + "Y[h c] = sum[i] A[h+i-1, c else 1] * C[i c]\n");
}

TEST(Integers, AShiftThatIsNoWholeStepStaysOne) {
  const Program p = normalise(
      known(head + "A[m k] = f32(X[m k] - 3) * 0.5\nC[k n] = f32(W[k n]) * 0.3\nY[m n] = sum[k] A[m k] * C[k n]\n"
                   "Q[m n] : u8 = u8(round((Y[m n] + b[n]) / 0.25))\noutput Q\n"));
  EXPECT_NE(print(p).find(" + Q_shift[n]))"), std::string::npos) << print(p);
}

TEST(Integers, BoundsFollowWhatIsRead) {
  const Program p = program("program p(k=10)\ninput X[k], Z : u8\ninput Y[k] : i8\nS : i32 = sum[k] (X[k] - Z) * "
                            "Y[k]\nT : i32 = S + 5\noutput T\n");
  const auto bounds = IntegerBounds(p).of_tensor(p.outputs[0]);
  ASSERT_TRUE(bounds);
  EXPECT_EQ(bounds->low, -255.0 * 128 * 10 + 5);
  EXPECT_EQ(bounds->high, 255.0 * 128 * 10 + 5);
}

} // namespace
} // namespace tilewright
