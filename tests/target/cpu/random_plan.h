// Some plan of a program: random groups, schedules, layouts, threads and instruction set.
#pragma once
#include <gtest/gtest.h>

#include "expr/random_program.h"
#include "machine/machine.h"
#include "plan/fuse.h"
#include "target/cpu/execute.h"

namespace tilewright::testing {

inline PlanOptions options_for(const kernels::Kernels& leaf, int threads) {
  PlanOptions o;
  o.threads = threads;
  o.isa = std::string(name_of(leaf.isa));
  o.leaf_rows = leaf.mr, o.leaf_columns = leaf.nr, o.lanes = leaf.lanes, o.splits = leaf.contract_split != nullptr;
  return o;
}

// fused: counts the kernels of several reductions.
inline Plan random_plan(const Program& program, Random& random, int* fused) {
  const auto isas = kernels::available_isas();
  const kernels::Kernels& leaf = kernels::kernels_for(isas[random() % isas.size()]);
  PlanOptions po = options_for(leaf, 1 + static_cast<int>(random() % 3));
  Machine machine = machine_named("generic-avx2");
  Grouping grouping = fold_maps(program);
  if (random() % 2) *fused += fuse(program, grouping, random);
  // A plan by bytes for a core with little room joins what it can, in tiles.
  const bool joined = random() % 3 == 0;
  if (joined) {
    machine.core.block_scratch = std::int64_t{64} << (random() % 8);
    po.objective = random() % 3 ? Objective::bytes : Objective::time, po.redundancy = 1e9;
  }
  Plan plan = joined ? make_plan(std::make_shared<Program>(program), machine, po)
                     : plan_groups(std::make_shared<Program>(program), machine, po, grouping);
  if (joined)
    for (const PlannedKernel& k : plan.kernels) *fused += k.groups > 1;
  if (random() % (joined ? 2 : 4))
    for (PlannedKernel& k : plan.kernels)
      if (k.region) {
        k.schedule = random_schedule(program, *k.region, random, po.threads);
        for (const Refusal& why : legality(program, *k.region, k.schedule, machine)) ADD_FAILURE() << text(why);
      }
  if (random() % 2)
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (program.tensors[t].kind == Kind::intermediate &&
          std::count(program.outputs.begin(), program.outputs.end(), static_cast<TensorId>(t)) == 0)
        std::shuffle(plan.layouts[t].begin(), plan.layouts[t].end(), random);
  return plan;
}

} // namespace tilewright::testing
