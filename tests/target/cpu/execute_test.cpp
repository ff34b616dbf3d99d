// The law of the whole house: what a plan computes equals what the evaluator computes, for random programs, random
// schedules, layouts, thread counts and instruction sets.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "expr/random_program.h"
#include "expr/text.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

using testing::Random;

double element(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return a.as<double>()[i];
  case DType::f32: return a.as<float>()[i];
  case DType::f16: return f16_to_f32(a.as<std::uint16_t>()[i]);
  case DType::bf16: return bf16_to_f32(a.as<std::uint16_t>()[i]);
  case DType::f8e4m3:
  case DType::f8e5m2: return f8_to_f32(a.as<std::uint8_t>()[i], a.dtype);
  case DType::i8: return a.as<std::int8_t>()[i];
  case DType::u8:
  case DType::boolean: return a.as<std::uint8_t>()[i];
  case DType::i32: return a.as<std::int32_t>()[i];
  case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
  }
  return 0;
}

double tolerance(DType t) {
  switch (t) {
  case DType::f64: return 1e-9;
  case DType::f32: return 2e-5;
  case DType::f16: return 4e-3;
  case DType::bf16: return 4e-2;
  case DType::f8e4m3: return 0.3;
  case DType::f8e5m2: return 0.6;
  default: return 0;
  }
}

// Empty if equal, else where and how they differ.
std::string difference(const Program& p, TensorId t, const Array& got, const Array& want, double slack) {
  double scale = 1;
  for (std::int64_t i = 0; i < want.count(); ++i)
    if (std::isfinite(element(want, i))) scale = std::max(scale, std::abs(element(want, i)));
  for (std::int64_t i = 0; i < want.count(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (std::abs(g - w) <= std::max(slack, tolerance(p.tensor(t).dtype)) * scale) continue;
    return p.tensor(t).name + "[" + std::to_string(i) + "] is " + std::to_string(g) + ", the evaluator says " +
           std::to_string(w);
  }
  return {};
}

int fused_kernels = 0;   // that the cases below ran
int joined_kernels = 0;   // chosen by the planner

void one_case(std::uint64_t seed) {
  Random random(seed);
  testing::RandomOptions o;
  o.smooth = true;
  o.free_sizes = false;
  const Program program = fix_sizes(testing::random_program(random, o), {});
  const Values given = testing::random_inputs(program, random);
  const Plan plan = testing::random_plan(program, random, &fused_kernels);
  for (const PlannedKernel& k : plan.kernels) joined_kernels += k.groups > 1;
  const Values want = evaluate(program, given, {}, Evaluation::typed);
  const Values got = testing::execute(plan, given);
  double slack = 0;
  for (const Tensor& t : program.tensors) slack = std::max(slack, tolerance(t.dtype));
  for (const auto& [t, a] : got) {
    const std::string bad = difference(program, t, a, want.at(t), slack);
    if (bad.empty()) continue;
    std::string nests;
    for (const PlannedKernel& k : plan.kernels) nests += print(program, *k.region, k.schedule, expand(program, *k.region, k.schedule, k.name));
    FAIL() << "seed " << seed << " isa " << plan.options.isa << " threads " << plan.options.threads << ": " << bad << "\n" << print(program) << nests;
  }
}

TEST(Execute, RandomProgramsEqualTheEvaluator) {
  const char* one = std::getenv("TILEWRIGHT_SEED");
  if (one) return one_case(std::strtoull(one, nullptr, 10));
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 4000 : 400;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) one_case(seed);
  std::printf("%llu programs, %d kernels of several reductions; %d joined by the planner\n",
              static_cast<unsigned long long>(cases), fused_kernels, joined_kernels);
  EXPECT_GT(joined_kernels, static_cast<int>(cases) / 20);
  EXPECT_GT(fused_kernels, static_cast<int>(cases) / 10);
}

} // namespace
} // namespace tilewright
