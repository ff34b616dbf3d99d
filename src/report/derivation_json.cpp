#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "report/derivation.h"
#include "report/json.h"

namespace tilewright {

namespace {

using Json = nlohmann::ordered_json;

Json numbers(const Move::Numbers& values, const Move::Numbers& bytes, bool moved) {
  return {{"formula", (moved ? values.moved : values.held).text()},
          {"values", moved ? values.moved_at : values.held_at},
          {"bytes_formula", (moved ? bytes.moved : bytes.held).text()},
          {"bytes", moved ? bytes.moved_at : bytes.held_at}};
}

Json steps(const Region& r, const Schedule& s) {
  Json list = Json::array();
  for (const AxisStep& step : s.steps)
    list.push_back({{"axis", r.names[static_cast<std::size_t>(step.axis)]},
                    {"how", step.how == AxisStep::How::tile ? "tile" : "stream"},
                    {"size", step.size}});
  return list;
}

Json moves_json(const DerivationReport& r) {
  Json list = Json::array();
  for (std::size_t i = 0; i < r.derivation.moves.size(); ++i) {
    const Move& m = r.derivation.moves[i];
    list.push_back({{"name", m.name},
                    {"does", m.does},
                    {"kernels", m.groups.size()},
                    {"moved", numbers(m.values, m.bytes, true)},
                    {"held", numbers(m.values, m.bytes, false)}});
    if (r.checks[i].not_checked.empty())
      list.back()["difference"] = r.checks[i].difference;
    else
      list.back()["not_checked"] = r.checks[i].not_checked;
  }
  return list;
}

Json form_json(const Or<ClosedForm>& form) {
  if (!form) return {{"refused", form.reason()}};
  Json list = Json::array();
  for (const Regime& x : form->regimes) {
    Json sizes = Json::object(), terms = Json::array();
    for (const auto& [symbol, size] : x.sizes) sizes[symbol] = size.text();
    for (const auto& [beta, alpha] : by_beta(x.moved)) terms.push_back({{"alpha", alpha.text()}, {"beta", beta}});
    list.push_back({{"from", x.from},
                    {"to", x.to > 0 && std::isfinite(x.to) ? Json(x.to) : Json()},
                    {"moved", x.moved.text()},
                    {"terms", terms},
                    {"sizes", sizes}});
  }
  return list;
}

Json roofline_json(const Roofline& r) {
  Json terms = Json::array(), flips = Json::object();
  for (const auto& [axis, n] : r.flips) flips[axis] = n;
  for (const Threshold& t : r.terms) {
    Json axes = Json::object();
    for (const auto& [axis, n] : t.axes) axes[axis] = n;
    terms.push_back({{"term", t.term.text()}, {"memory", t.memory ? Json(*t.memory) : Json()}, {"axes", axes}});
  }
  return {{"bound", r.transfers ? "transfers" : "operations"}, {"ratio", r.ratio}, {"rho", r.rho},
          {"memory", r.memory ? Json(*r.memory) : Json()},     {"flips", flips},   {"terms", terms}};
}

Json hardware_json(const KernelPage& k) {
  Json variables = Json::array(), clocks = Json::array(), phases = Json::array(), busy = Json::object(),
       tiles = Json::array();
  for (const Held& h : k.configuration.values)
    variables.push_back({{"name", h.name},
                         {"size", h.size.text()},
                         {"type", name_of(h.type)},
                         {"in", h.scratch ? "scratch" : "registers"},
                         {"of", h.block ? "block" : "warpgroup"},
                         {"copies", h.copies},
                         {"bytes", h.bytes},
                         {"alive", h.lifetime}});
  for (const Clock& c : k.budget.lines)
    clocks.push_back({{"what", c.what},
                      {"pipe", name_of(c.pipe)},
                      {"operations", c.operations},
                      {"per_clock", c.per_clock},
                      {"clocks", c.clocks}});
  for (const Phase& p : k.phases)
    phases.push_back({{"what", p.what}, {"pipe", k.pipes[static_cast<std::size_t>(p.pipe)]}, {"clocks", p.length}});
  for (std::size_t i = 0; i < k.timeline.busy.size(); ++i) busy[k.pipes[i]] = k.timeline.busy[i];
  if (k.tiles)
    for (std::size_t i = 0; i < std::min<std::size_t>(8, k.tiles->size()); ++i) {
      const TileChoice& t = (*k.tiles)[i];
      tiles.push_back({{"rows", t.rows},
                       {"chunk", t.chunk},
                       {"warpgroups", t.groups},
                       {"operand_in", t.in_registers ? "registers" : "scratch"},
                       {"clocks", t.clocks},
                       {"bound", t.bound}});
    }
  return {{"variables", variables}, {"warpgroups", k.configuration.groups}, {"clocks", clocks},
          {"phases", phases},       {"interval", k.timeline.interval},      {"busy", busy},
          {"tiles", tiles}};
}

Json kernel_json(const KernelPage& k, const Machine& m) {
  Json levels = Json::array(), columns = Json::array(), divisors = Json::object();
  for (const LevelLine& l : k.levels)
    levels.push_back(
        {{"level", l.name}, {"memory", l.memory}, {"moved", l.moved}, {"seconds", l.seconds}, {"joules", l.joules}});
  for (const Column& c : k.columns.columns) {
    Json live = Json::array();
    for (int v : c.live) live.push_back(k.columns.values[static_cast<std::size_t>(v)].name);
    columns.push_back({{"depth", c.depth}, {"text", c.text}, {"alive", live}});
  }
  for (std::size_t a = 0; a < k.divisors.axes.size(); ++a)
    for (const Divisor& d : k.divisors.axes[a])
      divisors[k.part.region.names[a]].push_back({{"of", d.of}, {"cause", d.cause}});
  Json out = {{"name", k.part.name},
              {"schedule", steps(k.part.region, k.part.schedule)},
              {"moved", k.flow.run(Count::values).text()},
              {"moved_bytes", k.flow.run(Count::bytes).text()},
              {"held", k.columns.peak(Count::values).text()},
              {"operations", k.flow.flops.text()},
              {"bytes", k.part.moved},
              {"closed_form", form_json(k.values)},
              {"closed_form_bytes", form_json(k.bytes)},
              {"levels", levels},
              {"compute_seconds", k.compute_seconds},
              {"compute_joules", k.compute_joules},
              {"columns", columns},
              {"divisors", divisors}};
  if (!k.part.full.empty()) out["does_not_fit"] = k.part.full;
  if (k.cluster.children > 1) out["cluster"] = {{"blocks", k.cluster.children}, {"seconds_saved", k.cluster.saving}};
  if (k.roofline) out["roofline"] = roofline_json(*k.roofline);
  if (k.live && k.live->condition)
    out["turns"] = {{"alive", k.live->alive},
                    {"all", k.live->turns},
                    {"extent", k.live->extent ? Json(k.live->extent->text()) : Json()}};
  if (m.target == Target::cuda) out["hardware"] = hardware_json(k);
  return out;
}

} // namespace

std::string derivation_json(const DerivationReport& r, int indent) {
  Json out = Json::parse(streams_json(*r.derivation.last().program, r.streams, r.derivation.refused));
  out["machine"] = r.machine.name;
  out["moves"] = moves_json(r);
  out["kernels"] = Json::array();
  for (const KernelPage& k : r.kernels) out["kernels"].push_back(kernel_json(k, r.machine));
  return out.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace tilewright
