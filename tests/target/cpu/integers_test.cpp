// The leaves over integers of eight bits: exact over the full range, on every table, and nothing else is touched.
#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

std::int64_t any_byte(Random& random, DType t) {
  const std::int64_t low = t == DType::i8 ? -128 : 0, high = low + 255;
  return random.chance(0.3) ? (random.chance(0.5) ? low : high) : random.in(low, high);
}

void fill(Stored& s, Random& random) {
  for (std::int64_t i = 0; i < s.count(); ++i) s.set(i, static_cast<double>(any_byte(random, s.type())));
}

DType byte_of(Random& random) { return random.of({DType::i8, DType::u8}); }

// A bias, a ratio, a rounding, a zero point and limits; or what is not the common ending.
struct Ending {
  Stored bias, ratio, shift;
  std::vector<EpilogueStep> steps;
  bool floats = false, shifted = false, limited = false, row_bias = false;
  float zero = 0, low = 0, high = 0;

  Ending(Random& random, std::int64_t m, std::int64_t n)
      : bias(DType::i32, std::max(m, n)), ratio(DType::f32, n), shift(DType::f32, n) {
    for (std::int64_t i = 0; i < bias.count(); ++i) bias.set(i, static_cast<double>(random.in(-100000, 100000)));
    for (std::int64_t i = 0; i < n; ++i) ratio.set(i, random.real(0, 0.01)), shift.set(i, random.real(-20, 20));
    row_bias = random.chance(0.2);
    steps.push_back({.op = StepOp::add,
                     .operand = bias.data(),
                     .dtype = DType::i32,
                     .rows = {row_bias ? 1 : 0},
                     .column = row_bias ? 0 : 1});
    if (random.chance(0.2)) return;
    floats = true;
    steps.push_back({.op = StepOp::to_float});
    steps.push_back({.op = StepOp::mul, .operand = ratio.data(), .rows = {0}});
    if ((shifted = random.chance(0.3))) steps.push_back({.op = StepOp::add, .operand = shift.data(), .rows = {0}});
    steps.push_back({.op = StepOp::rint});
    zero = static_cast<float>(random.in(-128, 128));
    steps.push_back({.op = StepOp::add, .a = zero});
    if ((limited = random.chance(0.5))) {
      low = static_cast<float>(random.in(-50, 10)), high = static_cast<float>(random.in(10, 200));
      steps.push_back({.op = StepOp::max, .a = low});
      steps.push_back({.op = StepOp::min, .a = high});
    }
  }
  DType out(Random& random) const { return floats ? random.of({DType::u8, DType::i8, DType::f32}) : DType::i32; }

  double expected(std::int64_t sum, std::int64_t row, std::int64_t column, DType out) {
    sum += static_cast<std::int64_t>(bias.get(row_bias ? row : column));
    if (!floats) return static_cast<double>(sum);
    float x = static_cast<float>(static_cast<std::int32_t>(sum)) * static_cast<float>(ratio.get(column));
    if (shifted) x += static_cast<float>(shift.get(column));
    x = std::nearbyintf(x) + zero;
    if (limited) x = std::min(std::max(x, low), high);
    if (out == DType::u8) x = std::min(std::max(x, 0.0f), 255.0f);
    if (out == DType::i8) x = std::min(std::max(x, -128.0f), 127.0f);
    return static_cast<double>(x);
  }
};

