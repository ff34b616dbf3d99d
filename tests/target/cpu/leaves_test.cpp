// Convolutions, pools and matmuls of every shape through the leaves: any kernel, stride, dilation, pads, groups, channels, batch,
// epilogue, layout, schedule and storage dtype equals the evaluator; and the leaves are really taken.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "expr/text.h"
#include "machine/machine.h"
#include "normal/normal.h"
#include "plan/fuse.h"
#include "target/cpu/execute.h"

namespace tilewright {
namespace {

using Random = std::mt19937_64;

struct Case { std::string text; bool fast = true; };

int pick(Random& r, int low, int high) { return low + static_cast<int>(r() % static_cast<unsigned>(high - low + 1)); }

std::string epilogue(Random& r, const std::string& value, const std::string& dims, const std::string& channel) {
  switch (r() % 8) {
    case 0: return fmt::format("max({} + b[{}], 0)", value, channel);
    case 1: return fmt::format("min(max({} + b[{}], 0), 6)", value, channel);
    case 2: return fmt::format("{} + b[{}] + R[{}]", value, channel, dims);
    case 3: return fmt::format("silu({} + b[{}])", value, channel);
    case 4: return fmt::format("hard_swish({} * b[{}])", value, channel);
    case 5: return fmt::format("gelu({})", value);
    case 6: return fmt::format("tanh({}) * R[{}] + floor(b[{}])", value, dims, channel);
    default: return fmt::format("max(R[{}], {} - b[{}])", dims, value, channel);
  }
}

Case convolution(Random& r) {
  const int n = pick(r, 1, 3), groups = r() % 3 ? 1 : pick(r, 2, 4), c = pick(r, 1, 40), f = pick(r, 1, 70);
  const int i = pick(r, 1, 5), j = pick(r, 1, 5), s = pick(r, 1, 3), d = pick(r, 1, 2), p = pick(r, 0, 3);
  const int y = pick(r, 1, 13), x = pick(r, 1, 13);
  const int h = std::max(1, (y - 1) * s + (i - 1) * d + 1 - 2 * p + pick(r, 0, 1)), w = std::max(1, (x - 1) * s + (j - 1) * d + 1 - 2 * p);
  const char* type = r() % 4 == 0 ? "f16" : "f32";
  const bool depthwise = r() % 3 == 0;
  std::string t = fmt::format("program conv(n={}, g={}, c={}, f={}, h={}, w={}, y={}, x={}, i={}, j={}, gc=g*c, gf=g*f)\n", n, groups, c, f, h, w, y, x, i, j);
  auto index = [&](const char* out, const char* tap) { return fmt::format("{}*{}+{}*{}-{}", s, out, d, tap, p); };
  if (depthwise) {
    t += fmt::format("input X[n c h w], R[n c y x] : {}\nweight W[c i j], b[c] : {}\n", type, type);
    t += fmt::format("A[n c y x] : f32 = sum[i j] X[n, c, {}, {} else 0] * W[c i j]\n", index("y", "i"), index("x", "j"));
    t += fmt::format("Z[n c y x] : {} = {}\nV[n c y x] : f32 = Z[n c y x] * 1.5\n", type, epilogue(r, "A[n c y x]", "n c y x", "c"));
  } else if (groups == 1) {
    t += fmt::format("input X[n c h w], R[n f y x] : {}\nweight W[f c i j], b[f] : {}\n", type, type);
    t += fmt::format("A[n f y x] : f32 = sum[c i j] X[n, c, {}, {} else 0] * W[f c i j]\n", index("y", "i"), index("x", "j"));
    t += fmt::format("Z[n f y x] : {} = {}\nV[n f y x] : f32 = Z[n f y x] * 1.5\n", type, epilogue(r, "A[n f y x]", "n f y x", "f"));
  } else {
    t += fmt::format("input X[n gc h w], R[n gf y x] : {}\nweight W[gf c i j], b[gf] : {}\n", type, type);
    t += fmt::format("A[n, size(f)*g+f, y, x] : f32 = sum[c i j] X[n, size(c)*g+c, {}, {} else 0] * W[size(f)*g+f, c, i, j]\n", index("y", "i"), index("x", "j"));
    t += fmt::format("Z[n gf y x] : {} = {}\nV[n gf y x] : f32 = Z[n gf y x] * 1.5\n", type, epilogue(r, "A[n gf y x]", "n gf y x", "gf"));
  }
  return {t + (r() % 2 ? "output V\n" : "output Z, V\n")};
}

Case matmul(Random& r) {
  const int b = pick(r, 1, 3), h = pick(r, 1, 3), m = pick(r, 1, 40), n = pick(r, 1, 70), k = pick(r, 1, 90);
  const char* type = r() % 4 == 0 ? "bf16" : "f32";
  std::string t = fmt::format("program mm(q={}, h={}, m={}, n={}, k={}, hn=h*n)\n", b, h, m, n, k);
  switch (r() % 4) {
    case 0:
      t += fmt::format("input X[q m k], R[q m n] : {}\nweight W[k n], b[n] : {}\nA[q m n] : f32 = sum[k] X[q m k] * W[k n]\n", type, type);
      t += fmt::format("Z[q m n] : {} = {}\noutput Z\n", type, epilogue(r, "A[q m n]", "q m n", "n"));
      break;
    case 1:
      t += fmt::format("input X[q h m k], Y[q h n k] : {}\nZ[q h m n] : f32 = sum[k] X[q h m k] * Y[q h n k]\noutput Z\n", type);
      break;
    case 2:
      t += fmt::format("input X[q m k] : {}\nweight W[k hn] : {}\nA[q m hn] : f32 = sum[k] X[q m k] * W[k hn]\n", type, type);
      t += fmt::format("H[q h m n] : f32 = A[q, m, size(n)*h+n]\nS[q h m] : f32 = sum[n] H[q h m n] * H[q h m n]\noutput S\n");
      break;
    default:
      t += fmt::format("input X[m k], Y[k n] : {}\nZ[n m] : f32 = sum[k] X[m k] * Y[k n]\nP[n m] : f32 = max(Z[n m], 0.5)\noutput P\n", type);
  }
  return {t};
}

Case pool(Random& r) {
  const int n = pick(r, 1, 3), c = pick(r, 1, 40), k = pick(r, 1, 4), s = pick(r, 1, 3), p = pick(r, 0, k - 1), y = pick(r, 1, 9);
  const int h = std::max(1, (y - 1) * s + k - 2 * p + pick(r, 0, 2));
  const bool most = r() % 2;
  std::string t = fmt::format("program pool(n={}, c={}, h={}, w={}, y={}, x={}, i={}, j={})\ninput X[n c h w] : f32\nS[n c h w] : f32 = X[n c h w] + 1\n", n, c, h, h, y, y, k, k);
  t += fmt::format("Y[n c y x] : f32 = {}[i j] S[n, c, {}*y+i-{}, {}*x+j-{} else {}]\noutput Y\n", most ? "max" : "sum", s, p, s, p, most ? "-inf" : "0");
  return {t, false};
}

void fill(Array& a, Random& r) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const float v = uniform(r);
    if (a.dtype == DType::f32) a.as<float>()[i] = v;
    else a.as<std::uint16_t>()[i] = a.dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
  }
}

