// A whole network of inverted residuals under the rules of the paper (spec fcm 3.5): which layers are joined, and what
// it saves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "expr/text.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

// Layers are numbered by kind and block: E1 D1 P1 of the first block, and so on; residual sums fold into P.
struct Network {
  std::string weights, body, last = "X";
  std::set<int> channels, sides;
  std::int64_t residuals = 0; // elements

  void pointwise(const std::string& name, int c, int f, int side, const std::string& residual = {}) {
    channels.insert({c, f}), sides.insert(side);
    weights += fmt::format("weight W{0}[c{1} c{2}] : {{0}}\n", name, f, c);
    const std::string sum = residual.empty() ? name : "S" + name;
    body += fmt::format("{0}[c{1} h{3} w{3}] : {{0}} = sum[c{2}] {4}[c{2} h{3} w{3}] * W{5}[c{1} c{2}]\n", sum, f, c,
                        side, last, name);
    if (!residual.empty()) {
      body += fmt::format("{0}[c{1} h{2} w{2}] : {{0}} = S{0}[c{1} h{2} w{2}] + {3}[c{1} h{2} w{2}]\n", name, f, side,
                          residual);
      residuals += std::int64_t{f} * side * side;
    }
    last = name;
  }
  void window(const std::string& name, int c, int side, int stride) {
    channels.insert(c), sides.insert({side, side / stride});
    weights += fmt::format("weight W{0}[c{1} i j] : {{0}}\n", name, c);
    body += fmt::format(
        "{0}[c{1} h{2} w{2}] : {{0}} = sum[i j] {3}[c{1}, {4}*h{2}+i-{5}, {4}*w{2}+j-{5} else 0] * W{0}[c{1} i j]\n",
        name, c, side / stride, last, stride, stride == 1 ? 1 : 0);
    last = name;
  }
  std::string text(const char* type) const {
    std::string out = "program net(i=3, j=3";
    for (int c : channels) out += fmt::format(", c{0}={0}", c);
    for (int s : sides) out += fmt::format(", h{0}={0}, w{0}={0}", s);
    out += ")\ninput X[c32 h112 w112] : {0}\n" + weights + body + "output " + last + "\n";
    return fmt::format(fmt::runtime(out), type);
  }
};

Network inverted_residuals() {
  struct Stage {
    int expand, out, repeats, stride;
  };
  Network n;
  int c = 32, side = 112, block = 0;
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}})
    for (int r = 0; r < s.repeats; ++r) {
      const std::string number = std::to_string(++block), before = n.last;
      const int stride = r == 0 ? s.stride : 1;
      if (s.expand > 1) n.pointwise("E" + number, c, c * s.expand, side);
      n.window("D" + number, c * s.expand, side, stride);
      side /= stride;
      n.pointwise("P" + number, c * s.expand, s.out, side, r > 0 ? before : "");
      c = s.out;
    }
  n.pointwise("E18", 320, 1280, 7);
  return n;
}

struct Outcome {
  std::string joined;
  double apart = 0, saved = 0;
}; // megabytes without residuals; percent of them

Outcome outcome(const char* type, std::int64_t width, const Machine& m, PlanOptions o) {
  const Network n = inverted_residuals();
  const auto p = std::make_shared<Program>(fix_sizes(parse(n.text(type), "net.tw"), {}));
  auto moved = [](const Plan& plan) {
    std::int64_t sum = 0;
    for (const PlannedKernel& k : plan.kernels) sum += k.cost.loaded + k.cost.stored;
    return sum;
  };
  const Plan plan = make_plan(p, m, o);
  EXPECT_TRUE(plan.search.exact);
  Outcome out;
  for (const PlannedKernel& k : plan.kernels) {
    if (k.groups < 2) continue;
    std::string names;
    for (StatementId id : k.region->statements)
      if (const std::string& name = p->tensor(p->statement(id)->out).name; name[0] != 'S') names += name;
    out.joined += (out.joined.empty() ? "" : " ") + names;
  }
  o.fuse = false;
  const std::int64_t apart = moved(make_plan(p, m, o)), residuals = n.residuals * width;
  out.apart = static_cast<double>(apart - residuals) / 1e6;
  out.saved = 100 * static_cast<double>(apart - moved(plan)) / static_cast<double>(apart - residuals);
  return out;
}

TEST(Network, InvertedResidualsByThePapersRules) {
  PlanOptions o{1, "base", 1, 1, 1};
  o.objective = Objective::bytes, o.streams = false, o.joined = 2;
  const Machine gtx = machine_named("gtx1660");
  Outcome x = outcome("f32", 4, gtx, o);
  EXPECT_EQ(x.joined, "D1P1 E2D2 E3D3 E4D4 E5D5 E6D6 E7D7 E8D8 E9D9 E10D10 E11D11 E15D15 E16D16 E17D17");
  EXPECT_NEAR(x.apart, 139.77, 0.005);
  EXPECT_NEAR(x.saved, 14.9, 0.05);
  // The limit on what is computed again is kept inside the search for tiles, which finds 22.8 % where the table
  // has 22.2.
  x = outcome("i8", 1, gtx, o);
  EXPECT_EQ(x.joined, "D1P1 E2D2 E3D3 E4D4 E5D5 E6D6 E7D7 E15D15 E16D16 E17D17");
  EXPECT_NEAR(x.apart, 25.44, 0.005);
  EXPECT_NEAR(x.saved, 22.8, 0.05);
  x = outcome("f32", 4, machine_named("h200"), o);
  EXPECT_EQ(x.joined, "D1P1 E2D2 E3D3 E4D4 E7D7");
  EXPECT_NEAR(x.apart, 181.36, 0.005);
  EXPECT_NEAR(x.saved, 10.0, 0.05);
}

// Past the paper: whole blocks, with streamed operands.
TEST(Network, WholeBlocksSaveMore) {
  PlanOptions o{1, "base", 1, 1, 1};
  o.objective = Objective::bytes, o.joined = 2, o.streams = false;
  const Machine m = machine_named("gtx1660");
  const Network n = inverted_residuals();
  const auto p = std::make_shared<Program>(fix_sizes(parse(n.text("f32"), "net.tw"), {}));
  auto moved = [&] {
    std::int64_t sum = 0;
    for (const PlannedKernel& k : make_plan(p, m, o).kernels) sum += k.cost.loaded + k.cost.stored;
    return sum;
  };
  const std::int64_t pairs = moved();
  o.joined = 4, o.streams = true;
  EXPECT_LT(moved(), pairs * 2 / 3);
}

} // namespace
} // namespace tilewright
