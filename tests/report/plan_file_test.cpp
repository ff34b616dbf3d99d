// Plans as JSON: what is written is read again, step by step, for random programs under random legal schedules.
#include "runtime/plan_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "expr/random_program.h"
#include "expr/text.h"
#include "plan/fuse.h"
#include "report/json.h"

namespace tilewright {
namespace {

using testing::Random;

Plan plan_of(const std::shared_ptr<const Program>& p) { return make_plan(p, machine_named("generic-avx2"), {2, "avx2", 6, 16, 8}); }

TEST(PlanFile, WhatIsWrittenIsRead) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 2000 : 200;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    const auto p = std::make_shared<Program>(fix_sizes(testing::random_program(random, o), {}));
    Plan written = plan_of(p), read = plan_of(p);
    for (PlannedKernel& k : written.kernels) {
      if (random() % 4 == 0) continue;                  // as it was planned
      const std::string planned = text(*k.region, k.schedule);
      k.schedule.steps = testing::random_schedule(*p, *k.region, random).steps;
      if (text(*k.region, k.schedule) != planned) k.cost = cost(*p, *k.region, k.schedule, written.machine);
    }
    const std::string json = plan_json(written, nullptr, 2);
    apply(parse_plan(json, "plan.json"), read, read.machine);
    ASSERT_EQ(plan_json(read, nullptr, 2), json) << "seed " << seed << "\n" << print(*p);
  }
}

TEST(PlanFile, DamagedTextIsRefusedOrLegal) {
  Random random(7);
  const auto p = std::make_shared<Program>(fix_sizes(parse("program p(m=8, n=6, k=5)\ninput A[m k], B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\n"
                                                           "S[m] = max[n] C[m n]\noutput S\n", "p.tw"), {}));
  const std::string good = plan_json(plan_of(p), nullptr, 1);
  int refused = 0, accepted = 0;
  for (int n = 0; n < 4000; ++n) {
    std::string bad = good;
    for (int change = 1 + static_cast<int>(random() % 3); change-- > 0;) {
      const std::size_t at = random() % bad.size();
      if (random() % 3 == 0) bad.erase(at, 1 + random() % 8);
      else bad[at] = static_cast<char>("0123456789\"{}[],:-aetn\x80"[random() % 23]);
    }
    Plan plan = plan_of(p);
    try {
      apply(parse_plan(bad, "plan.json"), plan, plan.machine);
      ++accepted;
      for (const PlannedKernel& k : plan.kernels) EXPECT_TRUE(legality(*p, *k.region, k.schedule, plan.machine).empty());
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(e.code, Code::internal) << bad;
      EXPECT_NE(e.where.find("plan.json"), std::string::npos) << e.what();
    }
  }
  std::printf("%d refused, %d accepted\n", refused, accepted);
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace tilewright
