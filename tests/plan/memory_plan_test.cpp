// Where tensors between kernels lie: none on another that is alive at the same time.
#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expr/random_program.h"
#include "expr/text.h"

namespace tilewright {
namespace {

std::int64_t bytes_of_tensor(const Program& p, TensorId t) {
  auto n = static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype));
  for (const Size& d : p.tensor(t).dims) n *= d.constant();
  return n;
}

// Writes every kernel's outputs into a map of owners and checks that its inputs still are their owners'.
void expect_untouched(const Plan& plan, const MemoryPlan& memory) {
  const Program& p = *plan.program;
  std::vector<TensorId> owner(static_cast<std::size_t>(memory.bytes), -1);
  for (const PlannedKernel& k : plan.kernels) {
    Boundary b;
    if (k.region) {
      b = boundary(p, *k.region);
    } else {
      const Opaque& o = std::get<Opaque>(p.nodes[static_cast<std::size_t>(k.opaque)]);
      b.inputs.assign(o.in.begin(), o.in.end()), b.outputs.assign(o.out.begin(), o.out.end());
    }
    auto each = [&](TensorId t, auto&& f) {
      const std::int64_t at = memory.offset[static_cast<std::size_t>(t)];
      for (std::int64_t i = 0; at >= 0 && i < bytes_of_tensor(p, t); ++i) f(owner[static_cast<std::size_t>(at + i)]);
    };
    for (TensorId t : b.outputs) each(t, [&](TensorId& o) { o = t; });
    for (TensorId t : b.inputs)
      each(t, [&](TensorId o) { ASSERT_EQ(o, t) << p.tensor(t).name << " was overwritten before " << k.name; });
  }
}

TEST(MemoryPlan, WhatIsReadIsStillThere) {
  std::size_t shared = 0, kept = 0;
  for (int seed = 1; seed <= 150; ++seed) {
    testing::Random random(static_cast<std::uint64_t>(seed));
    testing::RandomOptions options;
    options.statements = 12;
    const Program free = testing::random_program(random, options);
    auto program = std::make_shared<const Program>(fix_sizes(free, testing::default_sizes(free)));
    const Plan plan = plan_groups(program, machine_named("generic-avx2"), {}, fold_maps(*program));
    for (std::int64_t granule : {64, 256}) {
      const MemoryPlan together = plan_memory(plan, granule), alone = apart(together, *program, granule);
      for (const MemoryPlan* m : {&together, &alone}) {
        for (std::int64_t at : m->offset) EXPECT_TRUE(at < 0 || at % granule == 0);
        expect_untouched(plan, *m);
      }
      shared += together.bytes<alone.bytes, kept += alone.bytes> 0;
    }
  }
  EXPECT_GT(kept, 20u);
  EXPECT_GT(shared, 10u);
}

} // namespace
} // namespace tilewright
