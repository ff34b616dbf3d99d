// Which axes may be permuted and bucketed, and what their slices leave behind when they are skipped.
#include <gtest/gtest.h>

#include <numeric>

#include "expr/random_program.h"
#include "expr/text.h"
#include "law/permute.h"
#include "law/skip.h"

namespace tilewright {
namespace {

struct Case {
  Program p;
  Region r;

  explicit Case(const std::string& text, std::vector<StatementId> all = {})
      : p(fix_sizes(parse("program p" + text, "case.tw"), {})) {
    if (all.empty()) {
      all.resize(p.nodes.size());
      std::iota(all.begin(), all.end(), 0);
    }
    auto made = unify(p, all);
    EXPECT_TRUE(made) << made.reason();
    if (made) r = *made;
  }
  RegionAxis axis(const std::string& name) const {
    const auto at = std::find(r.names.begin(), r.names.end(), name);
    EXPECT_NE(at, r.names.end()) << name;
    return static_cast<RegionAxis>(at - r.names.begin());
  }
  TensorId tensor(const std::string& name) const {
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].name == name) return static_cast<TensorId>(t);
    ADD_FAILURE() << name;
    return -1;
  }
  std::string why(const std::string& name) const { return permutable(p, r, axis(name)).reason(); }

  // The permutable axes; one that carries its value is written x*, one whose sums are reordered (x).
  std::string axes() const {
    std::string out;
    for (RegionAxis a = 0; a < static_cast<RegionAxis>(r.axes.size()); ++a) {
      const auto law = permutable(p, r, a);
      EXPECT_EQ(static_cast<bool>(law), static_cast<bool>(laws(p, r, a).permute));
      if (!law) continue;
      const std::string name = r.names[static_cast<std::size_t>(a)] + (law->carried ? "*" : "");
      out += (out.empty() ? "" : " ") + (law->exact ? name : "(" + name + ")");
    }
    return out;
  }
  // What is left where `sparse` has a background along an axis of its first reader: "Y 0, Z 1", or why it may not be
  // skipped.
  std::string skip(const std::string& sparse, const std::string& along, double background = 0,
                   bool strict = false) const {
    const TensorId t = tensor(sparse);
    std::optional<std::size_t> dim;
    for (std::size_t n = 0; n < p.nodes.size() && !dim; ++n) {
      const Statement& s = *p.statement(static_cast<StatementId>(n));
      for_each_access(s, [&](const Access& a) {
        for (std::size_t d = 0; d < a.at.size() && a.tensor == t; ++d)
          if (const auto x = plain_axis(a.at[d]); x && s.names[static_cast<std::size_t>(*x)] == along) dim = d;
      });
    }
    if (!dim) return "nothing";
    std::string out;
    for (const SkippedUse& use : skipped_uses(p, t, *dim, background, strict)) {
      const std::string& name = p.tensor(p.statement(use.statement)->out).name;
      if (!use.law) return "no: " + name + ": " + use.law.reason();
      if (use.law->constant)
        out += (out.empty() ? "" : ", ") + name + " " + (std::ostringstream() << *use.law->constant).str();
      else if (use.law->value)
        out += (out.empty() ? "" : ", ") + name + " " + print(p, use.law->value, p.statement(use.statement)->names);
    }
    return out;
  }
};

// ---- the rows of the table of operators

TEST(Permute, Sums) {
  const Case c("(p=3, l=4)\ninput A[p l] : f32\nC[p] = sum[l] A[p l]\noutput C\n");
  EXPECT_EQ(c.axes(), "p (l)");
  EXPECT_EQ(c.skip("A", "l"), "");
  EXPECT_EQ(c.skip("A", "p"), "C 0");
}

TEST(Permute, SumsOfIntegersAreExact) {
  EXPECT_EQ(Case("(p=3, l=4)\ninput A[p l] : i32\nC[p] = sum[l] A[p l]\noutput C\n").axes(), "p l");
}

