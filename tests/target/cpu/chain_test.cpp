// Random chains of depthwise, pointwise and other convolutions: kernels of 1 to 7, strides, dilations, uneven pads,
// multipliers, 1 to 200 channels, batches of 1 to 5, sums with an earlier value, and values that something else reads
// too. What the planner joins, by time and by bytes, equals layer by layer equals the evaluator; every kernel's cost
// equals its count.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "check/count.h"
#include "expr/text.h"
#include "machine/machine.h"
#include "normal/normal.h"
#include "target/cpu/execute.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

using testing::Random;

struct Shape {
  int c, y, x;
  bool operator==(const Shape&) const = default;
};

struct Chain {
  Random& r;
  int batch = 1;
  std::string sizes{}, body{}, outputs{};
  std::vector<Shape> shapes{}; // of V0, V1, ...

  int pick(int low, int high) { return low + static_cast<int>(r() % static_cast<unsigned>(high - low + 1)); }

  // A side of the result and the index that reads the last value along it.
  struct Side {
    int extent;
    std::string index;
  };
  Side side(int in, int taps, const std::string& out_axis, const std::string& tap_axis) {
    const int s = pick(1, 4) == 1 ? 2 : 1, d = taps > 1 && pick(1, 4) == 1 ? 2 : 1, reach = (taps - 1) * d + 1;
    const int before = pick(0, reach - 1), after = pick(0, reach - 1);
    if (in + before + after < reach) return {in, fmt::format("{}+{}-{}", out_axis, tap_axis, taps / 2)};
    return {(in + before + after - reach) / s + 1, fmt::format("{}*{}+{}*{}-{}", s, out_axis, d, tap_axis, before)};
  }

  void layer(std::size_t l) {
    const Shape in = shapes.back();
    const int kind = pick(0, 4); // two of five are depthwise, two pointwise
    const bool depthwise = kind < 2, pointwise = kind == 2 || kind == 3;
    const int taps = pointwise ? 1 : depthwise ? 2 * pick(0, 3) + 1 + (pick(1, 6) == 1) : pick(1, 3);
    const int multiplier = depthwise && in.c > 1 && in.c <= 60 && pick(1, 5) == 1 ? pick(2, 3) : 1;
    const Side y = side(in.y, taps, fmt::format("y{}", l), fmt::format("i{}", l)),
               x = side(in.x, taps, fmt::format("x{}", l), fmt::format("j{}", l));
    const int c = depthwise ? in.c * multiplier : pick(1, 3) == 1 ? pick(60, 200) : pick(1, 40);
    shapes.push_back({c, y.extent, x.extent});
    if (multiplier > 1)
      sizes += fmt::format(", q{0}={1}, c{0}=c{2}*q{0}", l, multiplier, l - 1);
    else
      sizes += fmt::format(", c{}={}", l, c);
    sizes += fmt::format(", y{0}={1}, x{0}={2}, i{0}={3}, j{0}={3}", l, y.extent, x.extent, taps);
    const std::string out = fmt::format("n c{0} y{0} x{0}", l);
    if (depthwise && multiplier == 1) {
      body += fmt::format("weight W{0}[c{0} i{0} j{0}], b{0}[c{0}] : f32\n", l);
      body += fmt::format("T{0}[{1}] : f32 = sum[i{0} j{0}] V{2}[n, c{0}, {3}, {4} else 0] * W{0}[c{0} i{0} j{0}]\n", l,
                          out, l - 1, y.index, x.index);
    } else if (depthwise) {
      body += fmt::format("weight W{0}[c{0} i{0} j{0}], b{0}[c{0}] : f32\n", l);
      body += fmt::format("T{0}[n, size(q{0})*c{1}+q{0}, y{0}, x{0}] : f32 = sum[i{0} j{0}] V{1}[n, c{1}, {2}, {3} "
                          "else 0] * W{0}[size(q{0})*c{1}+q{0}, i{0}, j{0}]\n",
                          l, l - 1, y.index, x.index);
    } else {
      body += fmt::format("weight W{0}[c{0} c{1} i{0} j{0}], b{0}[c{0}] : f32\n", l, l - 1);
      body += fmt::format(
          "T{0}[{1}] : f32 = sum[c{2} i{0} j{0}] V{2}[n, c{2}, {3}, {4} else 0] * W{0}[c{0} c{2} i{0} j{0}]\n", l, out,
          l - 1, y.index, x.index);
    }
    std::string value = fmt::format("T{0}[{1}] + b{0}[c{0}]", l, out);
    for (std::size_t k = 0; k + 1 < shapes.size() - 1; ++k)
      if (shapes[k] == shapes.back() && pick(0, 1)) {
        value += fmt::format(" + V{}[{}]", k, out);
        break;
      }
    static constexpr const char* activations[] = {"{}", "max({}, 0)", "min(max({}, 0), 6)", "silu({})",
                                                  "hard_swish({})"};
    body += fmt::format("V{}[{}] : f32 = {}\n", l, out, fmt::format(fmt::runtime(activations[pick(0, 4)]), value));
    // Something else reads it too: a mean over the image, or the caller.
    if (pick(1, 5) == 1) {
      body += fmt::format("M{0}[n c{0}] : f32 = sum[y{0} x{0}] V{0}[{1}]\n", l, out);
      outputs += fmt::format("M{}, ", l);
    } else if (pick(1, 6) == 1) {
      outputs += fmt::format("V{}, ", l);
    }
  }

