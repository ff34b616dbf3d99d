#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

using WindowTest = OnEveryIsa;
TW_ON_EVERY_ISA(WindowTest);

void check_case(const Kernels& leaf, unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::int64_t x = random.in(1, 20), c = random.in(1, 70), taps = random.in(0, 12), step = c + random.in(0, 3);
  const bool weighted = random.chance(0.5), listed = random.chance(0.4);
  Window w = {.x = x, .c = c, .taps = taps};
  if (!weighted) w.reduce = random.of({WindowReduce::sum, WindowReduce::max, WindowReduce::min});
  w.a_type = random.of({DType::f32, DType::f32, DType::f16, DType::bf16});
  w.out_type = random.of({DType::f32, DType::f32, DType::f16, DType::bf16});
  std::vector<std::int64_t> offset, weight_offset, rows, out_rows;
  for (std::int64_t t = 0; t < taps; ++t)
    offset.push_back(random.in(0, 4 * c)), weight_offset.push_back(random.in(0, 5) * c);
  for (std::int64_t i = 0; i < x; ++i) rows.push_back(random.in(0, 10) * c), out_rows.push_back(i * step);
  std::shuffle(out_rows.begin(), out_rows.end(), random.engine());
  Stored a(w.a_type, 14 * c + c), weights(DType::f32, 12 * c), out(w.out_type, (x - 1) * step + c), bias(DType::f32, c);
  for (std::int64_t i = 0; i < a.count(); ++i) a.set(i, random.real());
  for (std::int64_t i = 0; i < weights.count(); ++i) weights.set(i, random.real());
  for (std::int64_t i = 0; i < c; ++i) bias.set(i, random.real());
  w.a = a.data(), w.a_rows.table = rows.data(), w.tap_offset = offset.data();
  w.out = out.data(), w.out_rows.table = out_rows.data();
  if (weighted) w.w = weights.as<float>(), w.w_t = c;
  if (weighted && listed) w.weight_offset = weight_offset.data();
  const EpilogueStep steps[] = {
      {.op = StepOp::add, .operand = bias.data()}, {.op = StepOp::max, .a = -0.5f}, {.op = StepOp::mul, .a = 2.0f}};
  w.epilogue = {steps, static_cast<int>(random.in(0, 3))};
  leaf.window(w);
  std::vector<bool> written(static_cast<std::size_t>(out.count()), false);
  for (std::int64_t i = 0; i < x; ++i)
    for (std::int64_t j = 0; j < c; ++j) {
      double want = w.reduce == WindowReduce::sum ? 0 : w.reduce == WindowReduce::max ? -HUGE_VAL : HUGE_VAL;
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::size_t s = static_cast<std::size_t>(t);
        const double v = a.get(rows[static_cast<std::size_t>(i)] + offset[s] + j);
        if (w.reduce == WindowReduce::max)
          want = std::max(want, v);
        else if (w.reduce == WindowReduce::min)
          want = std::min(want, v);
        else
          want += weighted ? v * weights.get((listed ? weight_offset[s] : t * c) + j) : v;
      }
      if (w.epilogue.count > 0) want += bias.get(j);
      if (w.epilogue.count > 1) want = std::max(want, -0.5);
      if (w.epilogue.count > 2) want *= 2;
      const std::int64_t at = out_rows[static_cast<std::size_t>(i)] + j;
      written[static_cast<std::size_t>(at)] = true;
      if (std::isinf(want))
        ASSERT_EQ(out.get(at), want);
      else
        ASSERT_NEAR(out.get(at), want, 1e-5 + std::abs(want) * step_of(w.out_type)) << i << ", " << j;
    }
  for (std::int64_t i = 0; i < out.count(); ++i)
    ASSERT_TRUE(written[static_cast<std::size_t>(i)] || out.untouched(i)) << i;
}

TEST_P(WindowTest, EqualsTheReductionOverRandomShapes) {
  for (int i = 0; i < cases(400); ++i) check_case(leaf(), static_cast<unsigned>(i));
}

TEST_P(WindowTest, MaxAndMinPropagateNan) {
  for (WindowReduce reduce : {WindowReduce::max, WindowReduce::min})
    for (int place = 0; place < 3; ++place) {
      Stored a(DType::f32, 3), out(DType::f32, 1);
      for (int i = 0; i < 3; ++i) a.as<float>()[i] = i == place ? std::nanf("") : float(i);
      const std::int64_t offset[] = {0, 1, 2};
      leaf().window(
          {.x = 1, .c = 1, .taps = 3, .reduce = reduce, .a = a.data(), .tap_offset = offset, .out = out.data()});
      EXPECT_TRUE(std::isnan(out.get(0))) << place;
    }
}

} // namespace
} // namespace tilewright::kernels
