// Attention of many kinds as kernels that keep rows in registers: derived, planned, run as a nest on the CPU target, printed, compiled.
#include <gtest/gtest.h>

#include <cstdlib>

#include "target/cpu/execute.h"
#include "target/cuda/cases.h"
#include "target/cuda/driver.h"
#ifdef TILEWRIGHT_EMULATED
#include "target/cuda/emulated.h"
#endif

namespace tilewright {
namespace {

using testing::Attention;
using testing::GpuCase;
using Weights = Attention::Weights;

struct Kind {
  const char* name;
  Attention a;
  bool short_list = true;                // compiled where no long run is asked for
  std::int64_t cores = 132;              // few: blocks take many tiles in turn, and roles go on from tile to tile
};

const std::vector<Kind> kinds = {
    {"full", {.heads = 2, .queries = 256, .keys = 320}},
    {"causal", {.queries = 330, .keys = 330, .depth = 128, .width = 128, .causal = true}},
    {"halves", {.queries = 200, .keys = 256, .dtype = "f16"}, false},
    {"window", {.queries = 384, .keys = 384, .causal = true, .window = 100}, false},
    {"alibi", {.heads = 2, .queries = 256, .keys = 256, .causal = true, .alibi = true}},
    {"softcap", {.queries = 192, .keys = 256, .softcap = true}, false},
    {"grouped", {.heads = 2, .queries_heads = 3, .queries = 192, .keys = 192, .causal = true}, false},
    {"cross", {.queries = 130, .keys = 200}, false},
    {"lengths", {.heads = 3, .queries = 128, .keys = 300, .lengths = true}},
    {"l2", {.queries = 128, .keys = 256, .weights = Weights::l2}, false},
    {"sigmoid", {.queries = 128, .keys = 256, .weights = Weights::sigmoid}},
    {"sums", {.queries = 128, .keys = 256, .causal = true, .sums = true}, false},
    {"d256", {.queries = 128, .keys = 256, .depth = 256, .width = 256}, false},
    {"d192_128", {.queries = 128, .keys = 256, .depth = 192, .width = 128}, false},
    {"d96", {.queries = 192, .keys = 200, .depth = 96, .width = 96}},
    {"d80", {.queries = 128, .keys = 256, .depth = 80, .width = 80, .causal = true}, false},
    {"few_rows", {.heads = 2, .queries_heads = 4, .queries = 1, .keys = 512, .depth = 128, .width = 128}},
    {"turns", {.heads = 3, .queries = 512, .keys = 256}, true, 2},
    {"causal_turns", {.heads = 3, .queries = 700, .keys = 700, .depth = 128, .width = 128, .causal = true}, false, 2},
    {"d32", {.queries = 128, .keys = 256, .depth = 32, .width = 32}, false},
};

GpuCase case_of(const Kind& k) {
  Machine machine = machine_named("h200");
  machine.core.count = k.cores;
  return testing::gpu_case(k.name, testing::attention(k.a), machine);
}

Plan plan_of(const GpuCase& c) {
  PlannedKernel k;
  k.name = c.name, k.region = c.region, k.schedule = c.schedule;
  Plan plan;
  plan.program = c.program, plan.machine = machine_named("generic-avx2"), plan.kernels = {k}, plan.layouts = c.layouts;
  plan.options.isa = "avx2", plan.options.leaf_rows = 6, plan.options.leaf_columns = 16, plan.options.lanes = 8;
  return plan;
}

// By name, for the program as it was written.
Values for_written(const Program& written, const GpuCase& c, const Values& given) {
  Values list;
  for (const auto& [t, a] : given)
    for (std::size_t w = 0; w < written.tensors.size(); ++w)
      if (written.tensors[w].name == c.program->tensor(t).name) list[static_cast<TensorId>(w)] = a;
  return list;
}

// Run by the CPU target too where that does not take long: rows in registers are ordinary buffers there.
TEST(CudaAttention, IsOneKernelOfRowsInRegisters) {
  for (const Kind& k : kinds) {
    const GpuCase c = case_of(k);
    SCOPED_TRACE(c.name + "\n" + print(*c.program, c.region, c.schedule, c.nest));
    EXPECT_TRUE(c.schedule.fragments);
    if (k.a.queries > 1) continue;
    const Program written = fix_sizes(parse(testing::attention(k.a), "written.tw"), {});
    const Values given = testing::sample(c), want = evaluate(written, for_written(written, c, given), {}, Evaluation::fp64), got = testing::execute(plan_of(c), given);
    EXPECT_LT(testing::difference(want.at(written.outputs[0]), got.at(c.program->outputs[0])), 6e-3);
  }
}

// Of tiles in turn the next one's rows are on their way while one is computed.
TEST(CudaAttention, RowsOfTheNextTileComeAhead) {
  const auto all = std::find_if(kinds.begin(), kinds.end(), [](const Kind& k) { return k.cores < 132; });
  const GpuCase c = case_of(*all);
  EXPECT_EQ(c.schedule.blocks, all->cores);
  for (const ValueAt& v : c.schedule.values) EXPECT_GT(v.stages, 1) << c.program->tensor(v.tensor).name;
  const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
  ASSERT_TRUE(source) << source.reason();
  EXPECT_NE(source->text.find("if (++stage_tile == 2) stage_tile = 0, phase_tile ^= 1;"), std::string::npos) << source->text;
}

// The scale stands in the exponent: no map of all scores is left, and what bounds exponents may lag.
TEST(CudaAttention, ScalesInTheExponent) {
  const GpuCase c = case_of(kinds[0]);
  const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
  ASSERT_TRUE(source) << source.reason();
  EXPECT_NE(source->text.find("exp_difference("), std::string::npos);
  EXPECT_NE(source->text.find("0.18033688"), std::string::npos) << source->text;     // log2(e) / sqrt(64)
  EXPECT_NE(source->text.find("it may lag behind"), std::string::npos);
  const GpuCase sums = case_of(*std::find_if(kinds.begin(), kinds.end(), [](const Kind& k) { return k.a.sums; }));
  const auto exact = cuda::source_of(*sums.program, sums.region, sums.schedule, specialise(*sums.program, sums.nest), sums.layouts);
  ASSERT_TRUE(exact) << exact.reason();
  EXPECT_EQ(exact->text.find("it may lag behind"), std::string::npos);
}

TEST(CudaAttention, CompilesWithoutSpills) {
  if (!cuda::compiler_found()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const Kind& k : kinds) {
    if (!k.short_list && !std::getenv("TILEWRIGHT_LONG")) continue;
    const GpuCase c = case_of(k);
    SCOPED_TRACE(c.name);
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
    ASSERT_TRUE(source) << source.reason();
    EXPECT_LE(source->scratch, machine_named("h200").core.block_scratch);
    const cuda::Compiled made = cuda::compile(std::string(cuda::primitives()) + source->text, c.name, "sm_90a");
    EXPECT_EQ(made.stack, 0) << made.log;
    EXPECT_EQ(made.spills, 0) << made.log;
    EXPECT_EQ(made.log.find("serializ"), std::string::npos) << made.log;
  }
}

#ifdef TILEWRIGHT_EMULATED
// The printed text, run by a machine that looks at every access: boxes, barriers between the roles, instructions of four warps.
TEST(CudaAttention, IsRightWhenItRuns) {
  const char* one = std::getenv("TILEWRIGHT_KIND");
  emulated::Kernels kernels;
  std::vector<std::pair<const Kind*, GpuCase>> cases;
  for (const Kind& k : kinds)
    if (one ? k.name == std::string(one) : k.short_list || std::getenv("TILEWRIGHT_LONG")) cases.emplace_back(&k, case_of(k));
  std::vector<Plan> plans;
  for (const auto& [kind, c] : cases) {
    plans.push_back(plan_of(c));
    plans.back().machine = machine_named("h200");
  }
  std::vector<std::unique_ptr<emulated::Planned>> printed;
  for (const Plan& plan : plans) printed.push_back(std::make_unique<emulated::Planned>(plan, kernels));
  kernels.compile();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [kind, c] = cases[i];
    SCOPED_TRACE(c.name + (one ? "\n" + printed[i]->sources[0].text : ""));
    EXPECT_EQ(printed[i]->why[0], "");
    const Program written = fix_sizes(parse(testing::attention(kind->a), "written.tw"), {});
    const Values given = testing::sample(c), want = evaluate(written, for_written(written, c, given), {}, Evaluation::fp64), got = printed[i]->run(given);
    EXPECT_EQ(printed[i]->problem, "");
    if (!printed[i]->problem.empty()) continue;
    for (std::size_t o = 0; o < written.outputs.size(); ++o) EXPECT_LT(testing::difference(want.at(written.outputs[o]), got.at(c.program->outputs[o])), 6e-3);
  }
}
#endif

}  // namespace
}  // namespace tilewright
