// Streams of known programs: which are found, which are refused and with which term; and the three laws for each that is found.
#include "law/stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/text.h"
#include "law/stream_forms.h"
#include "law/unrolled.h"

namespace tilewright {
namespace {

struct Found { Program program; std::vector<Stream> streams; std::vector<StreamRefusal> refusals; std::string why; };

// Every axis along which something is read before it is complete.
Found streams_of(const Program& original) {
  Found f;
  f.program = stream_forms(original, &f.refusals);
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < f.program.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  const auto region = unify(f.program, all);
  if (!region) return f.why = region.reason(), f;
  for (RegionAxis x = 0; x < static_cast<RegionAxis>(region->axes.size()); ++x) {
    if (roles(f.program, *region)[static_cast<std::size_t>(x)].reducer == Reducer::none) continue;
    if (!needs_stream(f.program, *region, x)) continue;
    auto s = derive_stream(f.program, *region, x);
    if (s) f.streams.push_back(std::move(*s));
    else f.why = s.reason();
  }
  return f;
}

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

struct Data { double mean = 0, deviation = 1; };

Values inputs(const Program& p, std::uint64_t seed, Data data) {
  std::mt19937_64 random(seed);
  Values given;
  auto fill = [&](TensorId id) {
    const Tensor& t = p.tensor(id);
    std::vector<std::int64_t> dims;
    for (const Size& d : t.dims) dims.push_back(d.constant());
    Array a = Array::make(is_float(t.dtype) ? DType::f64 : t.dtype, dims);
    std::normal_distribution<double> normal(data.mean, data.deviation);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (is_float(t.dtype)) a.as<double>()[i] = static_cast<double>(static_cast<float>(normal(random)));
      else if (t.dtype == DType::i64) a.as<std::int64_t>()[i] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(t.index_of ? t.index_of->constant() : 2));
      else a.data[i] = static_cast<std::byte>(random() % 2);
    }
    given[id] = a;
  };
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind != Kind::intermediate) fill(static_cast<TensorId>(t));
  return given;
}

Values as_declared(const Program& p, const Values& reals) {
  Values given;
  for (const auto& [t, a] : reals) {
    if (!is_float(p.tensor(t).dtype) || p.tensor(t).dtype != DType::f32) { given[t] = a; continue; }
    Array b = Array::make(DType::f32, a.dims);
    for (std::int64_t i = 0; i < a.count(); ++i) b.as<float>()[i] = static_cast<float>(a.as<double>()[i]);
    given[t] = b;
  }
  return given;
}

// Largest difference, relative to the largest magnitude.
double distance(const Program& p, const Values& got, const Values& want) {
  double worst = 0;
  for (TensorId t : p.outputs) {
    const Array &g = got.at(t), &w = want.at(t);
    double scale = 1e-30, most = 0;
    auto value = [](const Array& a, std::int64_t i) { return a.dtype == DType::f64 ? a.as<double>()[i] : a.dtype == DType::f32 ? static_cast<double>(a.as<float>()[i]) : static_cast<double>(a.as<std::int64_t>()[i]); };
    for (std::int64_t i = 0; i < w.count(); ++i) {
      const double x = value(g, i), y = value(w, i);
      if (x == y || std::isnan(y)) continue;                 // 0 * log(0) has no value; behind the logarithm's rules it may
      if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
      most = std::max(most, std::abs(x - y));
    }
    for (std::int64_t i = 0; i < w.count(); ++i)
      if (std::isfinite(value(w, i))) scale = std::max(scale, std::abs(value(w, i)));
    worst = std::max(worst, most / scale);
  }
  return worst;
}

