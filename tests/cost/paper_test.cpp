// The equations of spec fcm 2.3 reproduce its worked numbers (model A), and the exact count has none of their defects.
#include "cost/paper.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cost/cost.h"
#include "expr/text.h"

namespace tilewright {
namespace {

using Tiles = std::vector<std::pair<std::string, std::int64_t>>;
struct Elements {
  std::int64_t paper = 0, exact = 0;
};

Elements elements(const std::string& text, const Tiles& tiles) {
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  const auto r = unify(p, all);
  EXPECT_TRUE(r) << r.reason();
  Schedule s;
  std::vector<std::int64_t> sizes;
  for (const auto& [name, size] : tiles)
    for (std::size_t a = 0; a < r->axes.size(); ++a)
      if (r->names[a] == name)
        s.steps.push_back({AxisStep::How::tile, static_cast<RegionAxis>(a), size}), sizes.push_back(size);
  EXPECT_EQ(sizes.size(), tiles.size());
  const Cost c = cost(p, *r, s, machine_named("gtx1660"));
  return {PaperModel(p, *r, s).bytes(sizes) / 4, (c.loaded + c.stored) / 4};
}

void expect(const Elements& e, std::int64_t paper, std::int64_t exact) {
  EXPECT_EQ(e.paper, paper);
  EXPECT_EQ(e.exact, exact);
}

std::string pointwise(int c, int f, int y, int stride = 1) {
  return fmt::format("program t(c={0}, f={1}, h={2}, w={2}, y={3}, x={3})\ninput X[c h w], W[f c] : f32\n"
                     "Y[f y x] = sum[c] X[c, {4}*y, {4}*x] * W[f c]\noutput Y\n",
                     c, f, y, y / stride, stride);
}
std::string window(int c, int y, int stride, int pad) {
  return fmt::format("program t(c={0}, h={1}, w={1}, u={2}, v={2}, i=3, j=3)\ninput X[c h w], V[c i j] : f32\n"
                     "Z[c u v] = sum[i j] X[c, {3}*u+i-{4}, {3}*v+j-{4} else 0] * V[c i j]\noutput Z\n",
                     c, y, y / stride, stride, pad);
}
std::string pointwise_then_window(int c, int f, int y, int stride, int pad) {
  return fmt::format(
      "program t(c={0}, f={1}, y={2}, x={2}, u={3}, v={3}, i=3, j=3)\ninput X[c y x], W[f c], V[f i j] : f32\n"
      "Y[f y x] = sum[c] X[c y x] * W[f c]\n"
      "Z[f u v] = sum[i j] Y[f, {4}*u+i-{5}, {4}*v+j-{5} else 0] * V[f i j]\noutput Z\n",
      c, f, y, y / stride, stride, pad);
}
std::string window_then_pointwise(int c, int f, int y) {
  return fmt::format(
      "program t(c={0}, f={1}, y={2}, x={2}, i=3, j=3)\ninput X[c y x], V[c i j], W[f c] : f32\n"
      "Y[c y x] = sum[i j] X[c, y+i-1, x+j-1 else 0] * V[c i j]\nZ[f y x] = sum[c] Y[c y x] * W[f c]\noutput Z\n",
      c, f, y);
}
std::string two_pointwise(int c, int f, int g, int y) {
  return fmt::format("program t(c={0}, f={1}, g={2}, y={3}, x={3})\ninput X[c y x], W[f c], V[g f] : f32\n"
                     "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[g y x] = sum[f] Y[f y x] * V[g f]\noutput Z\n",
                     c, f, g, y);
}

TEST(PaperModel, WorkedNumbers) {
  expect(elements(pointwise(64, 128, 56), {{"f", 32}, {"y", 14}, {"x", 28}}), 1269760, 1269760);                  // T1
  expect(elements(window(128, 56, 1, 1), {{"u", 28}, {"v", 28}}), 864768, 836608);                                // T2
  expect(elements(window(64, 112, 2, 0), {{"u", 14}, {"v", 28}}), 1065472, 1036992);                              // T3
  expect(elements(pointwise_then_window(512, 512, 14, 1, 1), {{"f", 8}}), 6789632, 6789632);                      // T4
  expect(elements(pointwise_then_window(24, 144, 56, 1, 1), {{"f", 8}, {"u", 14}, {"v", 14}}), 1914624, 2188224); // T5
  expect(elements(pointwise_then_window(32, 64, 112, 2, 0), {{"f", 8}, {"u", 7}, {"v", 7}}), 3680256, 3993856);   // T6
  expect(elements(window_then_pointwise(32, 64, 112), {{"y", 8}, {"x", 8}}), 2034816, 1870080);                   // T7
  expect(elements(window_then_pointwise(32, 64, 112), {{"f", 32}, {"y", 8}, {"x", 8}}), 2436224, 2535936);
  expect(elements(two_pointwise(32, 16, 96, 112), {{"y", 1}, {"x", 32}}), 2523136, 2523136); // T8
  expect(elements(pointwise_then_window(64, 128, 109, 1, 1), {{"f", 8}, {"u", 14}, {"v", 14}}), 14675584,
         17610880);                                                                                 // T9
  expect(elements(pointwise(256, 728, 28, 2), {{"f", 56}, {"y", 7}, {"x", 14}}), 3124576, 1167712); // T12
}

// ---- the exact count has none of their defects (spec fcm 2.3, 2.6, 2.7)

// The halo is read by each tile of filters: twice the filter tiles, twice the halo.
TEST(Exact, EachTileOfFiltersReadsTheHalo) {
  const auto halo = [](std::int64_t f) {
    const Elements e = elements(pointwise_then_window(8, 16, 32, 1, 1), {{"f", f}, {"u", 8}, {"v", 32}});
    return e.exact - (16 / f) * 8 * 32 * 32 - 4 * (16 * 8 + 16 * 9) - 16 * 32 * 32;
  };
  EXPECT_EQ(halo(16), 8 * 6 * 32); // three borders, a row on each side
  EXPECT_EQ(halo(4), 4 * halo(16));
}

// Windows that leave gaps read less than the whole, and have no halo; the equations read everything.
TEST(Exact, StridesBeyondTheKernelSkipWhatNobodyReads) {
  const std::string text = "program t(c=4, h=56, w=56, u=7, v=7, i=3, j=3)\ninput X[c h w], V[c i j] : f32\n"
                           "Z[c u v] = sum[i j] X[c, 8*u+i, 8*v+j] * V[c i j]\noutput Z\n";
  expect(elements(text, {{"u", 1}, {"v", 1}}), 4 * 56 * 56 + 49 * 36 + 4 * 49, 4 * 21 * 21 + 49 * 36 + 4 * 49);
}

// A ragged last tile is smaller than the others, and its halo ends at the edge of the map.
TEST(Exact, TheLastTileIsCounted) {
  expect(elements(window(1, 28, 1, 1), {{"u", 16}, {"v", 16}}), 28 * 28 + 4 * 2 * 28 * 2 / 2 + 4 * 9 + 28 * 28,
         30 * 30 + 4 * 9 + 28 * 28);
}

} // namespace
} // namespace tilewright
