// The C++ operators: sessions of sparse products give what the sums say.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tilewright/operators.hpp"

namespace {

std::vector<float> values(std::size_t n, std::mt19937& random, double live = 1) {
  std::vector<float> v(n);
  for (float& x : v) x = random() < live * 0x1p32 ? static_cast<float>(random() % 2001) / 1000 - 1 : 0.0f;
  return v;
}

TEST(Operators, SparseMatmul) {
  std::mt19937 random(1);
  const std::int64_t m = 40, k = 60, n = 50;
  const auto a = values(40 * 60, random, 0.05), b = values(60 * 50, random);
  tw::Session product = tw::sparse_matmul({m, k, n, 8, 1}, {{"threads", "2"}});
  const auto c = product.run({tw::view("A", a.data(), {m, k}), tw::view("B", b.data(), {k, n})});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x) sum += double(a[i * k + x]) * b[x * n + j];
      ASSERT_NEAR(c[0].data<float>()[i * n + j], sum, 1e-5);
    }
}

TEST(Operators, RaggedLinear) {
  std::mt19937 random(2);
  auto x = values(3 * 9 * 20, random);
  const auto w = values(20 * 33, random);
  const std::int32_t lengths[] = {4, 0, 9};
  for (int b = 0; b < 3; ++b)
    for (int s = lengths[b]; s < 9; ++s) x[static_cast<std::size_t>((b * 9 + s) * 20)] = NAN; // padding
  tw::Session linear = tw::ragged_linear({3, 9, 20, 33});
  const auto y =
      linear.run({tw::view("L", lengths, {3}), tw::view("X", x.data(), {3, 9, 20}), tw::view("W", w.data(), {20, 33})});
  for (int r = 0; r < 27; ++r)
    for (int j = 0; j < 33; ++j) {
      double sum = 0;
      for (int i = 0; i < 20 && r % 9 < lengths[r / 9]; ++i)
        sum += double(x[static_cast<std::size_t>(r * 20 + i)]) * w[static_cast<std::size_t>(i * 33 + j)];
      ASSERT_NEAR(y[0].data<float>()[r * 33 + j], sum, 1e-5) << r;
    }
}

TEST(Operators, Moe) {
  std::mt19937 random(3);
  const std::int64_t t = 30, j = 2, e = 5, k = 12, f = 16, n = 35;
  const auto x = values(30 * 12, random), v = values(5 * 12 * 16, random), w = values(5 * 16 * 35, random),
             p = values(60, random);
  std::vector<std::int64_t> g(60);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = random() % 4; // nobody goes to the last
  tw::Session layers = tw::moe({t, j, e, k, f, n});
  const auto y =
      layers.run({tw::view("X", x.data(), {t, k}), tw::view("g", g.data(), {t, j}), tw::view("V", v.data(), {e, k, f}),
                  tw::view("W", w.data(), {e, f, n}), tw::view("p", p.data(), {t, j})});
  for (std::int64_t r = 0; r < t; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (std::int64_t q = 0; q < j; ++q) {
        const std::int64_t s = g[static_cast<std::size_t>(r * j + q)];
        for (std::int64_t h = 0; h < f; ++h) {
          double u = 0;
          for (std::int64_t i = 0; i < k; ++i)
            u += double(x[static_cast<std::size_t>(r * k + i)]) * v[static_cast<std::size_t>((s * k + i) * f + h)];
          sum += p[static_cast<std::size_t>(r * j + q)] * std::max(u, 0.0) *
                 w[static_cast<std::size_t>((s * f + h) * n + c)];
        }
      }
      ASSERT_NEAR(y[0].data<float>()[r * n + c], sum, 1e-4);
    }
  g[7] = 5;
  EXPECT_THROW(
      layers.run({tw::view("X", x.data(), {t, k}), tw::view("g", g.data(), {t, j}), tw::view("V", v.data(), {e, k, f}),
                  tw::view("W", w.data(), {e, f, n}), tw::view("p", p.data(), {t, j})}),
      tw::Error);
}

TEST(Operators, SparseAttention) {
  std::mt19937 random(4);
  const std::int64_t s = 9, t = 20, d = 8;
  const auto q = values(9 * 8, random), k = values(20 * 8, random), v = values(20 * 8, random);
  bool mask[9 * 20];
  for (int i = 0; i < 180; ++i) mask[i] = i >= 20 && random() % 3 == 0; // the first query sees nothing
  tw::Session attention = tw::sparse_attention({1, s, t, d, d});
  const auto o = attention.run({tw::view("Q", q.data(), {1, s, d}), tw::view("K", k.data(), {1, t, d}),
                                tw::view("V", v.data(), {1, t, d}), tw::view("M", mask, {s, t})});
  for (int i = 0; i < s; ++i)
    for (int e = 0; e < d; ++e) {
      double sum = 0, all = 0;
      for (int j = 0; j < t; ++j) {
        double score = 0;
        for (int x = 0; x < d; ++x)
          score += double(q[static_cast<std::size_t>(i * d + x)]) * k[static_cast<std::size_t>(j * d + x)];
        const double weight = mask[i * t + j] ? std::exp(score / std::sqrt(8.0)) : 0;
        sum += weight * v[static_cast<std::size_t>(j * d + e)], all += weight;
      }
      ASSERT_NEAR(o[0].data<float>()[i * d + e], all > 0 ? sum / all : 0, 1e-5);
    }
}

TEST(Operators, Detect) {
  std::mt19937 random(5);
  const auto a = values(50 * 33, random, 0.01);
  tw::Session detect = tw::detect({50, 33, 8, 4});
  const auto live = detect.run({tw::view("A", a.data(), {50, 33})});
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 9; ++j) {
      bool any = false;
      for (int r = i * 8; r < std::min(50, i * 8 + 8); ++r)
        for (int c = j * 4; c < std::min(33, j * 4 + 4); ++c) any |= a[static_cast<std::size_t>(r * 33 + c)] != 0;
      ASSERT_EQ(live[0].data<bool>()[i * 9 + j], any);
    }
}

} // namespace
