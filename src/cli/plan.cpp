// tilewright plan: the kernels of a model on a machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "cli/results.h"
#include "report/json.h"
#include "report/plan_report.h"
#include "report/table.h"
#include "support/file.h"

namespace tilewright {

int plan_command(const PlanArguments& a) {
  const Opened m = open_to_plan(a);
  Timing timing;
  const Plan plan = plan_program(m.program, m.options, &timing);
  note(a, fmt::format("imported in {}, normal forms in {}, planned in {}", time_text(m.seconds),
                      time_text(timing.normalise), time_text(timing.plan)));
  std::vector<std::string> passes;
  for (const PassTime& pass : timing.passes) passes.push_back(fmt::format("{} {}", pass.name, time_text(pass.seconds)));
  note(a, fmt::format("of the normal forms: {}", fmt::join(passes, ", ")));
  if (!a.output.empty()) {
    write_file(a.output, plan_json(plan, nullptr, 2) + "\n");
    note(a, "written to " + a.output);
  }
  write_result(a.json ? plan_result_json(plan_json(plan, nullptr, 2), m.seconds, timing) : plan_headline(plan) + "\n" + plan_table(plan));
  suggest(a, fmt::format("tilewright explain {} --kernel 0", a.model));
  return 0;
}

} // namespace tilewright
