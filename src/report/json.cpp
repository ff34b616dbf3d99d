#include "report/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "expr/text.h"
#include "report/explain.h"
#include "report/plan_report.h"

namespace tilewright {

namespace {

using Json = nlohmann::ordered_json;

std::string written(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json shape_json(const Tensor& t) {
  Json shape = Json::array();
  for (const Size& d : t.dims) shape.push_back(d.is_constant() ? Json(d.constant()) : Json(d.text()));
  return shape;
}

Json schedule_json(const PlannedKernel& k) {
  Json steps = Json::array();
  for (const AxisStep& s : k.schedule.steps)
    steps.push_back({{"axis", k.region->names[static_cast<std::size_t>(s.axis)]},
                     {"how", name_of(s.how)},
                     {"size", s.size}});
  return steps;
}

Json cost_json(const Plan& plan, const PlannedKernel& k) {
  Json transfers = Json::array();
  for (const Moved& m : k.cost.moved)
    transfers.push_back({{"tensor", plan.program->tensor(m.tensor).name},
                         {"direction", m.store ? "store" : "load"},
                         {"bytes", m.bytes}});
  return {{"tiles", k.cost.tiles},
          {"loaded", k.cost.loaded},
          {"stored", k.cost.stored},
          {"compulsory", k.cost.compulsory},
          {"percent_above_compulsory", percent_above(k.cost)},
          {"multiply_adds", k.cost.multiply_adds},
          {"operations", k.cost.operations},
          {"microseconds", k.cost.seconds * 1e6},
          {"bound", k.cost.bound},
          {"transfers", transfers}};
}

// Bytes or picoseconds, as the objective asks; null where nothing was priced.
Json price_json(std::int64_t price) { return price < 0 ? Json() : Json(price); }

Json alternatives_json(const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& a : alternatives)
    list.push_back({{"kernels", a.kernels},
                    {"together", price_json(a.together)},
                    {"apart", price_json(a.apart)},
                    {"rule", a.rule}});
  return list;
}

Json kernel_json(const Plan& plan, std::size_t number, const cpu::Executable* executable) {
  const PlannedKernel& k = plan.kernels[number];
  Json json{{"number", number}, {"name", k.name}, {"from", label_of(plan, k)}};
  if (!k.region) {
    json["opaque"] = true;
    return json;
  }
  Json statements = Json::array(), axes = Json::array();
  for (StatementId id : k.region->statements)
    statements.push_back(plan.program->tensor(plan.program->statement(id)->out).name);
  for (std::size_t a = 0; a < k.region->axes.size(); ++a)
    axes.push_back({{"name", k.region->names[a]}, {"extent", k.region->axes[a].constant()}});
  json["statements"] = statements;
  json["axes"] = axes;
  json["schedule"] = schedule_json(k);
  json["cost"] = cost_json(plan, k);
  json["refusals"] = k.refusals;
  for (const GatheredPlan& g : k.gathered) {
    const Estimate& e = g.selection.best;
    json["gathered"].push_back({{"tensor", plan.program->tensor(g.view.tensor).name}, {"live", g.live}, {"along", name_of(e.along)}, {"micro_tile", {e.unit_m, e.unit_k}},
                                {"micro_tiles", e.micro_tiles}, {"seconds", e.seconds}, {"dense_seconds", g.selection.dense.seconds}});
  }
  for (const OperandAt& o : k.gathered.empty() ? k.schedule.operands : std::vector<OperandAt>{})
    json["through"].push_back({{"tensor", plan.program->tensor(o.tensor).name}, {"source", plan.program->tensor(o.source).name}, {"micro_tile", o.unit}});
  json["groups"] = k.groups;
  if (k.groups > 1) json["together"] = price_json(k.together), json["apart"] = price_json(k.apart);
  json["not_chosen"] = alternatives_json(k.alternatives);
  if (executable) json["leaves"] = executable->kernels[number].leaves;
  return json;
}

Json axis_json(const Program& p, const Region& r, RegionAxis axis) {
  const Role role = roles(p, r)[static_cast<std::size_t>(axis)];
  Json allowed = Json::array(), refused = Json::object();
  for (const auto& [name, law] : laws_by_name(p, r, axis)) {
    if (law)
      allowed.push_back(name);
    else
      refused[name] = law.reason();
  }
  return {{"name", r.names[static_cast<std::size_t>(axis)]},
          {"extent", r.axes[static_cast<std::size_t>(axis)].constant()},
          {"role", role_text(role)},
          {"may_be", allowed},
          {"may_not_be", refused}};
}

const char* name_of_kind(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::check_failed: return "check_failed";
  case ErrorKind::usage: return "usage";
  case ErrorKind::unsupported: return "unsupported";
  case ErrorKind::no_device: return "no_device";
  case ErrorKind::interrupted: return "interrupted";
  case ErrorKind::internal: break;
  }
  return "internal";
}

} // namespace

