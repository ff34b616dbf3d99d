#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

using SlideTest = OnEveryIsa;
TW_ON_EVERY_ISA(SlideTest);

// An image inside guarded memory, outputs that begin anywhere in it and hang over its edges, and gaps between results.
void check_case(const Kernels& leaf, unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  Slide s;
  s.y = random.in(1, 6), s.x = random.in(1, 30), s.c = random.in(1, 70);
  s.taps_y = random.in(1, 7), s.taps_x = random.of({3, 5, 7});
  s.row_step = random.in(1, 3), s.row_dilation = random.in(1, 2), s.column_step = random.in(1, 2);
  s.row = random.in(-5, 2), s.column = random.in(-8, 2), s.rows = random.in(1, 12), s.columns = random.in(1, 40);
  const std::int64_t c = s.c + random.in(0, 3), out_c = s.c + random.in(0, 3);
  s.a_column = c, s.a_row = s.columns * c + random.in(0, 5), s.w_tap = c;
  s.out_column = out_c, s.out_row = s.x * out_c + random.in(0, 5);
  s.out_type = random.of({DType::f32, DType::f32, DType::f16, DType::bf16});
  Stored a(DType::f32, (s.rows - 1) * s.a_row + (s.columns - 1) * c + s.c),
      w(DType::f32, (s.taps_y * s.taps_x - 1) * c + s.c);
  Stored out(s.out_type, (s.y - 1) * s.out_row + (s.x - 1) * out_c + s.c), bias(DType::f32, s.c),
      other(DType::f32, s.y * s.x * s.c);
  for (Stored* of : {&a, &w, &bias, &other})
    for (std::int64_t i = 0; i < of->count(); ++i) of->set(i, random.real());
  s.a = a.as<float>(), s.w = w.as<float>(), s.out = out.data();
  const EpilogueStep steps[] = {{.op = StepOp::add, .operand = bias.data()},
                                {.op = StepOp::add, .operand = other.data(), .rows = {s.c}},
                                {.op = StepOp::max, .a = -0.5f},
                                {.op = StepOp::square}};
  s.epilogue = {steps, static_cast<int>(random.in(0, 4))};
  leaf.slide(s);
  std::vector<bool> written(static_cast<std::size_t>(out.count()), false);
  for (std::int64_t y = 0; y < s.y; ++y)
    for (std::int64_t x = 0; x < s.x; ++x)
      for (std::int64_t k = 0; k < s.c; ++k) {
        double want = 0;
        for (std::int64_t i = 0; i < s.taps_y; ++i)
          for (std::int64_t j = 0; j < s.taps_x; ++j) {
            const std::int64_t row = s.row + y * s.row_step + i * s.row_dilation,
                               column = s.column + x * s.column_step + j;
            if (row < 0 || row >= s.rows || column < 0 || column >= s.columns) continue;
            want += a.get(row * s.a_row + column * c + k) * w.get((i * s.taps_x + j) * c + k);
          }
        if (s.epilogue.count > 0) want += bias.get(k);
        if (s.epilogue.count > 1) want += other.get((y * s.x + x) * s.c + k);
        if (s.epilogue.count > 2) want = std::max(want, -0.5);
        if (s.epilogue.count > 3) want *= want;
        const std::int64_t at = y * s.out_row + x * out_c + k;
        written[static_cast<std::size_t>(at)] = true;
        ASSERT_NEAR(out.get(at), want, 1e-5 + std::abs(want) * (1e-5 + step_of(s.out_type)))
            << y << ", " << x << ", " << k;
      }
  for (std::int64_t i = 0; i < out.count(); ++i)
    ASSERT_TRUE(written[static_cast<std::size_t>(i)] || out.untouched(i)) << i;
}

TEST_P(SlideTest, EqualsTheSumOverRandomImages) {
  for (int i = 0; i < cases(400); ++i) check_case(leaf(), static_cast<unsigned>(i));
}

} // namespace
} // namespace tilewright::kernels