TEST(IntegerContract, IsExact) {
  int in_place = 0;
  for (const Kernels* leaf : available_tables())
    for (int c = 0; c < cases(80); ++c) {
      Random random(static_cast<unsigned>(c));
      const std::int64_t m = random.in(1, 40), n = random.in(1, 80), taps = random.in(1, 4),
                         a_k = random.of({1, 1, 1, 3});
      const std::int64_t k = random.chance(0.05)  ? random.in(500, 3000)
                             : random.chance(0.5) ? 4 * random.in(1, 16)
                                                  : random.in(1, 40);
      const DType at = byte_of(random), bt = byte_of(random);
      in_place += a_k == 1 && k % 4 == 0;
      const std::int64_t row = random.chance(0.5) ? k * a_k : k * a_k * taps + 5;
      std::vector<std::int64_t> offsets;
      for (std::int64_t t = 0; t < taps; ++t) offsets.push_back(t * k * a_k);
      Stored a(at, (m - 1) * row + (taps - 1) * k * a_k + (k - 1) * a_k + 1), b(bt, taps * k * n);
      fill(a, random), fill(b, random);
      const std::int64_t panel = leaf->integer_panel(taps * k, bt);
      Stored packed(DType::u8, (n + leaf->nr - 1) / leaf->nr * panel);
      std::vector<std::int64_t> b_offsets;
      for (std::int64_t t = 0; t < taps; ++t) b_offsets.push_back(t * k * n);
      leaf->pack_integers({.n = n,
                           .k = k,
                           .taps = taps,
                           .src = b.data(),
                           .src_type = bt,
                           .b_k = n,
                           .b_n = 1,
                           .tap_offset = b_offsets.data(),
                           .dst = packed.data(),
                           .dst_type = bt});
      Ending ending(random, m, n);
      const DType ct = ending.out(random);
      const std::int64_t c_n = random.of({1, 1, 2}), c_row = n * c_n + random.in(0, 3);
      Stored out(ct, (m - 1) * c_row + (n - 1) * c_n + 1);
      leaf->contract_integers({.m = m,
                               .n = n,
                               .k = k,
                               .taps = taps,
                               .a = a.data(),
                               .a_type = at,
                               .a_rows = {row},
                               .a_k = a_k,
                               .tap_offset = offsets.data(),
                               .b = packed.data(),
                               .b_type = bt,
                               .b_panel = panel,
                               .c = out.data(),
                               .c_type = ct,
                               .c_rows = {c_row},
                               .c_n = c_n,
                               .epilogue = {ending.steps.data(), static_cast<int>(ending.steps.size())}});
      std::vector<bool> written(static_cast<std::size_t>(out.count()));
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          std::int64_t sum = 0;
          for (std::int64_t t = 0; t < taps; ++t)
            for (std::int64_t q = 0; q < k; ++q)
              sum += static_cast<std::int64_t>(a.get(i * row + offsets[static_cast<std::size_t>(t)] + q * a_k)) *
                     static_cast<std::int64_t>(b.get(t * k * n + q * n + j));
          const std::int64_t at_out = i * c_row + j * c_n;
          written[static_cast<std::size_t>(at_out)] = true;
          ASSERT_EQ(out.get(at_out), ending.expected(sum, i, j, ct))
              << "case " << c << " row " << i << " column " << j << " isa " << name_of(leaf->isa);
        }
      for (std::int64_t i = 0; i < out.count(); ++i)
        ASSERT_TRUE(written[static_cast<std::size_t>(i)] || out.untouched(i)) << c;
    }
  EXPECT_GT(in_place, 20);
}

TEST(IntegerWindow, IsExact) {
  for (const Kernels* leaf : available_tables())
    for (int c = 0; c < cases(200); ++c) {
      Random random(static_cast<unsigned>(c));
      const std::int64_t x = random.in(1, 40), channels = random.in(1, 90), taps = random.in(0, 10);
      const DType at = byte_of(random);
      std::vector<std::int64_t> offsets, weight_offsets;
      for (std::int64_t t = 0; t < taps; ++t)
        offsets.push_back(random.in(0, 3) * channels), weight_offsets.push_back(random.in(0, 9) * channels);
      Stored a(at, (x + 3) * channels);
      fill(a, random);
      std::vector<std::int16_t> w16(static_cast<std::size_t>(10 * channels));
      for (auto& v : w16) v = static_cast<std::int16_t>(any_byte(random, byte_of(random)));
      std::vector<std::int32_t> begin(static_cast<std::size_t>(channels));
      for (auto& v : begin) v = static_cast<std::int32_t>(random.in(-10000, 10000));
      const bool weighted = random.chance(0.7), by_table = random.chance(0.5), begun = random.chance(0.5);
      Ending ending(random, x, channels);
      const DType ct = ending.out(random);
      Stored out(ct, x * channels);
      leaf->window_integers({.x = x,
                             .c = channels,
                             .taps = taps,
                             .a = a.data(),
                             .a_type = at,
                             .a_rows = {channels},
                             .tap_offset = offsets.data(),
                             .w16 = weighted ? w16.data() : nullptr,
                             .begin = begun ? begin.data() : nullptr,
                             .w_t = channels,
                             .weight_offset = by_table ? weight_offsets.data() : nullptr,
                             .out = out.data(),
                             .out_type = ct,
                             .out_rows = {channels},
                             .epilogue = {ending.steps.data(), static_cast<int>(ending.steps.size())}});
      for (std::int64_t i = 0; i < x; ++i)
        for (std::int64_t j = 0; j < channels; ++j) {
          std::int64_t sum = begun ? begin[static_cast<std::size_t>(j)] : 0;
          for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t from = by_table ? weight_offsets[static_cast<std::size_t>(t)] : t * channels;
            sum += static_cast<std::int64_t>(a.get(i * channels + offsets[static_cast<std::size_t>(t)] + j)) *
                   (weighted ? w16[static_cast<std::size_t>(from + j)] : 1);
          }
          ASSERT_EQ(out.get(i * channels + j), ending.expected(sum, i, j, ct))
              << "case " << c << " row " << i << " channel " << j << " isa " << name_of(leaf->isa);
        }
    }
}

} // namespace
} // namespace tilewright::kernels
