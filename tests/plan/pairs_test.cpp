// The 47 pairs of layers of spec fcm 3.4 on a GTX 1660 in int8, under the rules of the paper: bytes apart and together,
// and whether they are joined.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expr/text.h"
#include "plan/join.h"

namespace tilewright {
namespace {

// Channels and side of the input, channels between and behind, stride of the window (0: none). Decisions: F joined, r
// refused for what is computed again, n saves nothing.
struct Pair {
  enum Kind { window_first, window_last, no_window };
  const char* name;
  Kind kind;
  int c, side, f, g, stride;
  std::int64_t apart, together;
  char decision;
};

constexpr Pair pairs[] = {
    {"R01", Pair::window_first, 32, 112, 32, 64, 1, 2064672, 1336448, 'F'},
    {"R02", Pair::window_last, 32, 112, 64, 64, 2, 2265664, 708416, 'F'},
    {"R03", Pair::window_first, 64, 112, 64, 128, 2, 1835584, 1515392, 'F'},
    {"R04", Pair::window_last, 64, 56, 128, 128, 1, 1635456, 932864, 'r'},
    {"R05", Pair::window_first, 128, 56, 128, 128, 1, 2065536, 1432064, 'F'},
    {"R06", Pair::window_last, 256, 14, 512, 512, 1, 1231360, 1167360, 'r'},
    {"R07", Pair::window_last, 512, 14, 512, 512, 1, 2157056, 3264512, 'n'},
    {"R08", Pair::window_last, 512, 7, 1024, 1024, 1, 1486848, 1386496, 'F'},
    {"R09", Pair::no_window, 32, 112, 16, 96, 0, 2064384, 1662976, 'F'},
    {"R10", Pair::no_window, 96, 56, 24, 144, 0, 1064448, 913920, 'F'},
    {"R11", Pair::window_last, 24, 56, 144, 144, 1, 1528080, 685824, 'F'},
    {"R12", Pair::no_window, 144, 56, 24, 144, 0, 1247232, 1096704, 'F'},
    {"R13", Pair::no_window, 144, 28, 32, 192, 0, 541952, 564480, 'n'},
    {"R14", Pair::window_last, 32, 28, 192, 192, 1, 577728, 311424, 'r'},
    {"R15", Pair::no_window, 192, 28, 32, 192, 0, 622592, 645120, 'n'},
    {"R16", Pair::window_last, 64, 14, 384, 384, 1, 402816, 285696, 'r'},
    {"R17", Pair::window_last, 96, 14, 576, 576, 1, 734400, 576000, 'r'},
    {"R18", Pair::window_last, 160, 7, 960, 960, 1, 538560, 444480, 'F'},
    {"R19", Pair::no_window, 32, 112, 24, 72, 0, 1976576, 1374464, 'F'},
    {"R20", Pair::window_last, 24, 112, 72, 72, 2, 2382216, 618000, 'F'},
    {"R21", Pair::window_first, 72, 112, 72, 32, 2, 1520264, 1160048, 'F'},
    {"R22", Pair::window_last, 32, 56, 96, 96, 2, 864608, 302528, 'F'},
    {"R23", Pair::window_first, 96, 56, 96, 56, 2, 646880, 569792, 'F'},
    {"R24", Pair::window_last, 112, 14, 336, 336, 1, 482832, 400512, 'r'},
    {"R25", Pair::window_last, 112, 14, 672, 672, 1, 793184, 570304, 'r'},
    {"R26", Pair::window_last, 128, 14, 384, 384, 1, 576384, 482304, 'r'},
    {"R27", Pair::window_last, 128, 14, 768, 768, 2, 843264, 570624, 'r'},
    {"R28", Pair::window_last, 256, 7, 1536, 1536, 1, 933888, 783360, 'F'},
    {"R29", Pair::window_first, 64, 109, 64, 128, 1, 4031872, 2887424, 'F'},
    {"R30", Pair::window_last, 64, 109, 128, 128, 1, 5553216, 3481920, 'r'},
    {"R31", Pair::window_last, 128, 55, 256, 256, 1, 3558656, 2802688, 'r'},
    {"R32", Pair::window_last, 256, 28, 728, 728, 1, 4227608, 6958032, 'n'},
    {"R33", Pair::window_last, 728, 14, 728, 728, 1, 5836376, 9793056, 'n'},
    {"R34", Pair::window_last, 1024, 7, 1536, 1536, 1, 5793792, 9441792, 'n'},
    {"V01", Pair::window_last, 192, 14, 768, 768, 1, 1204992, 975360, 'r'},
    {"V02", Pair::window_first, 768, 14, 768, 192, 1, 2280960, 7097088, 'n'},
    {"V03", Pair::window_last, 384, 14, 1536, 1536, 1, 5082624, 5074944, 'r'},
    {"V04", Pair::window_first, 1536, 14, 1536, 384, 1, 16174080, 111330816, 'n'},
    {"V05", Pair::window_last, 768, 14, 3072, 3072, 1, 32799744, 64690176, 'n'},
    {"V06", Pair::window_last, 64, 56, 256, 256, 1, 3041536, 1865728, 'r'},
    {"V07", Pair::window_first, 256, 56, 256, 64, 1, 3070208, 2300160, 'F'},
    {"V08", Pair::window_last, 128, 28, 512, 512, 1, 2068992, 1465856, 'r'},
    {"V09", Pair::window_first, 512, 28, 512, 128, 1, 2628096, 5401600, 'n'},
    {"V10", Pair::window_last, 256, 14, 1024, 1024, 1, 1938432, 1660928, 'r'},
    {"V11", Pair::window_first, 1024, 14, 1024, 256, 1, 3901440, 20038656, 'n'},
    {"V12", Pair::window_last, 512, 7, 2048, 2048, 1, 2170880, 1970176, 'F'},
    {"V13", Pair::window_first, 2048, 7, 2048, 512, 1, 7649792, 92561920, 'n'},
};

std::string text_of(const Pair& t) {
  const int out = t.stride == 2 ? (t.side + 1) / 2 : t.side, pad = t.stride == 2 ? 0 : 1, s = std::max(t.stride, 1);
  const std::string sizes =
      fmt::format("program t(c={}, f={}, g={}, y={}, x={}, u={}, v={}, i=3, j=3)\ninput X[c y x] : i8\n", t.c, t.f, t.g,
                  t.side, t.side, out, out);
  const std::string pointwise = "Y[f y x] : i8 = sum[c] X[c y x] * W[f c]\n";
  if (t.kind == Pair::window_first)
    return sizes + "weight W[c i j], V[g c] : i8\n" +
           fmt::format("Y[c u v] : i8 = sum[i j] X[c, {0}*u+i-{1}, {0}*v+j-{1} else 0] * W[c i j]\n", s, pad) +
           "Z[g u v] : i8 = sum[c] Y[c u v] * V[g c]\noutput Z\n";
  if (t.kind == Pair::window_last)
    return sizes + "weight W[f c], V[f i j] : i8\n" + pointwise +
           fmt::format("Z[f u v] : i8 = sum[i j] Y[f, {0}*u+i-{1}, {0}*v+j-{1} else 0] * V[f i j]\noutput Z\n", s, pad);
  return sizes + "weight W[f c], V[g f] : i8\n" + pointwise + "Z[g y x] : i8 = sum[f] Y[f y x] * V[g f]\noutput Z\n";
}

TEST(Pairs, BytesAndDecisions) {
  const Machine m = machine_named("gtx1660");
  PlanOptions o{1, "base", 1, 1, 1};
  o.objective = Objective::bytes, o.streams = false;
  for (const Pair& t : pairs) {
    const Program p = fix_sizes(parse(text_of(t), t.name), {});
    const auto layouts = choose_layouts(p);
    Apart apart;
    for (StatementId id : {0, 1}) {
      const Choice one = choose(p, *unify(p, {id}), m, o, layouts);
      apart.price += one.price, apart.multiply_adds += one.cost.multiply_adds;
    }
    EXPECT_EQ(apart.price, t.apart) << t.name;
    const auto r = joined_region(p, m, {0, 1});
    ASSERT_TRUE(r);
    o.redundancy = 1e9;
    EXPECT_EQ(choose(p, *r, m, o, layouts, &apart).price, t.together) << t.name;
    // The limit on what is computed again holds inside the search: of two pairs another tile keeps to it.
    o.redundancy = 10;
    const Choice c = choose(p, *r, m, o, layouts, &apart);
    const bool other_tile = t.name == std::string("R14") || t.name == std::string("R27");
    EXPECT_EQ(c.rule.empty(), t.decision == 'F' || other_tile) << t.name << ": " << c.rule;
    const char* rule = other_tile || t.decision == 'F' ? "" : t.decision == 'n' ? "saves nothing" : "computes ";
    EXPECT_EQ(c.rule.substr(0, std::string(rule).size()), rule) << t.name;
    EXPECT_EQ(c.price > t.together, other_tile) << t.name;
  }
}

} // namespace
} // namespace tilewright
