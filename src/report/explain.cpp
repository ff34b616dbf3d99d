#include "report/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "expr/scalar.h"
#include "expr/text.h"
#include "report/packing.h"
#include "report/plan_report.h"
#include "report/table.h"

namespace tilewright {

namespace {

std::string indented(const std::string& text, const std::string& by) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += by + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string axes_text(const Program& p, const Region& r) {
  std::vector<std::vector<std::string>> rows{{"axis", "extent", "role", "may be", "may not be"}};
  const std::vector<Role> role = roles(p, r);
  for (std::size_t a = 0; a < r.axes.size(); ++a) {
    std::vector<std::string> may, may_not;
    for (const auto& [name, law] : laws_by_name(p, r, static_cast<RegionAxis>(a)))
      law ? may.push_back(name) : may_not.push_back(fmt::format("{}: {}", name, law.reason()));
    rows.push_back({r.names[a], r.axes[a].text(), role_text(role[a]), fmt::format("{}", fmt::join(may, ", ")),
                    may_not.empty() ? "" : may_not[0]});
    for (std::size_t i = 1; i < may_not.size(); ++i) rows.push_back({"", "", "", "", may_not[i]});
  }
  return table(rows, "lrlll", "    ");
}

std::string cost_text(const Plan& plan, const PlannedKernel& k) {
  std::string out = fmt::format("    {} tiles, {} multiply-adds, {} other operations; predicted {}, decided by {}\n",
                                k.cost.tiles, count_text(k.cost.multiply_adds), count_text(k.cost.operations),
                                time_text(k.cost.seconds), k.cost.bound);
  std::vector<std::vector<std::string>> rows;
  for (const Moved& m : k.cost.moved) {
    const Tensor& t = plan.program->tensor(m.tensor);
    rows.push_back({m.store ? "store" : "load", shortened(t.name, 40), shape_text(t), bytes_text(m.bytes)});
  }
  return out + table(rows, "lllr", "    ");
}

} // namespace

std::vector<std::pair<std::string, Or<bool>>> laws_by_name(const Program& p, const Region& r, RegionAxis axis) {
  const Laws l = laws(p, r, axis);
  return {{"tiled", l.tile},  {"split", l.split},      {"streamed", l.stream},
          {"walked", l.walk}, {"permuted", l.permute}, {"bucketed", l.bucket}};
}

std::string role_text(const Role& role) {
  std::string out = role.reducer == Reducer::none ? "parallel" : fmt::format("reduced with {}", name_of(role.reducer));
  if (role.windowed) out += ", windowed";
  if (role.indirect) out += ", indirect";
  if (role.plain) out += ", plain";
  return out;
}

std::string explain_kernel(const Plan& plan, std::size_t number, const cpu::Executable* executable) {
  const PlannedKernel& k = plan.kernels[number];
  const Program& p = *plan.program;
  const std::string label = label_of(plan, k);
  std::string out = fmt::format("kernel {}: {}{}\n", number, k.name, label.empty() ? "" : "   from " + label);
  if (!k.region) return out + "  opaque: runs as its reference function, and is never fused\n";
  out += "  statements\n";
  for (StatementId id : k.region->statements) out += indented(print(p, *p.statement(id)), "    ");
  out += "  axes\n" + axes_text(p, *k.region);
  out += "  packing\n";
  for (const std::string& line : packing_text(p, *k.region)) out += "    " + line + "\n";
  for (const std::string& line : gathered_text(p, *k.region, k)) out += "    " + line + "\n";
  out += "  schedule\n    " + text(*k.region, k.schedule) + "\n";
  out += "  cost\n" + cost_text(plan, k);
  if (!k.refusals.empty()) {
    out += "  not folded\n";
    for (const std::string& refusal : k.refusals) out += "    " + refusal + "\n";
  }
  if (k.groups > 1)
    out += fmt::format("  joined\n    {} groups: {}, apart {}\n", k.groups, price_text(plan, k.together),
                       price_text(plan, k.apart));
  if (const auto others = not_chosen(plan, k); !others.empty()) {
    out += "  not joined\n";
    for (const std::string& line : others) out += "    " + line + "\n";
  }
  out += "  loops\n" + indented(print(p, *k.region, k.schedule, expand(p, *k.region, k.schedule, k.name)), "    ");
  if (executable && !executable->kernels[number].leaves.empty()) {
    out += "  leaves\n";
    for (const std::string& leaf : executable->kernels[number].leaves) out += "    " + leaf + "\n";
  }
  return out;
}

std::string explain(const Plan& plan, const cpu::Executable* executable) {
  std::string out;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    out += (k > 0 ? "\n" : "") + explain_kernel(plan, k, executable);
  return out;
}

std::vector<std::size_t> kernels_named(const Plan& plan, const std::string& wanted) {
  std::vector<std::size_t> exact, part;
  const bool number =
      !wanted.empty() && wanted.size() < 10 && wanted.find_first_not_of("0123456789") == std::string::npos;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const std::string& name = plan.kernels[k].name;
    if (name == wanted || (number && std::to_string(k) == wanted))
      exact.push_back(k);
    else if (name.find(wanted) != std::string::npos)
      part.push_back(k);
  }
  if (!exact.empty()) return exact;
  if (!part.empty()) return part;
  throw Error(Code::option, "--kernel", fmt::format("no kernel is called '{}'", wanted),
              fmt::format("they are numbered 0 to {}; `plan` lists their names", plan.kernels.size() - 1));
}

} // namespace tilewright