  std::string text() {
    batch = pick(1, 3) == 1 ? pick(2, 5) : 1;
    shapes.push_back({pick(1, 3) == 1 ? pick(40, 200) : pick(1, 40), pick(1, 14), pick(1, 14)});
    const Shape first = shapes[0];
    const auto layers = static_cast<std::size_t>(pick(2, 5));
    for (std::size_t l = 1; l <= layers; ++l) layer(l);
    const std::string last = fmt::format("V{}", layers);
    if (outputs.find(last + ",") == std::string::npos) outputs += last + ", ";
    return fmt::format("program chain(n={}, c0={}, y0={}, x0={}{})\ninput V0[n c0 y0 x0] : f32\n{}output {}\n", batch,
                       first.c, first.y, first.x, sizes, body, outputs.substr(0, outputs.size() - 2));
  }
};

void fill(Array& a, Random& r, float scale) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (std::int64_t i = 0; i < a.count(); ++i) a.as<float>()[i] = uniform(r);
}

Values values_for(Program& p, Random& r) {
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    Tensor& tensor = p.tensors[t];
    if (tensor.kind == Kind::intermediate) continue;
    Array a = testing::empty_of(p, static_cast<TensorId>(t));
    // Sums keep a deviation near 1.
    const std::int64_t products =
        tensor.dims.size() > 1 && tensor.kind == Kind::weight ? a.count() / std::max<std::int64_t>(a.dims[0], 1) : 1;
    fill(a, r, 1.7f / std::sqrt(static_cast<float>(std::max<std::int64_t>(products, 1))));
    given[static_cast<TensorId>(t)] = a;
    if (tensor.kind == Kind::weight) tensor.data = {a.data, a.bytes()}, tensor.owner = a.owner;
  }
  return given;
}

struct Seen {
  int kernels = 0, joined = 0, walked = 0, kept = 0;
};

// Whether something that stays in the kernel is kept between the turns of its walk.
bool keeps(const Program& p, const PlannedKernel& k) {
  for (std::size_t i = 0; i < k.region->statements.size(); ++i)
    for (const Span& range : ranges(p, *k.region, k.schedule, static_cast<int>(i)))
      if (range.walk >= 0) return true;
  return false;
}

void check_plan(const std::string& text, const Plan& plan, const Values& given, const Values& want, Seen& seen) {
  const Program& p = *plan.program;
  for (const PlannedKernel& k : plan.kernels) {
    ++seen.kernels, seen.joined += k.groups > 1;
    const Cost c = cost(p, *k.region, k.schedule, plan.machine);
    const bool walked = walked_loop(k.schedule) >= 0;
    seen.walked += walked, seen.kept += walked && keeps(p, k);
    const bool points = walked && c.multiply_adds < 200000;
    ASSERT_EQ(c.loaded + c.stored, count(p, expand(p, *k.region, k.schedule, k.name), points).total()) << text;
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

// Every kernel that can walk along some axis does: in turns of a few rows, perhaps cut along the other axes.
Plan walked(Plan plan, Random& r) {
  const Program& p = *plan.program;
  for (PlannedKernel& k : plan.kernels) {
    if (!k.region) continue;
    std::vector<Schedule> legal;
    for (std::size_t a = 0; a < k.region->axes.size(); ++a) {
      Schedule s = k.schedule;
      std::erase_if(s.steps, [&](const AxisStep& x) {
        return x.how == AxisStep::How::stream || x.axis == static_cast<RegionAxis>(a) || r() % 2;
      });
      s.steps.push_back({AxisStep::How::walk, static_cast<RegionAxis>(a), 1 + static_cast<std::int64_t>(r() % 5)});
      if (legality(p, *k.region, s, plan.machine).empty()) legal.push_back(std::move(s));
    }
    if (!legal.empty()) k.schedule = legal[r() % legal.size()];
  }
  return plan;
}

void check(std::uint64_t seed, Seen& seen) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random r(seed);
  const std::string text = Chain{r}.text();
  Program p = fix_sizes(parse(text, "chain.tw"), {});
  std::int64_t work = 0;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    std::int64_t points = 1;
    for (const Size& e : p.statement(static_cast<StatementId>(n))->axes) points *= e.constant();
    work += points;
  }
  if (work > 6000000) return; // the evaluator's share
  const Values given = values_for(p, r);
  const auto normal = std::make_shared<Program>(normalise(p));
  const Values want = evaluate(p, given, {}, Evaluation::typed);
  const auto isas = kernels::available_isas();
  const kernels::Kernels& leaf = kernels::kernels_for(isas[r() % isas.size()]);
  PlanOptions o = testing::options_for(leaf, 1 + static_cast<int>(r() % 3));
  Machine machine = machine_named("generic-avx2");
  o.fuse = false;
  check_plan(text, make_plan(normal, machine, o), given, want, seen);
  o.fuse = true, o.margin = -1, o.joined = 5;
  const Plan joined = make_plan(normal, machine, o);
  if (r() % 2) check_plan(text, joined, given, want, seen);
  check_plan(text, walked(joined, r), given, want, seen);
  machine.core.block_scratch = std::int64_t{1024} << (r() % 8);
  o.objective = Objective::bytes, o.redundancy = 1e9;
  check_plan(text, make_plan(normal, machine, o), given, want, seen);
}

TEST(Chains, JoinedEqualLayerByLayerEqualTheEvaluator) {
  Seen seen;
  if (const char* one = std::getenv("TILEWRIGHT_SEED")) return check(std::strtoull(one, nullptr, 10), seen);
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 2000 : 60;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) check(seed, seen);
  std::printf("%llu chains: %d kernels, %d of them joined; %d walks, %d of them keep what they made\n",
              static_cast<unsigned long long>(cases), seen.kernels, seen.joined, seen.walked, seen.kept);
  EXPECT_GT(seen.joined, static_cast<int>(cases) / 2);
  EXPECT_GT(seen.kept, static_cast<int>(cases) / 4);
}

} // namespace
} // namespace tilewright
