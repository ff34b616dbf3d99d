// Which groups become one kernel: the worked plans of spec fcm 4, and dynamic programming against every partition.
#include "plan/join.h"
#include "cost/paper.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <map>

#include "expr/text.h"
#include "plan/footprint.h"
#include "plan/fuse.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

// Four cores with 48 KiB each, 64 KiB with the first cache.
Machine toy(std::int64_t scratch = 48 << 10, std::int64_t combined = 64 << 10, int cores = 4) {
  Machine m = machine_named("h200");
  m.core.count = cores, m.core.block_scratch = scratch, m.core.combined = combined;
  return m;
}

// The rules of the paper: pairs, operands held whole.
PlanOptions pairs(double redundancy = 10) {
  PlanOptions o{1, "base", 1, 1, 1};
  o.objective = Objective::bytes, o.joined = 2, o.streams = false, o.redundancy = redundancy;
  return o;
}

std::string chain(const char* type) {
  return fmt::format(
      "program x(c=16, f=64, g=24, h=96, y=28, x=28, u=14, v=14, i=3, j=3)\ninput X[c y x] : {0}\n"
      "weight A[f c], B[f i j], C[g f], D[h g], E[h i j] : {0}\n"
      "P[f y x] : {0} = sum[c] X[c y x] * A[f c]\nQ[f y x] : {0} = sum[i j] P[f, y+i-1, x+j-1 else 0] * B[f i j]\n"
      "R[g y x] : {0} = sum[f] Q[f y x] * C[g f]\nS[h y x] : {0} = sum[g] R[g y x] * D[h g]\n"
      "T[h u v] : {0} = sum[i j] S[h, 2*u+i, 2*v+j else 0] * E[h i j]\noutput T\n",
      type);
}

std::string kernels(const Plan& plan) {
  std::string text;
  for (const PlannedKernel& k : plan.kernels) {
    text += text.empty() ? "" : " ";
    for (StatementId id : k.region->statements) text += plan.program->tensor(plan.program->statement(id)->out).name;
  }
  return text;
}
std::int64_t elements(const Plan& plan, std::int64_t width) {
  std::int64_t sum = 0;
  for (const PlannedKernel& k : plan.kernels) sum += k.cost.loaded + k.cost.stored;
  return sum / width;
}
Plan planned(const std::string& text, const Machine& m, PlanOptions o) {
  return make_plan(std::make_shared<Program>(program(text)), m, o);
}

struct Expected {
  std::string kernels;
  std::int64_t apart, saved;
};
void expect_plan(const std::string& text, const Machine& m, PlanOptions o, std::int64_t width, const Expected& want) {
  const Plan plan = planned(text, m, o);
  o.fuse = false;
  const std::int64_t apart = elements(planned(text, m, o), width);
  EXPECT_EQ(kernels(plan), want.kernels);
  EXPECT_EQ(apart, want.apart);
  EXPECT_EQ(apart - elements(plan, width), want.saved);
  EXPECT_TRUE(plan.search.exact);
}

TEST(Join, WorkedPlans) {
  expect_plan(chain("f32"), toy(), pairs(), 4, {"PQ R ST", 455712, 175304});                   // P1
  expect_plan(chain("i8"), toy(), pairs(), 1, {"PQ R ST", 441120, 243336});                    // P2
  expect_plan(chain("f32"), toy(), pairs(0.5), 4, {"P QR S T", 455712, 15680});                // P3
  expect_plan(chain("f32"), toy(16 << 10, 24 << 10), pairs(), 4, {"PQ R ST", 543520, 109616}); // P4
  expect_plan(
      "program p6(c=160, f=960, y=7, x=7, i=3, j=3)\ninput X[c y x] : f32\nweight W[f c], V[f i j] : f32\n"
      "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]\noutput Z\n",
      toy(64 << 10, 96 << 10, 8), pairs(), 4, {"YZ", 435840 + 102720, 94080}); // P6
  expect_plan(
      "program p7(c=32, f=16, y=32, x=32, i=3, j=3)\ninput X[c y x] : f32\nweight W[f c], V[c i j] : f32\n"
      "Y[c y x] = sum[i j] X[c, y+i-1, x+j-1 else 0] * V[c i j]\nZ[f y x] = sum[c] Y[c y x] * W[f c]\noutput Z\n",
      toy(), pairs(), 4, {"YZ", 65824 + 51200, 52896}); // P7
}

