#include "law/siblings.h"

#include <gtest/gtest.h>

#include <cstring>

#include "expr/text.h"

namespace tilewright {
namespace {

// Weights get bytes that count up, so that they are constants.
Program program(const std::string& text) {
  Program p = fix_sizes(parse(text, "case.tw"), {});
  for (Tensor& t : p.tensors) {
    if (t.kind != Kind::weight) continue;
    std::int64_t n = 1;
    for (const Size& d : t.dims) n *= d.constant();
    auto bytes = std::make_shared<std::vector<float>>(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < bytes->size(); ++i)
      (*bytes)[i] = static_cast<float>(i) + (t.name == "A" ? 0.0f : 100.0f);
    t.data = std::as_bytes(std::span(*bytes));
    t.owner = bytes;
  }
  return p;
}

const char* head =
    "program p(t=5, k=2, f=3, g=4, h=3)\ninput X[t k], Z[t k] : f32\nweight A[f k], B[g k], C[h k], a[f], b[g] : f32\n";

std::vector<std::string> found(const std::string& body) {
  const Program p = program(head + body);
  std::vector<std::string> list;
  for (const Siblings& s : siblings(p)) {
    std::string& text = list.emplace_back();
    for (const auto& row : s.rows) {
      for (StatementId id : row) text += p.tensor(p.statement(id)->out).name + " ";
      text += "| ";
    }
  }
  return list;
}

TEST(Siblings, BiasesBesideTheirSums) {
  EXPECT_EQ(found("Q[t f] = sum[k] X[t k] * A[f k]\nK[t g] = sum[k] X[t k] * B[g k]\nP[t f] = Q[t f] + a[f]\nR[t g] = "
                  "K[t g] + b[g]\n"
                  "O[t] = sum[f] P[t f]\nU[t] = sum[g] R[t g]\noutput O, U\n"),
            std::vector<std::string>{"Q K | P R | "});
}

TEST(Siblings, WhatDiffersInMoreThanItsWeightsIsNone) {
  const char* end = "O[t] = sum[f] Q[t f]\nU[t] = sum[g] K[t g]\noutput O, U\n";
  const std::string q = "Q[t f] = sum[k] X[t k] * A[f k]\n";
  EXPECT_EQ(found(q + "K[t g] = sum[k] X[t k] * B[g k]\n" + end).size(), 1u);
  EXPECT_TRUE(found(q + "K[t g] = sum[k] Z[t k] * B[g k]\n" + end).empty());                    // another operand
  EXPECT_TRUE(found(q + "K[t g] = max[k] X[t k] * B[g k]\n" + end).empty());                    // another reducer
  EXPECT_TRUE(found(q + "K[t g] = sum[k] X[t k] * B[g k] where index(k) < 1\n" + end).empty()); // a guard
  EXPECT_TRUE(found(q + "K[t g] = sum[k] X[t, 1 - k] * B[g k]\n" + end).empty());               // read in another way
  EXPECT_TRUE(found(q + "K[t g] = sum[k] X[t k] * B[g k]\noutput Q, K\n").empty());             // the caller's own
}

TEST(Siblings, ResultsAreReadAsParts) {
  const Program p = program(std::string(head) + "Q[t f] = sum[k] X[t k] * A[f k]\nK[t g] = sum[k] X[t k] * B[g k]\n"
                                                "O[t] = sum[f] Q[t f]\nU[t] = sum[g] K[t g]\noutput O, U\n");
  std::vector<std::vector<TensorId>> results;
  const Program beside = side_by_side(p, siblings(p), true, &results);
  ASSERT_EQ(beside.nodes.size(), 3u);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(beside.tensor(results[0][0]).dims[1], Size(7));
  EXPECT_NE(print(beside, *beside.statement(2)).find("g+3]"), std::string::npos) << print(beside, *beside.statement(2));
  const auto c = contraction(beside, *beside.statement(0));
  ASSERT_TRUE(c);
  const Tensor& w = beside.tensor(c->b->tensor);
  ASSERT_EQ(w.dims[0], Size(7));
  const auto* values = reinterpret_cast<const float*>(w.data.data());
  EXPECT_EQ(values[5], 5.0f);   // the last of A
  EXPECT_EQ(values[6], 100.0f); // the first of B
}

} // namespace
} // namespace tilewright
