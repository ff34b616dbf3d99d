#include "model/derivation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>

#include "model_cases.h"

namespace tilewright {
namespace {

std::string example(const std::string& name) {
  std::ifstream in(std::string(TILEWRIGHT_SOURCE_DIR) + "/examples/" + name + ".tw");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const Move& move(const Derivation& d, const std::string& name) {
  for (const Move& m : d.moves)
    if (m.name == name) return m;
  ADD_FAILURE() << name;
  return d.moves.front();
}

// The golden derivation: from three statements to streamed tiles, with the numbers of napkin 9 and 14.
TEST(Derivation, OfFlashAttention) {
  const Program free = parse(attention, "attention.tw");
  const Binding sizes = {{"q", 8192}, {"x", 8192}, {"d", 128}};
  const Derivation d = derive(fix_sizes(free, sizes), machine_named("h100"));
  std::vector<std::string> names;
  for (const Move& m : d.moves) names.push_back(m.name);
  EXPECT_EQ(names, (std::vector<std::string>{"start", "factors", "one kernel", "stream x", "tile q"}));
  EXPECT_TRUE(d.refused.empty());
  EXPECT_EQ(move(d, "start").values.moved.text(), "2*d*q + 2*d*x + 4*q*x"); // = 4qd + 4q^2
  EXPECT_EQ(move(d, "start").values.moved_at, 272629760);
  EXPECT_EQ(move(d, "one kernel").values.moved.text(), "2*d*q + 2*d*x");
  EXPECT_EQ(move(d, "one kernel").values.held.text(), "d*q + 2*d*x + q*x");
  EXPECT_EQ(move(d, "stream x").values.moved.text(), "2*d*q + 2*d*x");
  EXPECT_EQ(move(d, "stream x").values.held.text(),
            "2*d*q + d*s_x + q*s_x + 3*q"); // a short chunk: behind K, with three numbers a row
  EXPECT_EQ(move(d, "tile q").values.moved.text(), "2*d*q + 2*d*q*x/g_q");
  EXPECT_EQ(move(d, "tile q").values.held.text(), "2*d*g_q + 2*d*s_x + g_q*s_x + 2*g_q");
  ASSERT_EQ(d.last().parts.size(), 1u);
  const auto best = closed_form(*d.last().program, d.last().parts[0], Count::values);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->regimes[0].moved.text(), "2*d*q + 4*d^2*q*x*M^-1");
  EXPECT_EQ(best->regimes[0].sizes[0].second.text(), "0.5*M/d"); // g_q = M/(2d)
  for (const Checked& c : check(free, small_sizes(free, sizes), d)) {
    EXPECT_EQ(c.not_checked, "") << c.move;
    EXPECT_LT(c.difference, 1e-12) << c.move;
  }
}

// A value a width of its own: the same derivation in bytes.
TEST(Derivation, WidthsByOccurrence) {
  const Program p =
      fix_sizes(parse("program mixed(q, x, d)\ninput Q[q d], K[x d] : f8e4m3\ninput V[x d] : f16\nS[q x] : f32 = "
                      "sum[d] Q[q d] * K[x d]\n"
                      "P[q x] : f32 = softmax[x] S[q x]\nO[q d] : f16 = sum[x] P[q x] * V[x d]\noutput O\n",
                      "mixed.tw"),
                {{"q", 8192}, {"x", 8192}, {"d", 128}});
  const Derivation d = derive(p, machine_named("h100"));
  EXPECT_EQ(d.last().values.moved.text(), "2*d*q + 2*d*q*x/g_q");
  EXPECT_EQ(d.last().bytes.moved.text(), "3*d*q + 3*d*q*x/g_q");
  const auto best = closed_form(*d.last().program, d.last().parts[0], Count::bytes);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->regimes[0].moved.text(), "3*d*q + 9*d^2*q*x*M^-1"); // kappa 3, A 3
}

struct Expected {
  std::string example;
  Binding sizes;
  std::string part, moved;
};
// Every example derives; every move of it that can be written out equals the program as written.
TEST(Derivation, OfTheExamples) {
  for (const auto& [name, sizes] :
       std::vector<std::pair<std::string, Binding>>{{"attention", {{"h", 8}, {"q", 2048}, {"x", 2048}, {"d", 128}}},
                                                    {"gqa", {{"g", 8}, {"r", 4}, {"q", 2048}, {"x", 2048}, {"d", 128}}},
                                                    {"layernorm_linear", {{"t", 4096}, {"c", 1024}, {"f", 4096}}},
                                                    {"linear_cross_entropy", {{"t", 4096}, {"m", 1024}, {"v", 32000}}},
                                                    {"mlp", {}},
                                                    {"conv_relu", {}},
                                                    {"moe_top1", {{"t", 1024}, {"e", 8}, {"k", 1024}, {"n", 1024}}},
                                                    {"decode", {{"h", 32}, {"x", 8192}, {"d", 128}}}}) {
    const Program free = parse(example(name), name + ".tw");
    const Derivation d = derive(fix_sizes(free, sizes), machine_named("h100"));
    ASSERT_GE(d.moves.size(), 2u) << name;
    EXPECT_LE(move(d, d.moves.back().name).bytes.moved_at, 20 * d.moves.front().bytes.moved_at) << name;
    for (const Checked& c : check(free, small_sizes(free, sizes), d)) {
      EXPECT_EQ(c.not_checked, "") << name << " " << c.move;
      EXPECT_LT(c.difference, 1e-9) << name << " " << c.move;
    }
  }
}

TEST(Derivation, IsInstant) {
  const Program p = fix_sizes(parse(heads, "heads.tw"), {{"h", 32}, {"q", 8192}, {"x", 8192}, {"d", 128}});
  const Machine m = machine_named("h100");
  std::clock_t least = CLOCKS_PER_SEC;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    derive(p, m);
    least = std::min(least, std::clock() - start);
  }
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(static_cast<double>(least) / CLOCKS_PER_SEC, 0.020);
#endif
}

TEST(Derivation, SaysWhatDoesNotStream) {
  const Derivation d = derive(
      fix_sizes(parse("program s(q=64, x=64)\ninput S[q x] : f32\nP[q x] = softmax[x] S[q x]\noutput P\n", "s.tw"), {}),
      machine_named("h100"));
  ASSERT_EQ(d.refused.size(), 1u);
  EXPECT_NE(d.refused[0].reason.find("followed by a contraction"), std::string::npos) << d.refused[0].reason;
}

} // namespace
} // namespace tilewright
