// Attention over 16384 tokens holds no scores: 1 GiB of them would be made, 64 MiB are allowed above inputs and outputs. And rows that see
// nothing: 0 under a condition, no number where minus infinity is added to all of them (as ONNX has it).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "expr/sizes.h"
#include "expr/text.h"
#include "normal/same_outputs.h"
#include "runtime/session.h"

namespace tilewright {
namespace {

double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

struct Arrays {
  std::vector<Array> in, out;
  explicit Arrays(const Program& p) {
    for (TensorId t : p.inputs) in.push_back(Array::make(p.tensor(t).dtype, dims_of(p.tensor(t))));
    for (TensorId t : p.outputs) out.push_back(Array::make(p.tensor(t).dtype, dims_of(p.tensor(t))));
  }
  void run(Session& session) {
    std::vector<Strided> from, to;
    for (Array& a : in) from.push_back(dense(a));
    for (Array& a : out) to.push_back(dense(a));
    session.run(from, to);
  }
};

void draw(Array& a, testing::Random& random) {
  for (std::int64_t i = 0; i < a.count(); ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(random() % 65536) / 65536;
    a.as<float>()[i] = static_cast<float>(sum);
  }
}

SessionOptions two_threads() {
  SessionOptions o;
  o.threads = 2;
  return o;
}

TEST(LongAttention, HoldsNoScores) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is larger";
#endif
  constexpr std::int64_t n = 16384, d = 64;
  const Program p = fix_sizes(parse("program p(q=16384, x=16384, d=64)\ninput Q[q d], K[x d], V[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d] / 8\n"
                          "P[q x] = softmax[x] S[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n", "long.tw"), {});
  testing::Random random(3);
  Arrays arrays(p);
  for (Array& a : arrays.in) draw(a, random);
  std::fill_n(arrays.out[0].as<float>(), n * d, 0.0f);           // its pages are there
  if (std::ofstream clear("/proc/self/clear_refs"); !(clear << 5 << std::flush)) GTEST_SKIP() << "the peak cannot be reset here";
  const double before = status_mib("VmRSS");
  Session session(p, two_threads());
  arrays.run(session);
  const double above = status_mib("VmHWM") - before;
  EXPECT_LT(above, 64) << "MiB above inputs and outputs";
  RecordProperty("mib_above", std::to_string(above));
  const float *q = arrays.in[0].as<float>(), *k = arrays.in[1].as<float>(), *v = arrays.in[2].as<float>();
  for (std::int64_t row : {std::int64_t{0}, std::int64_t{777}, n - 1}) {
    std::vector<double> score(n), sum(d, 0.0);
    double most = -INFINITY, all = 0;
    for (std::int64_t x = 0; x < n; ++x) {
      for (std::int64_t i = 0; i < d; ++i) score[static_cast<std::size_t>(x)] += static_cast<double>(q[row * d + i]) * static_cast<double>(k[x * d + i]) / 8;
      most = std::max(most, score[static_cast<std::size_t>(x)]);
    }
    for (std::int64_t x = 0; x < n; ++x) {
      const double e = std::exp(score[static_cast<std::size_t>(x)] - most);
      all += e;
      for (std::int64_t i = 0; i < d; ++i) sum[static_cast<std::size_t>(i)] += e * static_cast<double>(v[x * d + i]);
    }
    for (std::int64_t i = 0; i < d; ++i) EXPECT_NEAR(arrays.out[0].as<float>()[row * d + i], sum[static_cast<std::size_t>(i)] / all, 2e-6) << row << " " << i;
  }
}

// Keys that a query may see are those with A > 0, or with a finite A added. Every third query sees none.
struct Masked : ::testing::TestWithParam<bool> {};
TEST_P(Masked, RowsThatSeeNothing) {
  const bool added = GetParam();
  constexpr std::int64_t n = 300, d = 64;
  const Program p = fix_sizes(parse(std::string("program p(h=2, q=300, x=300, d=64)\ninput Q[h q d], K[h x d], V[h x d], A[q x] : f32\n") +
                          (added ? "S[h q x] = sum[d] Q[h q d] * K[h x d] / 8\nT[h q x] = S[h q x] + A[q x]\nP[h q x] = softmax[x] T[h q x]\n"
                                 : "S[h q x] = sum[d] Q[h q d] * K[h x d] / 8\nP[h q x] = softmax[x] S[h q x] where A[q x] > 0\n") +
                          "O[h q d] = sum[x] P[h q x] * V[h x d]\noutput O\n", "masked.tw"), {});
  testing::Random random(4);
  Arrays arrays(p);
  for (Array& a : arrays.in) draw(a, random);
  const auto sees = [](std::int64_t q, std::int64_t x) { return q % 3 != 0 && (x + q) % 5 < 3; };
  for (std::int64_t q = 0; q < n; ++q)
    for (std::int64_t x = 0; x < n; ++x) arrays.in[3].as<float>()[q * n + x] = sees(q, x) ? (added ? 0.5f : 1.0f) : added ? -std::numeric_limits<float>::infinity() : -1.0f;
  Session session(p, two_threads());
  arrays.run(session);
  const float *Q = arrays.in[0].as<float>(), *K = arrays.in[1].as<float>(), *V = arrays.in[2].as<float>(), *O = arrays.out[0].as<float>();
  for (std::int64_t row = 0; row < 2 * n; ++row) {
    const std::int64_t h = row / n, q = row % n;
    double all = 0, sum = 0;
    for (std::int64_t x = 0; x < n; ++x) {
      if (!sees(q, x)) continue;
      double s = 0;
      for (std::int64_t i = 0; i < d; ++i) s += static_cast<double>(Q[row * d + i]) * static_cast<double>(K[(h * n + x) * d + i]) / 8;
      all += std::exp(s), sum += std::exp(s) * static_cast<double>(V[(h * n + x) * d + 5]);
    }
    if (q % 3 != 0) EXPECT_NEAR(O[row * d + 5], sum / all, 1e-5) << row;
    else if (added) EXPECT_TRUE(std::isnan(O[row * d + 5])) << row << ": " << O[row * d + 5];
    else EXPECT_EQ(O[row * d + 5], 0) << row;
  }
}
INSTANTIATE_TEST_SUITE_P(Both, Masked, ::testing::Bool());

}  // namespace
}  // namespace tilewright