TEST(Permute, VectorAdd) {
  const Case c("(p=3)\ninput A[p], B[p] : f32\nC[p] = A[p] + B[p]\noutput C\n");
  EXPECT_EQ(c.axes(), "p");
  const Statement& s = *c.p.statement(0);
  const auto one = skipped(c.p, s, 0, {{c.tensor("A"), 0}}),
             both = skipped(c.p, s, 0, {{c.tensor("A"), 0}, {c.tensor("B"), 0}});
  ASSERT_TRUE(one && both);
  EXPECT_FALSE(one->constant); // the background is the other operand
  EXPECT_EQ(print(c.p, one->value, s.names), "B[p]");
  EXPECT_EQ(both->constant, 0);
}

TEST(Permute, MatMul) {
  const Case c("(m=3, n=4, k=5)\ninput A[m k], B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_EQ(c.axes(), "m n (k)");
  EXPECT_EQ(c.skip("A", "k"), "");
  EXPECT_EQ(c.skip("B", "k"), "");
  EXPECT_EQ(c.skip("A", "m"), "C 0");
  EXPECT_EQ(c.skip("B", "n"), "C 0");
  EXPECT_EQ(c.skip("A", "n"), "nothing");
  EXPECT_EQ(c.skip("A", "k", 1), "no: C: where A is 1 a term is B[k n], and sum leaves out only 0");
}

TEST(Permute, BatchMatMul) {
  const Case c(
      "(b=2, m=3, n=4, k=5)\ninput A[b m k], B[b k n] : f32\nC[b m n] = sum[k] A[b m k] * B[b k n]\noutput C\n");
  EXPECT_EQ(c.axes(), "b m n (k)");
  EXPECT_EQ(c.skip("A", "b"), "C 0");
}

TEST(Permute, Convolution) {
  const Case c("(n=2, f=3, m=4, x=5, y=6, i=3, j=3)\ninput A[n m x y], W[f m i j] : f32\n"
               "C[n f x y] = sum[m i j] A[n, m, x+i-1, y+j-1 else 0] * W[f m i j]\noutput C\n");
  EXPECT_EQ(c.axes(), "n f (m)");
  EXPECT_EQ(c.why("x"), "x is not plain: it slides in a window");
  EXPECT_EQ(c.why("j"), "j is not plain: it slides in a window");
  EXPECT_EQ(c.skip("A", "m"), "");
  EXPECT_EQ(c.skip("W", "f"), "C 0");
  EXPECT_EQ(c.skip("A", "n"), "C 0");
}

TEST(Permute, PointwiseConvolutionMergesItsPixels) {
  const Case c(
      "(n=2, f=3, m=4, x=5, y=6)\ninput A[n m x y], W[f m] : f32\nC[n f x y] = sum[m] A[n m x y] * W[f m]\noutput C\n");
  EXPECT_EQ(c.axes(), "n f x y (m)");
  const auto groups = permutable_together(c.p, c.r);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0], (std::vector<RegionAxis>{c.axis("n"), c.axis("x"), c.axis("y")}));
}

TEST(Permute, TokensOfSequencesMerge) {
  const Case c("(b=2, s=3, k=4, n=5)\ninput A[b s k], W[k n] : f32\nC[b s n] = sum[k] A[b s k] * W[k n]\noutput C\n");
  EXPECT_EQ(permutable_together(c.p, c.r)[0], (std::vector<RegionAxis>{c.axis("b"), c.axis("s")}));
}

TEST(Permute, DepthwiseConvolution) {
  const Case c("(n=2, c=4, x=5, y=6, i=3, j=3)\ninput A[n c x y], W[c i j] : f32\n"
               "C[n c x y] = sum[i j] A[n, c, x+i-1, y+j-1 else 0] * W[c i j]\noutput C\n");
  EXPECT_EQ(c.axes(), "n c");
  EXPECT_EQ(c.skip("A", "c"), "C 0");
}

TEST(Permute, MapsHaveTheirValueAtZeroAsBackground) {
  const Case relu("(p=3, q=4)\ninput A[p q] : f32\nC[p q] = max(A[p q], 0)\noutput C\n");
  EXPECT_EQ(relu.axes(), "p q");
  EXPECT_EQ(relu.skip("A", "q"), "C 0");
  EXPECT_EQ(Case("(p=3)\ninput A[p] : f32\nC[p] = exp(A[p])\noutput C\n").skip("A", "p"), "C 1");
  EXPECT_EQ(Case("(p=3)\ninput A[p] : f32\nC[p] = gelu(A[p])\noutput C\n").skip("A", "p"), "C 0");
  EXPECT_EQ(Case("(p=3)\ninput A[p] : f32\nC[p] = A[p] + 2.5\noutput C\n").skip("A", "p"), "C 2.5");
}

