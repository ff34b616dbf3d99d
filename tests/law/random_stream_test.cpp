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
#include "law/random_streams.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

TEST(RandomStream, EqualsTheProgram) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed : testing::seeds(300)) {
    testing::Maker maker{testing::Random(seed)};
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
      for (const auto& [mean, deviation] : {std::pair{0.0, 1.0}, {0.0, 1e4}, {1e4, 1.0}, {40.0, 1.0}}) {
        if (maker.half && mean + deviation > 1000) continue;              // f16 holds no squares of those
        const Values given = testing::given_to(p, maker.random, mean, deviation);
        const Values exact = evaluate(p, given, {}, Evaluation::fp64);
        const testing::Compared usual = testing::compared(p, evaluate(p, given, {}, Evaluation::typed), exact, mean + deviation);
        if (!usual.defined || !(usual.error < 0.05)) { ++seen["no number, or none that f32 could hold"]; continue; }
        const std::int64_t extent = s->region.axes[static_cast<std::size_t>(x)].constant();
        for (std::int64_t size : {std::int64_t{1}, 1 + static_cast<std::int64_t>(maker.random() % static_cast<std::uint64_t>(extent)), extent}) {
          const Program u = testing::Unrolled(*s).make(testing::chunks_of(extent, size));
          const double reals = testing::compared(p, evaluate(u, given, {}, Evaluation::fp64), exact, mean + deviation).error;
          const double floats = testing::compared(p, evaluate(u, given, {}, Evaluation::typed), exact, mean + deviation).error;
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
    testing::Maker maker{testing::Random(seed)};
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
