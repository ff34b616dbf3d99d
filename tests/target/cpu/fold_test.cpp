// fold against the same written element by element: rows or columns that meet, points that live in an interval, operands of every kind.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "normal/same_outputs.h"
#include "target/cpu/kernels/kernels.h"

namespace tilewright::kernels {
namespace {

struct Case {
  std::int64_t rows, columns, x_row, y_row;
  FoldReduce reduce;
  bool down, stores, half;
  std::vector<FoldBound> bounds;
  std::vector<EpilogueStep> steps;
  std::vector<float> x, along_columns, along_rows, full;
};

Case made(testing::Random& random) {
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const auto value = [&] { return static_cast<float>(below(2001) - 1000) / 250.0f; };
  Case c{};
  c.rows = 1 + below(20), c.columns = 1 + below(150);
  c.x_row = c.columns + below(9), c.y_row = c.columns + below(9);
  c.reduce = static_cast<FoldReduce>(below(4));
  c.down = below(2), c.stores = below(2) || c.reduce == FoldReduce::none, c.half = below(4) == 0;
  for (std::int64_t n = below(3); n > 0; --n) c.bounds.push_back({below(5) - 2, below(7) - 3, below(60) - 30});
  c.x.resize(static_cast<std::size_t>(c.rows * c.x_row)), c.along_columns.resize(static_cast<std::size_t>(c.columns));
  c.along_rows.resize(static_cast<std::size_t>(c.rows)), c.full.resize(static_cast<std::size_t>(c.rows * c.columns));
  for (auto* list : {&c.x, &c.along_columns, &c.along_rows, &c.full})
    for (float& v : *list) v = below(20) ? value() : 0;
  for (std::int64_t n = below(4); n > 0; --n) {
    static constexpr StepOp menu[] = {StepOp::add, StepOp::sub, StepOp::rsub, StepOp::mul, StepOp::gate, StepOp::max, StepOp::square, StepOp::abs};
    EpilogueStep s{.op = menu[below(8)], .a = value()};
    switch (below(5)) {
      case 0: s.operand = c.along_columns.data(); break;
      case 1: s.operand = c.along_rows.data(), s.rows = {1}, s.column = 0; break;
      case 2: s.operand = c.full.data(), s.rows = {c.columns}; break;
      case 3: s.operand = c.full.data(), s.rows = {1}, s.column = c.rows; break;
      default: break;
    }
    c.steps.push_back(s);
  }
  return c;
}

float applied(const EpilogueStep& s, float x, std::int64_t r, std::int64_t c) {
  const float v = s.operand ? static_cast<const float*>(s.operand)[r * s.rows.stride + c * s.column] : s.a;
  switch (s.op) {
    case StepOp::add: return x + v;
    case StepOp::sub: return x - v;
    case StepOp::rsub: return v - x;
    case StepOp::mul: return x * v;
    case StepOp::gate: return v == 0 ? 0 : x * v;
    case StepOp::max: return x > v ? x : v;
    case StepOp::square: return x * x;
    default: return std::abs(x);
  }
}

TEST(Fold, EqualsElementByElement) {
  int live = 0, dead = 0;
  for (std::uint64_t seed : testing::seeds(600))
    for (const Kernels* leaf : available_tables()) {
      testing::Random random(seed);
      Case c = made(random);
      std::vector<std::uint16_t> half(c.x.size()), half_y(static_cast<std::size_t>(c.rows * c.y_row), 0x1111);
      std::vector<float> y(static_cast<std::size_t>(c.rows * c.y_row), 77), acc(static_cast<std::size_t>(c.down ? c.columns : c.rows), 1);
      if (c.half)
        for (std::size_t i = 0; i < half.size(); ++i) half[i] = f32_to_f16(c.x[i]), c.x[i] = f16_to_f32(half[i]);
      std::vector<double> expected(acc.begin(), acc.end()), size(acc.size(), 1);
      std::vector<float> stored = y;
      for (std::int64_t r = 0; r < c.rows; ++r)
        for (std::int64_t k = 0; k < c.columns; ++k) {
          bool lives = true;
          for (const FoldBound& b : c.bounds) lives &= b.row * r + b.column * k + b.offset >= 0;
          (lives ? live : dead) += 1;
          float v = c.x[static_cast<std::size_t>(r * c.x_row + k)];
          for (const EpilogueStep& s : c.steps) v = applied(s, v, r, k);
          stored[static_cast<std::size_t>(r * c.y_row + k)] = lives ? v : 0;
          double& to = expected[static_cast<std::size_t>(c.down ? k : r)];
          if (lives && c.reduce == FoldReduce::sum) to += v, size[static_cast<std::size_t>(c.down ? k : r)] += std::abs(v);
          if (lives && c.reduce == FoldReduce::max) to = std::max<double>(to, v);
          if (lives && c.reduce == FoldReduce::min) to = std::min<double>(to, v);
        }
      Fold f{.rows = c.rows, .columns = c.columns, .x = c.half ? static_cast<const void*>(half.data()) : c.x.data(), .x_type = c.half ? DType::f16 : DType::f32, .x_rows = {c.x_row}};
      if (c.stores) f.y = c.half ? static_cast<void*>(half_y.data()) : y.data(), f.y_type = c.half ? DType::f16 : DType::f32, f.y_rows = {c.y_row};
      f.reduce = c.reduce, f.down = c.down, f.acc = acc.data(), f.acc_rows = {1};
      f.bounds = c.bounds.data(), f.bound_count = static_cast<int>(c.bounds.size());
      f.steps = {c.steps.data(), static_cast<int>(c.steps.size())};
      leaf->fold(f);
      if (c.stores)
        for (std::size_t i = 0; i < stored.size(); ++i) {
          const bool inside = static_cast<std::int64_t>(i) % c.y_row < c.columns;
          if (c.half) {
            ASSERT_EQ(half_y[i], inside ? f32_to_f16(stored[i]) : 0x1111) << "seed " << seed << " at " << i;
          } else {
            ASSERT_EQ(y[i], stored[i]) << "seed " << seed << " at " << i << " isa " << static_cast<int>(leaf->isa);
          }
        }
      for (std::size_t i = 0; i < acc.size(); ++i) ASSERT_NEAR(acc[i], expected[i], 2e-6 * size[i]) << "seed " << seed << " at " << i << " isa " << static_cast<int>(leaf->isa);
    }
  EXPECT_GT(live, 100000);
  EXPECT_GT(dead, 100000);
}

TEST(Fold, ANumberThatIsNoneReachesTheMaximum) {
  for (const Kernels* leaf : available_tables())
    for (std::int64_t at = 0; at < 70; ++at)
      for (bool down : {true, false}) {
        std::vector<float> x(70, -1), acc(70, -INFINITY);
        x[static_cast<std::size_t>(at)] = NAN;
        Fold f{.rows = 1, .columns = 70, .x = x.data(), .x_rows = {70}};
        f.reduce = FoldReduce::max, f.down = down, f.acc = acc.data(), f.acc_rows = {1};
        leaf->fold(f);
        for (std::int64_t i = 0; i < (down ? 70 : 1); ++i) EXPECT_EQ(std::isnan(acc[static_cast<std::size_t>(i)]), !down || i == at) << at << " " << i;
      }
}

// Steps known ahead against the loop that asks: a bound that always holds sends the same work there.
TEST(Fold, ChainsEqualTheLoop) {
  const FoldBound always{0, 0, 0};
  using enum StepOp;
  const std::vector<std::vector<StepOp>> chains = {{}, {mul}, {add}, {gate}, {sub, exp}, {mul, sub, exp}, {mul, add}};
  testing::Random random(5);
  constexpr std::int64_t rows = 9, columns = 64 * 3 + 21;
  std::vector<float> x(rows * columns), along(columns);
  for (auto* list : {&x, &along})
    for (float& v : *list) v = random() % 10 ? static_cast<float>(static_cast<int>(random() % 40001) - 20000) / 100.0f : 0;
  x[70] = std::numeric_limits<float>::quiet_NaN(), x[400] = -std::numeric_limits<float>::infinity();
  for (const Kernels* leaf : available_tables())
    for (const auto& chain : chains)
      for (FoldReduce reduce : {FoldReduce::none, FoldReduce::sum, FoldReduce::max})
        for (bool stores : {false, true})
          for (bool constant : {false, true}) {
            if (!stores && reduce == FoldReduce::none) continue;
            std::vector<EpilogueStep> steps;
            for (StepOp op : chain) steps.push_back({.op = op, .operand = constant ? nullptr : along.data(), .a = 0.75f});
            std::vector<float> y[2], acc[2];
            for (int general : {0, 1}) {
              y[general].assign(x.size(), 7), acc[general].assign(columns, 1);
              Fold f{.rows = rows, .columns = columns, .x = x.data(), .x_rows = {columns}};
              if (stores) f.y = y[general].data(), f.y_rows = {columns};
              f.reduce = reduce, f.acc = acc[general].data();
              f.bounds = &always, f.bound_count = general;
              f.steps = {steps.data(), static_cast<int>(steps.size())};
              leaf->fold(f);
            }
            for (const auto* list : {y, acc})
              ASSERT_EQ(std::memcmp(list[0].data(), list[1].data(), list[0].size() * sizeof(float)), 0)
                  << "chain of " << chain.size() << ", reduce " << static_cast<int>(reduce) << ", isa " << static_cast<int>(leaf->isa);
          }
}

}  // namespace
}  // namespace tilewright::kernels