TEST(Join, LongerKernelsCostNoMore) {
  PlanOptions o = pairs();
  const std::int64_t two = elements(planned(chain("f32"), toy(), o), 4);
  o.joined = 4, o.streams = true;
  const Plan plan = planned(chain("f32"), toy(), o);
  EXPECT_LE(elements(plan, 4), two);
  for (const PlannedKernel& k : plan.kernels)
    EXPECT_TRUE(legality(*plan.program, *k.region, k.schedule, plan.machine).empty());
}

// ---- what a planner of pairs gets wrong (fcm 1.9, 2.6, 2.7)

const char* sizes = "program s(c=16, f=64, g=24, y=28, x=28, i=3, j=3)\ninput X[c y x], S[f y x] : f32\nweight A[f c], "
                    "B[f i j], C[g f] : f32\n"
                    "P[f y x] = sum[c] X[c y x] * A[f c]\n";

// A second reader of the tensor between gets it: the joined kernel stores it, once.
TEST(Join, WhatOthersReadIsStored) {
  const Plan plan = planned(std::string(sizes) + "Q[f y x] = sum[i j] P[f, y+i-1, x+j-1 else 0] * B[f i j]\nR[g y x] = "
                                                 "sum[f] P[f y x] * C[g f]\noutput Q, R\n",
                            toy(), pairs());
  bool seen = false;
  for (const PlannedKernel& k : plan.kernels) {
    if (k.groups < 2) continue;
    seen = true;
    std::int64_t stored = 0;
    for (const Moved& m : k.cost.moved)
      if (m.store && plan.program->tensor(m.tensor).name == "P") stored += m.bytes;
    EXPECT_EQ(stored, 4 * 64 * 28 * 28);
    EXPECT_TRUE(legality(*plan.program, *k.region, k.schedule, plan.machine).empty());
  }
  EXPECT_TRUE(seen) << kernels(plan);
}

// What is added between two layers is part of the kernel, and is loaded with the halo of the second.
TEST(Join, AResidualBetweenIsLoaded) {
  PlanOptions o = pairs();
  const Plan plan = planned(
      std::string(sizes) +
          "T[f y x] = P[f y x] + S[f y x]\nQ[f y x] = sum[i j] T[f, y+i-1, x+j-1 else 0] * B[f i j]\noutput Q\n",
      toy(96 << 10, 128 << 10), o);
  ASSERT_EQ(kernels(plan), "PTQ");
  std::int64_t loaded = 0;
  for (const Moved& m : plan.kernels[0].cost.moved)
    if (plan.program->tensor(m.tensor).name == "S") loaded += m.bytes;
  EXPECT_GE(loaded, 4 * 64 * 28 * 28);
}

// Neighbours in the list that are none in the graph are never looked at.
TEST(Join, OnlyNeighboursInTheGraph) {
  const Plan plan = planned(
      std::string(sizes) + "Q[f y x] = sum[i j] S[f, y+i-1, x+j-1 else 0] * B[f i j]\noutput P, Q\n", toy(), pairs());
  EXPECT_EQ(kernels(plan), "P Q");
  EXPECT_EQ(plan.search.candidates, 0u);
}

// A tile that does not fit never wins, and all filters in one tile are tried.
TEST(Join, ChosenTilesKeepTheRules) {
  for (std::int64_t scratch : {6 << 10, 16 << 10, 48 << 10, 200 << 10}) {
    const Machine m = toy(scratch, scratch + (16 << 10));
    const Plan plan = planned(chain("f32"), m, pairs());
    bool all_filters = false;
    for (const PlannedKernel& k : plan.kernels) {
      std::vector<std::int64_t> sizes_of;
      for (const AxisStep& s : k.schedule.steps) sizes_of.push_back(s.size);
      const auto tile = Footprint(*plan.program, *k.region, k.schedule).at(sizes_of);
      EXPECT_LE(tile.held, m.core.block_scratch);
      EXPECT_LE(tile.all, m.core.combined);
      EXPECT_GE(k.cost.tiles, m.core.count);
      all_filters |= std::none_of(k.schedule.steps.begin(), k.schedule.steps.end(), [&](const AxisStep& s) {
        return k.region->names[static_cast<std::size_t>(s.axis)].find_first_of("fgh") == 0;
      });
    }
    EXPECT_TRUE(all_filters || scratch < (16 << 10));
  }
}

