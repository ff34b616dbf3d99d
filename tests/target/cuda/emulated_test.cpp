// Printed kernels, run by a machine that looks at every access: right, without races, within their tensors. No GPU is needed.
#ifdef TILEWRIGHT_EMULATED
#include "target/cuda/emulated.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "expr/random_program.h"
#include "normal/normal.h"
#include "target/cuda/cases.h"
#include "target/cuda/random_network.h"

namespace tilewright {
namespace {

using emulated::Kernels;
using emulated::Planned;

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
    plan = make_plan(program, machine_named(machine), o);
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
}

}  // namespace
}  // namespace tilewright
#endif
