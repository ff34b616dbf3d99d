// Whole programs planned for a GPU: every kernel has source, compiles to what fits a block, and its nest, run by the CPU target, equals
// the evaluator. What networks are made of, in small.
#include <gtest/gtest.h>

#include "expr/sizes.h"
#include "normal/normal.h"
#include "target/cpu/execute.h"
#include "target/cuda/cases.h"
#include "target/cuda/driver.h"

namespace tilewright {
namespace {

using testing::GpuCase;

// Expand, depthwise, project, the input added: borders of zeros around what is made, results that are read again in the kernel.
const char* const inverted_residual = R"(program block(n=2, y=14, x=14, c=24, h=96, i=3, j=3)
input X[n y x c] : f16
weight W[h c], V[h i j], U[c h], a[h], b[h], d[c] : f16
A[n y x h] : f16 = sum[c] X[n y x c] * W[h c]
B[n y x h] : f16 = min(max(A[n y x h] + a[h], 0), 6)
C[n y x h] : f16 = sum[i j] B[n, y+i-1, x+j-1, h else 0] * V[h i j]
D[n y x h] : f16 = min(max(C[n y x h] + b[h], 0), 6)
E[n y x c] : f16 = sum[h] D[n y x h] * U[c h]
F[n y x c] : f16 = E[n y x c] + d[c] + X[n y x c]
output F
)";
const char* const squeeze_excite = R"(program gate(n=3, y=7, x=7, c=48, s=12, f=40)
input X[n y x c] : f16
weight W[s c], V[c s], U[f c], a[s], b[c] : f16
P[n c] : f16 = sum[y x] X[n y x c] / 49
Q[n s] : f16 = sum[c] P[n c] * W[s c]
R[n s] : f16 = max(Q[n s] + a[s], 0)
S[n c] : f16 = sum[s] R[n s] * V[c s]
T[n c] : f16 = 1 / (1 + exp(-(S[n c] + b[c])))
Y[n y x c] : f16 = X[n y x c] * T[n c]
Z[n y x f] : f16 = sum[c] Y[n y x c] * U[f c]
output Z
)";
const char* const first_convolution = R"(program stem(n=2, c=3, h=33, w=33, f=24, y=17, x=17, i=3, j=3)
input X[n c h w] : f16
weight W[f c i j], b[f] : f16
Y[n f y x] : f16 = sum[c i j] X[n, c, 2*y+i-1, 2*x+j-1 else 0] * W[f c i j]
Z[n f y x] : f16 = max(Y[n f y x] + b[f], 0)
P[n f y x] : f16 = max[i j] Z[n, f, y+i-1, x+j-1 else -inf]
output P
)";
const char* const norm_linear = R"(program norm(r=70, k=192, f=80)
input X[r k] : f32
weight g[k], W[k f], b[f] : f32
M[r] = sum[k] X[r k] / 192
V[r] = sum[k] (X[r k] - M[r]) * (X[r k] - M[r]) / 192
N[r k] = (X[r k] - M[r]) / sqrt(V[r] + 0.00001) * g[k]
Y[r f] = sum[k] N[r k] * W[k f]
Z[r f] = Y[r f] + b[f]
output Z
)";
const char* const scores = R"(program heads(h=3, q=20, x=50, d=32)
input Q[h q d], K[h x d], V[h x d] : f16
S[h q x] : f32 = sum[d] Q[h q d] * K[h x d]
M[h q] : f32 = max[x] S[h q x]
E[h q x] : f32 = exp(S[h q x] * 0.17 - M[h q] * 0.17)
T[h q] : f32 = sum[x] E[h q x]
P[h q x] : f16 = E[h q x] / T[h q]
O[h q d] : f16 = sum[x] P[h q x] * V[h x d]
output O
)";
const char* const moves = R"(program moves(n=3, c=40, y=18, x=22, a=12, b=28, p=20, q=24)
input X[n c y x] : f32
input I[a] : index(c)
T[n y x c] = X[n c y x]
G[n y x a] = T[n, y, x, I[a]]
P[n y x a] = tanh(G[n y x a]) * 0.5
H[n p q a] = P[n, p-1, q-1, a else 0]
output T, H
)";
const char* const bytes = R"(program bytes(n=2, y=9, x=9, c=32, f=48, i=3, j=3)
input X[n y x c] : i8
weight W[f c], V[f i j] : i8
A[n y x f] : i32 = sum[c] X[n y x c] * W[f c]
B[n y x f] : i8 = i8(min(max(round(f32(A[n y x f]) * 0.01), -128), 127))
C[n y x f] : i32 = sum[i j] B[n, y+i-1, x+j-1, f else -3] * V[f i j]
D[n y x f] : i8 = i8(min(max(round(f32(C[n y x f]) * 0.02), -128), 127))
output D
)";