TEST(Join, WhatIsNotChosenSaysWhy) {
  const Plan plan = planned(chain("f32"), toy(), pairs(0.5));
  std::map<std::string, std::string> rules;
  for (const PlannedKernel& k : plan.kernels)
    for (const Alternative& a : k.alternatives) {
      rules[a.kernels] = a.rule;
      EXPECT_GT(a.apart, 0);
      EXPECT_GT(a.together, 0) << a.kernels;
    }
  EXPECT_EQ(rules.at("P + Q"), "computes 2.695 operations again for each byte saved, at most 0.5");
  EXPECT_EQ(rules.at("S + T"), "computes 1.376 operations again for each byte saved, at most 0.5");
  EXPECT_EQ(rules.size(), 3u);
}

// The equations of the paper may be asked for: then they are the price, and the bytes that are reported stay the exact ones.
TEST(Join, ThePapersEquationsOnDemand) {
  const Program p = program(chain("f32"));
  const auto layouts = choose_layouts(p);
  PlanOptions o = pairs();
  for (const std::vector<StatementId>& set : {std::vector<StatementId>{0}, {1}, {0, 1}, {1, 2}, {3, 4}}) {
    const auto r = unify(p, set);
    ASSERT_TRUE(r);
    o.paper_cost = false;
    const Choice exact = choose(p, *r, toy(), o, layouts);
    o.paper_cost = true;
    const Choice paper = choose(p, *r, toy(), o, layouts);
    const auto priced = [&](const Choice& c) {
      std::vector<std::int64_t> sizes_of;
      for (const AxisStep& s : c.schedule.steps) sizes_of.push_back(s.size);
      return PaperModel(p, *r, c.schedule).bytes(sizes_of);
    };
    EXPECT_EQ(paper.price, priced(paper));
    EXPECT_LE(paper.price, priced(exact));
    EXPECT_EQ(exact.price, exact.cost.loaded + exact.cost.stored);
    EXPECT_LE(exact.price, paper.cost.loaded + paper.cost.stored);
    const Cost counted = cost(p, *r, paper.schedule, toy());
    EXPECT_EQ(paper.cost.loaded + paper.cost.stored, counted.loaded + counted.stored);
  }
}

// What was joined or refused is reported with the price of both, also where the program has branches (spec fcm 4, P10: a sum that
// reads the tensor between keeps it, so it is stored, by no more than one kernel).
TEST(Join, ATensorThatASumReadsTooIsStoredOnce) {
  const Plan plan = planned("program p10(c=24, f=96, y=28, x=28, i=3, j=3)\ninput X[c y x] : f32\nweight A[f c], B[f i j] : f32\n"
                            "P[f y x] = sum[c] X[c y x] * A[f c]\nQ[f y x] = sum[i j] P[f, y+i-1, x+j-1 else 0] * B[f i j]\n"
                            "Z[f y x] = P[f y x] + Q[f y x]\noutput Z\n",
                            toy(), pairs());
  std::int64_t stored = 0;
  for (const PlannedKernel& k : plan.kernels)
    for (const Moved& m : k.cost.moved)
      if (m.store && plan.program->tensor(m.tensor).name == "P") stored += m.bytes;
  EXPECT_TRUE(stored == 0 ? kernels(plan) == "PQZ" : stored == 4 * 96 * 28 * 28) << kernels(plan) << " " << stored;
}

// Where there are too many sets some are left out, and the plan says so.
TEST(Join, WhatIsNotExhaustiveSaysSo) {
  const auto star = [](int readers) {
    std::string text = "program star(c=4, f=8, y=6, x=6)\ninput X[c y x] : f32\nweight A[f c], B[f] : f32\n"
                       "P[f y x] = sum[c] X[c y x] * A[f c]\n", outputs;
    for (int n = 0; n < readers; ++n) {
      text += fmt::format("R{0}[y x] = max[f] P[f y x] * {0}\n", n + 1);
      outputs += fmt::format("{}R{}", n ? ", " : "", n + 1);
    }
    return text + "output " + outputs + "\n";
  };
  PlanOptions o = pairs();
  o.joined = 4;
  const Plan few = planned(star(3), toy(), o), many = planned(star(14), toy(), o);
  EXPECT_TRUE(few.search.exact);
  EXPECT_FALSE(many.search.exact);
  std::size_t statements = 0;
  for (const PlannedKernel& k : many.kernels) statements += k.region->statements.size();
  EXPECT_EQ(statements, 15u);
}

