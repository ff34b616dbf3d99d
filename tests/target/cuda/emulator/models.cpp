// Kernels of whole networks, printed for a GPU and run on the host: each on the evaluator's values, in some of its blocks, so that an
// error is that of one kernel.
//
//   emulate_models MODEL [apart] [machine=a100] [blocks=3] [show=KERNEL] [only=KERNEL] [compile] [alone] [NAME=SIZE ...]      0: every kernel is right
//
// `alone`: each on inputs of its own, and what they make is computed by the CPU target: minutes for a batch of 32, where the evaluator takes hours.
// `compile`: by NVRTC too: no accumulators on the stack, no more registers than the schedule counts on, the instructions that it promises.
//
// Floats of 16 bits differ from the evaluator's by their last places; what is said to differ does by more.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/open.h"
#include "target/cpu/execute.h"
#include "target/cuda/build.h"
#include "target/cuda/cases.h"
#include "target/cuda/emulated.h"

namespace {

using namespace tilewright;

struct Options {
  OpenOptions open;
  std::int64_t blocks = 3;
  bool compile = false, alone = false;
  std::string show, only;
};

Options options_of(int argc, char** argv) {
  Options o;
  o.open.open_weights = false;
  o.open.session.machine = "h200";
  o.open.session.fuse = true;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i], name = text.substr(0, text.find('=')), value = text.substr(std::min(text.size(), name.size() + 1));
    if (text == "apart") o.open.session.fuse = false;
    else if (text == "compile") o.compile = true;
    else if (text == "alone") o.alone = true;
    else if (name == "only") o.only = value;
    else if (name == "machine") o.open.session.machine = value;
    else if (name == "blocks") o.blocks = std::atoll(value.c_str());
    else if (name == "show") o.show = value;
    else o.open.session.sizes.insert(parse_size(name, value));
  }
  return o;
}

double allowed(const Program& p, const Region& r) {
  double most = 2e-5;
  for (StatementId id : r.statements) most = std::max(most, p.tensor(p.statement(id)->out).dtype == DType::f16 ? 3e-3 : p.tensor(p.statement(id)->out).dtype == DType::bf16 ? 2e-2 : 0);
  return most;
}

// What the real compiler says that is not as it should be; empty: nothing.
std::string complaint(const cuda::Source& s, const Schedule& schedule, const Machine& machine) {
  const cuda::Compiled made = cuda::compile(std::string(cuda::primitives()) + s.text, s.name, machine.arch);
  std::string all;
  constexpr int few = 32;                      // bytes: the compiler's own choice, not accumulators that do not fit
  if (made.stack > few || made.spills > few) all += fmt::format(" {} bytes of stack, {} spilled", made.stack, made.spills);
  if (schedule.resident > 0 && made.registers * s.threads * schedule.resident > machine.core.registers) all += fmt::format(" {} registers", made.registers);
  if (made.log.find("serializ") != std::string::npos) all += " instructions of four warps are serialised";
  const bool tensor = std::any_of(schedule.leaves.begin(), schedule.leaves.end(), [](const LeafAt& l) { return l.tensor; });
  if (tensor && s.text.find("multiply_add<") == std::string::npos && s.text.find("wgmma") == std::string::npos) all += " no instructions for matrices";
  return all;
}

// What a kernel reads, made up, and what its statements make of it, each as a kernel for the CPU.
Values made_alone(const Plan& plan, const PlannedKernel& kernel) {
  const testing::GpuCase c = testing::kernel_case(plan, kernel);
  Values values = testing::sample(c), given;
  Program p = *c.program;
  for (const auto& [t, a] : values) p.tensor(t).data = {}, p.tensor(t).owner.reset();
  PlanOptions options;
  options.fuse = false, options.isa = "avx2", options.leaf_rows = 6, options.leaf_columns = 16, options.lanes = 8;
  const Plan here = make_plan(std::make_shared<const Program>(std::move(p)), machine_named("generic-avx2"), options);
  for (const auto& [t, a] : values) given[t] = testing::relaid(a, row_major(a.dims.size()), here.layouts[static_cast<std::size_t>(t)]);
  for (auto& [t, a] : testing::execute(here, given)) values[t] = a;
  return values;
}

// Equal kernels are looked at once.
int run(const Options& o, const Plan& plan) {
  const Program& p = *plan.program;
  emulated::Kernels kernels;
  emulated::Planned planned(plan, kernels);
  kernels.compile();
  Values given;
  std::uint64_t seed = 3;
  for (TensorId t : p.inputs) given[t] = testing::some_of(p, t, seed);
  Values values;
  if (!o.alone) values = evaluate(p, given, {}, Evaluation::typed);
  std::set<std::string> seen;
  int wrong = 0, looked = 0, joined = 0, elsewhere = 0, unplanned = 0, complaints = 0;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan.kernels[k];
    if (!kernel.region) continue;
    const cuda::Source& s = planned.sources[k];
    if (s.text.empty()) {
      ++elsewhere;
      std::printf("%-28s has no printed form: %s\n", kernel.name.c_str(), planned.why[k].c_str());
      continue;
    }
    if (!seen.insert(text(*kernel.region, kernel.schedule) + signature(p, *kernel.region, &plan.layouts)).second) continue;
    if (!o.only.empty() && kernel.name != o.only) continue;
    const double apart = planned.apart(k, o.alone ? made_alone(plan, kernel) : values, o.blocks);
    const bool bad = !planned.problem.empty() || !(apart <= allowed(p, *kernel.region));
    if (o.compile && cuda::compiler_found())
      if (const std::string said = complaint(s, planned.schedules[k], plan.machine); !said.empty()) ++complaints, std::printf("%-28s compiled:%s\n", kernel.name.c_str(), said.c_str());
    wrong += bad, ++looked, joined += kernel.groups > 1;
    unplanned += !planned.why[k].empty();
    if (!planned.why[k].empty()) std::printf("%-28s not as planned: %s\n", kernel.name.c_str(), planned.why[k].c_str());
    if (bad) std::printf("%-28s WRONG %.1e %s (%s)\n", kernel.name.c_str(), apart, planned.problem.c_str(), text(*kernel.region, kernel.schedule).c_str());
    if (kernel.name == o.show) {
      for (StatementId id : kernel.region->statements) std::printf("%s\n", print(p, *p.statement(id)).c_str());
      std::printf("%s%s\n", print(p, *kernel.region, kernel.schedule, specialise(p, expand(p, *kernel.region, kernel.schedule, kernel.name))).c_str(), s.text.c_str());
    }
    std::fflush(stdout);
  }
  std::printf("%zu kernels, %d distinct ones run, %d of several groups, %d not with the planned schedule, %d without a printed form, %d compile badly: %d wrong\n", plan.kernels.size(), looked, joined, unplanned, elsewhere, complaints, wrong);
  return wrong || complaints || elsewhere ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: emulate_models MODEL [apart] [machine=NAME] [blocks=N] [show=KERNEL] [compile] [NAME=SIZE ...]\n"), 2;
  try {
    Options o = options_of(argc, argv);
    const Program program = load_program(argv[1], o.open);
    std::erase_if(o.open.session.sizes, [&](const auto& size) {   // an import has bound its own
      return std::none_of(program.sizes.begin(), program.sizes.end(), [&](const SizeDecl& d) { return d.name == size.first; });
    });
    return run(o, cuda::printable(plan_program(program, o.open.session)));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 4;
  }
}