std::vector<std::pair<GpuCase, int>> kernels_of(const char* text) {
  auto p = std::make_shared<const Program>(normalise(fix_sizes(parse(text, "plans_test.tw"), {})));
  return testing::distinct_kernels(make_plan(std::move(p), machine_named("h200"), {}));
}

Plan plan_of(const GpuCase& c) {
  PlannedKernel k;
  k.name = c.name, k.region = c.region, k.schedule = c.schedule;
  Plan plan;
  plan.program = c.program, plan.machine = machine_named("generic-avx2"), plan.kernels = {k}, plan.layouts = c.layouts;
  plan.options.isa = "avx2", plan.options.leaf_rows = 6, plan.options.leaf_columns = 16, plan.options.lanes = 8;
  return plan;
}

class GpuPlan : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuPlan, RunsOnTheCpuAsTheEvaluatorSays) {
  for (const auto& [c, count] : kernels_of(GetParam())) {
    SCOPED_TRACE(c.name + "\n" + print(*c.program, c.region, c.schedule, c.nest));
    const Values given = testing::sample(c);
    Values laid;
    for (const auto& [t, a] : given) laid[t] = testing::relaid(a, row_major(a.dims.size()), c.layouts[static_cast<std::size_t>(t)]);
    const Values want = evaluate(*c.program, given, {}, Evaluation::typed), got = testing::execute(plan_of(c), laid);
    for (TensorId out : c.program->outputs) {
      const DType t = c.program->tensor(out).dtype;
      EXPECT_LT(testing::difference(want.at(out), got.at(out)), t == DType::f16 ? 1e-3 : t == DType::f32 ? 1e-5 : 1e-9);
    }
  }
}

// Each output is written, each kernel keeps to its block, and has the instructions that its leaves promise.
TEST_P(GpuPlan, IsPrintedAndCompiles) {
  const Machine h200 = machine_named("h200");
  for (const auto& [c, count] : kernels_of(GetParam())) {
    const auto source = cuda::source_of(*c.program, c.region, c.schedule, specialise(*c.program, c.nest), c.layouts);
    ASSERT_TRUE(source) << c.name << ": " << source.reason();
    SCOPED_TRACE(source->text);
    EXPECT_LE(source->scratch, h200.core.block_scratch);
    for (TensorId out : c.program->outputs) {
      std::string name = "&g_";
      for (char x : c.program->tensor(out).name) name += std::isalnum(static_cast<unsigned char>(x)) ? x : '_';
      EXPECT_NE(source->text.find(name + "["), std::string::npos) << "nothing is written to " << name;
    }
    const bool tensor = std::any_of(c.schedule.leaves.begin(), c.schedule.leaves.end(), [](const LeafAt& l) { return l.tensor; });
    EXPECT_EQ(source->text.find("multiply_add<") != std::string::npos || source->text.find("wgmma") != std::string::npos, tensor);
    if (!cuda::compiler_found()) continue;
    const cuda::Compiled made = cuda::compile(std::string(cuda::primitives()) + source->text, c.name, h200.arch);
    EXPECT_EQ(made.stack, 0) << made.log;
    EXPECT_EQ(made.spills, 0) << made.log;
    EXPECT_GT(made.registers, 0);
    if (c.schedule.resident > 0) {
      EXPECT_LE(made.registers * c.schedule.threads * c.schedule.resident, h200.core.registers);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuPlan, ::testing::Values(inverted_residual, squeeze_excite, first_convolution, norm_linear, scores, moves, bytes));

}  // namespace
}  // namespace tilewright