// ---- dynamic programming against every partition

// What any set of groups costs together, found once.
struct Sets {
  const Program& p;
  const Machine& m;
  const PlanOptions& o;
  const Grouping& g;
  const std::vector<DimOrder>& layouts;
  std::vector<std::size_t> groups; // positions of those that are not opaque nodes
  std::map<unsigned, std::optional<std::int64_t>> known;

  std::vector<StatementId> statements(unsigned set) const {
    std::vector<StatementId> list;
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (set >> i & 1) list.insert(list.end(), g.groups[groups[i]].begin(), g.groups[groups[i]].end());
    std::sort(list.begin(), list.end());
    return list;
  }
  // Not by paths inside the set: any set that is a region counts if its groups hang together.
  bool connected(unsigned set) const {
    unsigned reached = set & (~set + 1);
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < groups.size(); ++i)
        for (std::size_t j = 0; j < groups.size(); ++j)
          if ((set >> i & 1) && (reached >> i & 1) == 0 && (reached >> j & 1) && linked(i, j))
            reached |= 1u << i, grown = true;
    }
    return reached == set;
  }
  bool linked(std::size_t i, std::size_t j) const {
    bool found = false;
    for (const auto& [a, b] : {std::pair(i, j), std::pair(j, i)})
      for (StatementId w : g.groups[groups[a]])
        for (StatementId r : g.groups[groups[b]])
          for_each_access(*p.statement(r), [&](const Access& x) { found |= x.tensor == p.statement(w)->out; });
    return found;
  }
  std::optional<std::int64_t> of(unsigned set) {
    const auto it = known.find(set);
    if (it != known.end()) return it->second;
    return known[set] = price(set);
  }
  std::optional<std::int64_t> price(unsigned set) {
    const auto list = statements(set);
    if ((set & (set - 1)) == 0) return choose(p, *unify(p, list), m, o, layouts).price;
    if (std::popcount(set) > o.joined || !connected(set)) return std::nullopt;
    const auto r = joined_region(p, m, list);
    if (!r) return std::nullopt;
    Apart apart;
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (set >> i & 1) {
        const Choice c = choose(p, *unify(p, statements(1u << i)), m, o, layouts);
        apart.price += c.price, apart.multiply_adds += c.cost.multiply_adds;
      }
    const Choice c = choose(p, *r, m, o, layouts, &apart);
    return c.rule.empty() && c.price >= 0 ? std::optional(asked(c.price, o)) : std::nullopt;
  }

  // The best over all partitions of the open groups that can run.
  std::int64_t best(unsigned open, Grouping& chosen, std::int64_t so_far, std::int64_t least) {
    if (so_far >= least) return least;
    if (open == 0) return runnable(p, chosen) ? so_far : least;
    const unsigned first = open & (~open + 1), rest = open ^ first;
    for (unsigned others = rest;; others = (others - 1) & rest) {
      if (const auto price = of(first | others)) {
        chosen.groups.push_back(statements(first | others));
        least = best(rest & ~others, chosen, so_far + *price, least);
        chosen.groups.pop_back();
      }
      if (others == 0) break;
    }
    return least;
  }
};

void expect_best(const Program& p, const Machine& m, const PlanOptions& o, int& joined, int& programs) {
  const Grouping g = fold_maps(p);
  const auto layouts = choose_layouts(p);
  Sets prices{p, m, o, g, layouts, {}, {}};
  for (std::size_t n = 0; n < g.groups.size(); ++n)
    if (!g.groups[n].empty()) prices.groups.push_back(n);
  if (prices.groups.size() > 10) return;
  Prices memory;
  const Joined j = join(p, m, o, layouts, g, memory);
  std::int64_t total = 0;
  for (std::size_t k = 0; k < j.choices.size(); ++k) {
    total += j.groups[k] > 1 ? asked(j.choices[k].price, o) : j.choices[k].price;
    joined += j.groups[k] > 1;
    const auto why = legality(p, *unify(p, j.grouping.groups[k]), j.choices[k].schedule, m);
    EXPECT_TRUE(why.empty()) << text(why.front());
  }
  EXPECT_TRUE(j.search.exact);
  EXPECT_TRUE(runnable(p, j.grouping));
  Grouping chosen;
  EXPECT_EQ(total, prices.best((1u << prices.groups.size()) - 1, chosen, 0, INT64_MAX)) << print(p);
  ++programs;
}

