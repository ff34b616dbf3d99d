// One nest, three readers: the model of bytes, the CPU target, and the printer of CUDA.
#include "target/cuda/source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "check/count.h"
#include "expr/random_program.h"
#include "target/cpu/execute.h"
#include "target/cuda/cases.h"
#include "target/cuda/driver.h"

namespace tilewright {
namespace {

using testing::GpuCase;

bool in_bulk(const Schedule& s) {
  return std::any_of(s.values.begin(), s.values.end(), [](const ValueAt& v) { return v.bulk; });
}

// The first schedule that is `wanted`.
template <class Wanted> GpuCase case_where(const std::string& name, const std::string& text, const Machine& machine, Wanted wanted) {
  const GpuCase first = testing::gpu_case(name, text, machine);
  const auto choices = block_choices(*first.program, first.region, machine, first.layouts);
  const auto at = std::find_if(choices.begin(), choices.end(), [&](const BlockChoice& c) { return wanted(c.schedule); });
  return testing::gpu_case(name, text, machine, static_cast<std::size_t>(at - choices.begin()));
}
// Instructions of four warps, fed by all threads; and by warps of their own, which bring boxes to clusters of two blocks.
GpuCase group_case(const Machine& machine) {
  return case_where("matmul_group", testing::matmul(128, 64, 136, "f16"), machine, [](const Schedule& s) { return s.leaves[0].group && !in_bulk(s); });
}
GpuCase bulk_case(const Machine& machine) {
  return case_where("matmul_bulk", testing::matmul(200, 128, 264, "bf16"), machine, [](const Schedule& s) { return in_bulk(s) && s.cluster == 2 && s.leaves[0].columns == 128; });
}

// The first schedule whose operands are in a ring of stages.
GpuCase ring_case(const Machine& machine) {
  const std::string text = testing::matmul(48, 32, 200, "f16");
  const GpuCase first = testing::gpu_case("matmul_ring", text, machine);
  const auto choices = block_choices(*first.program, first.region, machine, first.layouts);
  const auto at = std::find_if(choices.begin(), choices.end(), [](const BlockChoice& c) { return c.schedule.values[0].stages > 1 && !c.schedule.leaves[0].group; });
  return testing::gpu_case("matmul_ring", text, machine, static_cast<std::size_t>(at - choices.begin()));
}

std::vector<GpuCase> small_cases() {
  const Machine h200 = machine_named("h200");
  return {testing::gpu_case("pair", testing::depthwise_pointwise(1, 14, 48, 64, 1, "f16"), h200),
          testing::gpu_case("pair_odd", testing::depthwise_pointwise(2, 13, 40, 48, 1, "f16"), h200),
          testing::gpu_case("pair_stride", testing::depthwise_pointwise(1, 16, 32, 48, 2, "bf16"), h200),
          testing::gpu_case("pair_f32", testing::depthwise_pointwise(1, 9, 20, 24, 1, "f32"), h200),
          testing::gpu_case("matmul", testing::matmul(150, 96, 100, "f16"), h200),
          testing::gpu_case("matmul_f32", testing::matmul(64, 40, 70, "f32"), h200),
          group_case(h200), ring_case(h200), bulk_case(h200)};
}

Plan plan_of(const GpuCase& c) {
  PlannedKernel k;
  k.name = c.name;
  k.region = c.region;
  k.schedule = c.schedule;
  Plan plan;
  plan.program = c.program, plan.machine = machine_named("generic-avx2"), plan.kernels = {k}, plan.layouts = c.layouts;
  plan.options.isa = "avx2", plan.options.leaf_rows = 6, plan.options.leaf_columns = 16, plan.options.lanes = 8;
  return plan;
}

double value(const Array& a, std::int64_t i) {
  return a.dtype == DType::f32 ? a.as<float>()[i] : a.dtype == DType::f16 ? f16_to_f32(a.as<std::uint16_t>()[i]) : bf16_to_f32(a.as<std::uint16_t>()[i]);
}

// Inputs of a size that leaves sums of order one.
Values inputs_of(const GpuCase& c) {
  testing::Random random(7);
  Values given;
  for (std::size_t t = 0; t < c.program->tensors.size(); ++t) {
    const Tensor& tensor = c.program->tensors[t];
    if (tensor.kind == Kind::intermediate) continue;
    Array a = testing::empty_of(*c.program, static_cast<TensorId>(t));
    const float scale = tensor.kind == Kind::weight && a.dims.size() > 1 ? 2.0f / std::sqrt(static_cast<float>(a.dims.back())) : 1.0f;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const float v = scale * (static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
      if (a.dtype == DType::f32) a.as<float>()[i] = v;
      else a.as<std::uint16_t>()[i] = a.dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
    }
    given[static_cast<TensorId>(t)] = a;
  }
  return given;
}

TEST(GpuNest, TheCpuRunsTheSameObject) {
  for (const GpuCase& c : small_cases()) {
    SCOPED_TRACE(c.name + "\n" + print(*c.program, c.region, c.schedule, c.nest));
    const Values given = inputs_of(c);
    const Values want = evaluate(*c.program, given, {}, Evaluation::typed), got = testing::execute(plan_of(c), given);
    const TensorId out = c.program->outputs[0];
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < want.at(out).count(); ++i) {
      const double w = value(want.at(out), i), g = value(got.at(out), i);
      difference += (w - g) * (w - g), norm += w * w;
    }
    // f32 sums in another order, then one rounding to the output's dtype.
    const DType t = c.program->tensor(out).dtype;
    EXPECT_GT(norm, 0);
    EXPECT_LT(std::sqrt(difference / norm), t == DType::f32 ? 1e-6 : t == DType::f16 ? 5e-4 : 4e-3);
  }
}

TEST(GpuNest, MovesWhatTheModelSays) {
  for (const GpuCase& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const Counted counted = count(*c.program, c.nest, true);
    const Cost model = cost(*c.program, c.region, c.schedule, machine_named("h200"));
    EXPECT_EQ(counted.total(), model.loaded + model.stored);
    EXPECT_EQ(count(*c.program, specialise(*c.program, c.nest), true).total(), counted.total());
  }
}

void golden(const std::string& name, const std::string& got) {
  const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/golden/cuda/" + name;
  if (std::getenv("TILEWRIGHT_UPDATE_GOLDEN")) std::ofstream(path) << got;
  std::ifstream in(path);
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(got, want.str()) << "TILEWRIGHT_UPDATE_GOLDEN=1 writes " << path;
}

// What the planner promises stands in the text: the leaf's instruction, and rings where operands have stages.
TEST(CudaSource, HoldsWhatThePlanPromises) {
  int groups = 0, warps = 0, rings = 0;
  for (const GpuCase& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
    ASSERT_TRUE(source) << source.reason();
    const bool group = std::any_of(c.schedule.leaves.begin(), c.schedule.leaves.end(), [](const LeafAt& l) { return l.group; });
    const bool tensor = std::any_of(c.schedule.leaves.begin(), c.schedule.leaves.end(), [](const LeafAt& l) { return l.tensor && !l.group; });
    const bool bulk = in_bulk(c.schedule);
    const bool ring = !bulk && std::any_of(c.schedule.values.begin(), c.schedule.values.end(), [](const ValueAt& v) { return v.stages > 1; });
    EXPECT_EQ(source->text.find("cp.async.bulk.tensor") != std::string::npos, bulk);
    EXPECT_EQ(source->text.find("multicast::cluster") != std::string::npos, bulk && c.schedule.cluster > 1);
    EXPECT_EQ(source->maps.size(), bulk ? 2u : 0u);
    EXPECT_EQ(source->text.find("wgmma.mma_async") != std::string::npos, group);
    EXPECT_EQ(source->text.find("multiply_add<") != std::string::npos, tensor);
    EXPECT_EQ(source->text.find("// ring of") != std::string::npos, ring);
    groups += group, warps += tensor, rings += ring;
  }
  EXPECT_GT(groups, 0);
  EXPECT_GT(warps, 0);
  EXPECT_GT(rings, 0);
}

// Every schedule that was priced can be: legal, within scratch; the fastest by prediction stands first.
TEST(Blocks, AreLegalAndSorted) {
  const Machine h200 = machine_named("h200");
  for (const GpuCase& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto choices = block_choices(*c.program, c.region, h200, c.layouts);
    ASSERT_FALSE(choices.empty());
    for (std::size_t i = 0; i < choices.size(); i += 1 + choices.size() / 40) {
      EXPECT_TRUE(std::isfinite(choices[i].seconds) && choices[i].seconds > 0);
      EXPECT_GE(choices[i].seconds, choices[0].seconds * (1 - 1e-9));
      EXPECT_TRUE(legality(*c.program, c.region, choices[i].schedule, h200).empty());
      EXPECT_EQ(choices[i].schedule.threads % h200.core.lanes, 0);
    }
  }
}

// Not only the chosen one: schedules from all over the list are printed and compile to what fits a block.
TEST(CudaSource, OtherSchedulesCompileToo) {
  if (!cuda::compiler_found()) GTEST_SKIP() << "no NVRTC on this machine";
  const Machine h200 = machine_named("h200");
  const GpuCase pair = testing::gpu_case("pair", testing::depthwise_pointwise(1, 14, 48, 64, 1, "f16"), h200);
  const auto choices = block_choices(*pair.program, pair.region, h200, pair.layouts);
  for (std::size_t k = 0; k < 6; ++k) {
    const Schedule& s = choices[choices.size() * (2 * k + 1) / 13].schedule;
    SCOPED_TRACE(text(pair.region, s));
    const Nest nest = specialise(*pair.program, expand(*pair.program, pair.region, s, "pair"));
    EXPECT_EQ(count(*pair.program, nest, true).total(), count(*pair.program, expand(*pair.program, pair.region, s, "pair"), true).total());
    const auto source = cuda::source_of(*pair.program, pair.region, s, nest, pair.layouts);
    ASSERT_TRUE(source) << source.reason();
    EXPECT_LE(source->scratch, h200.core.block_scratch);
    EXPECT_GT(cuda::compile(std::string(cuda::primitives()) + source->text, "pair", "sm_90a").registers, 0);
  }
}

// What the copy engine is told: B[264 128] in chunks of 64 x 128 is two panels of 64 columns, one of them brought by each block of two.
TEST(CudaSource, DescribesItsBoxes) {
  const GpuCase c = bulk_case(machine_named("h200"));
  const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
  ASSERT_TRUE(source) << source.reason();
  ASSERT_EQ(source->maps.size(), 2u);
  const cuda::TensorMap &a = source->maps[0], &b = source->maps[1];
  EXPECT_EQ(a.dims, (std::vector<std::int64_t>{264, 200}));
  EXPECT_EQ(a.strides, (std::vector<std::int64_t>{264 * 2}));
  EXPECT_EQ(a.box, (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(b.dims, (std::vector<std::int64_t>{64, 264, 2}));
  EXPECT_EQ(b.strides, (std::vector<std::int64_t>{128 * 2, 64 * 2}));
  EXPECT_EQ(b.box, (std::vector<std::int64_t>{64, 64, 1}));
}

// Where rows do not begin on 16 bytes the copy engine is not asked.
// What stands behind a product that warps with roles make is asked for ahead of it, each line of it once; a bias is too little for that.
TEST(CudaSource, ResidualsWaitInTheCache) {
  const Machine machine = machine_named("h200");
  for (const char* behind : {"residual", "gate", "bias"}) {
    const GpuCase c = case_where(behind, testing::matmul_with(behind, 256, 128, 256, "bf16"), machine, [](const Schedule& s) { return in_bulk(s) && s.leaves[0].columns == 64; });
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
    ASSERT_TRUE(source) << source.reason();
    EXPECT_EQ(source->text.find("bring_near(") != std::string::npos, std::string(behind) != "bias") << source->text;
  }
}

TEST(CudaSource, BringsNoBoxesThatTheEngineCannot) {
  const Machine h200 = machine_named("h200");
  for (const auto& [m, n, k] : {std::tuple{256, 100, 256}, {256, 256, 260}, {256, 100, 300}}) {
    const GpuCase c = testing::gpu_case("matmul", testing::matmul(m, n, k, "f16"), h200);
    for (const BlockChoice& choice : block_choices(*c.program, c.region, h200, c.layouts)) EXPECT_FALSE(in_bulk(choice.schedule)) << m << " x " << n << " x " << k;
  }
}

TEST(CudaSource, IsTheNestInText) {
  for (const GpuCase& c : small_cases()) {
    const Nest nest = specialise(*c.program, c.nest);
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, nest, c.layouts);
    ASSERT_TRUE(source) << c.name << ": " << source.reason();
    if (c.name == "pair" || c.name == "matmul" || c.name == "matmul_group" || c.name == "matmul_bulk") golden(c.name + ".cu", print(*c.program, c.region, c.schedule, nest) + "\n" + source->text);
  }
}

// Without a GPU: each kernel becomes machine code, keeps its accumulators in registers, and has the instructions it promises.
TEST(CudaSource, Compiles) {
  if (!cuda::compiler_found()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const GpuCase& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const Nest nest = specialise(*c.program, c.nest);
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, nest, c.layouts);
    ASSERT_TRUE(source) << source.reason();
    const cuda::Compiled made = cuda::compile(std::string(cuda::primitives()) + source->text, c.name, "sm_90a");
    EXPECT_FALSE(made.code.empty());
    EXPECT_EQ(made.stack, 0) << made.log;
    EXPECT_EQ(made.spills, 0) << made.log;
    EXPECT_GT(made.registers, 0) << made.log;
    EXPECT_LE(made.registers, 255);
    if (c.schedule.resident > 0) {
      EXPECT_LE(made.registers * source->threads * c.schedule.resident, 65536);
    }
    EXPECT_EQ(made.log.find("serializ"), std::string::npos) << made.log;      // of instructions that four warps issue
  }
}

}  // namespace
}  // namespace tilewright
