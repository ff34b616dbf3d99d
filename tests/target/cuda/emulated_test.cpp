// Printed kernels, run by a machine that looks at every access: right, without races, within their tensors. No GPU is needed.
#ifdef TILEWRIGHT_EMULATED
#include "target/cuda/emulated.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "expr/random_program.h"
#include "law/stream_forms.h"
#include "normal/normal.h"
#include "plan/block_price.h"
#include "target/cuda/build.h"
#include "target/cuda/cases.h"
#include "target/cuda/random_network.h"

namespace tilewright {
namespace {

using emulated::Kernels;
using emulated::Planned;
using testing::GpuCase;

double allowed(const Program& p) {
  double most = 1e-5;
  for (const Tensor& t : p.tensors) most = std::max(most, t.dtype == DType::bf16 ? 3e-2 : t.dtype == DType::f16 ? 4e-3 : 0);
  return most;
}

// A program on a GPU: planned, printed, and what it computes set beside the evaluator.
struct Case {
  std::string name;
  std::shared_ptr<const Program> program;
  Plan plan;
  std::unique_ptr<Planned> planned;

  Case(std::string n, Program p, const std::string& machine, bool fuse, Kernels& kernels) : name(std::move(n)), program(std::make_shared<const Program>(std::move(p))) {
    PlanOptions o;
    o.fuse = fuse;
    plan = cuda::printable(make_plan(program, machine_named(machine), o));
    planned = std::make_unique<Planned>(plan, kernels);
  }
  std::string text() const {
    std::string all = "\n" + print(*program);
    for (std::size_t k = 0; k < plan.kernels.size(); ++k)
      if (plan.kernels[k].region) all += tilewright::text(*plan.kernels[k].region, plan.kernels[k].schedule) + "\n" + planned->sources[k].text;
    return all;
  }
  // Empty, or what is wrong.
  std::string wrong() {
    Values given;
    std::uint64_t random = 5;
    for (TensorId t : program->inputs) given[t] = testing::some_of(*program, t, random);
    for (std::size_t t = 0; t < program->tensors.size(); ++t)
      if (program->tensors[t].kind == Kind::weight && program->tensors[t].data.empty()) given[static_cast<TensorId>(t)] = testing::some_of(*program, static_cast<TensorId>(t), random);
    const Values want = evaluate(*program, given, {}, Evaluation::fp64), got = planned->run(given);
    if (!planned->problem.empty()) return name + ": " + planned->problem;
    for (const auto& [t, a] : got)
      if (const double apart = testing::difference(want.at(t), a); !(apart <= allowed(*program))) return fmt::format("{}: {} differs by {}", name, program->tensor(t).name, apart);
    return {};
  }
};

TEST(Emulated, RandomNetworks) {
  const char* one = std::getenv("TILEWRIGHT_SEED");
  const std::uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1, cases = one ? 1 : std::getenv("TILEWRIGHT_LONG") ? 2000 : 40;
  Kernels kernels;
  std::vector<std::unique_ptr<Case>> list;
  int elsewhere = 0, joined = 0;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    testing::Random random(seed);
    const std::string dtype = seed % 3 ? "f16" : "f32", text = testing::RandomNetwork(random, dtype).make();
    Program p;
    try {
      p = normalise(fix_sizes(parse(text, "random.tw"), {}));
    } catch (const Error& e) {
      FAIL() << e.what() << "\n" << text;
    }
    for (const bool fuse : {false, true})
      list.push_back(std::make_unique<Case>(fmt::format("seed {} {} {}", seed, seed % 2 ? "h200" : "a100", fuse ? "joined" : "apart"), p, seed % 2 ? "h200" : "a100", fuse, kernels));
    elsewhere += list.back()->planned->elsewhere;
    if (one)
      for (std::size_t k = 0; k < list.back()->plan.kernels.size(); ++k)
        if (list.back()->planned->sources[k].text.empty()) std::printf("%s: %s\n", list.back()->plan.kernels[k].name.c_str(), list.back()->planned->why[k].c_str());
    for (const PlannedKernel& k : list.back()->plan.kernels) joined += k.groups > 1;
  }
  kernels.compile();
  int bad = 0;
  for (auto& c : list)
    if (const std::string what = c->wrong(); !what.empty()) {
      ADD_FAILURE() << what << (one ? c->text() : "");
      ++bad;
    }
  std::printf("%zu plans, %d kernels of several groups, %d kernels without a printed form, %d wrong\n", list.size(), joined, elsewhere, bad);
  EXPECT_TRUE(one || joined > static_cast<int>(cases)) << joined;
  EXPECT_EQ(elsewhere, 0);
}

// Where a kernel once was wrong.
const char* const stored_and_read = R"(program stored(c=24, f=16, y=6, x=6, i=3, j=3)
input X[y x c] : f32
weight W[f c], V[f i j], b[f] : f32
A[y x f] = sum[c] X[y x c] * W[f c]
B[y x f] = A[y x f] + b[f]
C[y x f] = sum[i j] B[y+i-1, x+j-1, f else 0] * V[f i j]
output B, C
)";
const char* const two_maps_of_one = R"(program heads(q=37, x=37, h=6, d=64, w=1152)
input X[q w] : f32
Q[h q d] = X[q, 64*h+d] * 0.35
K[h d x] = X[x, 64*h+d+384] * 0.35
S[h q x] = sum[d] Q[h q d] * K[h d x]
output S
)";
TEST(Emulated, WhatOnceWasWrong) {
  Kernels kernels;
  std::vector<std::unique_ptr<Case>> list;
  for (const char* text : {stored_and_read, two_maps_of_one})
    for (const bool fuse : {false, true}) list.push_back(std::make_unique<Case>(fuse ? "joined" : "apart", normalise(fix_sizes(parse(text, "small.tw"), {})), "h200", fuse, kernels));
  kernels.compile();
  for (auto& c : list) EXPECT_EQ(c->wrong(), "") << c->text();
}

