// A region has the same laws in a program of its own, and the same signature; regions that differ have different ones.
#include "law/excerpt.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "expr/random_program.h"
#include "expr/text.h"

namespace tilewright {
namespace {

std::string told(const Or<bool>& law) { return law ? "yes" : law.reason(); }

void expect_same(const Program& p, const Region& r) {
  const Excerpt e = excerpt_of(p, r);
  EXPECT_EQ(signature(p, r), signature(*e.program, e.region));
  ASSERT_EQ(e.program->nodes.size(), r.statements.size());
  for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
    const Laws there = laws(p, r, x), here = laws(*e.program, e.region, x);
    EXPECT_EQ(told(there.tile), told(here.tile));
    EXPECT_EQ(told(there.stream), told(here.stream));
    EXPECT_EQ(told(there.walk), told(here.walk));
    EXPECT_EQ(told(there.permute), told(here.permute));
  }
  const Boundary a = boundary(p, r), b = boundary(*e.program, e.region);
  const auto names = [](const Program& of, const std::vector<TensorId>& list) {
    std::vector<std::string> text;
    for (TensorId t : list) text.push_back(of.tensor(t).name);
    return text;
  };
  EXPECT_EQ(names(p, a.inputs), names(*e.program, b.inputs));
  EXPECT_EQ(names(p, a.outputs), names(*e.program, b.outputs));
  EXPECT_EQ(names(p, a.inner), names(*e.program, b.inner));
  for (std::size_t i = 0; i < r.statements.size(); ++i)
    EXPECT_EQ(print(p, *p.statement(r.statements[i])),
              print(*e.program, *e.program->statement(static_cast<StatementId>(i))));
}

TEST(Excerpt, HasTheLawsOfItsRegion) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 5000 : 400;
  int regions = 0;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    testing::Random random(seed);
    const Program p = fix_sizes(testing::random_program(random, {}), {});
    std::vector<StatementId> all;
    for (std::size_t n = 0; n < p.nodes.size(); ++n)
      if (p.statement(static_cast<StatementId>(n))) all.push_back(static_cast<StatementId>(n));
    if (all.empty()) continue;
    std::vector<StatementId> set;
    const std::size_t from = random() % all.size();
    for (std::size_t n = from; n < std::min(all.size(), from + 1 + random() % 3); ++n) set.push_back(all[n]);
    const auto r = unify(p, set);
    if (!r) continue;
    expect_same(p, *r);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed << "\n" << print(p);
    ++regions;
  }
  std::printf("%d regions\n", regions);
  EXPECT_GT(regions, static_cast<int>(cases) / 4);
}

TEST(Signature, TellsRegionsApart) {
  const Program p =
      fix_sizes(parse("program p(a=4, b=3)\ninput X[a b], Y[a b] : f32\nP[a] = sum[b] X[a b]\nQ[a] = sum[b] Y[a b]\n"
                      "R[b] = sum[a] X[a b]\nS[a] = max[b] X[a b]\nT[a] = P[a] + Q[a]\noutput T, R, S\n",
                      "case.tw"),
                {});
  const auto of = [&](StatementId id) { return signature(p, *unify(p, {id})); };
  EXPECT_EQ(of(0), of(1)); // other tensors of the same form
  EXPECT_NE(of(0), of(2)); // along another dim
  EXPECT_NE(of(0), of(3)); // another reducer
  const Readers readers = readers_by_tensor(p);
  std::map<std::string, int> known;
  const Signatures signatures(p, readers, nullptr, known);
  EXPECT_EQ(signatures.of({0}), signatures.of({1}));
  EXPECT_NE(signatures.of({0, 4}), signatures.of({0, 1}));
}

} // namespace
} // namespace tilewright