TEST(Permute, ABiasIsTheBackground) {
  const Case c("(m=3, n=4)\ninput A[m n], b[n] : f32\nC[m n] = A[m n] + b[n]\noutput C\n");
  EXPECT_EQ(c.axes(), "m n");
  const auto s = skipped(c.p, *c.p.statement(0), 0, {{c.tensor("A"), 0}});
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->constant);
  EXPECT_EQ(print(c.p, s->value, c.p.statement(0)->names), "b[n]");
}

TEST(Permute, MaximaSkipTheirIdentityOnly) {
  const Case c("(p=3, l=4)\ninput A[p l] : f32\nC[p] = max[l] A[p l]\noutput C\n");
  EXPECT_EQ(c.axes(), "p l");
  EXPECT_EQ(c.skip("A", "l"), "no: C: where A is 0 a term is 0.0, and max leaves out only -inf");
  EXPECT_EQ(c.skip("A", "l", -INFINITY), "");
  EXPECT_EQ(c.skip("A", "p"), "C 0");
}

TEST(Permute, RowsOfExponentialsSkipMaskedEntries) {
  const std::string text = "(p=3, l=4)\ninput A[p l] : f32\nC[p l] = softmax[l] A[p l]\noutput C\n";
  const Case c(text, {0}); // the maxima
  EXPECT_EQ(c.axes(), "p l");
  EXPECT_EQ(Case(text, {1}).axes(), "p l");   // a map
  EXPECT_EQ(Case(text, {2}).axes(), "p (l)"); // the sums
  EXPECT_EQ(c.skip("A", "l").substr(0, 3), "no:");
  EXPECT_EQ(c.skip("A", "l", -INFINITY), "C_exp 0, C 0");
}

TEST(Permute, NormsSkipRowsOnly) {
  const Case c("(t=3, l=4)\ninput X[t l], gamma[l], beta[l] : f32\nM[t] = sum[l] X[t l] / l\nD[t] = sum[l] (X[t l] - "
               "M[t])^2 / l\n"
               "N[t l] = (X[t l] - M[t]) / sqrt(D[t] + 1e-5) * gamma[l] + beta[l]\noutput N\n");
  EXPECT_EQ(c.axes().substr(0, 3), "t l");
  EXPECT_EQ(c.skip("X", "l").substr(0, 6), "no: D:") << c.skip("X", "l"); // zeros still count
  EXPECT_EQ(c.skip("X", "t"), "M 0, D 0, N beta[l]");
}

TEST(Permute, ScoresUnderAMaskTensor) {
  const Case c("(q=3, x=4, d=5)\ninput Q[q d], K[x d], B[q x] : f32\nS[q x] = sum[d] Q[q d] * K[x d]\nT[q x] = S[q x] "
               "+ B[q x]\noutput T\n");
  EXPECT_EQ(c.axes(), "q x (d)");
  EXPECT_EQ(c.skip("B", "x", -INFINITY), "T -inf");
  EXPECT_FALSE(needs(c.p, *c.p.statement(1), 0, {{c.tensor("B"), -INFINITY}}, c.tensor("S")));
  const Case weighted("(q=3, x=4, d=5)\ninput P[q x], V[x d] : f32\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n");
  EXPECT_EQ(weighted.axes(), "q d (x)");
  EXPECT_EQ(weighted.skip("P", "x"), "");
  EXPECT_EQ(weighted.skip("P", "q"), "O 0");
}

TEST(Permute, PointsBeyondAnEdgeHaveNoSlice) {
  EXPECT_EQ(Case("(n=3, m=5)\ninput X[n] : f32\nY[m] = X[m else 0]\noutput Y\n").why("m"),
            "m is not plain: it runs past the edge of X");
  EXPECT_EQ(Case("(n=7, m=5)\ninput X[n] : f32\nY[m] = X[m else 0]\noutput Y\n").axes(), "m");
}

TEST(Permute, ComparedPositionsTravelWithTheirSlices) {
  const Case c("(q=4, x=4, d=5)\ninput Q[q d], K[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d] where index(x) <= "
               "index(q)\noutput S\n");
  EXPECT_EQ(c.axes(), "q* x* (d)");
  EXPECT_EQ(laws(c.p, c.r, c.axis("q")).bucket.reason(), "q is not plain: a body or guard uses its value");
}

