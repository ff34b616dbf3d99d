// Kernels with loops through slots and those that make their tables, printed and run by the emulated GPU, against the evaluator.
#ifdef TILEWRIGHT_EMULATED
#include "target/cuda/emulated.h"

#include <gtest/gtest.h>

#include "plan/gathered_blocks.h"
#include "target/cuda/cases.h"
#include "target/through_cases.h"

namespace tilewright {
namespace {

using namespace testing::through;
using emulated::Kernels;
using emulated::Planned;

// A program of one region as a plan; the schedule's operands, leaves and values are given or chosen here.
struct Made {
  Shape shape;
  OperandAt view;
  Plan plan;
  std::unique_ptr<Planned> planned;
};

Plan plan_of(const testing::ThroughCase& c) {
  PlannedKernel k;
  k.name = "through";
  k.region = c.region;
  k.schedule = c.schedule;
  Plan plan;
  plan.program = c.program, plan.machine = machine_named("h200"), plan.kernels = {k};
  for (const Tensor& t : c.program->tensors) plan.layouts.push_back(row_major(t.dims.size()));
  return plan;
}

// Nests of any tiles: operands in place, or in scratch, in one stage or in a ring.
void place(testing::ThroughCase& c, Random& random) {
  c.schedule.threads = random.pick({32, 64, 96});
  const Program& p = *c.program;
  const Statement& st = *p.statement(c.region.statements[0]);
  std::vector<TensorId> operands;
  const auto keyed = keyed_product(p, st);
  const Statement& product = keyed ? (*keyed).statement : st;
  const auto found = contraction(p, product);
  if (!found || random.chance(20)) return;
  const bool streams = !c.schedule.steps.empty() && c.schedule.steps.back().how == AxisStep::How::stream;
  const int stages = streams ? random.pick({1, 2, 3}) : 1;
  for (const Access* a : {found->a, found->b})
    c.schedule.values.push_back({a->tensor, LevelRole::scratch, row_major(a->at.size()), random.pick<std::int64_t>({0, 4, 8}), false, stages});
}

Made random_made(Random& random, int i) {
  Made m;
  m.shape = i % 3 == 0 ? rows(random) : i % 3 == 1 ? keyed(random) : columns(random);
  testing::ThroughCase c = testing::through_case(m.shape.text, m.shape.steps);
  place(c, random);
  if (c.schedule.values.empty()) c.schedule.leaves.push_back({c.region.statements[0], false, false, {}, 1, 1, 16, 8});
  m.view = c.schedule.operands.at(0);
  m.plan = plan_of(c);
  return m;
}

void expect_right(Made& m, Random& random, int live) {
  const Program& p = *m.plan.program;
  const Values given = values(p, m.shape, m.view, random, live);
  const Values want = evaluate(p, given, {}, Evaluation::fp64), got = m.planned->run(given);
  const std::string all = m.shape.text + text(*m.plan.kernels[0].region, m.plan.kernels[0].schedule) + "\n" + m.planned->sources[0].text;
  ASSERT_EQ(m.planned->problem, "") << all;
  for (const auto& [t, a] : got) ASSERT_LT(testing::difference(want.at(t), a), p.tensor(t).dtype == DType::f32 ? 2e-3 : 1e-2) << all;
}

TEST(EmulatedThrough, RandomNests) {
  Random random{std::mt19937_64(3)};
  Kernels kernels;
  std::vector<Made> list;
  for (int i = 0; i < 90; ++i) list.push_back(random_made(random, i));
  for (Made& m : list) m.planned = std::make_unique<Planned>(m.plan, kernels);
  kernels.compile();
  for (Made& m : list) {
    ASSERT_TRUE(m.planned->tables[0]) << m.shape.text << m.planned->why[0];
    for (int live : {0, 30, 100}) {
      expect_right(m, random, live);
      if (HasFatalFailure()) return;
    }
  }
}

// What the planner chooses: tensor instructions on operands that lie either way, with swizzled rows, and boxes of points.
TEST(EmulatedThrough, WhatIsPlanned) {
  struct Product { std::string text, source; };
  const std::vector<Product> products = {
      {"program p(m=128, k=160, n=128)\ninput A[k m] : f16 sparse(zeros, tile 1, 64)\ninput B[k n] : f16\nC[m n] : f16 = sum[k] A[k m] * B[k n]\noutput C\n", "A"},
      {"program p(m=192, k=2304, n=512)\ninput A[k m] : f16 sparse(zeros, tile 1, 64)\ninput B[k n] : f16\nC[m n] : f16 = sum[k] A[k m] * B[k n]\noutput C\n", "A"},
      {"program p(m=96, k=160, n=128)\ninput A[k m] : bf16 sparse(zeros, tile 1, 32)\ninput B[k n] : bf16\nC[m n] : bf16 = sum[k] A[k m] * B[k n]\noutput C\n", "A"},
      {"program p(m=64, k=96, n=128)\ninput A[m k] : f32 sparse(zeros, tile 32, 1)\ninput B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n", "A"},
      {"program p(m=64, k=256, n=128)\ninput A[m k] : f32 sparse(zeros, tile 32, 64)\ninput B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n", "A"},
      {"program p(b=3, m=70, k=64, n=128)\ninput A[b m k] : f16 sparse(lengths L)\ninput L[b] : i32\ninput B[k n] : f16\ninput bias[n] : f32\nC[b m n] = sum[k] A[b m k] * B[k n]\nD[b m n] : f16 = C[b m n] + bias[n]\noutput D\n", "L"},
      {"program p(t=200, e=5, k=128, n=128)\ninput X[t k] : f16\ninput W[e k n] : f16\ninput key[t] : index(e)\nU[t n] : f16 = sum[k] X[t k] * W[key[t], k, n]\noutput U\n", "key"},
      {"program p(t=150, j=2, e=5, k=128, n=128)\ninput X[t k] : f16\ninput W[e k n] : f16\ninput key[t j] : index(e)\nU[t j n] : f16 = sum[k] X[t k] * W[key[t, j], k, n]\noutput U\n", "key"}};
  Random random{std::mt19937_64(4)};
  Kernels kernels;
  std::vector<Made> list;
  for (const Product& product : products) {
    testing::ThroughCase c = testing::through_case(product.text, {});
    std::vector<DimOrder> layouts;
    for (const Tensor& t : c.program->tensors) layouts.push_back(row_major(t.dims.size()));
    const auto choices = gathered_choices(*c.program, c.region, machine_named("h200"), {}, layouts);
    ASSERT_FALSE(choices.empty()) << product.text;
    // Some of them, one of each form of the leaf.
    std::set<std::string> seen;
    for (const BlockChoice& choice : choices) {
      const LeafAt& l = choice.schedule.leaves.at(0);
      const std::string form = fmt::format("{} {} {} {} {}", l.tensor, l.group, l.warps_n, choice.schedule.values[0].stages, l.group ? l.columns : 0);
      if (seen.size() >= 4 || !seen.insert(form).second) continue;
      testing::ThroughCase own = c;
      own.schedule = choice.schedule;
      list.push_back({{product.text, product.source, {}}, choice.schedule.operands.at(0), plan_of(own), nullptr});
    }
  }
  for (Made& m : list) m.planned = std::make_unique<Planned>(m.plan, kernels);
  kernels.compile();
  // For the real one too, where its compiler is.
  for (std::size_t i = 0; i < list.size() && cuda::compiler_found(); i += 3) {
    const Planned& made = *list[i].planned;
    EXPECT_EQ(cuda::compile(std::string(cuda::primitives()) + made.sources[0].text, made.sources[0].name, "sm_90a").spills, 0) << made.sources[0].text;
    for (const cuda::Ahead& a : made.tables[0]->kernels) EXPECT_EQ(cuda::compile(std::string(cuda::primitives()) + a.text, a.name, "sm_90a").spills, 0) << a.text;
  }
  for (Made& m : list) {
    ASSERT_TRUE(m.planned->tables[0]) << m.shape.text << text(*m.plan.kernels[0].region, m.plan.kernels[0].schedule) << m.planned->why[0];
    ASSERT_EQ(m.planned->why[0], "") << m.shape.text;
    for (int live : {0, 10, 100}) {
      expect_right(m, random, live);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tilewright
#endif
