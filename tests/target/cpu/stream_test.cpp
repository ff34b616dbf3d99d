// Whole cascades as one kernel: tiles of rows, a stream along what is reduced, sums that follow their statistics.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "check/count.h"
#include "expr/text.h"
#include "law/random_streams.h"
#include "law/stream.h"
#include "law/stream_forms.h"
#include "normal/same_outputs.h"
#include "target/cpu/execute.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

namespace k = kernels;

// The program as one kernel; nothing where its axes do not unify.
std::optional<Plan> one_kernel(const Program& p, const PlanOptions& o) {
  Grouping g{{{}}, {{}}};
  for (std::size_t n = 0; n < p.nodes.size(); ++n) g.groups[0].push_back(static_cast<StatementId>(n));
  if (!unify(p, g.groups[0])) return std::nullopt;
  return plan_groups(std::make_shared<Program>(p), machine_named("generic-avx2"), o, g);
}

// Tiles of up to `tile` along what may be tiled, and the stream; false where that is not legal.
bool schedule(Plan& plan, RegionAxis stream, std::int64_t chunk, std::int64_t tile) {
  const Region& r = *plan.kernels[0].region;
  Schedule s;
  s.threads = plan.options.threads, s.isa = plan.options.isa;
  for (std::size_t a = 0; a < r.axes.size() && tile > 0; ++a)
    if (laws(*plan.program, r, static_cast<RegionAxis>(a)).tile) {
      Schedule more = s;
      more.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), tile});
      Schedule with = more;
      with.steps.push_back({AxisStep::How::stream, stream, chunk});
      if (legality(*plan.program, r, with, plan.machine).empty()) s = more;
    }
  s.steps.push_back({AxisStep::How::stream, stream, chunk});
  if (!legality(*plan.program, r, s, plan.machine).empty()) return false;
  plan.kernels[0].schedule = s;
  return true;
}

TEST(StreamedKernel, EqualsTheEvaluator) {
  int kernels = 0;
  for (std::uint64_t seed : testing::seeds(200)) {
    testing::Maker maker{testing::Random(seed)};
    maker.half = seed % 4 == 0;
    const std::string text = maker.make();
    const Program original = fix_sizes(parse(text, "case.tw"), {}), p = stream_forms(original);
    const auto isas = k::available_isas();
    const k::Kernels& leaf = k::kernels_for(isas[maker.random() % isas.size()]);
    auto plan = one_kernel(p, testing::options_for(leaf, 1 + static_cast<int>(maker.random() % 3)));
    if (!plan) continue;
    const Region& r = *plan->kernels[0].region;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
      if (roles(p, r)[static_cast<std::size_t>(x)].reducer == Reducer::none || !needs_stream(p, r, x)) continue;
      const std::int64_t extent = r.axes[static_cast<std::size_t>(x)].constant();
      for (std::int64_t chunk : {std::int64_t{1}, 1 + static_cast<std::int64_t>(maker.random() % static_cast<std::uint64_t>(extent)), extent}) {
        if (!schedule(*plan, x, chunk, static_cast<std::int64_t>(maker.random() % 3))) continue;
        const Schedule& s = plan->kernels[0].schedule;
        const Nest nest = expand(p, r, s, "k");
        const Cost c = cost(p, r, s, plan->machine);
        ASSERT_NO_THROW(count(p, nest, true)) << "seed " << seed << "\n" << text << print(p, r, s, nest);
        EXPECT_EQ(c.loaded + c.stored, count(p, nest, true).total()) << "seed " << seed << "\n" << text << print(p, r, s, nest);
        for (const auto& [mean, deviation] : {std::pair{0.0, 1.0}, {0.0, 1e4}, {1e4, 1.0}}) {
          if (maker.half && mean + deviation > 1000) continue;
          const Values given = testing::given_to(original, maker.random, mean, deviation);
          const Values exact = evaluate(original, given, {}, Evaluation::fp64);
          const testing::Compared usual = testing::compared(original, evaluate(original, given, {}, Evaluation::typed), exact, mean + deviation);
          if (!usual.defined || !(usual.error < 0.05)) continue;
          const double error = testing::compared(original, testing::execute(*plan, given), exact, mean + deviation).error;
          EXPECT_LT(error, 16 * usual.error + (maker.half ? 4e-3 : 4e-5)) << "seed " << seed << ", chunks of " << chunk << ", mean " << mean << ", deviation " << deviation << "\n" << text << print(p, r, s, nest);
          ++kernels;
        }
        if (HasFailure()) return;
      }
    }
  }
  std::printf("  %d kernels\n", kernels);
  EXPECT_GT(kernels, 200);
}

