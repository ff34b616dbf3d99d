// Contractions that read one operand in one way, some with biases and activations alike, some not: side by side they
// have the same bits as one by one, and what is planned and run equals the evaluator, with cost == count.
#include "law/siblings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "check/count.h"
#include "expr/text.h"
#include "plan/merge.h"
#include "target/cpu/execute.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

using testing::Random;

struct Branches {
  Random& r;
  int pick(int low, int high) { return low + static_cast<int>(r() % static_cast<unsigned>(high - low + 1)); }

  // Pointwise or over a window; the branches' results are read by sums over their channels, by each other, or by a
  // padded window.
  std::string text() {
    const int branches = pick(2, 4), side = pick(1, 9), taps = pick(1, 4) == 1 ? 2 : 1;
    const bool summed = pick(0, 1); // all of them
    const bool bias = pick(0, 3) > 0, filters_last = pick(0, 1), same_extent = pick(0, 1);
    std::string sizes = fmt::format("program b(n={}, c={}, y={}, x={}, i={}, h={}, w={}, g={}", pick(1, 2), pick(1, 40),
                                    side, side + 1, taps, side + taps - 1, side + taps, pick(1, 9));
    std::string weights, body, outputs;
    int extent = pick(1, 40);
    static constexpr const char* activations[] = {"{}", "max({}, 0)", "silu({})"};
    const char* activation = activations[pick(0, 2)];
    for (int b = 0; b < branches; ++b) {
      if (!same_extent) extent = pick(1, 40);
      sizes += fmt::format(", f{}={}", b, extent);
      weights += fmt::format("weight W{0}[{1}], a{0}[f{0}], R{0}[g f{0}] : f32\n", b,
                             filters_last ? fmt::format("c i f{}", b) : fmt::format("f{} c i", b));
      body += fmt::format("T{0}[n f{0} y x] : f32 = sum[c i] X[n, c, y+i, x+i] * W{0}[{1}]\n", b,
                          filters_last ? fmt::format("c i f{}", b) : fmt::format("f{} c i", b));
      const std::string sum = fmt::format("T{0}[n f{0} y x]", b);
      const bool another = pick(1, 12) == 1; // not of the same form
      body += fmt::format(
          "V{0}[n f{0} y x] : f32 = {1}\n", b,
          another ? "tanh(" + sum + ")"
                  : fmt::format(fmt::runtime(activation), bias ? sum + fmt::format(" + a{0}[f{0}]", b) : sum));
      const int kind = summed ? 3 : pick(0, 3);
      if (kind == 0) {
        outputs += fmt::format("V{}, ", b);
      } else if (kind == 1 && b > 0 && same_extent) {
        body += fmt::format("O{0}[n f{1} y x] : f32 = V{0}[n f{1} y x] * V{1}[n f{1} y x]\n", b, b - 1);
        outputs += fmt::format("O{}, ", b);
      } else if (kind == 2) {
        body += fmt::format("O{0}[n f{0} y x] : f32 = max[i] V{0}[n, f{0}, y+i-1, x else 0]\n", b);
        outputs += fmt::format("O{}, ", b);
      } else {
        body += fmt::format("O{0}[n g y x] : f32 = sum[f{0}] V{0}[n f{0} y x] * R{0}[g f{0}]\n", b);
        outputs += fmt::format("O{}, ", b);
      }
    }
    return sizes + ")\ninput X[n c h w] : f32\n" + weights + body + "output " + outputs.substr(0, outputs.size() - 2) +
           "\n";
  }
};

Values values_for(Program& p, Random& r) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    Tensor& tensor = p.tensors[t];
    if (tensor.kind == Kind::intermediate) continue;
    Array a = testing::empty_of(p, static_cast<TensorId>(t));
    for (std::int64_t i = 0; i < a.count(); ++i) a.as<float>()[i] = uniform(r);
    if (tensor.kind == Kind::weight)
      tensor.data = {a.data, a.bytes()}, tensor.owner = a.owner;
    else
      given[static_cast<TensorId>(t)] = a;
  }
  return given;
}

Values with_weights(const Program& p, Values given) {
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& x = p.tensors[t];
    if (x.kind != Kind::weight || x.data.empty()) continue;
    Array a = testing::empty_of(p, static_cast<TensorId>(t));
    std::memcpy(a.data, x.data.data(), x.data.size());
    given[static_cast<TensorId>(t)] = a;
  }
  return given;
}

struct Seen {
  int sets = 0, rows = 0, merged = 0;
};

void expect_plan(const std::string& text, const Plan& plan, const Values& given, const Values& want) {
  const Program& p = *plan.program;
  for (const PlannedKernel& k : plan.kernels) {
    const Cost c = cost(p, *k.region, k.schedule, plan.machine);
    ASSERT_EQ(c.loaded + c.stored, count(p, expand(p, *k.region, k.schedule, k.name), false).total()) << text;
  }
  const Values got = testing::execute(plan, given);
  for (TensorId t : p.outputs) {
    const Array &g = got.at(t), &w = want.at(t);
    double scale = 1;
    for (std::int64_t i = 0; i < w.count(); ++i)
      scale = std::max(scale, std::abs(static_cast<double>(w.as<float>()[i])));
    for (std::int64_t i = 0; i < w.count(); ++i)
      ASSERT_NEAR(g.as<float>()[i], w.as<float>()[i], scale * 2e-5) << p.tensor(t).name << "[" << i << "]\n" << text;
  }
}

void check(std::uint64_t seed, Seen& seen) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random r(seed);
  const std::string text = Branches{r}.text();
  Program p = fix_sizes(parse(text, "branches.tw"), {});
  const Values given = values_for(p, r);
  const Values want = evaluate(p, with_weights(p, given), {}, Evaluation::typed);
  const auto sets = siblings(p);
  const Program beside = side_by_side(p, sets);
  const Values same = evaluate(beside, with_weights(beside, given), {}, Evaluation::typed);
  for (TensorId t : p.outputs)
    ASSERT_EQ(0, std::memcmp(same.at(t).data, want.at(t).data, want.at(t).bytes())) << p.tensor(t).name << "\n" << text;
  for (const Siblings& s : sets) ++seen.sets, seen.rows += static_cast<int>(s.rows.size());
  const auto isas = kernels::available_isas();
  PlanOptions o = testing::options_for(kernels::kernels_for(isas[r() % isas.size()]), 1 + static_cast<int>(r() % 3));
  o.margin = -1;
  if (r() % 2) o.objective = Objective::bytes, o.redundancy = 1e9;
  const Plan plan = make_plan(std::make_shared<Program>(p), machine_named("generic-avx2"), o);
  for (const Alternative& a : plan.merged) seen.merged += a.rule.empty();
  expect_plan(text, plan, given, want);
  // Side by side whatever it costs.
  expect_plan(text, make_plan(std::make_shared<Program>(beside), machine_named("generic-avx2"), o), given, want);
}

TEST(Siblings, SideBySideEqualOneByOne) {
  Seen seen;
  if (const char* one = std::getenv("TILEWRIGHT_SEED")) return check(std::strtoull(one, nullptr, 10), seen);
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 2000 : 100;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) check(seed, seen);
  std::printf("%llu programs: %d sets of siblings with %d rows, %d merged by a plan\n",
              static_cast<unsigned long long>(cases), seen.sets, seen.rows, seen.merged);
  EXPECT_GT(seen.sets, static_cast<int>(cases) / 2);
  EXPECT_GT(seen.rows, seen.sets * 5 / 4);
  EXPECT_GT(seen.merged, static_cast<int>(cases) / 20);
}

} // namespace
} // namespace tilewright
