#include "cli/results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace tilewright {

namespace {

using Json = nlohmann::ordered_json;

std::string line(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json latency_json(const Percentiles& l) {
  return {{"min", l.min}, {"median", l.median}, {"mean", l.mean}, {"p90", l.p90}, {"p99", l.p99}, {"runs", l.runs}};
}

Json of_run(const RunResult& r) {
  Json outputs = Json::array();
  for (const ArraySummary& a : r.outputs) {
    Json json{{"name", a.name},    {"type", a.type}, {"shape", a.shape},           {"min", a.min},
              {"mean", a.mean},    {"max", a.max},   {"not_finite", a.not_finite}, {"first", a.first},
              {"argmax", a.argmax}};
    if (!a.file.empty()) json["file"] = a.file;
    outputs.push_back(json);
  }
  Json json{{"model", r.model},
            {"outputs", outputs},
            {"latency_seconds", latency_json(r.latency)},
            {"kernels", r.kernels},
            {"threads", r.threads},
            {"isa", r.isa},
            {"load_seconds",
             {{"import", r.import_seconds},
              {"normalise", r.timing.normalise},
              {"plan", r.timing.plan},
              {"pack", r.timing.pack}}}};
  if (r.on_gpu.runs > 0) {
    json["gpu_seconds"] = latency_json(r.on_gpu);
    json["load_seconds"]["device"] = r.timing.device, json["load_seconds"]["compile"] = r.timing.compile;
  }
  return json;
}

// Numbers that JSON cannot say become null.
Json finite_or_null(double v) { return std::isfinite(v) ? Json(v) : Json(); }

} // namespace

ArraySummary summary_of(const Tensor& t, const Array& a) {
  constexpr std::int64_t shown = 5, rows_shown = 8;
  ArraySummary s{t.name, std::string(name_of(t.dtype)), {}, a.dims, {}, {}, 0, 0, 0, 0};
  const std::int64_t n = a.count();
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = element(a, i);
    if (!std::isfinite(v)) {
      ++s.not_finite;
      continue;
    }
    low = std::min(low, v), high = std::max(high, v), sum += v;
  }
  if (n > s.not_finite) s.min = low, s.max = high, s.mean = sum / static_cast<double>(n - s.not_finite);
  for (std::int64_t i = 0; i < std::min(n, shown); ++i) s.first.push_back(element(a, i));
  const std::int64_t width = a.dims.empty() || !is_float(a.dtype) ? 1 : a.dims.back();
  for (std::int64_t row = 0; width > 1 && row < std::min(n / width, rows_shown); ++row) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < width; ++i)
      if (element(a, row * width + i) > element(a, row * width + best)) best = i;
    s.argmax.push_back(best);
  }
  return s;
}

std::string run_json(const RunResult& r) { return line(of_run(r)); }

std::string plan_result_json(const std::string& plan, double import_seconds, const Timing& timing) {
  Json json = Json::parse(plan), passes = Json::object();
  for (const PassTime& pass : timing.passes) passes[pass.name] = pass.seconds;
  json["seconds"] = {
      {"import", import_seconds}, {"normalise", timing.normalise}, {"passes", passes}, {"plan", timing.plan}};
  return line(json);
}

std::string verify_json(const VerifyResult& r) {
  Json outputs = Json::array();
  for (const Difference& d : r.outputs) {
    Json json{{"name", d.name},           {"type", d.type},     {"error", finite_or_null(d.error)},
              {"tolerance", d.tolerance}, {"passed", d.passed}, {"note", d.note}};
    if (d.against_fp64 >= 0) json["error_fp64"] = finite_or_null(d.against_fp64);
    outputs.push_back(json);
  }
  Json json{{"model", r.model}, {"against", r.against}, {"passed", r.passed}, {"outputs", outputs}};
  if (!r.culprit.empty()) json["culprit"] = r.culprit;
  return line(json);
}

std::string bench_json(const BenchResult& r) {
  Json json = of_run(r.run);
  json.erase("outputs");
  const Json plan = Json::parse(r.plan);
  Json kernels = Json::array();
  for (std::size_t k = 0; k < r.kernels.size(); ++k) {
    const Json& planned = plan["kernels"][k];
    Json row{{"number", k}, {"name", planned["name"]}, {"measured_seconds", r.kernels[k]}};
    if (planned.contains("cost"))
      for (const char* key : {"loaded", "stored", "compulsory", "multiply_adds", "microseconds", "bound"})
        row[key] = planned["cost"][key];
    kernels.push_back(row);
  }
  json["per_kernel"] = kernels;
  if (!r.peer.empty())
    json["peer"] = {{"name", r.peer},
                    {"latency_seconds", latency_json(r.peer_latency)},
                    {"ours_over_peer", r.run.latency.median / r.peer_latency.median}};
  for (const JoinedGain& g : r.gains)
    json["joined"].push_back({{"name", g.name}, {"measured_seconds", g.joined}, {"apart_seconds", g.apart}, {"apart_kernels", g.kernels}});
  return line(json);
}

} // namespace tilewright