// Laws 1 and 2 (any chunks give the whole) and 3 (two states merge), over the reals and in f32.
void expect_laws(const Program& original, const Found& f, Data data, const std::string& what) {
  for (const Stream& s : f.streams) {
    const std::int64_t extent = s.region.axes[static_cast<std::size_t>(s.axis)].constant();
    const Values given = inputs(original, 7, data);
    const Values exact = evaluate(original, given, {}, Evaluation::fp64), plain = evaluate(original, as_declared(original, given), {}, Evaluation::typed);
    const double usual = distance(original, plain, exact);
    auto check = [&](const Program& q, const std::string& how) {
      ASSERT_NO_THROW(verify(q)) << what << " " << how << "\n" << print(q);
      EXPECT_LT(distance(original, evaluate(q, given, {}, Evaluation::fp64), exact), 2e-6) << what << " " << how << "\n" << print(s);
      EXPECT_LT(distance(original, evaluate(q, as_declared(original, given), {}, Evaluation::typed), exact), 8 * usual + 4e-6) << what << " " << how << " (f32)\n" << print(s);
    };
    for (std::int64_t size : {std::int64_t{1}, std::int64_t{3}, extent - 1, extent})
      check(testing::Unrolled(s).make(testing::chunks_of(extent, size)), "in chunks of " + std::to_string(size));
    check(testing::Unrolled(s).make(testing::chunks_of(extent / 2, 2), testing::chunks_of(extent - extent / 2, 3)), "merged");
  }
}

struct Case { const char* name; const char* body; };

// q, x, d; S, A: [q x]; V: [x d].
std::string text(const Case& c) {
  return std::string("program p(q=5, x=8, d=3, h=4, h2=1)\ninput S[q x], A[q x], V[x d], Q[q d], K[x d], w[x] : f32\ninput label[q] : index(x)\n") + c.body + "\n";
}

