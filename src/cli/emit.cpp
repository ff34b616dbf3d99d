// tilewright emit: the kernels of a plan as CUDA C++, which NVRTC or nvcc compile as they stand.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "law/excerpt.h"
#include "plan/choose.h"
#include "report/explain.h"
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
  const Nest nest = specialise(p, expand(p, r, s, name));
  std::string text;
  const std::string loops = print(p, r, s, nest);
  for (std::size_t at = 0; at < loops.size();) {
    const std::size_t end = loops.find('\n', at);
    text += "// " + loops.substr(at, end - at) + "\n";
    at = end == std::string::npos ? loops.size() : end + 1;
  }
  const auto source = cuda::source_of(p, r, s, nest, layouts);
  if (!source) return text + fmt::format("// no CUDA source yet: {}\n", source.reason());
  return text +
         fmt::format("// launch: {} blocks of {} threads, {} bytes of dynamic shared memory\n", source->blocks,
                     source->threads, source->scratch) +
         source->text;
}

struct Chosen {
  const Region* region = nullptr;
  Schedule schedule;
};

// A region's tensors in the order in which its statements name them.
std::vector<TensorId> tensors_of(const Program& p, const Region& r) {
  std::vector<TensorId> list;
  for (StatementId id : r.statements) {
    list.push_back(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { list.push_back(a.tensor); });
  }
  return list;
}

// A schedule for another region of the same signature: its tensors and statements are that one's.
Schedule rebound(const Program& p, const Chosen& chosen, const Region& r) {
  Schedule s = chosen.schedule;
  const auto from = tensors_of(p, *chosen.region), to = tensors_of(p, r);
  for (ValueAt& v : s.values)
    v.tensor = to[static_cast<std::size_t>(std::find(from.begin(), from.end(), v.tensor) - from.begin())];
  for (LeafAt& l : s.leaves) l.statement = r.statements[static_cast<std::size_t>(chosen.region->position(l.statement))];
  return s;
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
  std::map<std::string, Chosen> chosen; // equal regions share one choice
  for (std::size_t k : wanted) {
    const PlannedKernel& kernel = plan.kernels[k];
    if (!kernel.region) {
      text += fmt::format("// {}: an opaque node has no kernel\n\n", kernel.name);
      continue;
    }
    const std::string key = signature(p, *kernel.region, &plan.layouts);
    auto found = chosen.find(key);
    if (found == chosen.end())
      found =
          chosen.emplace(key, Chosen{&*kernel.region, choose_blocks(p, *kernel.region, machine, plan.layouts)}).first;
    text += kernel_text(p, *kernel.region, rebound(p, found->second, *kernel.region),
                        fmt::format("{}_{}", k, kernel.name), plan.layouts) +
            "\n";
  }
  write_result(text);
  return 0;
}

} // namespace tilewright