TEST(Permute, ExpertsAreBuckets) {
  const Case c("(t=6, e=3, k=4, n=5)\ninput X[t k], W[e k n] : f32\ninput expert[t] : index(e)\n"
               "U[t n] = sum[k] X[t k] * W[expert[t], k, n]\noutput U\n");
  EXPECT_EQ(c.axes(), "t n (k)");
  const auto b = buckets(c.p, c.r);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].axes, (std::vector<RegionAxis>{c.axis("t")}));
  EXPECT_EQ(b[0].operand, c.tensor("W"));
  EXPECT_EQ(b[0].key.tensor, c.tensor("expert"));
  EXPECT_EQ(b[0].dim, 0u);
  const auto one = keyed_product(c.p, *c.p.statement(0)); // what a bucket computes
  ASSERT_TRUE(one) << one.reason();
  EXPECT_EQ(print(c.p, one->statement.body, one->statement.names), "X[t k] * W[0, k, n]");
  EXPECT_EQ(one->operand, c.tensor("W"));
}

TEST(Permute, ProductsThatAreNoneInBuckets) {
  auto why = [](const std::string& text) {
    const Program p = fix_sizes(parse("program p" + text, "case.tw"), {});
    return keyed_product(p, *p.statement(0)).reason();
  };
  EXPECT_EQ(why("(m=3, n=4, k=5)\ninput A[m k], B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n"),
            "not one operand is read at a key");
  EXPECT_EQ(why("(m=3, n=4, k=5, e=2)\ninput A[m k], B[e n] : f32\ninput g[k] : index(e)\nC[m n] = sum[k] A[m k] * "
                "B[g[k], n]\noutput C\n")
                .substr(0, 22),
            "k is reduced but only ");
  EXPECT_NE(why("(m=3, n=4, k=5, e=2)\ninput A[m k], B[e k n] : f32\ninput g[n] : index(e)\nC[m n] = sum[k] A[m k] * "
                "B[g[n], k, n]\noutput C\n"),
            "");
}

TEST(Permute, SeveralExpertsATokenAreOneBucketAxis) {
  const Case c("(t=6, e=3, k=4, n=5, j=2)\ninput X[t k], W[e k n] : f32\ninput expert[t j] : index(e)\n"
               "U[t j n] = sum[k] X[t k] * W[expert[t, j], k, n]\noutput U\n");
  const auto b = buckets(c.p, c.r);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].axes, (std::vector<RegionAxis>{c.axis("t"), c.axis("j")}));
}

TEST(Permute, Gathers) {
  const Case c("(i=3, v=9, d=4)\ninput T[v d] : f32\ninput idx[i] : index(v)\nC[i d] = T[idx[i], d]\noutput C\n");
  EXPECT_EQ(c.axes(), "i d");
}

TEST(Permute, SampledProducts) {
  const Case c("(m=3, n=4, k=5)\ninput S[m n], A[m k], B[n k] : f32\nD[m n] = sum[k] A[m k] * B[n k]\nC[m n] = S[m n] "
               "* D[m n]\noutput C\n");
  EXPECT_EQ(c.axes(), "m n (k)");
  EXPECT_EQ(c.skip("S", "m"), "C 0");
  const Statement& s = *c.p.statement(1);
  EXPECT_FALSE(needs(c.p, s, 0, {{c.tensor("S"), 0}}, c.tensor("D")));
  EXPECT_TRUE(needs(c.p, s, 0, {{c.tensor("S"), 1}}, c.tensor("D")));
}

TEST(Permute, FirstWinnersDependOnTheOrder) {
  const Case c("(p=3, l=4)\ninput A[p l] : f32\nC[p] : index(l) = argmax[l] A[p l]\noutput C\n");
  EXPECT_EQ(c.axes(), "p");
  EXPECT_EQ(c.why("l"), "l is reduced with argmax, whose first winner depends on the order");
}

TEST(Permute, RecurrencesAreShifted) {
  const Case c("(b=2, t=5, h=3)\ninput X[b t h] : f32\nY[b t h] = X[b t h] + X[b, t-1, h else 0]\noutput Y\n");
  EXPECT_EQ(c.axes(), "b h");
  EXPECT_EQ(c.why("t"), "t is not plain: an index of X scales or shifts it");
}

