#include "report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/table.h"

namespace tilewright {

namespace {

constexpr std::size_t name_width = 32, schedule_width = 40;

std::vector<std::string> row(const Plan& plan, std::size_t k, const PlanTable& options) {
  const PlannedKernel& kernel = plan.kernels[k];
  std::vector<std::string> cells{std::to_string(k), shortened(kernel.name, name_width)};
  if (kernel.region) {
    const Cost& c = kernel.cost;
    for (const std::string& cell :
         {std::to_string(kernel.region->statements.size()),
          shortened(text(*kernel.region, kernel.schedule), schedule_width), std::to_string(c.tiles),
          bytes_text(c.loaded), bytes_text(c.stored), bytes_text(c.compulsory),
          fmt::format("+{:.0f}%", percent_above(c)), time_text(c.seconds), c.bound})
      cells.push_back(cell);
  } else {
    const auto& node = std::get<Opaque>(plan.program->nodes[static_cast<std::size_t>(kernel.opaque)]);
    for (const char* cell : {"opaque", node.op.c_str(), "-", "-", "-", "-", "-", "-", "-"}) cells.emplace_back(cell);
  }
  if (!options.measured.empty()) cells.insert(cells.end() - 2, time_text(options.measured[k]));
  return cells;
}

} // namespace

double percent_above(const Cost& c) {
  if (c.compulsory == 0) return 0;
  const auto more = static_cast<double>(c.loaded + c.stored - c.compulsory);
  return std::round(1000 * more / static_cast<double>(c.compulsory)) / 10;
}

std::string price_text(const Plan& plan, std::int64_t price) {
  return plan.options.objective == Objective::bytes ? bytes_text(price) : time_text(static_cast<double>(price) * 1e-12);
}

std::vector<std::string> not_chosen(const Plan& plan, const PlannedKernel& k) {
  std::vector<std::string> list;
  for (const Alternative& a : k.alternatives) {
    std::string line = a.kernels + ": ";
    if (a.together >= 0) line += fmt::format("{}, apart {}: ", price_text(plan, a.together), price_text(plan, a.apart));
    list.push_back(line + a.rule);
  }
  return list;
}

PlanTotals totals(const Plan& plan) {
  PlanTotals t;
  for (const PlannedKernel& k : plan.kernels) {
    if (!k.region) {
      ++t.opaque;
      continue;
    }
    t.statements += k.region->statements.size();
    t.loaded += k.cost.loaded;
    t.stored += k.cost.stored;
    t.compulsory += k.cost.compulsory;
    t.multiply_adds += k.cost.multiply_adds;
    t.seconds += k.cost.seconds;
  }
  return t;
}

std::string plan_headline(const Plan& plan) {
  const PlanTotals t = totals(plan);
  const std::string& title = plan.machine.title.empty() ? plan.machine.name : plan.machine.title;
  std::string line = fmt::format("{} kernels of {} statements", plan.kernels.size() - t.opaque, t.statements);
  if (t.opaque > 0) line += fmt::format(" and {} opaque operators", t.opaque);
  std::size_t joined = 0;
  for (const PlannedKernel& k : plan.kernels) joined += k.groups > 1;
  if (joined > 0) line += fmt::format(", {} of them joined", joined);
  const std::string of_what = plan.machine.target == Target::cuda ? fmt::format("{}, {} cores", plan.machine.arch, plan.machine.core.count)
                                                                  : fmt::format("{} threads, {}", plan.options.threads, plan.options.isa);
  const auto merged = std::count_if(plan.merged.begin(), plan.merged.end(), [](const Alternative& a) { return a.rule.empty(); });
  if (!plan.merged.empty())
    line += fmt::format(", {} of {} sets of sibling contractions merged", merged, plan.merged.size());
  return line +
         fmt::format(", for {} ({})\n{} multiply-adds, {} loaded, {} stored, {} compulsory; "
                     "predicted {}\nchosen by {}: {} sets of neighbours looked at, {} kernels priced, {} states, {}\n",
                     title, of_what, count_text(t.multiply_adds), bytes_text(t.loaded),
                     bytes_text(t.stored), bytes_text(t.compulsory), time_text(t.seconds),
                     plan.options.objective == Objective::bytes ? "bytes" : "time", plan.search.candidates,
                     plan.search.priced, plan.search.states,
                     plan.search.exact ? "exact" : "not exhaustive");
}

std::string plan_table(const Plan& plan, const PlanTable& options) {
  const auto weight = [&](std::size_t k) {
    return options.measured.empty() ? plan.kernels[k].cost.seconds : options.measured[k];
  };
  std::vector<std::size_t> shown(plan.kernels.size());
  std::iota(shown.begin(), shown.end(), 0u);
  if (shown.size() > options.most) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
    shown.resize(options.most);
    std::sort(shown.begin(), shown.end());
  }
  std::vector<std::vector<std::string>> rows{{"#", "kernel", "statements", "schedule", "tiles", "loaded", "stored",
                                              "compulsory", "above", "predicted", "bound"}};
  std::string align = "rlrlrrrrrrl";
  if (!options.measured.empty()) {
    rows[0].insert(rows[0].end() - 2, "measured");
    align.insert(align.size() - 1, "r");
  }
  for (std::size_t k : shown) rows.push_back(row(plan, k, options));
  std::string out = table(rows, align);
  if (shown.size() < plan.kernels.size())
    out += fmt::format("and {} faster kernels\n", plan.kernels.size() - shown.size());
  return out;
}

std::string label_of(const Plan& plan, const PlannedKernel& kernel) {
  if (!kernel.region) return std::get<Opaque>(plan.program->nodes[static_cast<std::size_t>(kernel.opaque)]).op;
  const Statement* first = plan.program->statement(kernel.region->statements.front());
  for (StatementId id : kernel.region->statements)
    if (!plan.program->statement(id)->reduced.empty()) first = plan.program->statement(id);
  if (!first->label.empty()) return first->label;
  return first->place.line > 0 ? std::string() : first->place.node; // a text program's node is its file
}

} // namespace tilewright
