// tilewright explain: why a plan is what it is.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "normal/normal.h"
#include "report/explain.h"
#include "report/json.h"
#include "report/plan_report.h"

namespace tilewright {

namespace {

std::string normal_text(const Opened& m) {
  std::vector<std::string> log;
  static_cast<void>(normalise(m.program, m.options.without, &log));
  std::string text = fmt::format("normal forms: {} nodes in the program\n", m.program.nodes.size());
  for (const std::string& line : log) text += "  " + line + "\n";
  text += "  passes:";
  for (const Pass& pass : passes()) text += fmt::format(" '{}'", pass.name);
  return text + "\n";
}

} // namespace

int explain_command(const ExplainArguments& a) {
  const Opened m = open_to_plan(a);
  const Plan plan = plan_program(m.program, m.options);
  std::optional<cpu::Executable> executable;
  if (m.options.machine.empty()) executable = cpu::compile(plan);
  const cpu::Executable* leaves = executable ? &*executable : nullptr;
  if (a.json) {
    write_result(explain_json(plan, leaves, 2) + "\n");
  } else if (a.kernel.empty()) {
    write_result(normal_text(m) + "\n" + plan_headline(plan) + "\n" + explain(plan, leaves));
  } else {
    std::string text;
    for (std::size_t k : kernels_named(plan, a.kernel))
      text += (text.empty() ? "" : "\n") + explain_kernel(plan, k, leaves);
    write_result(text);
  }
  suggest(a, fmt::format("tilewright bench {}", a.model));
  return 0;
}

} // namespace tilewright
