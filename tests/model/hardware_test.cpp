// From streamed tiles to a multiprocessor: the Hopper table and the analysis of FlashAttention-3 (napkin 11,
// 13, 14.17, 14.18).
#include "model/hardware.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/pipeline.h"
#include "model_cases.h"

namespace tilewright {
namespace {

// The figures of the datasheet, where the shipped file has measured ones.
Machine datasheet() {
  Machine m = machine_named("h100");
  m.core.clock = 1.83e9;
  m.core.block_scratch = 227 * 1024;
  m.levels[0].down.all = 3.35e12;
  for (Unit& u : m.units) {
    u.rates.front().clock = 0;
    for (UnitRate& r : u.rates) {
      r.clock = 0;
      if (u.name == "wgmma") r.per_clock = r.per_clock > 8000 ? 8192 : 4096;
    }
  }
  return m;
}

struct Hopper {
  Machine m = datasheet();
  Case c = case_of("program hopper(q=8192, x=8192, d=128)\ninput Q[q d], K[x d] : f8e4m3\ninput V[x d] : f16\nS[q x] : "
                   "f16 = sum[d] Q[q d] * K[x d]\n"
                   "P[q x] = softmax[x] S[q x]\nO[q d] : f16 = sum[x] P[q x] * V[x d]\noutput O\n",
                   {{"q", 384}}, {{"x", 64}});
  Nest n = expand(c.p, c.r, c.s, "k");
  Columns cols = columns(c.p, c.r, c.s, n);
  Setup setup() const {
    Setup s;
    for (const Lived& v : cols.values)
      if (!v.loaded) s.held[v.name] = DType::f16;
    for (const Lived& v : cols.values)
      if (!v.loaded && v.size.mentions("d")) s.pieces.push_back({v.name, 32, 8});
    return s;
  }
};

TEST(Hardware, TheHopperTable) {
  const Hopper h;
  const Configuration c = configuration(h.c.p, h.c.r, h.c.s, h.cols, h.n, h.m, h.setup());
  std::string table;
  for (const Held& v : c.values)
    table += v.name + " " + v.size.text() + " " + std::to_string(v.bytes / 1024) +
             (v.scratch ? " scratch" : " registers") + (v.block ? " block\n" : " group\n");
  EXPECT_EQ(c.scratch_block, 48 * 1024) << table;
  EXPECT_EQ(c.scratch_group, 48 * 1024) << table;
  EXPECT_EQ(c.registers_group, 74.75 * 1024) << table;
  EXPECT_NEAR(c.by_scratch, 3.729, 1e-3);
  EXPECT_NEAR(c.by_registers, 3.425, 1e-3);
  EXPECT_EQ(c.groups, 3);
  EXPECT_EQ(c.tile_rows, 384);
}

TEST(Hardware, TheClockBudget) {
  const Hopper h;
  const Budget b = budget(h.c.p, h.c.r, h.c.s, h.cols, h.n, h.m, h.setup());
  std::string table;
  for (const Clock& line : b.lines)
    table += line.what + " " + std::string(name_of(line.pipe)) + " " + std::to_string(line.operations) + " / " +
             std::to_string(line.per_clock) + " = " + std::to_string(line.clocks) + "\n";
  auto line = [&](UnitKind pipe, double operations) {
    for (const Clock& l : b.lines)
      if (l.pipe == pipe && l.operations == operations) return l.clocks;
    ADD_FAILURE() << operations << "\n" << table;
    return 0.0;
  };
  std::vector<double> tensor;
  for (const Clock& l : b.lines)
    if (l.pipe == UnitKind::tensor) {
      tensor.push_back(l.clocks);
      EXPECT_EQ(l.operations, 16384);
    }
  EXPECT_EQ(tensor, (std::vector<double>{2, 4})) << table;
  EXPECT_EQ(b.of(UnitKind::special), 65.0 / 16) << table; // s_x and one for the scale
  EXPECT_EQ(line(UnitKind::fma, 256), 0.5);               // O rescaled and accumulated, in f16
  EXPECT_NEAR(b.ideal, 1.3192e15, 1e11);
  EXPECT_EQ(b.turn_bytes, 24576);
  EXPECT_NEAR(b.seconds_moving * 1e6, 0.968, 1e-3);
  EXPECT_NEAR(384 * b.of(UnitKind::tensor) / b.clock * 1e6, 1.259, 1e-3);
  EXPECT_NEAR(b.rows_to_balance, 295.4, 0.1);
  Machine h200 = h.m;
  h200.levels[0].down.all = 4.8e12;
  const Budget other = budget(h.c.p, h.c.r, h.c.s, h.cols, h.n, h200, h.setup());
  EXPECT_NEAR(other.seconds_moving * 1e6, 0.676, 1e-3);
  EXPECT_NEAR(other.rows_to_balance, 206.1, 0.1);
}

TEST(Pipeline, UtilisationUnderOverlap) {
  const double s0 = 4, over = s0 * 5 / 3;
  EXPECT_NEAR(8 / inside_a_lane(4, 4, over), 0.75, 1e-9);         // FP16 inside a warpgroup, 66% overhead
  EXPECT_NEAR(4 / between_lanes(2, 2, over), 0.60, 1e-9);         // FP8 between warpgroups
  EXPECT_NEAR(1 - 4.06 / inside_a_lane(2, 2, 4.06), 0.330, 1e-3); // the special unit waits
  EXPECT_NEAR(6 / between_lanes(2, 4, over), 0.90, 1e-9);         // mixed
  EXPECT_EQ(between_lanes(4, 4, 2 * s0), 8);                      // full rate until the overhead is 100%
}

// The schedule finds what the formulas say.
TEST(Pipeline, SchedulesReachTheFormulas) {
  for (double t1 : {2.0, 4.0})
    for (double t2 : {2.0, 4.0})
      for (double s : {1.0, 4.06, 6.67, 9.0}) {
        const std::vector<Phase> turn = {{"S", 0, t1}, {"rows", 1, s}, {"O", 0, t2}};
        const Timeline one = pipelined(turn, 1, 0), early = pipelined(turn, 1, 1), three = pipelined(turn, 3, 0);
        EXPECT_NEAR(one.interval, t1 + s + t2, 1e-6);
        // A free schedule also runs the next turn's first phase under this turn's second contraction: never slower than
        // the formula.
        EXPECT_LE(early.interval, inside_a_lane(t1, t2, s) + 1e-6) << t1 << " " << t2 << " " << s;
        EXPECT_GE(early.interval, between_lanes(t1, t2, s) - 1e-6);
        EXPECT_NEAR(three.interval / 3, std::max(between_lanes(t1, t2, s), (t1 + s + t2) / 3), 0.02 * three.interval)
            << t1 << " " << t2 << " " << s;
        for (double busy : three.busy) EXPECT_LE(busy, 1 + 1e-9);
      }
}

TEST(Pipeline, NoPipeServesTwo) {
  const Hopper h;
  const Budget b = budget(h.c.p, h.c.r, h.c.s, h.cols, h.n, h.m, h.setup());
  std::vector<std::string> pipes;
  const auto phases = phases_of(b, &pipes);
  const Timeline t = pipelined(phases, 3, 1);
  for (const Slot& x : t.slots)
    for (const Slot& y : t.slots)
      if (&x != &y &&
          phases[static_cast<std::size_t>(x.phase)].pipe == phases[static_cast<std::size_t>(y.phase)].pipe) {
        EXPECT_TRUE(x.end <= y.start + 1e-9 || y.end <= x.start + 1e-9);
      }
  EXPECT_NEAR(t.interval / 3, 6, 0.3); // bound by the tensor pipe
}

} // namespace
} // namespace tilewright
