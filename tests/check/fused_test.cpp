// Kernels of two reductions: the worked numbers of spec fcm 4 (model E), in elements, against the cost and the counted
// nest.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "check/count.h"
#include "cost/cost.h"
#include "expr/text.h"
#include "loop/nest.h"

namespace tilewright {
namespace {

struct Numbers {
  std::int64_t elements = 0, again = 0;
}; // moved; multiply-adds beyond those of the layers
using Tiles = std::vector<std::pair<std::string, std::int64_t>>;

Numbers numbers(const std::string& text, const Tiles& tiles) {
  const Machine m = machine_named("generic-avx2");
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  std::vector<StatementId> all;
  std::int64_t once = 0;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    all.push_back(static_cast<StatementId>(n));
    std::int64_t points = 1;
    for (const Size& e : p.statement(all.back())->axes) points *= e.constant();
    once += points;
  }
  const auto r = unify(p, all);
  EXPECT_TRUE(r) << r.reason();
  Schedule s;
  for (const auto& [name, size] : tiles)
    for (std::size_t a = 0; a < r->axes.size(); ++a)
      if (r->names[a] == name) s.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), size});
  EXPECT_EQ(s.steps.size(), tiles.size());
  EXPECT_TRUE(legality(p, *r, s, m).empty());
  const Cost c = cost(p, *r, s, m);
  EXPECT_EQ(c.loaded + c.stored, count(p, expand(p, *r, s, "k"), false).total());
  return {(c.loaded + c.stored) / 4, c.multiply_adds - once};
}

std::string pointwise_then_window(int c, int f, int y, int stride, int pad) {
  const int out = stride == 1 ? y : y / 2;
  return fmt::format("program t(c={}, f={}, y={}, x={}, u={}, v={}, i=3, j=3)\ninput X[c y x], W[f c], V[f i j] : f32\n"
                     "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[f u v] = sum[i j] Y[f, {}*u+i-{}, {}*v+j-{} else 0] * V[f "
                     "i j]\noutput Z\n",
                     c, f, y, y, out, out, stride, pad, stride, pad);
}
std::string window_then_pointwise(int c, int f, int y) {
  return fmt::format(
      "program t(c={}, f={}, y={}, x={}, i=3, j=3)\ninput X[c y x], V[c i j], W[f c] : f32\n"
      "Y[c y x] = sum[i j] X[c, y+i-1, x+j-1 else 0] * V[c i j]\nZ[f y x] = sum[c] Y[c y x] * W[f c]\noutput Z\n",
      c, f, y, y);
}
std::string two_pointwise(int c, int f, int g, int y) {
  return fmt::format("program t(c={}, f={}, g={}, y={}, x={})\ninput X[c y x], W[f c], V[g f] : f32\n"
                     "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[g y x] = sum[f] Y[f y x] * V[g f]\noutput Z\n",
                     c, f, g, y, y);
}

void expect(const Numbers& n, std::int64_t elements, std::int64_t again) {
  EXPECT_EQ(n.elements, elements);
  EXPECT_EQ(n.again, again);
}

TEST(Fused, PointwiseThenWindow) {
  expect(numbers(pointwise_then_window(512, 512, 14, 1, 1), {{"f", 8}}), 6789632, 0); // T4: one spatial tile
  expect(numbers(pointwise_then_window(24, 144, 56, 1, 1), {{"f", 8}, {"u", 14}, {"v", 14}}), 2188224, 2446848); // T5
  expect(numbers(pointwise_then_window(32, 64, 112, 2, 0), {{"f", 8}, {"u", 7}, {"v", 7}}), 3993856,
         3311616); // T6: stride 2
  expect(numbers(pointwise_then_window(64, 128, 109, 1, 1), {{"f", 8}, {"u", 14}, {"v", 14}}), 17610880,
         26607616); // T9: odd
}

TEST(Fused, WindowThenPointwise) {
  expect(numbers(window_then_pointwise(32, 64, 112), {{"y", 8}, {"x", 8}}), 1870080, 0); // T7
  expect(numbers(window_then_pointwise(32, 64, 112), {{"f", 32}, {"y", 8}, {"x", 8}}), 2535936, 3612672);
}

TEST(Fused, TwoPointwise) {
  expect(numbers(two_pointwise(32, 16, 96, 112), {{"y", 1}, {"x", 32}}), 2523136, 0); // T8
  expect(numbers(two_pointwise(32, 16, 96, 112), {{"g", 48}, {"y", 1}, {"x", 32}}), 3153920, 6422528);
}

// In turns of a few rows each element is moved once, and nothing is computed again: 75,264 + 3,456 + 1,296 + 451,584
// elements.
TEST(Fused, AWalkKeepsItsRows) {
  const Machine m = machine_named("generic-avx2");
  for (const int stride : {1, 2})
    for (const std::int64_t rows : {1, 3, 4, 56}) {
      const Program p = fix_sizes(parse(pointwise_then_window(24, 144, 56, stride, 1), "case.tw"), {});
      const auto r = unify(p, {0, 1});
      ASSERT_TRUE(r) << r.reason();
      Schedule s;
      for (std::size_t a = 0; a < r->axes.size(); ++a)
        if (r->names[a] == "u") s.steps = {{AxisStep::How::walk, static_cast<RegionAxis>(a), rows}};
      ASSERT_TRUE(legality(p, *r, s, m).empty());
      const Cost c = cost(p, *r, s, m);
      EXPECT_EQ((c.loaded + c.stored) / 4, 75264 + 3456 + 1296 + 451584 / (stride * stride));
      EXPECT_EQ(c.multiply_adds, 56 * 56 * 144 * 24 + 9 * 144 * 56 * 56 / (stride * stride));
      const Nest n = expand(p, *r, s, "k");
      EXPECT_EQ(c.loaded + c.stored, count(p, n, rows == 4).total());
      EXPECT_NE(print(p, *r, s, n).find("walk:"), std::string::npos);
    }
}

