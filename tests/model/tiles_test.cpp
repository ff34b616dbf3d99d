// The tiles of hand-tuned forward kernels for an H100 are among the best three that the model finds (peers B.1a).
#include "model/tiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model_cases.h"

namespace tilewright {
namespace {

struct Tuned {
  const char* type;
  int head;
  bool causal;
  std::int64_t rows, chunk;
};
constexpr Tuned tuned[] = {
    {"f16", 64, false, 192, 192},    {"f16", 64, true, 192, 128},      {"f16", 96, false, 192, 144},
    {"f16", 96, true, 192, 144},     {"f16", 128, false, 128, 176},    {"f16", 128, true, 128, 128},
    {"f16", 192, false, 128, 112},   {"f16", 192, true, 128, 112},     {"f16", 256, false, 128, 80},
    {"f16", 256, true, 128, 80},     {"bf16", 128, false, 128, 176},   {"f8e4m3", 64, false, 192, 160},
    {"f8e4m3", 96, false, 192, 128}, {"f8e4m3", 128, false, 128, 224}, {"f8e4m3", 192, false, 128, 160},
    {"f8e4m3", 256, false, 128, 128}};

TEST(Tiles, ContainTheHandTuned) {
  const Machine h100 = machine_named("h100");
  for (const Tuned& x : tuned) {
    const std::string text = fmt::format("program a(q, x, d)\ninput Q[q d], K[x d], V[x d] : {0}\nS[q x] : f32 = "
                                         "sum[d] Q[q d] * K[x d] / sqrt(d)\nP[q x] = softmax[x] S[q x]{1}\n"
                                         "O[q d] : {2} = sum[x] P[q x] * V[x d]\noutput O\n",
                                         x.type, x.causal ? " where index(x) <= index(q)" : "",
                                         std::string(x.type) == "f8e4m3" ? "f16" : x.type);
    const Case c = case_of(text, {{"q", 64}}, {{"x", 64}}, {{"q", 8192}, {"x", 8192}, {"d", x.head}});
    const auto list = tile_choices(c.p, {c.r, c.s, "O", 0, "", 0}, h100);
    ASSERT_TRUE(list) << list.reason();
    std::string best;
    bool found = false;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const TileChoice& t = (*list)[i];
      const bool it = t.rows == x.rows && t.chunk == x.chunk;
      if (i < 5 || it)
        best += fmt::format("{}: {} x {} {} {} {:.2f}\n", i, t.rows, t.chunk, t.in_registers ? "registers" : "scratch",
                            t.bound, t.clocks * 1e3);
      found |= i < 3 && it;
    }
    EXPECT_TRUE(found) << x.type << " " << x.head << (x.causal ? " causal" : "") << ": " << x.rows << " x " << x.chunk
                       << "\n"
                       << best;
  }
}

TEST(Tiles, FitTheMachine) {
  const Case c = case_of(attention, {{"q", 64}}, {{"x", 64}}, {{"q", 8192}, {"x", 8192}, {"d", 128}});
  const auto wide = tile_choices(c.p, {c.r, c.s, "O", 0, "", 0}, machine_named("h100"));
  EXPECT_FALSE(wide); // f32 has no tensor unit that does not round
  EXPECT_FALSE(tile_choices(c.p, {c.r, c.s, "O", 0, "", 0}, machine_named("generic-avx2")));
}

} // namespace
} // namespace tilewright
