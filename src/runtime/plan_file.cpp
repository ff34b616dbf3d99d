#include "runtime/plan_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "machine/strict_json.h"
#include "support/file.h"

namespace tilewright {

namespace {

constexpr const char* way_out = "make the plan again with tilewright plan MODEL -o FILE";

PlanFile::Step read_step(Form& form) {
  PlanFile::Step s;
  s.place = form.at();
  s.axis = form.text("axis");
  s.how = form.choice("how", {"tile", "stream"}) == "tile" ? AxisStep::How::tile : AxisStep::How::stream;
  s.size = form.integer("size", INT64_MIN, INT64_MAX);      // whether it is legal is told with the axis' name
  form.done();
  return s;
}

PlanFile::Kernel read_kernel(Form& form) {
  PlanFile::Kernel k;
  k.place = form.at();
  k.name = form.text("name");
  k.opaque = form.flag_or("opaque", false);
  if (k.opaque) return k;
  k.statements = form.texts_or_none("statements");
  for (Form& step : form.forms("schedule")) k.steps.push_back(read_step(step));
  return k;
}

std::vector<std::string> statements_of(const Program& p, const PlannedKernel& k) {
  std::vector<std::string> names;
  if (k.region)
    for (StatementId id : k.region->statements) names.push_back(p.tensor(p.statement(id)->out).name);
  return names;
}

// The region's axis of this name; names are told apart by the planner.
RegionAxis axis_of(const Region& r, const PlanFile::Step& s) {
  const auto found = std::find(r.names.begin(), r.names.end(), s.axis);
  if (found == r.names.end())
    throw Error(Code::option, s.place, fmt::format("the kernel has no axis {}", s.axis), fmt::format("its axes are {}", fmt::join(r.names, ", ")));
  return static_cast<RegionAxis>(found - r.names.begin());
}

// A partial winner would need its place in the tensor beside its value; the leaves keep the two within one pass only.
bool streams_a_pair(const Program& p, const Region& r, const AxisStep& s) {
  const Reducer reducer = roles(p, r)[static_cast<std::size_t>(s.axis)].reducer;
  return s.how == AxisStep::How::stream && (reducer == Reducer::argmax || reducer == Reducer::argmin);
}

Schedule schedule_of(const Program& p, const Region& r, const PlanFile::Kernel& k, const Schedule& made, const Machine& machine) {
  constexpr std::size_t most_steps = 32;
  Schedule s = made;
  s.steps.clear();
  if (k.steps.size() > most_steps)
    throw Error(Code::option, k.place, fmt::format("has {} steps, at most {} are possible", k.steps.size(), most_steps));
  for (const PlanFile::Step& step : k.steps) {
    s.steps.push_back({step.how, axis_of(r, step), step.size});
    std::vector<Refusal> refusals = legality(p, r, s, machine);      // of the steps so far: the last one is to blame
    if (!refusals.empty()) throw Error(Code::option, step.place, text(refusals.front()), "explain MODEL tells what may be done along each axis");
    if (streams_a_pair(p, r, s.steps.back()))
      throw Error(Code::option, step.place, fmt::format("not streamed: {} is reduced to the place of a winner, which this target finds in one piece", step.axis));
  }
  return s;
}

bool same_steps(const Schedule& a, const Schedule& b) {
  return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                    [](const AxisStep& x, const AxisStep& y) { return x.how == y.how && x.axis == y.axis && x.size == y.size; });
}

}  // namespace

PlanFile parse_plan(std::string_view json, const std::string& path) {
  const Json value = parse_json(json, path);
  Form form(value, path);
  PlanFile file;
  file.path = path;
  file.program = form.text_or("program", "");
  file.machine = form.text("machine");
  file.isa = form.text("isa");
  file.threads = static_cast<int>(form.integer("threads", 1, 1024));
  for (Form& kernel : form.forms("kernels")) file.kernels.push_back(read_kernel(kernel));
  return file;
}

PlanFile read_plan_file(const std::string& path) {
  const Mapping file = map_file(path);
  return parse_plan({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, path);
}

void apply(const PlanFile& file, Plan& plan, const Machine& machine) {
  const Program& p = *plan.program;
  if (file.program != p.name)
    throw Error(Code::option, file.path, fmt::format("is a plan of program '{}', this is '{}'", file.program, p.name), way_out);
  if (file.machine != plan.machine.name)
    throw Error(Code::option, file.path, fmt::format("is a plan for {}, this machine is {}", file.machine, plan.machine.name), way_out);
  if (file.kernels.size() != plan.kernels.size())
    throw Error(Code::option, file.path, fmt::format("has {} kernels, this model has {}", file.kernels.size(), plan.kernels.size()), way_out);
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    PlannedKernel& k = plan.kernels[n];
    const PlanFile::Kernel& given = file.kernels[n];
    const auto mine = statements_of(p, k);
    if (given.name != k.name || given.opaque != !k.region || given.statements != mine)
      throw Error(Code::option, given.place, fmt::format("kernel {} is '{}' of [{}], here it is '{}' of [{}]", n, given.name, fmt::join(given.statements, ", "),
                                                        k.name, fmt::join(mine, ", ")), way_out);
    if (!k.region) continue;
    Schedule s = schedule_of(p, *k.region, given, k.schedule, machine);
    if (same_steps(s, k.schedule)) continue;            // the planner's own price stays
    k.schedule = std::move(s);
    k.cost = cost(p, *k.region, k.schedule, machine);
  }
}

}  // namespace tilewright
