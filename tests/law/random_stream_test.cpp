// Random programs of nested reductions and maps: whenever a stream is found, run in chunks it is the program; whenever one is
// refused, the term that blocks it is named; and what a matrix of the body's values has for a rank agrees.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "expr/text.h"
#include "law/statistics.h"
#include "law/stream_forms.h"
#include "law/unrolled.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

// Elements over [q x] made of S, A and of what is known about their rows; then sums of them.
struct Maker {
  testing::Random random;
  bool half = false, bad = false;
  std::string text{}, type{};
  int names = 0;
  std::vector<std::string> elements{"S[q x]", "A[q x]"};

  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
  const std::string& any() { return elements[static_cast<std::size_t>(below(static_cast<int>(elements.size())))]; }
  std::string fresh(const char* prefix) { return prefix + std::to_string(++names); }

  std::string map(const std::string& body, const std::string& where = "") {
    const std::string n = fresh("E");
    text += n + "[q x]" + type + " = " + body + where + "\n";
    return n + "[q x]";
  }
  std::string statistic(const char* reducer, const std::string& body, const std::string& where = "") {
    const std::string n = fresh("s");
    text += n + "[q] = " + std::string(reducer) + "[x] " + body + where + "\n";
    return n + "[q]";
  }
  std::string either(const std::string& body) { return below(2) ? map(body) : "(" + body + ")"; }

  void step() {
    const std::string e = any();
    switch (below(bad ? 12 : 9)) {
      case 0: case 1: {                                      // bounded by its maximum, perhaps normalised
        const std::string where = below(4) == 0 ? " where index(x) <= index(q) + 1" : "";
        const std::string m = statistic("max", e, where);
        const std::string p = map("exp(" + e + " - " + m + ")", where);
        if (below(2)) elements.push_back(p);
        else elements.push_back(either(p + " / " + statistic("sum", p)));
        break;
      }
      case 2: elements.push_back(either(e + " - " + statistic("sum", e) + " / x")); break;
      case 3: elements.push_back(either(e + " / sqrt(" + statistic("sum", e + "^2") + " / x + 0.001)")); break;
      case 4: {
        const std::string m = statistic("sum", e + " / x");
        elements.push_back(either("(" + e + " - " + m + ") / sqrt(" + statistic("sum", "(" + e + " - " + m + ")^2") + " / x + 0.001)"));
        break;
      }
      case 5: elements.push_back(either(e + " * w[x] * 0.5")); break;
      case 6: elements.push_back(either("max(S[q x], 0) * 0.25")); break;
      case 7: elements.push_back(either("tanh(A[q x] / 16)")); break;
      case 8: elements.push_back(either(e + " * S[q x] / (1 + abs(S[q x]))")); break;
      case 9: elements.push_back(either("tanh(" + e + " - " + statistic("max", e) + ")")); break;
      case 10: elements.push_back(either("exp(-((" + e + " - " + statistic("max", e) + ")^2))")); break;
      default: elements.push_back(either("abs(" + e + " - " + statistic("sum", e) + " / x)")); break;
    }
  }

  std::string make() {
    type = half && below(2) ? " : f16" : "";
    for (int n = 1 + below(3); n > 0; --n) step();
    std::string outputs;
    for (int n = 1 + below(2); n > 0; --n) {
      const std::string e = n == 1 ? elements.back() : any(), o = fresh("O");
      if (below(3)) text += o + "[q d] = sum[x] " + e + " * V[x d]\n";
      else text += o + "[q] = sum[x] " + e + (below(3) == 0 ? " * " + e : "") + "\n";
      outputs += (outputs.empty() ? "" : ", ") + o;
    }
    const std::string in = half ? "f16" : "f32";
    const int q = 1 + below(4), x = 2 + below(7), d = 1 + below(3);
    return "program p(q=" + std::to_string(q) + ", x=" + std::to_string(x) + ", d=" + std::to_string(d) + ")\ninput S[q x], A[q x], V[x d], w[x] : " + in + "\n" + text + "output " + outputs + "\n";
  }
};

Values given_to(const Program& p, testing::Random& random, double mean, double deviation) {
  Values given;
  std::normal_distribution<double> normal(0, 1);
  for (TensorId t : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
    Array a = Array::make(p.tensor(t).dtype, dims);
    const bool wide = p.tensor(t).name == "S" || p.tensor(t).name == "A";
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const double v = wide ? mean + deviation * normal(random) : normal(random);
      if (a.dtype == DType::f32) a.as<float>()[i] = static_cast<float>(v);
      else a.as<std::uint16_t>()[i] = f32_to_f16(static_cast<float>(v));
    }
    given[t] = a;
  }
  return given;
}


