// Whole cascades as one kernel: tiles of rows, a stream along what is reduced, sums that follow their statistics.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tilewright