// What the turns of a walk make between them may be stored for another reader, each element once; tiles would store halos twice.
TEST(Fused, AWalkStoresWhatOthersRead) {
  const Machine m = machine_named("generic-avx2");
  for (const int stride : {1, 2}) {
    std::string text = pointwise_then_window(24, 144, 56, stride, 1);
    text.replace(text.find("output Z"), 8, "output Y, Z");
    const Program p = fix_sizes(parse(text, "case.tw"), {});
    const auto r = unify(p, {0, 1});
    ASSERT_TRUE(r) << r.reason();
    for (const auto how : {AxisStep::How::walk, AxisStep::How::tile})
      for (const std::int64_t rows : {1, 3, 4, 27}) {
        Schedule s;
        for (std::size_t a = 0; a < r->axes.size(); ++a)
          if (r->names[a] == "u") s.steps = {{how, static_cast<RegionAxis>(a), rows}};
        const auto why = legality(p, *r, s, m);
        ASSERT_EQ(why.empty(), how == AxisStep::How::walk);
        if (!why.empty()) {
          EXPECT_EQ(tilewright::text(why.front()), "made in part, but wanted whole outside of the kernel: Y along y");
          continue;
        }
        const Cost c = cost(p, *r, s, m);
        EXPECT_EQ(c.stored / 4, 451584 + 451584 / (stride * stride));
        EXPECT_EQ(c.loaded / 4, 75264 + 3456 + 1296);
        EXPECT_EQ(c.multiply_adds, 56 * 56 * 144 * 24 + 9 * 144 * 56 * 56 / (stride * stride));
        EXPECT_EQ(c.loaded + c.stored, count(p, expand(p, *r, s, "k"), false).total());
      }
  }
}

// Turns that skip rows do not make them: a stride beyond the kernel leaves gaps, which another reader would miss.
TEST(Fused, AWalkThatSkipsRowsStoresNothingForOthers) {
  const Program p = fix_sizes(parse("program t(c=4, f=8, y=24, x=8, u=8, i=2)\ninput X[c y x], W[f c], V[f i] : f32\n"
                                    "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[f u x] = sum[i] Y[f, 3*u+i, x] * V[f i]\n"
                                    "output Y, Z\n", "case.tw"), {});
  const auto r = unify(p, {0, 1});
  ASSERT_TRUE(r) << r.reason();
  Schedule s;
  for (std::size_t a = 0; a < r->axes.size(); ++a)
    if (r->names[a] == "u") s.steps = {{AxisStep::How::walk, static_cast<RegionAxis>(a), 2}};
  EXPECT_FALSE(legality(p, *r, s, machine_named("generic-avx2")).empty());
}

// Halos at the edge of a tile are needed whatever the kernel (fcm 1.9.2): a map of 28 in tiles of 16 reads and makes 17
// + 13.
TEST(Fused, TilesThatDoNotDivideTheMapHaveTheirHalos) {
  const Numbers n = numbers(pointwise_then_window(256, 8, 28, 1, 1), {{"u", 16}, {"v", 16}});
  const std::int64_t side = 17 + 13;
  expect(n, 256 * side * side + 4 * (8 * 256 + 8 * 9) + 8 * 28 * 28, 8 * 256 * (side * side - 28 * 28));
}

// Maps that are not square, channels of odd number, kernels of 5 with dilation 2 and uneven pads (fcm 1.9.5, 1.9.6), a
// batch.
TEST(Fused, AnyShape) {
  const auto text =
      "program t(n=3, c=5, f=7, y=11, x=23, u=8, v=17, i=5, j=3)\ninput X[n c y x], W[f c], V[f i j] : f32\n"
      "Y[n f y x] = sum[c] X[n c y x] * W[f c]\n"
      "Z[n f u v] = sum[i j] Y[n, f, u+2*i-3, v+2*j-1 else 0] * V[f i j]\noutput Z\n";
  // Rows [u-3, u+5] of 11: tiles 0..2, 3..5, 6..7 see 8, 11, 8; columns [v-1, v+3] of 23: tiles 0..6, 7..13, 14..16 see
  // 10, 11, 7.
  const std::int64_t rows = 8 + 11 + 8, columns = 10 + 11 + 7, tiles = 9;
  const Numbers n = numbers(text, {{"n", 1}, {"f", 3}, {"u", 3}, {"v", 7}});
  expect(n, 3 * (3 * 5 * rows * columns + tiles * (7 * 5 + 7 * 15) + 7 * 8 * 17),
         3 * 7 * 5 * (rows * columns - 11 * 23));
}

} // namespace
} // namespace tilewright
