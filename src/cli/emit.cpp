// tilewright emit: the kernels of a plan as CUDA C++, which NVRTC or nvcc compile as they stand.
#include <fmt/format.h>


#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "report/explain.h"
#include "loop/through.h"
#include "target/cuda/masked_turns.h"
#include "target/cuda/detector.h"
#include "target/cuda/source.h"

namespace tilewright {

namespace {

// The machine that is planned for: named, the first shipped one of an architecture, or an H200.
Machine machine_of(const EmitArguments& a) {
  if (!a.open.session.machine.empty()) return machine_named(a.open.session.machine);
  if (a.arch.empty()) return machine_named("h200");
  std::string known;
  for (const std::string& name : machine_names()) {
    Machine m = machine_named(name);
    if (m.target != Target::cuda) continue;
    if (m.arch == a.arch) return m;
    known += (known.empty() ? "" : ", ") + m.arch;
  }
  throw Error(Code::option, "--arch", fmt::format("no shipped machine has the architecture '{}'", a.arch),
              "there are " + known);
}

std::string kernel_text(const Program& p, const Region& r, const Schedule& s, const std::string& name,
                        const std::vector<DimOrder>& layouts) {
  const auto expanded = expand_through(p, r, s, name);
  if (!expanded) return fmt::format("// no loops: {}\n", expanded.reason());
  const Nest nest = cuda::with_marks(p, r, s, specialise(p, *expanded));
  std::string text;
  const std::string loops = print(p, r, schedule_of(s, nest), nest);
  for (std::size_t at = 0; at < loops.size();) {
    const std::size_t end = loops.find('\n', at);
    text += "// " + loops.substr(at, end - at) + "\n";
    at = end == std::string::npos ? loops.size() : end + 1;
  }
  const auto source = cuda::source_of(program_of(p, nest), region_of(r, nest), schedule_of(s, nest), nest, layouts);
  if (!source) return text + fmt::format("// no CUDA source yet: {}\n", source.reason());
  // What makes the tables of a loop through slots runs ahead.
  for (const Slots& l : nest.slots) {
    const auto ahead = cuda::detection(p, l, s.steps[static_cast<std::size_t>(l.step)].size, layouts[static_cast<std::size_t>(l.of.source)]);
    for (const cuda::Ahead& a : ahead ? (*ahead).kernels : std::vector<cuda::Ahead>{})
      text += fmt::format("// ahead: {} blocks of {} threads, {} bytes of dynamic shared memory\n{}", a.blocks, a.threads, a.scratch, a.text);
  }
  return text +
         fmt::format("// launch: {} blocks of {} threads, {} bytes of dynamic shared memory\n", source->blocks,
                     source->threads, source->scratch) +
         source->text;
}

} // namespace

int emit_command(const EmitArguments& a) {
  const Machine machine = machine_of(a);
  if (machine.target != Target::cuda)
    throw Error(Code::option, "--machine", fmt::format("'{}' has no CUDA", machine.name),
                "name a GPU: h200, h100, a100, ...");
  Opened m = open_to_plan(a);
  if (m.options.machine.empty()) m.options.machine = machine.name;
  const Plan plan = plan_program(m.program, m.options);
  const Program& p = *plan.program;
  std::vector<std::size_t> wanted;
  if (a.kernel.empty())
    for (std::size_t k = 0; k < plan.kernels.size(); ++k) wanted.push_back(k);
  else
    wanted = kernels_named(plan, a.kernel);
  std::string text = fmt::format("// {} kernels of {} for {} ({})\n{}\n", wanted.size(), p.name, machine.title,
                                 machine.arch, cuda::primitives());
  for (std::size_t k : wanted) {
    const PlannedKernel& kernel = plan.kernels[k];
    if (!kernel.region) {
      text += fmt::format("// {}: an opaque node has no kernel\n\n", kernel.name);
      continue;
    }
    text += kernel_text(p, *kernel.region, kernel.schedule, fmt::format("{}_{}", k, kernel.name), plan.layouts) + "\n";
  }
  write_result(text);
  return 0;
}

} // namespace tilewright