double value_of(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f64) return a.as<double>()[i];
  return a.dtype == DType::f16 ? static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i])) : static_cast<double>(a.as<float>()[i]);
}

struct Compared { double error = 0, scale = 0; bool defined = true; };

// Largest difference from the exact result, and its largest magnitude; where that is no number nothing is asked.
Compared compared(const Program& p, const Values& got, const Values& exact, double data) {
  Compared c;
  for (TensorId t : p.outputs) {
    const Array &g = got.at(t), &w = exact.at(t);
    double most = 0, error = 0;
    for (std::int64_t i = 0; i < w.count(); ++i) {
      const double want = w.as<double>()[i], have = value_of(g, i);
      if (!std::isfinite(want)) c.defined = false;
      else if (!std::isfinite(have)) error = INFINITY;
      else error = std::max(error, std::abs(have - want));
      if (std::isfinite(want)) most = std::max(most, std::abs(want));
    }
    if (most > 1e-6 * data) c.error = std::max(c.error, error / std::max(most, 0.1));       // else it cancels to nothing
  }
  return c;
}

TEST(RandomStream, EqualsTheProgram) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed : testing::seeds(300)) {
    Maker maker{testing::Random(seed)};
    maker.half = seed % 3 == 0;
    maker.bad = seed % 4 == 1;
    const std::string text = maker.make();
    const Program p = fix_sizes(parse(text, "case.tw"), {});
    std::vector<StreamRefusal> refusals;
    const Program q = stream_forms(p, &refusals);
    ASSERT_NO_THROW(verify(q)) << "seed " << seed << "\n" << text << print(q);
    for (const StreamRefusal& r : refusals)
      EXPECT_TRUE(r.reason.find("[q]") != std::string::npos || r.reason.find("prod") != std::string::npos) << "seed " << seed << ": " << r.reason << "\n" << text;
    std::vector<StatementId> all;
    for (std::size_t n = 0; n < q.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
    const auto region = unify(q, all);
    if (!region) { ++seen["no region: " + region.reason().substr(0, 12)]; continue; }
    int found = 0;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(region->axes.size()); ++x) {
      if (roles(q, *region)[static_cast<std::size_t>(x)].reducer == Reducer::none || !needs_stream(q, *region, x)) continue;
      const auto s = derive_stream(q, *region, x);
      if (!s) {
        ++seen["refused"];
        EXPECT_FALSE(refusals.empty()) << "seed " << seed << ": " << s.reason() << "\n" << text << print(q);
        continue;
      }
      ++found;
      for (const auto& [mean, deviation] : {std::pair{0.0, 1.0}, {0.0, 1e4}, {1e4, 1.0}}) {
        if (maker.half && mean + deviation > 1000) continue;              // f16 holds no squares of those
        const Values given = given_to(p, maker.random, mean, deviation);
        const Values exact = evaluate(p, given, {}, Evaluation::fp64);
        const Compared usual = compared(p, evaluate(p, given, {}, Evaluation::typed), exact, mean + deviation);
        if (!usual.defined || !(usual.error < 0.05)) { ++seen["no number, or none that f32 could hold"]; continue; }
        const std::int64_t extent = s->region.axes[static_cast<std::size_t>(x)].constant();
        for (std::int64_t size : {std::int64_t{1}, 1 + static_cast<std::int64_t>(maker.random() % static_cast<std::uint64_t>(extent)), extent}) {
          const Program u = testing::Unrolled(*s).make(testing::chunks_of(extent, size));
          const double reals = compared(p, evaluate(u, given, {}, Evaluation::fp64), exact, mean + deviation).error;
          const double floats = compared(p, evaluate(u, given, {}, Evaluation::typed), exact, mean + deviation).error;
          EXPECT_LT(reals, 1e-5) << "seed " << seed << ", chunks of " << size << ", mean " << mean << ", deviation " << deviation << "\n" << text << print(*s);
          EXPECT_LT(floats, 16 * usual.error + (maker.half ? 4e-3 : 2e-5)) << "seed " << seed << ", chunks of " << size << ", mean " << mean << ", deviation " << deviation << "\n" << text << print(*s);
          ++seen["runs"];
          if (HasFailure()) return;
        }
      }
    }
    ++seen[found ? "streams" : refusals.empty() ? "nothing to derive" : "refusals"];
  }
  for (const auto& [what, n] : seen) std::printf("  %5d %s\n", n, what.c_str());
  EXPECT_GT(seen["streams"], 100);
}

// ---- the rank of a body, by numbers

