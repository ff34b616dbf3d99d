#include "runtime/plan_file.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "machine/strict_json.h"
#include "plan/join.h"
#include "support/file.h"

namespace tilewright {

namespace {

constexpr const char* way_out = "make the plan again with tilewright plan MODEL -o FILE";

PlanFile::Step read_step(Form& form) {
  PlanFile::Step s;
  s.place = form.at();
  s.axis = form.text("axis");
  const std::string how = form.choice("how", {"tile", "walk", "stream"});
  for (const auto each : {AxisStep::How::tile, AxisStep::How::walk, AxisStep::How::stream})
    if (how == name_of(each)) s.how = each;
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

bool same_groups(const PlanFile& file, const Plan& plan) {
  return std::equal(file.kernels.begin(), file.kernels.end(), plan.kernels.begin(), plan.kernels.end(), [&](const PlanFile::Kernel& k, const PlannedKernel& mine) {
    return k.opaque == !mine.region && k.statements == statements_of(*plan.program, mine);
  });
}

// The file's kernels as sets of statements: each statement stands in one of them. Pieces of a tensor come in program order.
Grouping grouping_of(const PlanFile& file, const Program& p) {
  std::map<std::string, std::vector<StatementId>> named;
  for (std::size_t n = p.nodes.size(); n-- > 0;)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) named[p.tensor(s->out).name].push_back(static_cast<StatementId>(n));
  Grouping grouping;
  for (const PlanFile::Kernel& k : file.kernels) {
    if (k.opaque) continue;
    auto& group = grouping.groups.emplace_back();
    grouping.refusals.emplace_back();
    if (k.statements.empty()) throw Error(Code::option, k.place, "has no statements");
    for (const std::string& name : k.statements) {
      const auto found = named.find(name);
      if (found == named.end()) throw Error(Code::option, k.place, fmt::format("this model has no statement {}", name), way_out);
      if (found->second.empty()) throw Error(Code::option, k.place, fmt::format("{} stands in a kernel already", name));
      group.push_back(found->second.back());
      found->second.pop_back();
    }
    std::sort(group.begin(), group.end());
  }
  for (const auto& [name, left] : named)
    if (!left.empty()) throw Error(Code::option, file.path, fmt::format("no kernel has statement {}", name), way_out);
  return grouping;
}

// Other kernels than those planned here: planned anew as the file groups them.
void regroup(const PlanFile& file, Plan& plan, const Machine& machine) {
  if (same_groups(file, plan)) return;
  const Program& p = *plan.program;
  const Grouping grouping = grouping_of(file, p);
  std::size_t n = 0;
  for (const PlanFile::Kernel& k : file.kernels) {
    if (k.opaque) continue;
    if (const auto r = joined_region(p, machine, grouping.groups[n++]); !r) throw Error(Code::option, k.place, fmt::format("{} is no kernel: {}", k.name, r.reason()));
  }
  if (!runnable(p, grouping)) throw Error(Code::option, file.path, "has kernels that wait for each other");
  plan = plan_groups(plan.program, machine, plan.options, grouping);
}

// The kernels in the order in which they run here; a file may list them in another.
std::vector<const PlanFile::Kernel*> in_order(const PlanFile& file, const Plan& plan) {
  std::vector<const PlanFile::Kernel*> list;
  std::map<std::vector<std::string>, std::vector<const PlanFile::Kernel*>> by_statements;
  for (std::size_t k = file.kernels.size(); k-- > 0;) {
    auto key = file.kernels[k].statements;
    std::sort(key.begin(), key.end());
    by_statements[std::move(key)].push_back(&file.kernels[k]);
  }
  for (const PlannedKernel& k : plan.kernels) {
    auto key = statements_of(*plan.program, k);
    std::sort(key.begin(), key.end());
    auto& found = by_statements[std::move(key)];
    list.push_back(found.empty() ? nullptr : found.back());
    if (!found.empty()) found.pop_back();
  }
  return list;
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
  regroup(file, plan, machine);
  const auto given = in_order(file, plan);
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    PlannedKernel& k = plan.kernels[n];
    if (!k.region) continue;
    TW_ASSERT(given[n] != nullptr);
    Schedule s = schedule_of(p, *k.region, *given[n], k.schedule, machine);
    if (same_steps(s, k.schedule)) continue;            // the planner's own price stays
    k.schedule = std::move(s);
    k.cost = cost(p, *k.region, k.schedule, machine);
  }
}

}  // namespace tilewright