double value(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f32) return a.as<float>()[i];
  return a.dtype == DType::f16 ? f16_to_f32(a.as<std::uint16_t>()[i]) : bf16_to_f32(a.as<std::uint16_t>()[i]);
}

struct Seen { int all = 0, fast = 0, streamed = 0; };

void count(const std::string& leaf, Seen* seen) {
  ++seen->all;
  seen->fast += leaf.find("interpret") == std::string::npos;
  seen->streamed += leaf.find("streamed") != std::string::npos;
}

void check(std::uint64_t seed, Seen* seen) {
  Random r(seed);
  const Case c = r() % 5 == 0 ? pool(r) : r() % 3 == 0 ? matmul(r) : convolution(r);
  Program p = fix_sizes(parse(c.text, "case.tw"), {});
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    Tensor& tensor = p.tensors[t];
    if (tensor.kind == Kind::intermediate) continue;
    Array a = testing::empty_of(p, static_cast<TensorId>(t));
    fill(a, r);
    given[static_cast<TensorId>(t)] = a;
    if (tensor.kind == Kind::weight) tensor.data = {a.data, a.bytes()}, tensor.owner = a.owner;
  }
  const auto isas = kernels::available_isas();
  const kernels::Kernels& leaf = kernels::kernels_for(isas[r() % isas.size()]);
  PlanOptions o{1 + static_cast<int>(r() % 3), std::string(name_of(leaf.isa)), leaf.mr, leaf.nr, leaf.lanes};
  const auto normal = std::make_shared<Program>(normalise(p));
  Plan plan = make_plan(normal, machine_named("generic-avx2"), o);
  if (r() % 3 == 0)
    for (PlannedKernel& k : plan.kernels) k.schedule = testing::random_schedule(*plan.program, *k.region, r, o.threads);
  for (const auto& kernel : cpu::compile(plan).kernels)
    for (const std::string& l : kernel.leaves) count(l, seen);
  const Values want = evaluate(p, given, {}, Evaluation::typed), got = testing::execute(plan, given);
  for (TensorId t : p.outputs) {
    const Array &g = got.at(t), &w = want.at(t);
    double scale = 1;
    for (std::int64_t i = 0; i < w.count(); ++i) scale = std::max(scale, std::abs(value(w, i)));
    const double slack = scale * (c.text.find("f16") != std::string::npos ? (c.text.find("bf16") != std::string::npos ? 3e-2 : 4e-3) : 2e-5);
    for (std::int64_t i = 0; i < w.count(); ++i)
      if (!(std::abs(value(g, i) - value(w, i)) <= slack)) {
        std::string nests;
        for (const PlannedKernel& k : plan.kernels) nests += print(*plan.program, *k.region, k.schedule, expand(*plan.program, *k.region, k.schedule, k.name));
        FAIL() << "seed " << seed << " isa " << o.isa << ": " << p.tensor(t).name << "[" << i << "] is " << value(g, i) << ", the evaluator says "
               << value(w, i) << "\n" << c.text << nests;
      }
  }
}