TEST(Join, EqualsTheBestPartitionOfRandomPrograms) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 2000 : 300;
  int joined = 0, programs = 0;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    testing::Random random(seed);
    testing::RandomOptions options;
    options.free_sizes = false;
    const Program p = fix_sizes(testing::random_program(random, options), {});
    PlanOptions o{1 + static_cast<int>(random() % 3), "base", 1, 1, 1};
    o.objective = random() % 4 ? Objective::bytes : Objective::time;
    o.joined = 2 + static_cast<int>(random() % 3);
    o.redundancy = random() % 2 ? 10 : 1e9;
    expect_best(p, random() % 2 ? machine_named("generic-avx2") : toy(1 << (7 + random() % 6), 1 << 13, 2), o, joined,
                programs);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed;
  }
  std::printf("%d programs, %d joined kernels\n", programs, joined);
  EXPECT_GT(joined, static_cast<int>(cases) / 4);
}

// Random graphs of pointwise and windowed layers with residuals and second readers.
std::string random_layers(testing::Random& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const int layers = 2 + below(9), side = 4 + below(9);
  std::string text = fmt::format("program g(y={}, x={}, i=3, j=3", side, side + below(3)), weights, body;
  for (int n = 1; n <= 8; ++n) text += fmt::format(", a{0}={0}, b{0}={0}", n);
  text += ")\ninput T0[a4 y x] : f32\n";
  std::vector<int> channels{4};
  for (int n = 1; n <= layers; ++n) {
    const int from = below(3) ? n - 1 : below(n), c = channels[static_cast<std::size_t>(from)];
    const int kind = below(4);
    if (kind == 0 && n > 1) {
      std::vector<int> same;
      for (int other = 0; other < n; ++other)
        if (other != from && channels[static_cast<std::size_t>(other)] == c) same.push_back(other);
      if (!same.empty()) {
        body += fmt::format("T{0}[a{3} y x] = T{1}[a{3} y x] + T{2}[a{3} y x]\n", n, from,
                            same[static_cast<std::size_t>(below(static_cast<int>(same.size())))], c);
        channels.push_back(c);
        continue;
      }
    }
    if (kind < 2) {
      weights += fmt::format("weight W{}[a{} i j] : f32\n", n, c);
      body += fmt::format("T{0}[a{2} y x] = sum[i j] T{1}[a{2}, y+i-1, x+j-1 else 0] * W{0}[a{2} i j]\n", n, from, c);
      channels.push_back(c);
    } else {
      const int f = 1 + below(8);
      weights += fmt::format("weight W{}[b{} a{}] : f32\n", n, f, c);
      body += fmt::format("T{0}[b{2} y x] = sum[a{3}] T{1}[a{3} y x] * W{0}[b{2} a{3}]\n", n, from, f, c);
      channels.push_back(f);
    }
  }
  text += weights + body + fmt::format("output T{}", layers);
  for (int n = 1; n < layers; ++n)
    if (body.find(fmt::format(" T{}[", n)) == std::string::npos &&
        body.find(fmt::format("+ T{}[", n)) == std::string::npos)
      text += fmt::format(", T{}", n);
  return text + "\n";
}

TEST(Join, EqualsTheBestPartitionOfRandomLayers) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 600 : 40;
  int joined = 0, programs = 0;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    testing::Random random(seed);
    const Program p = program(random_layers(random));
    PlanOptions o = pairs(random() % 2 ? 10 : 1e9);
    o.joined = 2 + static_cast<int>(random() % 3), o.streams = random() % 2;
    expect_best(p, toy(1 << (9 + random() % 5), 1 << 14, 4), o, joined, programs);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed;
  }
  std::printf("%d programs, %d joined kernels\n", programs, joined);
  EXPECT_GT(joined, static_cast<int>(cases) / 2);
}

} // namespace
} // namespace tilewright
