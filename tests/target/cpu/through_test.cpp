// Nests through slots on the CPU target: the loops that the CUDA target prints, against the evaluator.
#include "target/through_cases.h"

#include <gtest/gtest.h>



namespace tilewright {
namespace {

using namespace testing::through;
using testing::ThroughCase;

// Runs every tile of a nest and returns what it has stored, row-major.
Values run(const ThroughCase& c, const Nest& nest, const Values& given) {
  const Program& p = program_of(*c.program, nest);
  std::vector<DimOrder> layouts;
  for (const Tensor& t : p.tensors) layouts.push_back(row_major(t.dims.size()));
  const auto& leaf = kernels::kernels_for(parse_isa("avx2"));
  const cpu::Kernel kernel = cpu::compile_kernel(leaf, *c.program, c.region, nest, layouts);
  testing::Tables tables = testing::tables_of(*c.program, nest, schedule_of(c.schedule, nest), given);
  std::vector<std::byte*> base(p.tensors.size(), nullptr);
  for (auto& [t, table] : tables) base[static_cast<std::size_t>(t)] = reinterpret_cast<std::byte*>(table.data());
  for (const auto& [t, a] : given) base[static_cast<std::size_t>(t)] = a.data;
  Values out;
  for (TensorId t : nest.outputs) {
    Array a = testing::empty_of(p, t);
    for (std::int64_t i = 0; i < a.count(); ++i) set(a, i, 77);
    base[static_cast<std::size_t>(t)] = a.data;
    out[t] = std::move(a);
  }
  cpu::Aligned scratch(static_cast<std::size_t>(kernel.scratch) + 64);
  for (std::int64_t tile = 0; tile < kernel.tiles; ++tile) EXPECT_EQ(cpu::run_tile(leaf, kernel, tile, base.data(), scratch.data), nullptr);
  return out;
}

void expect_equal(const Shape& shape, Random& random, int live) {
  const ThroughCase c = testing::through_case(shape.text, shape.steps);
  SCOPED_TRACE(shape.text);
  ASSERT_EQ(c.schedule.operands.size(), 1u);
  const auto nest = expand_through(*c.program, c.region, c.schedule, "case");
  ASSERT_TRUE(nest) << nest.reason();
  Values given = values(*c.program, shape, c.schedule.operands[0], random, live);
  const Values wanted = evaluate(*c.program, given, {}, Evaluation::fp64);
  for (const auto& [t, got] : run(c, *nest, given)) {
    const Array& want = wanted.at(t);
    for (std::int64_t i = 0; i < got.count(); ++i) ASSERT_NEAR(get(got, i), get(want, i), 2e-2) << i;
  }
}

TEST(Through, RandomNests) {
  Random random{std::mt19937_64(20)};
  for (int i = 0; i < 2000; ++i) {
    const Shape shape = i % 3 == 0 ? rows(random) : i % 3 == 1 ? keyed(random) : columns(random);
    expect_equal(shape, random, random.pick<int>({0, 5, 30, 100}));
    if (HasFatalFailure()) return;
  }
}

TEST(Through, WhyNot) {
  const auto why = [](const std::string& text, const std::vector<testing::NamedStep>& steps) {
    const ThroughCase c = testing::through_case(text, steps);
    const auto nest = expand_through(*c.program, c.region, c.schedule, "case");
    return nest ? "" : nest.reason();
  };
  const std::string product = "program p(m=64, k=48, n=40)\ninput A[m k] : f32 sparse(zeros, tile 16, 1)\ninput B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n";
  EXPECT_EQ(why(product, {{tile, "m", 16}, {stream, "k", 4}}), "");
  EXPECT_EQ(why(product, {{tile, "m", 32}, {stream, "k", 4}}), "a tile lies in several groups of micro-tiles");
  EXPECT_EQ(why(product, {{tile, "m", 16}}), "the rows are in no tile");
  EXPECT_EQ(why("program p(m=64, k=50, n=40)\ninput A[k m] : f32 sparse(zeros, tile 4, 64)\ninput B[k n] : f32\nC[m n] = sum[k] A[k m] * B[k n]\noutput C\n", {{stream, "k", 8}}), "a micro-tile is cut");
}

}  // namespace
}  // namespace tilewright