TEST(Leaves, EqualTheEvaluator) {
  Seen seen;
  if (const char* one = std::getenv("TILEWRIGHT_SEED")) return check(std::strtoull(one, nullptr, 10), &seen);
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 4000 : 400;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) check(seed, &seen);
  std::printf("%d of %d steps are contract or window leaves, %d of them add to an accumulator\n", seen.fast, seen.all, seen.streamed);
  EXPECT_GT(3 * seen.fast, seen.all);
  EXPECT_GT(seen.streamed, static_cast<int>(cases) / 40);
}

// A stream over k: each turn is a call of the leaf that adds 64 products.
TEST(Leaves, TakeStreamedContractions) {
  Program p = fix_sizes(parse("program mm(m=256, n=256, k=256)\ninput X[m k] : f32\nweight W[k n] : f32\n"
                              "A[m n] : f32 = sum[k] X[m k] * W[k n]\nZ[m n] : f32 = max(A[m n], 0)\noutput Z\n", "mm.tw"), {});
  Random r(1);
  Values given;
  for (TensorId t = 0; t < 2; ++t) {
    Array a = testing::empty_of(p, t);
    fill(a, r);
    given[t] = a;
    Tensor& tensor = p.tensor(t);
    if (tensor.kind == Kind::weight) tensor.data = {a.data, a.bytes()}, tensor.owner = a.owner;
  }
  const Values want = evaluate(p, given, {}, Evaluation::typed);
  for (Isa isa : kernels::available_isas()) {
    const kernels::Kernels& leaf = kernels::kernels_for(isa);
    PlanOptions o{2, std::string(name_of(leaf.isa)), leaf.mr, leaf.nr, leaf.lanes};
    Plan plan = make_plan(std::make_shared<Program>(p), machine_named("generic-avx2"), o);
    ASSERT_EQ(plan.kernels.size(), 1u);
    Schedule& s = plan.kernels[0].schedule;
    const Region& region = *plan.kernels[0].region;
    for (std::size_t a = 0; a < region.axes.size(); ++a)
      if (roles(p, region)[a].reducer == Reducer::sum) s.steps.push_back({AxisStep::How::stream, static_cast<RegionAxis>(a), 64});
    const auto leaves = cpu::compile(plan).kernels[0].leaves;
    ASSERT_FALSE(leaves.empty());
    EXPECT_EQ(leaves[0], leaf.contract_split ? "contract n 256 k 256 in bf16 streamed" : "contract n 256 k 256 streamed");
    const Array got = testing::execute(plan, given).at(p.outputs[0]), &w = want.at(p.outputs[0]);
    for (std::int64_t i = 0; i < w.count(); ++i) ASSERT_NEAR(got.as<float>()[i], w.as<float>()[i], 1e-4) << i;
  }
}

}  // namespace
}  // namespace tilewright