TEST(Permute, ViewsPermuteWhereTheySplitNothing) {
  EXPECT_EQ(Case("(b=2, s=3)\ninput X[s b] : f32\nY[b s] = X[s b]\noutput Y\n").axes(), "b s");
  const Case merged("(b=2, s=3, t=6)\ninput X[t] : f32\nY[b s] = X[size(s)*b+s]\noutput Y\n");
  EXPECT_EQ(merged.axes(), "");
  EXPECT_EQ(merged.why("b"), "b is not plain: it is a digit of an index of X");
  const Case taken("(b=2, s=3, t=6)\ninput X[b s] : f32\nY[t] = X[t//size(s), t%size(s)]\noutput Y\n");
  EXPECT_EQ(taken.why("t"), "t is not plain: an index of X takes it apart");
  EXPECT_EQ(Case("(q=3)\ninput X[q q] : f32\nY[q] = X[q q]\noutput Y\n").why("q"),
            "q is not plain: it stands in 2 dims of X at once");
}

TEST(Permute, AnAxisOfTwoReadingsRenamesItsOwn) {
  const Case c("(q=3, k=3, d=4)\ninput X[q d] : f32\nG[q k] = sum[d] X[q d] * X[k d]\noutput G\n");
  EXPECT_EQ(c.axes(), "q k (d)");
}

TEST(Skip, StrictArithmeticKeepsWhatIsNoNumber) {
  const Case c("(m=3, n=4, k=5)\ninput A[m k], B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_EQ(c.skip("A", "k", 0, true),
            "no: C: another operand may be infinite or no number, and 0 * inf is no number (strict)");
  EXPECT_TRUE(skipped(c.p, *c.p.statement(0), 2, {{c.tensor("A"), 0}})->hides);
  const Case whole("(m=3, n=4, k=5)\ninput A[m k], B[k n] : i8\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n");
  EXPECT_EQ(whole.skip("A", "k", 0, true), "");
  EXPECT_FALSE(skipped(whole.p, *whole.p.statement(0), 2, {{whole.tensor("A"), 0}})->hides);
  EXPECT_EQ(Case("(p=3)\ninput A[p] : f32\nC[p] = A[p] * 3\noutput C\n").skip("A", "p", 0, true), "C 0");
}

// ---- the law itself: rename an axis in every operand, and the result is renamed and nothing else

using testing::Random;

std::int64_t flat(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& dims) {
  std::int64_t n = 0;
  for (std::size_t d = 0; d < at.size(); ++d) n = n * dims[d] + at[d];
  return n;
}