std::string plan_json(const Plan& plan, const cpu::Executable* executable, int indent) {
  const PlanTotals t = totals(plan);
  Json kernels = Json::array();
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) kernels.push_back(kernel_json(plan, k, executable));
  const bool bytes = plan.options.objective == Objective::bytes;
  return written({{"program", plan.program->name},
                  {"machine", plan.machine.name},
                  {"threads", plan.options.threads},
                  {"isa", plan.options.isa},
                  {"objective", bytes ? "bytes" : "time"},
                  {"unit_of_prices", bytes ? "bytes" : "picoseconds"},
                  {"search",
                   {{"candidates", plan.search.candidates},
                    {"priced", plan.search.priced},
                    {"states", plan.search.states},
                    {"exact", plan.search.exact}}},
                  {"totals",
                   {{"kernels", plan.kernels.size()},
                    {"loaded", t.loaded},
                    {"stored", t.stored},
                    {"compulsory", t.compulsory},
                    {"multiply_adds", t.multiply_adds},
                    {"microseconds", t.seconds * 1e6}}},
                  {"siblings", alternatives_json(plan.merged)},
                  {"kernels", kernels}},
                 indent);
}

std::string explain_json(const Plan& plan, const cpu::Executable* executable, int indent) {
  const Program& p = *plan.program;
  Json kernels = Json::array();
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    const PlannedKernel& k = plan.kernels[n];
    Json json = kernel_json(plan, n, executable);
    if (k.region) {
      Json axes = Json::array(), statements = Json::array();
      for (std::size_t a = 0; a < k.region->axes.size(); ++a)
        axes.push_back(axis_json(p, *k.region, static_cast<RegionAxis>(a)));
      for (StatementId id : k.region->statements) statements.push_back(print(p, *p.statement(id)));
      json["axes"] = axes;
      json["statements"] = statements;
      json["loops"] = print(p, *k.region, k.schedule, expand(p, *k.region, k.schedule, k.name));
    }
    kernels.push_back(json);
  }
  return written({{"kernels", kernels}, {"text", explain(plan, executable)}}, indent);
}

std::string streams_json(const Program& p, const std::vector<Stream>& streams, const std::vector<StreamRefusal>& refusals, int indent) {
  static constexpr const char* anchors[] = {"none", "running", "chunk"};
  Json list = Json::array(), refused = Json::array();
  for (const Stream& s : streams) {
    const StreamText t = text_of(s);
    Json states = Json::array();
    for (std::size_t i = 0; i < s.state.size(); ++i) {
      Json follows = Json::array();
      for (TensorId f : s.state[i].statistics) follows.push_back(s.program.tensor(f).name);
      states.push_back({{"name", s.program.tensor(s.state[i].tensor).name},
                        {"type", name_of(s.program.tensor(s.state[i].tensor).dtype)},
                        {"anchor", anchors[static_cast<int>(s.state[i].anchor)]},
                        {"follows", follows}});
    }
    list.push_back({{"axis", t.axis}, {"state", states}, {"init", t.init}, {"step", t.step}, {"finish", t.finish}, {"merge", t.merge}});
  }
  for (const StreamRefusal& r : refusals) refused.push_back({{"tensor", r.tensor}, {"axis", r.axis}, {"reason", r.reason}});
  return written({{"program", print(p)}, {"streams", list}, {"refused", refused}}, indent);
}

std::string tensors_json(const Program& p, const std::vector<TensorId>& ids) {
  Json list = Json::array();
  for (TensorId id : ids) {
    const Tensor& t = p.tensor(id);
    list.push_back({{"name", t.name}, {"type", name_of(t.dtype)}, {"shape", shape_json(t)}});
    for (std::size_t d = 0; d < t.counted_by.size(); ++d)
      if (t.counted_by[d] >= 0) list.back()["counted"].push_back(d);
  }
  return written(list, -1);
}

std::string error_json(const Error& e) {
  return written({{"code", id_of(e.code)},
                  {"kind", name_of_kind(kind_of(e.code))},
                  {"status", static_cast<int>(kind_of(e.code))},
                  {"where", e.where},
                  {"message", e.message},
                  {"hint", e.hint}},
                 -1);
}

} // namespace tilewright