const Case to_be_found[] = {
    {"softmax, unscaled", "P[q x] = softmax[x] S[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"softmax by hand", "m[q] = max[x] S[q x]\nZ[q] = sum[x] exp(S[q x] - m[q])\nO[q d] = sum[x] exp(S[q x] - m[q]) * V[x d] / Z[q]\noutput O"},
    {"softmax, scaled in the exponent", "m[q] = max[x] S[q x]\nZ[q] = sum[x] exp(0.125 * (S[q x] - m[q]))\nO[q d] = sum[x] exp(0.125 * S[q x] - 0.125 * m[q]) / Z[q] * V[x d]\noutput O"},
    {"softmax by the logarithm of its sum", "L[q] = logsumexp[x] S[q x]\nO[q d] = sum[x] exp(S[q x] - L[q]) * V[x d]\noutput O"},
    {"one head", "T[h2 q x] = S[q x] * K[h2, 0]\nP[h2 q x] = softmax[x] T[h2 q x]\nO[h2 q d] = sum[x] P[h2 q x] * V[x d]\noutput O"},
    {"contraction before it", "T[q x] = sum[d] Q[q d] * K[x d] / 2\nP[q x] = softmax[x] T[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"logsumexp", "L[q] = logsumexp[x] S[q x]\noutput L"},
    {"entropy", "P[q x] = softmax[x] S[q x]\nH[q] = sum[x] -P[q x] * log(P[q x])\noutput H"},
    {"softcap", "T[q x] = 30 * tanh(S[q x] / 30)\nP[q x] = softmax[x] T[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"a slope by distance", "P[q x] = softmax[x] S[q x] + 0.5 * (index(x) - index(q))\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"causal", "P[q x] = softmax[x] S[q x] where index(x) <= index(q)\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"window", "P[q x] = softmax[x] S[q x] where index(x) <= index(q) + 2 and index(q) <= index(x) + 2\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"any mask", "P[q x] = softmax[x] S[q x] where A[q x] > 0\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"rows without a point", "P[q x] = softmax[x] S[q x] where index(q) > 1 and A[q x] > 0\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"layer norm", "N[q x] = layernorm[x] S[q x]\nO[q d] = sum[x] N[q x] * w[x] * V[x d]\noutput O"},
    {"layer norm with a bias", "N[q x] = layernorm[x] S[q x]\nB[q x] = N[q x] * w[x] + w[x]\nO[q d] = sum[x] B[q x] * V[x d]\noutput O"},
    {"layer norm under a guard", "N[q x] = layernorm[x] S[q x] where index(x) != 3\nO[q d] = sum[x] N[q x] * V[x d]\noutput O"},
    {"variance", "M[q] = sum[x] S[q x] / x\nD[q] = sum[x] (S[q x] - M[q])^2 / x\noutput M, D"},
    {"third moment", "M[q] = sum[x] S[q x] / x\nD[q] = sum[x] (S[q x] - M[q])^3 / x\noutput D"},
    {"covariance", "M[q] = sum[x] S[q x] / x\nN[q] = sum[x] A[q x] / x\nD[q] = sum[x] (S[q x] - M[q]) * (A[q x] - N[q]) / x\noutput D"},
    {"cross entropy", "L[q] = logsumexp[x] T[q x]\nloss = sum[q] (L[q] - T[q, label[q]]) / q\noutput loss"},
    {"rotary keys", "R[x d] = K[x d] * w[x] + K[x, 2 - d] * (1 - w[x])\nT[q x] = sum[d] Q[q d] * R[x d]\nP[q x] = softmax[x] T[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"always normalised", "m[q] = max[x] S[q x]\nZ[q] = sum[x] exp(S[q x] - m[q])\nP[q x] = exp(S[q x] - m[q]) / Z[q]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
    {"normalised by the greatest", "m[q] = max[x] abs(S[q x])\nD[q] = sum[x] exp(S[q x] - M[q])\noutput D"},
};

Program case_of(const Case& c) {
  std::string t = text(c);
  if (std::string(c.name) == "cross entropy") t.replace(t.find("L[q] = logsumexp"), 0, "T[q x] = sum[d] Q[q d] * K[x d]\n");
  if (std::string(c.name) == "normalised by the greatest") t.replace(t.find("m[q] = max"), std::string("m[q] = max[x] abs(S[q x])\n").size(), "M[q] = max[x] S[q x]\n");
  return program(t);
}

TEST(Stream, FoundAndLawful) {
  for (const Case& c : to_be_found) {
    const Program p = case_of(c);
    const Found f = streams_of(p);
    ASSERT_FALSE(f.streams.empty()) << c.name << ": " << f.why << (f.refusals.empty() ? "" : f.refusals[0].reason) << "\n" << print(f.program);
    EXPECT_TRUE(f.refusals.empty()) << c.name << ": " << f.refusals[0].reason;
    for (const Data data : {Data{0, 1}, Data{0.3, 3}, Data{0, 1e4}, Data{1e4, 1}}) {
      expect_laws(p, f, data, c.name);
      if (HasFailure()) return;
    }
  }
}

// What needs no correction at all once its statistics are taken out.
TEST(Stream, FixedAnchors) {
  const Case cases[] = {
      {"RMS norm", "N[q x] = rmsnorm[x] S[q x]\nO[q d] = sum[x] N[q x] * w[x] * V[x d]\noutput O"},
      {"L2 norm", "N[q x] = l2norm[x] S[q x]\nO[q d] = sum[x] N[q x] * V[x d]\noutput O"},
      {"L1 norm", "n[q] = sum[x] abs(S[q x])\nO[q d] = sum[x] S[q x] / n[q] * V[x d]\noutput O"},
      {"linear attention", "n[q] = sum[x] exp(K[x, 0]) * abs(S[q x])\nO[q d] = sum[x] exp(K[x, 0]) * abs(S[q x]) / n[q] * V[x d]\noutput O"},
      {"sigmoid attention", "P[q x] = 1 / (1 + exp(-S[q x]))\nO[q d] = sum[x] P[q x] * V[x d]\noutput O"},
      {"a hidden axis", "H[q x] = sum[d] Q[q d] * K[x d]\nG[q x] = max(H[q x], 0)\nO[q d] = sum[x] G[q x] * V[x d]\noutput O"},
      {"a maximum behind a shift", "M[q] = sum[x] S[q x] / x\nB[q] = max[x] S[q x] - M[q]\noutput B"},
      {"a maximum of exponentials", "P[q x] = softmax[x] S[q x]\nB[q] = max[x] P[q x]\noutput B"},
      {"routing", "P[q x] = softmax[x] S[q x]\nB[q] : index(x) = argmax[x] P[q x]\noutput B"},
  };
  for (const Case& c : cases) {
    const Program p = program(text(c));
    const Found f = streams_of(p);
    EXPECT_TRUE(f.refusals.empty()) << c.name << ": " << f.refusals[0].reason;
    EXPECT_TRUE(f.why.empty()) << c.name << f.why << print(f.program);
    for (const Stream& s : f.streams)                       // only the statistics themselves follow others
      for (const Stream::State& st : s.state) EXPECT_TRUE(st.corrected < 0 || f.program.tensor(st.tensor).name == "P_sum") << c.name;
    const Values given = inputs(p, 3, {0.2, 1});
    EXPECT_LT(distance(p, evaluate(f.program, given, {}, Evaluation::fp64), evaluate(p, given, {}, Evaluation::fp64)), 1e-6) << c.name;
  }
}

// The terms that block, as they are printed.
// A norm's weights go into those of the product behind it, as finely rounded as its operand was; what has maps of elements stays apart.
TEST(Stream, NormsBeforeProductsStayProducts) {
  const std::string norm = "program p(t=4, c=16, f=8)\ninput X[t c] : f16\nweight g[c], W[f c] : f16\nS[t] : f32 = sum[c] X[t c] * X[t c]\n", product = "Y[t f] : f32 = sum[c] N[t c] * W[f c]\noutput Y\n";
  const std::string formed = print(stream_forms(program(norm + "N[t c] : f16 = X[t c] / sqrt(S[t] / 16 + 0.00001) * g[c]\n" + product), nullptr, StreamForms::products));
  EXPECT_NE(formed.find("Y_1_factor[f c] : f16 = W[f c] * g[c]"), std::string::npos) << formed;
  EXPECT_NE(formed.find("Y_1[t f] : f32 = sum[c] Y_1_factor[f c] * X[t c]"), std::string::npos) << formed;
  EXPECT_EQ(formed.find("N["), std::string::npos) << formed;
  const Program shifted = program(norm + "N[t c] : f16 = (X[t c] - S[t]) * g[c]\n" + product);
  EXPECT_EQ(print(stream_forms(shifted, nullptr, StreamForms::products)), print(shifted));
}

TEST(Stream, RefusedWithTheTerm) {
  const struct { const char* body; const char* term; } cases[] = {
      {"O[q d] = sum[x] exp(-((S[q x] - m[q])^2)) * V[x d]", "m[q] * S[q x] * 2 stands in an exponent"},
      {"O[q d] = sum[x] tanh(S[q x] - m[q]) * V[x d]", "tanh(S[q x] - m[q])"},
      {"O[q d] = sum[x] abs(S[q x] - m[q]) * V[x d]", "S[q x] - m[q] stands under abs"},
      {"O[q d] = sum[x] round(S[q x] / m[q] * 127) * V[x d]", "round(S[q x] / m[q] * 127)"},
      {"O[q d] = sum[x] exp(S[q x] * m[q]) * V[x d]", "m[q] * S[q x] stands in an exponent"},
      {"O[q d] = sum[x] V[x d] / (S[q x] - m[q])", "S[q x] - m[q] stands in a divisor"},
      {"O[q d] = sum[x] log(S[q x] - m[q]) * V[x d]", "log(S[q x] - m[q])"},
      {"O[q d] = sum[x] sqrt(abs(S[q x]) + m[q]) * V[x d]", "abs(S[q x]) + m[q] stands under a root"},
      {"O[q d] = sum[x] select(S[q x] < m[q], 1, 2) * V[x d]", "S[q x] < m[q] stands as a condition"},
      {"O[q d] = sum[x] V[x d] where S[q x] < m[q]", "S[q x] < m[q]"},
      {"O[q d] = sum[x] exp(S[q x] - 2 * m[q]) * V[x d]", "exp(S[q x]) may leave its range"},
      {"O[q d] = prod[x] (S[q x] - m[q]) * V[x d]", "a statistic stands under prod"},
      {"B[q] = max[x] S[q x] * m[q]\nO[q d] = B[q] * V[0, d]", "m[q] may be negative"},
  };
  for (const auto& c : cases) {
    const Program p = program(text({"", ("m[q] = max[x] S[q x]\n" + std::string(c.body) + "\noutput O").c_str()}));
    const Found f = streams_of(p);
    ASSERT_EQ(f.refusals.size(), 1u) << c.body;
    EXPECT_NE(f.refusals[0].reason.find(c.term), std::string::npos) << c.body << "\n" << f.refusals[0].reason;
    EXPECT_TRUE(f.streams.empty()) << c.body;
  }
  const Found bare = streams_of(program(text({"", "P[q x] = softmax[x] S[q x]\noutput P"})));
  ASSERT_EQ(bare.refusals.size(), 1u);
  EXPECT_EQ(bare.refusals[0].reason, "P keeps x and needs P_max, which is known only behind it; followed by a contraction over x it would stream");
}

// napkin.md 14.19 and 14.20: the numbers of an online softmax, by hand.
TEST(Stream, WorkedExamples) {
  const Program p = program("program p(x=4)\ninput S[x], V[x] : f64\nm = max[x] S[x]\nZ = sum[x] exp(S[x] - m)\nO = sum[x] exp(S[x] - m) / Z * V[x]\noutput O\n");
  const Found f = streams_of(p);
  ASSERT_EQ(f.streams.size(), 1u) << f.why;
  Values given;
  const double x[] = {1, 3, 2, 5}, v[] = {10, 20, 30, 40};
  for (TensorId t : p.inputs) given[t] = Array::make(DType::f64, {4});
  std::copy(x, x + 4, given.at(p.inputs[0]).as<double>());
  std::copy(v, v + 4, given.at(p.inputs[1]).as<double>());
  const Program q = testing::Unrolled(f.streams[0]).make({2, 2});
  const Values got = evaluate(q, given, {}, Evaluation::fp64);
  auto named = [&](const std::string& name) {
    for (std::size_t t = 0; t < q.tensors.size(); ++t)
      if (q.tensors[t].name == name) return got.at(static_cast<TensorId>(t)).as<double>()[0];
    ADD_FAILURE() << name << "\n" << print(q);
    return 0.0;
  };
  EXPECT_NEAR(got.at(q.outputs[0]).as<double>()[0], 36.8805658914, 1e-9);
  EXPECT_NEAR(evaluate(testing::Unrolled(f.streams[0]).make({2}, {2}), given, {}, Evaluation::fp64).at(q.outputs[0]).as<double>()[0], 36.8805658914, 1e-9);
  // The versions are numbered as they are made: init, moved, share, joined.
  std::vector<double> z;
  for (std::size_t t = 0; t < q.tensors.size(); ++t)
    if (q.tensors[t].name.rfind("Z_", 0) == 0 && got.count(static_cast<TensorId>(t)) && q.tensors[t].dims.empty()) z.push_back(got.at(static_cast<TensorId>(t)).as<double>()[0]);
  EXPECT_TRUE(std::any_of(z.begin(), z.end(), [](double a) { return std::abs(a - 1.1353352832) < 1e-9; }));
  EXPECT_TRUE(std::any_of(z.begin(), z.end(), [](double a) { return std::abs(a - 1.2034379905) < 1e-9; }));
  (void)named;
}

// Golden text of the best known ones.
TEST(Stream, Golden) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"flash_attention", "program attention(h=2, q=16, x=32, d=8)\ninput Q[h q d], K[h x d], V[h x d] : f32\nS[h q x] = sum[d] Q[h q d] * K[h x d]\nP[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]\noutput O\n"},
      {"logsumexp", "program p(q=4, x=8)\ninput S[q x] : f32\nL[q] = logsumexp[x] S[q x]\noutput L\n"},
      {"layernorm_linear", "program p(t=4, c=16, f=8)\ninput X[t c], g[c], b[c], W[f c] : f32\nN[t c] = layernorm[c] X[t c]\nB[t c] = N[t c] * g[c] + b[c]\nY[t f] = sum[c] B[t c] * W[f c]\noutput Y\n"},
      {"rmsnorm_linear", "program p(t=4, c=16, f=8)\ninput X[t c], g[c], W[f c] : f32\nN[t c] = rmsnorm[c] X[t c]\nY[t f] = sum[c] N[t c] * g[c] * W[f c]\noutput Y\n"},
      {"cross_entropy", "program p(t=4, m=8, v=32)\ninput H[t m], W[v m] : f32\ninput label[t] : index(v)\nZ[t v] = sum[m] H[t m] * W[v m]\nL[t] = logsumexp[v] Z[t v]\nloss = sum[t] (L[t] - Z[t, label[t]]) / t\noutput loss\n"},
  };
  for (const auto& [name, source] : cases) {
    const Found f = streams_of(program(source));
    std::string got = print(f.program);
    for (const Stream& s : f.streams) got += "\n" + print(s);
    const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/golden/stream/" + name + ".txt";
    if (std::getenv("TILEWRIGHT_UPDATE_GOLDEN")) std::ofstream(path) << got;
    std::ifstream in(path);
    std::stringstream want;
    want << in.rdbuf();
    EXPECT_EQ(got, want.str()) << name;
  }
}

}  // namespace
}  // namespace tilewright