// The factor of a norm of rows is taken out of the product behind it; what the rows' sums need is added up beside the product, in one kernel.
TEST(Emulated, NormsRideAlongWithProducts) {
  const Program plain = normalise(fix_sizes(parse(R"(program normed(n=200, c=512, f=384)
input X[n c] : bf16
weight W[c f] : bf16
S[n] : f32 = sum[c] X[n c] * X[n c]
N[n c] : bf16 = X[n c] / sqrt(S[n] / 512 + 0.00001)
Y[n f] : f32 = sum[c] N[n c] * W[c f]
D[n f] : bf16 = Y[n f]
output D
)", "normed.tw"), {}));
  Kernels kernels;
  Case c("normed", stream_forms(plain, nullptr, StreamForms::products), "h200", true, kernels);
  ASSERT_EQ(c.plan.kernels.size(), 1u) << c.text();
  EXPECT_TRUE(std::any_of(c.plan.kernels[0].schedule.leaves.begin(), c.plan.kernels[0].schedule.leaves.end(), [](const LeafAt& l) { return l.group && !l.tensor; })) << c.text();
  kernels.compile();
  EXPECT_EQ(c.wrong(), "") << c.text();
}

// One region under schedules from all over the list: rings, instructions of four warps, the copy engine, clusters, rows in registers.
struct Scheduled {
  GpuCase c;
  Plan plan;
  std::unique_ptr<Planned> planned;
};
std::string kind_of(const Schedule& s) {
  std::string kind = s.leaves.empty() ? "plain" : s.leaves[0].by_element ? "element" : s.leaves[0].group ? "group" : s.leaves[0].tensor ? "tensor" : "vector";
  if (s.leaves.size() > 1 && s.leaves[0].group && s.leaves[1].group) kind += " rides";
  if (s.fragments) kind += s.overlapped ? " overlapped" : " fragments";
  for (const ValueAt& v : s.values)
    if (v.bulk) return kind + " bulk" + (s.cluster > 1 ? " cluster" : "");
  return kind + (std::any_of(s.values.begin(), s.values.end(), [](const ValueAt& v) { return v.stages > 1; }) ? " ring" : "");
}

// Rows of pixels begin one before a piece of 16 bytes, or in no known place of one.
std::string first_convolution(int side, int channels, int taps) {
  return fmt::format("program first(n=2, c={1}, o=16, h={0}, w={0}, i={2}, j={2}, H={3}, V={3})\ninput X[n c H V], W[o c i j], b[o] : f16\n"
                     "Y[n o h w] = sum[c i j] X[n, c, 2*h+i-{4}, 2*w+j-{4} else 0] * W[o c i j]\nZ[n o h w] : f16 = min(max(Y[n o h w] + b[o], 0), 6)\noutput Z\n",
                     side, channels, taps, 2 * side, taps / 2);
}

const char* const rows_of_words = R"(program rows(z=3, t=450, v=64, m=192, w=192)
input H[t m], W[w m] : bf16
input label[t] : index(w)
S[z t v] : f32 = sum[m] H[t m] * W[64*z+v, m]
M[z t] : f32 = max[v] S[z t v]
Z[z t] : f32 = sum[v] exp(S[z t v] - M[z t])
T[z t] : f32 = sum[v] S[z t v] where index(v) + 64 * index(z) == label[t]
output M, Z, T
)";
// Scores leave no kernel: rows of some words each stay in registers, behind the last turn of their products, and only states are stored.
TEST(Emulated, RowsOfAContractionAreReducedInRegisters) {
  Machine few = machine_named("h200");
  few.core.count = 4;                            // blocks take several tiles
  const GpuCase first = testing::gpu_case("rows", rows_of_words, few);
  Kernels kernels;
  std::vector<std::unique_ptr<Scheduled>> list;
  std::set<int> clusters;
  for (const BlockChoice& choice : row_choices(*first.program, first.region, few, first.layouts)) {
    EXPECT_TRUE(choice.schedule.fragments);
    EXPECT_EQ(choice.schedule.blocks, 4);
    auto s = std::make_unique<Scheduled>();
    s->c = first, s->c.schedule = choice.schedule;
    PlannedKernel k;
    k.name = "rows", k.region = first.region, k.schedule = choice.schedule;
    s->plan.program = first.program, s->plan.machine = few, s->plan.kernels = {k}, s->plan.layouts = first.layouts;
    s->planned = std::make_unique<Planned>(s->plan, kernels);
    ASSERT_EQ(s->planned->why[0], "");
    clusters.insert(choice.schedule.cluster);
    list.push_back(std::move(s));
  }
  EXPECT_EQ(clusters.size(), 2u);
  kernels.compile();
  for (auto& s : list) {
    const Values given = testing::sample(s->c), want = evaluate(*s->c.program, given, {}, Evaluation::fp64), got = s->planned->run(given);
    EXPECT_EQ(s->planned->problem, "") << text(s->c.region, s->c.schedule) << s->planned->sources[0].text;
    for (const auto& [t, a] : got) EXPECT_LE(testing::difference(want.at(t), a), 1e-5) << s->c.program->tensor(t).name << " " << text(s->c.region, s->c.schedule);
  }
}

TEST(Emulated, EveryKindOfSchedule) {
  const Machine h200 = machine_named("h200");
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"matmul", testing::matmul(200, 128, 264, "f16")},     {"matmul_bf16", testing::matmul(128, 96, 136, "bf16")},  {"matmul_odd", testing::matmul(70, 52, 45, "f32")},
      {"first", first_convolution(24, 3, 3)}, {"first_odd", first_convolution(21, 3, 5)}, {"first_wide", first_convolution(20, 5, 3)},
      {"pair", testing::depthwise_pointwise(1, 14, 48, 64, 1, "f16")}, {"pair_stride", testing::depthwise_pointwise(2, 13, 40, 48, 2, "f16")},
      {"normed", testing::matmul_with("normed", 200, 128, 320, "bf16")}, {"residual", testing::matmul_with("residual", 200, 128, 264, "bf16")},
      {"attention", testing::attention({.heads = 2, .queries = 100, .keys = 200, .dtype = "f16"})}, {"causal", testing::attention({.queries = 150, .keys = 150, .dtype = "f16", .causal = true})}};
  Kernels kernels;
  std::vector<std::unique_ptr<Scheduled>> list;
  std::map<std::string, int> kinds;
  for (const auto& [name, text] : texts) {
    const GpuCase first = testing::gpu_case(name, text, h200);
    const auto choices = block_choices(*first.program, first.region, h200, first.layouts);
    std::map<std::string, int> taken;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::string kind = kind_of(choices[i].schedule);
      if (taken[kind]++ % 97 || taken[kind] > 97 * 3) continue;
      auto s = std::make_unique<Scheduled>();
      s->c = first, s->c.name = name + " " + kind, s->c.schedule = choices[i].schedule;
      PlannedKernel k;
      k.name = name, k.region = first.region, k.schedule = choices[i].schedule;
      s->plan.program = first.program, s->plan.machine = h200, s->plan.kernels = {k}, s->plan.layouts = first.layouts;
      s->planned = std::make_unique<Planned>(s->plan, kernels);
      if (!s->planned->why[0].empty()) continue;
      ++kinds[kind];
      list.push_back(std::move(s));
    }
  }
  kernels.compile();
  for (auto& s : list) {
    const Values given = testing::sample(s->c);
    const Values want = evaluate(*s->c.program, given, {}, Evaluation::fp64), got = s->planned->run(given);
    EXPECT_EQ(s->planned->problem, "") << s->c.name << " " << text(s->c.region, s->c.schedule);
    for (const auto& [t, a] : got) EXPECT_LE(testing::difference(want.at(t), a), allowed(*s->c.program)) << s->c.name << " " << text(s->c.region, s->c.schedule);
  }
  for (const auto& [kind, count] : kinds) std::printf("%-24s %d\n", kind.c_str(), count);
  for (const char* kind : {"vector", "tensor ring", "group ring", "group bulk", "group bulk cluster", "element", "group rides bulk"}) EXPECT_GT(kinds[kind], 0) << kind;
}

}  // namespace
}  // namespace tilewright
#endif
