// Patterns spread as far as the laws say.
#include <gtest/gtest.h>

#include <random>

#include "expr/text.h"
#include "sparse/spread.h"

namespace tilewright {
namespace {

// "H zeros 8 x 1" for each tensor that became sparse.
std::string spread(const std::string& text, bool recognise = false, bool strict = false) {
  Program p = fix_sizes(parse("program p(b=2, s=5, k=7, n=9, f=4)\n" + text, "case.tw"), {});
  const std::size_t lines = spread_patterns(p, {recognise, strict}).size();
  std::string out;
  std::size_t found = 0;
  for (const Tensor& t : p.tensors) {
    if (!t.sparse || t.kind != Kind::intermediate) continue;
    static constexpr const char* forms[] = {"zeros", "mask", "lengths"};
    out += (out.empty() ? "" : "; ") + t.name + " " + forms[t.sparse->form] +
           (t.sparse->of.empty() ? "" : " " + t.sparse->of);
    if (t.sparse->tile_rows > 1) out += " " + std::to_string(t.sparse->tile_rows);
    ++found;
  }
  EXPECT_EQ(found, lines);
  return out;
}

TEST(Spread, MapsKeepIt) {
  const std::string x = "input X[s k], P[s k] : f32 sparse(zeros, tile 2, 1)\ninput Q[s k], v[k] : f32\n";
  EXPECT_EQ(spread(x + "Y[s k] = 2 * max(X[s k], 0)\noutput Y\n"), "Y zeros 2");
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] * Q[s k]\noutput Y\n"), "Y zeros 2");     // one factor is enough
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] * Q[s k]\noutput Y\n", false, true), ""); // 0 * inf
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] + P[s k]\noutput Y\n"), "Y zeros 2");     // where both are
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] + Q[s k]\noutput Y\n"), "");
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] + v[k]\noutput Y\n"), ""); // the bias is left
  EXPECT_EQ(spread(x + "Y[s k] = exp(X[s k])\noutput Y\n"), "");
  EXPECT_EQ(spread(x + "Y[k s] = X[s k]\noutput Y\n"), ""); // micro-tiles do not turn
}

TEST(Spread, RowsGoThroughProducts) {
  const std::string x = "input L[b] : i32\ninput X[b s k] : f32 sparse(lengths L)\ninput W[k n], V[n f], v[n] : f32\n";
  EXPECT_EQ(spread(x + "Y[b s n] = sum[k] X[b s k] * W[k n]\nH[b s n] = max(Y[b s n], 0)\nZ[b s f] = sum[n] H[b s n] * "
                       "V[n f]\noutput Z\n"),
            "Y lengths L; H lengths L; Z lengths L");
  EXPECT_EQ(spread(x + "Y[b s n] = sum[k] X[b s k] * W[k n]\nH[b s n] = Y[b s n] + v[n]\nZ[b s f] = sum[n] H[b s n] * "
                       "V[n f]\noutput Z\n"),
            "Y lengths L");
  const std::string m = "input M[s] : bool\ninput X[s k] : f32 sparse(mask M)\ninput W[k n] : f32\n";
  EXPECT_EQ(spread(m + "Y[s n] = sum[k] X[s k] * W[k n]\noutput Y\n"), "Y mask M");
  const std::string z = "input X[s k] : f32 sparse(zeros, tile 2, 1)\ninput W[k n] : f32\n";
  EXPECT_EQ(spread(z + "Y[s n] = sum[k] X[s k] * W[k n]\noutput Y\n"), ""); // zeros along k leave none
}

TEST(Spread, ReductionsKeepRowsOnly) {
  const std::string m = "input M[s] : bool\ninput X[s k] : f32 sparse(mask M)\n";
  EXPECT_EQ(spread(m + "Y[s] = sum[k] X[s k]\noutput Y\n"), "Y mask M");
  EXPECT_EQ(spread(m + "Y[k] = sum[s] X[s k]\noutput Y\n"), "");
  EXPECT_EQ(spread(m + "Y[s] = max[k] X[s k]\noutput Y\n"), "Y mask M");
  EXPECT_EQ(spread(m + "Y[s k] = softmax[k] X[s k]\noutput Y\n").find("Y "), std::string::npos);
}

TEST(Spread, WhereZerosAreMade) {
  const std::string x = "input X[s k], m[s] : f32\ninput M[s k], R[s] : bool\ninput L[b] : i32\ninput Z[b s k] : f32\n";
  EXPECT_EQ(spread(x + "Y[s k] = max(X[s k], 0)\noutput Y\n"), "");
  EXPECT_EQ(spread(x + "Y[s k] = max(X[s k], 0)\noutput Y\n", true), "Y zeros");
  EXPECT_EQ(spread(x + "Y[s k] = max(X[s k], 1)\noutput Y\n", true), "");
  EXPECT_EQ(spread(x + "Y[s k] = select(M[s k], X[s k], 0)\noutput Y\n", true), "Y mask M");
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] * f32(M[s k])\noutput Y\n", true), "Y mask M");
  EXPECT_EQ(spread(x + "Y[s k] = X[s k] where R[s]\noutput Y\n", true), "Y mask R");
  EXPECT_EQ(spread(x + "Y[b s k] = Z[b s k] where index(s) < L[b]\noutput Y\n", true), "Y lengths L");
  EXPECT_EQ(spread(x + "Y[b s k] = Z[b s k] where index(k) < L[b]\noutput Y\n", true), "");
}

// A rows 100,000,011,000; W rows 10,00,10: the element (2, 1) of A meets an empty row of W.
TEST(Spread, LiveElementsOfAProduct) {
  const LiveProduct l = live_product(4, 3, 2, {1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0}, {1, 0, 0, 0, 1, 0});
  EXPECT_EQ(l.c, (std::vector<std::uint8_t>{1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(l.a, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(l.b, (std::vector<std::uint8_t>{1, 0, 0, 0, 1, 0}));
}

TEST(Spread, DeadElementsChangeNothing) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t m = 1 + random() % 6, k = 1 + random() % 6, n = 1 + random() % 6;
    std::vector<std::uint8_t> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
    for (auto& x : a) x = random() % 3 == 0;
    for (auto& x : b) x = random() % 3 == 0;
    const LiveProduct l = live_product(m, k, n, a, b), again = live_product(m, k, n, l.a, l.b);
    EXPECT_EQ(again.c, l.c);
    EXPECT_EQ(again.a, l.a);
    for (std::size_t e = 0; e < a.size(); ++e) EXPECT_LE(l.a[e], a[e]);
  }
}

} // namespace
} // namespace tilewright