// out[.. order[i] ..] = a[.. i ..] along a dim, or the other way round.
Array renamed(const Array& a, std::size_t dim, const std::vector<std::int64_t>& order, bool back) {
  Array out = Array::make(a.dtype, a.dims);
  const auto size = static_cast<std::int64_t>(bytes_of(a.dtype));
  std::vector<std::int64_t> at(a.dims.size(), 0);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    auto to = at;
    if (at[dim] < static_cast<std::int64_t>(order.size())) to[dim] = order[static_cast<std::size_t>(at[dim])];
    const std::int64_t from_at = back ? flat(to, a.dims) : i, to_at = back ? i : flat(to, a.dims);
    std::memcpy(out.data + to_at * size, a.data + from_at * size, static_cast<std::size_t>(size));
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < a.dims[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

// The only statement of a program whose reads are inputs.
Program alone(const Program& p, const Statement& s) {
  Program out = p;
  out.nodes = {s};
  out.outputs = {s.out};
  out.inputs.clear();
  std::vector<bool> read(p.tensors.size(), false);
  for_each_access(s, [&](const Access& a) { read[static_cast<std::size_t>(a.tensor)] = true; });
  for (std::size_t t = 0; t < out.tensors.size(); ++t) {
    out.tensors[t].kind = read[t] ? Kind::input : Kind::intermediate;
    out.tensors[t].stored_in.reset();
    if (read[t]) out.inputs.push_back(static_cast<TensorId>(t));
  }
  return out;
}

// The dim of each tensor that is an axis; nothing if two readings of one tensor do not agree.
std::optional<std::map<TensorId, std::size_t>> dims_of(const Statement& s, AxisId axis) {
  std::map<TensorId, int> at;
  bool agree = true;
  auto look = [&](TensorId t, const std::vector<Index>& index) {
    int dim = -1;
    for (std::size_t d = 0; d < index.size(); ++d)
      if (plain_axis(index[d]) == axis) dim = static_cast<int>(d);
    agree &= at.emplace(t, dim).first->second == dim;
  };
  for_each_access(s, [&](const Access& a) { look(a.tensor, a.at); });
  look(s.out, s.at);
  if (!agree) return {};
  std::map<TensorId, std::size_t> out;
  for (const auto& [t, d] : at)
    if (d >= 0) out[t] = static_cast<std::size_t>(d);
  return out;
}

bool close(const Array& a, const Array& b, bool exact) {
  for (std::int64_t i = 0; i < a.count(); ++i) {
    if (a.dtype != DType::f64) {
      if (std::memcmp(a.data + i * static_cast<std::int64_t>(bytes_of(a.dtype)),
                      b.data + i * static_cast<std::int64_t>(bytes_of(a.dtype)), bytes_of(a.dtype)) != 0)
        return false;
      continue;
    }
    const double x = a.as<double>()[i], y = b.as<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (exact || !(std::abs(x - y) <= 1e-9 * (1 + std::abs(x)))) return false;
  }
  return true;
}

TEST(Permute, RenamesRandomStatements) {
  const char* wide = std::getenv("TILEWRIGHT_LONG");
  const char* seed = std::getenv("TILEWRIGHT_SEED");
  int renamed_axes = 0, exact_axes = 0, refused = 0, moved = 0;
  for (int n = 0; n < (wide ? 20000 : 1500); ++n) {
    Random random(seed ? std::strtoull(seed, nullptr, 10) : static_cast<std::uint64_t>(n));
    const Program whole = fix_sizes(testing::random_program(random, {.smooth = true, .free_sizes = false}), {});
    for (StatementId id = 0; id < static_cast<StatementId>(whole.nodes.size()); ++id) {
      const Statement* s = whole.statement(id);
      if (!s || std::count_if(whole.nodes.begin(), whole.nodes.end(),
                              [&](const auto& other) { return std::get<Statement>(other).out == s->out; }) > 1)
        continue;
      const Program p = alone(whole, *s);
      const auto region = unify(p, {0});
      ASSERT_TRUE(region);
      for (AxisId axis = 0; axis < static_cast<AxisId>(s->axes.size()); ++axis) {
        RegionAxis x = -1;
        if (const auto plain = plain_axis(region->image[0][static_cast<std::size_t>(axis)])) x = *plain;
        if (x < 0) continue;
        const auto law = permutable(p, *region, x);
        const auto dims = dims_of(*s, axis);
        if (!law) ++refused;
        if (!law || law->carried || !dims) continue;
        Values given = testing::random_inputs(p, random), moved_in = given;
        std::vector<std::int64_t> order(static_cast<std::size_t>(s->axes[static_cast<std::size_t>(axis)].constant()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        for (const auto& [t, d] : *dims)
          if (moved_in.count(t)) moved_in[t] = renamed(moved_in[t], d, order, false);
        Array plain, back;
        try {
          plain = evaluate(p, given, {}, Evaluation::fp64).at(s->out);
        } catch (const Error&) {
          continue; // an index out of range, an integer divided by zero
        }
        back = evaluate(p, moved_in, {}, Evaluation::fp64).at(s->out);
        if (dims->count(s->out)) back = renamed(back, dims->at(s->out), order, true);
        ++renamed_axes, exact_axes += law->exact, moved += !std::is_sorted(order.begin(), order.end());
        ASSERT_TRUE(close(plain, back, law->exact))
            << "seed " << n << ", axis " << s->names[static_cast<std::size_t>(axis)] << "\n"
            << print(p);
      }
    }
    if (seed) break;
  }
  std::printf("%d axes renamed (%d by a real permutation, %d exact), %d refused\n", renamed_axes, moved, exact_axes,
              refused);
  EXPECT_GT(moved, seed ? 0 : 500);
  EXPECT_GT(refused, seed ? -1 : 100);
}

} // namespace
} // namespace tilewright