// Two products with a cascade between them, of sizes at which vectors are full: lanes are rows, and nothing between is interpreted.
struct Between { std::string head, scores, middle; };

std::string products(const Between& b, std::int64_t h, std::int64_t q, std::int64_t x, std::int64_t d, const std::string& type) {
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  return "program p(h=" + n(h) + ", q=" + n(q) + ", x=" + n(x) + ", d=" + n(d) + ")\ninput Q[h q d], K[h x d], V[h x d], M[q x], B[x] : " + type + "\n" + b.head +
         "T[h q x] = sum[d] Q[h q d] * K[h x d]\nS[h q x] = " + b.scores + "\n" + b.middle + "\noutput O\n";
}

const Between betweens[] = {
    {"", "T[h q x] * 0.125", "P[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "T[h q x] / 4", "P[h q x] = softmax[x] S[h q x] where index(x) <= index(q) + 3\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "T[h q x]", "P[h q x] = softmax[x] S[h q x] where index(x) <= index(q) and index(q) < index(x) + 9\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "T[h q x] + M[q x]", "P[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "T[h q x] * 0.5 + B[x]", "P[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "20 * tanh(T[h q x] / 20)", "P[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]"},
    {"", "T[h q x]", "m[h q] = max[x] S[h q x]\nZ[h q] = sum[x] exp(S[h q x] - m[h q])\nU[h q d] = sum[x] exp(S[h q x] - m[h q]) * V[h x d]\nO[h q d] = U[h q d] / Z[h q] + 1"},
    {"", "T[h q x]", "O[h q] = logsumexp[x] S[h q x]"},
    {"", "T[h q x]", "N[h q x] = l2norm[x] S[h q x]\nO[h q d] = sum[x] N[h q x] * V[h x d]"},
};

TEST(StreamedKernel, LanesAreRows) {
  int kernels = 0, straight = 0;
  for (std::uint64_t seed : testing::seeds(90, 900)) {
    testing::Random random(seed);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    const bool half = below(4) == 0;
    const Between& b = betweens[static_cast<std::size_t>(below(static_cast<int>(std::size(betweens))))];
    const std::int64_t h = 1 + below(3), q = 1 + below(70), x = 65 + below(90), d = 1 + below(40);
    const std::string text = products(b, h, q, x, d, half ? "f16" : "f32");
    const Program original = fix_sizes(parse(text, "case.tw"), {}), p = stream_forms(original);
    const auto isas = k::available_isas();
    const k::Kernels& leaf = k::kernels_for(isas[random() % isas.size()]);
    auto plan = one_kernel(p, testing::options_for(leaf, 1 + static_cast<int>(below(3))));
    ASSERT_TRUE(plan) << text;
    const Region& r = *plan->kernels[0].region;
    Schedule s;
    s.threads = plan->options.threads, s.isa = plan->options.isa;
    const std::int64_t tiles[] = {5, 16, 24, 32, 40, 64};
    for (const auto& [name, how, size] : {std::tuple{"h", AxisStep::How::tile, std::int64_t{1}}, {"q", AxisStep::How::tile, tiles[below(6)]}, {"x", AxisStep::How::stream, 1 + below(100)}})
      for (std::size_t a = 0; a < r.axes.size(); ++a)
        if (r.names[a] == name) s.steps.push_back({how, static_cast<RegionAxis>(a), size});
    if (followed_loop(p, r, s) < 0 || !legality(p, r, s, plan->machine).empty()) continue;
    plan->kernels[0].schedule = s;
    const Values given = testing::given_to(original, random, 0, half ? 1 : below(3) ? 1 : 30);
    const Values exact = evaluate(original, given, {}, Evaluation::fp64);
    const testing::Compared usual = testing::compared(original, evaluate(original, given, {}, Evaluation::typed), exact, 1);
    if (!usual.defined || !(usual.error < 0.05)) continue;
    const double error = testing::compared(original, testing::execute(*plan, given), exact, 1).error;
    EXPECT_LT(error, 16 * usual.error + (half ? 4e-3 : 4e-5)) << "seed " << seed << "\n" << text << print(p, r, s, expand(p, r, s, "k"));
    ++kernels;
    const cpu::Executable exe = cpu::compile(*plan);
    straight += std::any_of(exe.kernels[0].leaves.begin(), exe.kernels[0].leaves.end(), [](const std::string& l) { return l.find("as it is made") != std::string::npos; });
    if (HasFailure()) return;
  }
  std::printf("  %d kernels, in %d of them lanes are rows\n", kernels, straight);
  EXPECT_GT(kernels, 60);
  EXPECT_GT(straight, 20);
}

// A mean and a variance under a guard, whose turns without a point are left out.
TEST(StreamedKernel, TurnsLeftOut) {
  const Program original = fix_sizes(parse("program t(q=40, x=48)\ninput S[q x] : f32\nm[q] = sum[x] S[q x] / x where index(x) <= index(q)\n"
                                           "z[q] = sum[x] (S[q x] - m[q])^2 where index(x) <= index(q)\noutput m, z\n", "case.tw"), {}), p = stream_forms(original);
  auto plan = one_kernel(p, testing::options_for(k::kernels_for(k::available_isas()[0]), 2));
  ASSERT_TRUE(plan);
  const Region& r = *plan->kernels[0].region;
  testing::Random random(5);
  int left_out = 0;
  for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x)
    for (std::int64_t chunk : {1, 5, 16, 48}) {
      if (r.names[static_cast<std::size_t>(x)] != "x" || !schedule(*plan, x, chunk, 4)) continue;
      left_out += !live_turns(p, r, plan->kernels[0].schedule).every();
      const Values given = testing::given_to(original, random, 3, 1);
      const Values exact = evaluate(original, given, {}, Evaluation::fp64);
      EXPECT_LT(testing::compared(original, testing::execute(*plan, given), exact, 1).error, 1e-5) << chunk;
    }
  EXPECT_GT(left_out, 0);
}

// Lengths bound the stream: turns beyond what a head's says are left out when the data is there, and what lies there is not read.
TEST(StreamedKernel, TurnsBeyondALength) {
  const Program original = fix_sizes(parse("program d(h=3, x=200, d=16)\ninput Q[h d], K[h x d], V[h x d] : f32\ninput len[h] : i32\nS[h x] = sum[d] Q[h d] * K[h x d]\n"
                                           "P[h x] = softmax[x] S[h x] where index(x) < len[h]\nO[h d] = sum[x] P[h x] * V[h x d]\noutput O\n", "case.tw"), {}), p = stream_forms(original);
  int asked = 0;
  for (std::int64_t chunk : {7, 64, 200}) {
    auto plan = one_kernel(p, testing::options_for(k::kernels_for(k::available_isas()[0]), 2));
    ASSERT_TRUE(plan);
    const Region& r = *plan->kernels[0].region;
    Schedule s;
    s.threads = plan->options.threads, s.isa = plan->options.isa;
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (r.names[a] == "h") s.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), 1});
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (needs_stream(p, r, static_cast<RegionAxis>(a))) s.steps.push_back({AxisStep::How::stream, static_cast<RegionAxis>(a), chunk});
    ASSERT_GE(followed_loop(p, r, s), 0) << text(r, s);
    plan->kernels[0].schedule = s;
    asked += live_turns(p, r, s).asks_data();
    testing::Random random(static_cast<std::uint64_t>(chunk));
    Values given = testing::given_to(original, random, 0, 1);
    for (const std::array<int, 3>& lengths : {std::array<int, 3>{0, 70, 200}, {-5, 1, 1000}}) {
      std::copy(lengths.begin(), lengths.end(), given.at(original.inputs[3]).as<std::int32_t>());
      const Values exact = evaluate(original, given, {}, Evaluation::fp64);
      EXPECT_LT(testing::compared(original, testing::execute(*plan, given), exact, 1).error, 1e-5) << chunk;
    }
    // Of the second head nothing beyond 70 is read where turns end there: what would be no number changes nothing.
    if (chunk != 7) continue;
    const std::array<int, 3> lengths{200, 70, 200};
    std::copy(lengths.begin(), lengths.end(), given.at(original.inputs[3]).as<std::int32_t>());
    const Array before = testing::execute(*plan, given).at(original.outputs[0]);
    for (int i = 0; i < 130 * 16; ++i) given.at(original.inputs[2]).as<float>()[(200 + 70) * 16 + i] = NAN;
    const Array after = testing::execute(*plan, given).at(original.outputs[0]);
    for (int i = 0; i < 3 * 16; ++i) EXPECT_EQ(before.as<float>()[i], after.as<float>()[i]) << i;
  }
  EXPECT_EQ(asked, 3);
}