int rank_of(std::vector<std::vector<double>> m) {
  double largest = 0;
  for (const auto& row : m)
    for (double v : row) largest = std::max(largest, std::abs(v));
  int rank = 0;
  const std::size_t n = m.size();
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t r = step, c = step;
    for (std::size_t i = step; i < n; ++i)
      for (std::size_t j = step; j < n; ++j)
        if (std::abs(m[i][j]) > std::abs(m[r][c])) r = i, c = j;
    if (std::abs(m[r][c]) <= 1e-11 * largest) break;
    ++rank;
    std::swap(m[step], m[r]);
    for (auto& row : m) std::swap(row[step], row[c]);
    for (std::size_t i = step + 1; i < n; ++i) {
      const double f = m[i][step] / m[step][step];
      for (std::size_t j = step; j < n; ++j) m[i][j] -= f * m[step][j];
    }
  }
  return rank;
}

constexpr std::int64_t samples = 16;

// The body at `samples` elements (rows) and values of the statistics (columns), all drawn at random.
std::vector<std::vector<double>> values_of(const Program& p, const ReadThrough& body, testing::Random& random) {
  Program f;
  f.name = "body";
  Builder build(f);
  std::map<std::string, TensorId> known;
  Values given;
  std::uniform_real_distribution<double> element(-5, 5), statistic(0.5, 8);
  const ScalarRef b = rewrite(body.body, [&](const ScalarRef& node) -> ScalarRef {
    if (node->op == Op::axis) return number(1, DType::f64);
    if (node->op == Op::cast && is_float(node->dtype)) return node->args[0];
    if (node->op != Op::read) return node->op == Op::constant && is_float(node->dtype) ? number(std::get<double>(node->leaf), DType::f64) : node;
    const Access& a = std::get<Access>(node->leaf);
    const bool runs = !body.statistics.count(a.tensor);
    const std::string name = p.tensor(a.tensor).name;
    if (!known.count(name)) {
      const TensorId t = build.tensor(name, DType::f64, {samples}, Kind::input);
      f.inputs.push_back(t);
      given[t] = Array::make(DType::f64, {samples});
      for (std::int64_t i = 0; i < samples; ++i) given[t].as<double>()[i] = runs ? element(random) : statistic(random) * (i % 2 ? 1 : 4);
      known[name] = t;
    }
    return read(f, known[name], {axis_index(runs ? 0 : 1)});
  });
  const TensorId out = build.statement("F", DType::f64, {samples, samples}, b);
  f.outputs = {out};
  const Array a = evaluate(f, given, {}, Evaluation::fp64).at(out);
  std::vector<std::vector<double>> m(samples, std::vector<double>(samples));
  for (std::int64_t i = 0; i < samples; ++i)
    for (std::int64_t j = 0; j < samples; ++j) m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = a.as<double>()[i * samples + j];
  return m;
}

TEST(RandomStream, RankAgrees) {
  int low = 0, high = 0;
  for (std::uint64_t seed : testing::seeds(300)) {
    Maker maker{testing::Random(seed)};
    maker.bad = seed % 2 == 1;
    const std::string text = maker.make();
    const Program p = fix_sizes(parse(text, "case.tw"), {});
    const Lineage lineage(p);
    for (const auto& node : p.nodes) {
      const Statement& s = std::get<Statement>(node);
      if (s.reducer != Reducer::sum) continue;
      const ReadThrough seen = read_through(lineage, s);
      if (seen.statistics.empty() || !seen.refused.empty()) continue;
      Atoms atoms = atoms_of(s, seen.statistics);
      const Facts facts = facts_of(lineage, s);
      const auto form = normal_form(seen.body, atoms, facts, Sums::expanded);
      const int rank = rank_of(values_of(p, seen, maker.random));
      if (form) {
        // As many as there are different products of statistics.
        std::vector<FormTerm> kinds;
        for (const FormTerm& t : *form) {
          FormTerm k;
          for (const auto& [a, power] : t.factors)
            if (atoms.side(a) == Side::statistic) k.factors[a] = power;
          for (const Monomial& m : t.exponent)
            if (std::any_of(m.factors.begin(), m.factors.end(), [&](const auto& f) { return atoms.side(f.first) == Side::statistic; })) k.exponent.push_back(m);
          if (std::none_of(kinds.begin(), kinds.end(), [&](const FormTerm& x) { return same_but_for_coefficient(x, k); })) kinds.push_back(k);
        }
        EXPECT_LE(rank, static_cast<int>(kinds.size())) << "seed " << seed << "\n" << text << print(p, seen.body, s.names);
        ++low;
      } else if (form.reason().find("64 terms") == std::string::npos && form.reason().find("inside an exponent") == std::string::npos) {   // their numbers say nothing
        EXPECT_GT(rank, 2) << "seed " << seed << ": " << form.reason() << "\n" << text << print(p, seen.body, s.names);
        ++high;
      }
      if (HasFailure()) return;
    }
  }
  std::printf("  %d of finite rank, %d not\n", low, high);
}

}  // namespace
}  // namespace tilewright
