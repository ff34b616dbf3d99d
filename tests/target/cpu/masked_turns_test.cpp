// Streams under a mask that only the data knows: whatever turns are left out, the result is the evaluator's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "expr/text.h"
#include "law/stream.h"
#include "law/stream_forms.h"
#include "normal/normal.h"
#include "target/cpu/execute.h"

namespace tilewright {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

// Random, in blocks, in bands, none, all.
void draw(Array& mask, std::int64_t rows, std::int64_t columns, int kind, std::mt19937_64& random) {
  const std::int64_t block = 1 + static_cast<std::int64_t>(random() % 40);
  const std::uint64_t salt = random();
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const std::int64_t r = i / columns % rows, c = i % columns;
    const std::uint64_t cell =
        static_cast<std::uint64_t>(r / block * 1000 + c / block + 7) * 0x9E3779B97F4A7C15u ^ salt;
    const bool live[] = {random() % 10 == 0, (cell >> 33) % 5 == 0, std::abs(r - c) < block, false, true, c == 3};
    mask.data[i] = std::byte{live[kind]};
  }
}

// All statements as one kernel, tiles along s and a stream along t; nothing where that is not legal.
std::optional<Plan> streamed(const Program& p, const PlanOptions& o, std::int64_t rows, std::int64_t chunk) {
  Grouping g{{{}}, {{}}};
  for (std::size_t n = 0; n < p.nodes.size(); ++n) g.groups[0].push_back(static_cast<StatementId>(n));
  if (!unify(p, g.groups[0])) return std::nullopt;
  Plan plan = plan_groups(std::make_shared<Program>(p), machine_named("generic-avx2"), o, g);
  const Region& r = *plan.kernels[0].region;
  Schedule s;
  s.threads = o.threads, s.isa = o.isa;
  for (const auto& [name, size, how] :
       {std::tuple{"s", rows, AxisStep::How::tile}, {"t", chunk, AxisStep::How::stream}})
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (r.names[a] == name && size < r.axes[a].constant()) s.steps.push_back({how, static_cast<RegionAxis>(a), size});
  if (s.steps.empty() || !legality(p, r, s, plan.machine).empty()) return std::nullopt;
  plan.kernels[0].schedule = s;
  return plan;
}

TEST(MaskedTurns, AttendToWhatTheMaskLetsThrough) {
  const int n = std::getenv("TILEWRIGHT_LONG") ? 600 : 80;
  int left_out = 0, kept = 0;
  for (int i = 0; i < n; ++i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    const auto below = [&](std::int64_t most) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    };
    const std::int64_t s = 1 + below(90), t = 30 + below(190);
    const bool batched = below(2) == 0, unguarded = below(4) == 0; // another sum that sees every key
    const std::string m = batched ? "M[b s t]" : "M[s t]";
    const std::string text = "program p(b=2, s=" + number(s) + ", t=" + number(t) + ", d=" + number(1 + below(20)) +
                             ", e=" + number(1 + below(40)) + ")\ninput Q[b s d], K[b t d], V[b t e] : f32\ninput " +
                             m + " : bool\nU[b s t] = sum[d] Q[b s d] * K[b t d]\n" +
                             "S[b s t] = 0.5 * U[b s t]\na[b s] = max[t] S[b s t] where " + m +
                             "\nP[b s t] = exp(S[b s t] - a[b s]) where " + m +
                             "\nl[b s] = sum[t] P[b s t]\nY[b s e] = sum[t] P[b s t] * V[b t e]\n" +
                             (unguarded ? "w[b s] = sum[t] S[b s t]\n" : "") +
                             "O[b s e] = select(l[b s] > 0, Y[b s e] / l[b s]" + (unguarded ? " + w[b s]" : "") +
                             ", 0)\noutput O\n";
    const Program p = stream_forms(normalise(fix_sizes(parse(text, "case.tw"), {})), nullptr, StreamForms::exponentials);
    Values given;
    for (TensorId in : p.inputs) {
      Array a = testing::empty_of(p, in);
      if (a.dtype == DType::boolean)
        draw(a, s, t, static_cast<int>(below(6)), random);
      else
        for (std::int64_t e = 0; e < a.count(); ++e) a.as<float>()[e] = static_cast<float>(below(2001) - 1000) / 250;
      given[in] = std::move(a);
    }
    const auto isas = kernels::available_isas();
    const kernels::Kernels& leaf =
        kernels::kernels_for(isas[static_cast<std::size_t>(below(static_cast<std::int64_t>(isas.size())))]);
    const PlanOptions o{static_cast<int>(1 + below(3)), std::string(name_of(leaf.isa)), leaf.mr, leaf.nr, leaf.lanes};
    const auto plan = streamed(p, o, 1 + below(100), 1 + below(200));
    if (!plan) continue;
    for (const cpu::Kernel& k : cpu::compile(*plan).kernels) {
      const bool leaves_out = std::count(k.leaves.begin(), k.leaves.end(), "turns without M are left out") > 0;
      EXPECT_FALSE(unguarded && leaves_out) << text;
      (leaves_out ? left_out : kept) += 1;
    }
    const Values got = testing::execute(*plan, given), want = evaluate(p, given, {}, Evaluation::fp64);
    for (TensorId out : p.outputs) {
      double scale = 1;
      for (std::int64_t e = 0; e < want.at(out).count(); ++e)
        scale = std::max(scale, std::abs(want.at(out).as<double>()[e]));
      for (std::int64_t e = 0; e < got.at(out).count(); ++e)
        ASSERT_NEAR(got.at(out).as<float>()[e], want.at(out).as<double>()[e], 2e-5 * scale)
            << "seed " << i << " element " << e << "\n"
            << text;
    }
  }
  std::printf("%d streams leave turns out, %d do not\n", left_out, kept);
  EXPECT_GT(left_out, n / 4);
}

} // namespace
} // namespace tilewright