// One row a head: products are sums of rows, and nothing is packed.
TEST(StreamedKernel, OneRow) {
  int kernels = 0;
  for (std::uint64_t seed : testing::seeds(40, 400)) {
    testing::Random random(seed);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    const bool half = below(3) == 0;
    const auto n = [](std::int64_t v) { return std::to_string(v); };
    const std::string text = "program p(h=" + n(1 + below(4)) + ", q=" + n(1 + below(2)) + ", x=" + n(65 + below(200)) + ", d=" + n(1 + below(70)) + ")\ninput Q[h q d], K[h x d], V[h x d] : " +
                             (half ? "f16" : "f32") + "\nS[h q x] = sum[d] Q[h q d] * K[h x d] * 0.25\nP[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]\noutput O\n";
    const Program original = fix_sizes(parse(text, "case.tw"), {}), p = stream_forms(original);
    const auto isas = k::available_isas();
    auto plan = one_kernel(p, testing::options_for(k::kernels_for(isas[random() % isas.size()]), 1 + static_cast<int>(below(2))));
    ASSERT_TRUE(plan) << text;
    const Region& r = *plan->kernels[0].region;
    Schedule s;
    s.threads = plan->options.threads, s.isa = plan->options.isa;
    for (const auto& [name, how, size] : {std::tuple{"h", AxisStep::How::tile, std::int64_t{1}}, {"q", AxisStep::How::tile, std::int64_t{1}}, {"x", AxisStep::How::stream, 1 + below(100)}})
      for (std::size_t a = 0; a < r.axes.size(); ++a)
        if (r.names[a] == name) s.steps.push_back({how, static_cast<RegionAxis>(a), size});
    if (followed_loop(p, r, s) < 0 || !legality(p, r, s, plan->machine).empty()) continue;
    plan->kernels[0].schedule = s;
    const Values given = testing::given_to(original, random, 0, 1);
    const Values exact = evaluate(original, given, {}, Evaluation::fp64);
    const testing::Compared usual = testing::compared(original, evaluate(original, given, {}, Evaluation::typed), exact, 1);
    EXPECT_LT(testing::compared(original, testing::execute(*plan, given), exact, 1).error, 16 * usual.error + (half ? 4e-3 : 4e-5)) << "seed " << seed << "\n" << text;
    const cpu::Executable exe = cpu::compile(*plan);
    for (const std::string& l : exe.kernels[0].leaves) EXPECT_EQ(l.find("packed in each tile"), std::string::npos) << l;
    ++kernels;
    if (HasFailure()) return;
  }
  EXPECT_GT(kernels, 20);
}

}  // namespace
}  // namespace tilewright
