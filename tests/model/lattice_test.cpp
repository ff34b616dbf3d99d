// Every optimum against brute force, on cases small enough for it; and the exponents as one would measure them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "check/count.h"
#include "cost/cost.h"
#include "loop/nest.h"
#include "model/columns.h"
#include "model/levels.h"
#include "model_cases.h"

namespace tilewright {
namespace {

struct Priced {
  Case c;
  Machine m = machine_named("generic-avx2");
  Model model{c.p, c.r, c.s, m};
  std::vector<Formula> footprint = columns(c.p, c.r, c.s, expand(c.p, c.r, c.s, "k")).footprint(Count::values);
  Names names = names_of(c.r, c.s);
  Point axes = flow(c.p, c.r, c.s).point;

  double moved(const std::vector<std::int64_t>& tiles) const {
    const Cost cost = model.at(sizes(tiles));
    double total = 0;
    for (const Moved& x : cost.moved)
      total += static_cast<double>(x.bytes) / static_cast<double>(bytes_of(c.p.tensor(x.tensor).dtype));
    return total;
  }
  double held(const std::vector<std::int64_t>& tiles) const {
    Point point = axes;
    const auto all = sizes(tiles);
    for (std::size_t i = 0; i < all.size(); ++i) point[names.steps[i]] = static_cast<double>(all[i]);
    return most(footprint, point);
  }
  std::vector<std::int64_t> sizes(const std::vector<std::int64_t>& tiles) const {
    std::vector<std::int64_t> out = tiles;
    for (std::size_t i = tiles.size(); i < c.s.steps.size(); ++i) out.push_back(c.s.steps[i].size);
    return out;
  }
  std::vector<std::int64_t> extents() const {
    std::vector<std::int64_t> out;
    for (const AxisStep& step : c.s.steps)
      if (step.how == AxisStep::How::tile) out.push_back(c.r.axes[static_cast<std::size_t>(step.axis)].constant());
    return out;
  }
  Lattice lattice(double memory) const {
    Lattice l{{}, [this](const auto& t) { return moved(t); }, [this](const auto& t) { return held(t); }, memory};
    for (std::int64_t n : extents()) l.axes.push_back({n, 1});
    return l;
  }
  double brute(double memory, bool operands = false) const {
    const auto n = extents();
    std::vector<std::int64_t> t(n.size(), 1);
    double best = INFINITY;
    const Flow f = flow(c.p, c.r, c.s);
    for (bool more = true; more;) {
      Point point = axes;
      for (std::size_t i = 0; i < t.size(); ++i) point[names.steps[i]] = static_cast<double>(t[i]);
      if ((operands ? f.operands(Count::values).at(point) : held(t)) <= memory) best = std::min(best, moved(t));
      more = false;
      for (std::size_t i = 0; i < t.size() && !more; ++i)
        if (!(more = ++t[i] <= n[i])) t[i] = 1;
    }
    return best;
  }
};

Case random_case(std::mt19937& random) {
  auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  switch (pick(0, 4)) {
  case 0:
    return case_of(matmul, {{"a", 1}, {"c", 1}}, {{"b", pick(1, 3)}},
                   {{"a", pick(2, 30)}, {"b", pick(3, 20)}, {"c", pick(2, 30)}});
  case 1:
    return case_of(attention, {{"q", 1}}, {{"x", pick(1, 4)}},
                   {{"q", pick(2, 40)}, {"x", pick(4, 30)}, {"d", pick(2, 8)}});
  case 2:
    return case_of(heads, {{"h", 1}, {"q", 1}}, {{"x", 2}},
                   {{"h", pick(2, 5)}, {"q", pick(2, 25)}, {"x", pick(4, 20)}, {"d", pick(2, 6)}});
  case 3:
    return case_of("program conv(y, c, f, k, n=y+k-1)\ninput X[n c], W[k c f] : f32\nY[y f] = sum[k c] X[y+k, c] * W[k "
                   "c f]\noutput Y\n",
                   {{"y", 1}, {"f", 1}}, {{"c", pick(1, 2)}},
                   {{"y", pick(3, 25)}, {"c", pick(2, 6)}, {"f", pick(2, 16)}, {"k", pick(2, 4)}});
  default:
    return case_of("program norm(t, c, f)\ninput X[t c], W[f c] : f32\nM[t] = sum[c] X[t c] / c\nD[t] = sum[c] (X[t c] "
                   "- M[t])^2 / c\n"
                   "Y[t f] = sum[c] (X[t c] - M[t]) / sqrt(D[t] + 1e-5) * W[f c]\noutput Y\n",
                   {{"t", 1}}, {{"c", pick(1, 3)}}, {{"t", pick(2, 30)}, {"c", pick(3, 12)}, {"f", pick(2, 9)}});
  }
}

// The lattice's best is the best of all whole sizes; the bytes are those that the nest moves; the closed form is below
// both.
TEST(Lattice, IsTheBestOfAllSizes) {
  std::mt19937 random(7);
  int fits = 0;
  for (int n = 0; n < 120; ++n) {
    const Priced p{random_case(random)};
    const auto ones = std::vector<std::int64_t>(p.extents().size(), 1);
    const double least = p.held(ones), all = p.held(p.extents());
    const double memory = std::floor(least + (all - least) * std::uniform_real_distribution<>(0, 1.05)(random));
    const auto best = best_on_lattice(p.lattice(memory));
    const double want = p.brute(memory);
    ASSERT_EQ(static_cast<bool>(best), std::isfinite(want)) << best.reason();
    if (!best) continue;
    ++fits;
    ASSERT_EQ(best->moved, want) << print(p.c.p) << "memory " << memory;
    Case at = p.c;
    for (std::size_t i = 0; i < best->sizes.size(); ++i) at.s.steps[i].size = best->sizes[i];
    std::int64_t counted = 0;
    const Counted walked = count(at.p, expand(at.p, at.r, at.s, "k"), false);
    for (const auto* side : {&walked.loaded, &walked.stored})
      for (const auto& [t, bytes] : *side) counted += bytes / static_cast<std::int64_t>(bytes_of(at.p.tensor(t).dtype));
    EXPECT_EQ(static_cast<double>(counted), best->moved);
    // The smooth optimum under the operands alone is a bound.
    const Flow f = flow(p.c.p, p.c.r, p.c.s);
    Point axes = f.point;
    for (const TileSize& t : p.c.tiles()) axes.erase(t.symbol);
    const auto smooth = geometric_program(f.run(Count::values), f.operands(Count::values), memory, p.c.tiles(), axes);
    ASSERT_TRUE(smooth) << smooth.reason();
    EXPECT_LE(smooth->moved, want * (1 + 1e-6)) << print(p.c.p);
    if (const auto form = p.c.closed()) {
      EXPECT_LE(moved_at(*form, f.point, memory), want * (1 + 1e-6)) << print(p.c.p) << form->at(memory).moved.text();
    }
  }
  EXPECT_GT(fits, 100);
}

// Where the closed form holds, the program in numbers finds the same tiles once its chunks are short.
TEST(Lattice, ClosedFormsAndProgramsAgree) {
  for (const auto& [text, tiles, stream, sizes] :
       {std::tuple{matmul, Cuts{{"a", 1}, {"c", 1}}, std::string("b"), Binding{{"a", 3000}, {"b", 1000}, {"c", 5000}}},
        std::tuple{attention, Cuts{{"q", 1}}, std::string("x"), Binding{{"q", 5000}, {"x", 9000}, {"d", 96}}},
        std::tuple{grouped, Cuts{{"r", 1}, {"q", 1}}, std::string("x"),
                   Binding{{"h", 8}, {"r", 4}, {"q", 4000}, {"x", 4000}, {"d", 64}}}}) {
    const Case c = case_of(text, tiles, {{stream, 1}}, sizes);
    const auto form = c.closed();
    ASSERT_TRUE(form) << form.reason();
    const Flow f = flow(c.p, c.r, c.s);
    Point axes = f.point;
    for (const TileSize& t : c.tiles()) axes.erase(t.symbol);
    const Formula resident = resident_part(f.operands(Count::values), f.stream_symbols(), c.tiles());
    for (double memory : {3e3, 2e4, 1.5e5, 1e6, 1e8}) {
      const auto smooth = geometric_program(f.run(Count::values), resident, memory, c.tiles(), axes);
      ASSERT_TRUE(smooth);
      EXPECT_NEAR(smooth->moved / moved_at(*form, f.point, memory), 1, 1e-4) << text << " at " << memory;
    }
  }
}

// beta as one would measure it, from exact counts at the best whole sizes, less what must be moved anyway.
TEST(Lattice, FittedExponents) {
  struct Fit {
    const char* text;
    Cuts tiles;
    std::string stream;
    Binding sizes;
    double low, high, beta;
  };
  for (const Fit& x :
       {Fit{matmul, {{"a", 1}, {"c", 1}}, "b", {{"a", 4096}, {"b", 512}, {"c", 4096}}, 2048, 262144, 0.5},
        Fit{attention, {{"q", 1}}, "x", {{"q", 32768}, {"x", 1024}, {"d", 64}}, 16384, 1048576, 1.0}}) {
    const Priced p{case_of(x.text, x.tiles, {{x.stream, 1}}, x.sizes)};
    Formula compulsory; // of the uncapped regime
    const auto form = p.c.closed();
    ASSERT_TRUE(form);
    compulsory = by_beta(form->regimes[0].moved)[0].second;
    const double beta =
        fitted_beta([&](double memory) { return best_on_lattice(p.lattice(memory))->moved - compulsory.at(p.axes); },
                    x.low, x.high);
    EXPECT_NEAR(beta, x.beta, 0.03 * x.beta) << x.text;
  }
}

} // namespace
} // namespace tilewright
