// tilewright bench: latency, and each kernel's measured time beside the predicted one.
#include <fmt/format.h>

#include <functional>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/console.h"
#include "cli/peer.h"
#include "cli/progress.h"
#include "report/json.h"
#include "report/plan_report.h"
#include "report/prediction.h"
#include "report/table.h"

namespace tilewright {

namespace {

constexpr double most_seconds = 10;
constexpr std::size_t rows_shown = 40;

using Timed = std::function<std::vector<double>(int warmup, int runs)>;

// A few runs of one, a few of the other, in turns, so that both see the same weather.
void alternate(const BenchArguments& a, const Timed& one, const Timed& other, BenchResult& r) {
  const int iterations = a.iterations < 0 ? 50 : a.iterations, warmup = a.warmup < 0 ? 5 : a.warmup;
  constexpr int most_a_round = 10;
  std::vector<double> ours, theirs;
  double spent = 0;
  Progress line(a, "benchmarking against " + r.peer, (iterations + most_a_round - 1) / most_a_round);
  for (int done = 0; done < iterations;) {
    const int round = std::min(most_a_round, iterations - done);
    const std::vector<double> mine = one(warmup, round), his = other(warmup, round);
    ours.insert(ours.end(), mine.begin(), mine.end());
    theirs.insert(theirs.end(), his.begin(), his.end());
    done += round;
    line.step();
    for (double s : mine) spent += s;
    for (double s : his) spent += s;
    if (a.iterations < 0 && spent > most_seconds) break;
  }
  r.run.latency = latency_of(ours);
  r.peer_latency = latency_of(theirs);
}

void against_peer(const BenchArguments& a, const Opened& m, const Timed& ours, int threads, BenchResult& r) {
  std::vector<NamedArray> inputs;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    inputs.push_back({m.program.tensor(m.program.inputs[i]).name, m.inputs[i]});
  Peer peer(python_for_peer(a.python), a.model, threads, inputs);
  r.peer = peer.version();
  alternate(
      a, ours,
      [&](int warmup, int runs) {
        if (warmup > 0) peer.time(warmup);
        return peer.time(runs);
      },
      r);
}

// The same model with one reduction a kernel. Joined kernels are set beside what they replace by clocks behind every kernel of both.
void against_layers(const BenchArguments& a, const Opened& m, Session& joined, const Timed& ours, const std::vector<Array>& out,
                    BenchResult& r) {
  SessionOptions apart = m.options;
  apart.fuse = false;
  apart.plan.clear();
  Session session(m.program, apart);
  r.peer = "layer by layer";
  alternate(
      a, ours, [&](int warmup, int runs) { return measure(session, m.inputs, out, warmup, runs, 0); }, r);
  const int runs = a.iterations < 0 ? 20 : std::min(a.iterations, 20);
  std::vector<double> apart_seconds;
  measure(session, m.inputs, out, 1, runs, most_seconds / 4, &apart_seconds);
  measure(joined, m.inputs, out, 1, runs, most_seconds / 4, &r.kernels);
  r.gains = joined_gains(joined.plan(), r.kernels, session.plan(), apart_seconds);
}

// What each joined kernel takes, and what the kernels that it replaces take.
std::string gains_text(const std::vector<JoinedGain>& gains) {
  if (gains.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"joined kernel", "joined", "apart", "kernels", "ratio"}};
  double joined = 0, apart = 0;
  for (const JoinedGain& g : gains) {
    joined += g.joined, apart += g.apart;
    rows.push_back({g.name, time_text(g.joined), time_text(g.apart), std::to_string(g.kernels), fmt::format("{:.2f}", g.joined / g.apart)});
  }
  rows.push_back({"all of them", time_text(joined), time_text(apart), "", fmt::format("{:.2f}", joined / apart)});
  return table(rows, "lrrrr") + "\n";
}

// Of every kernel that is planned; opaque operators have no prediction.
Prediction prediction_of(const Plan& plan, const std::vector<double>& measured) {
  std::vector<double> predicted, seen;
  for (std::size_t k = 0; k < plan.kernels.size() && k < measured.size(); ++k)
    if (plan.kernels[k].region) predicted.push_back(plan.kernels[k].cost.seconds), seen.push_back(measured[k]);
  return judge(predicted, seen);
}

std::vector<std::string> latency_row(const std::string& who, const Percentiles& p) {
  return {who, time_text(p.min), time_text(p.median), time_text(p.p90), time_text(p.p99), std::to_string(p.runs)};
}

std::string result_text(const Plan& plan, const BenchResult& r, const std::vector<std::string>& decisions) {
  const PlanTotals t = totals(plan);
  std::vector<std::vector<std::string>> rows{{"latency", "min", "median", "p90", "p99", "runs"},
                                             latency_row("tilewright", r.run.latency)};
  if (r.run.on_gpu.runs > 0) rows.push_back(latency_row("on the GPU alone", r.run.on_gpu));
  if (!r.peer.empty()) rows.push_back(latency_row(r.peer, r.peer_latency));
  std::string text = plan_headline(plan) + "\n" + table(rows, "lrrrrr");
  if (!r.peer.empty())
    text += fmt::format("ours over theirs, medians: {:.2f}\n", r.run.latency.median / r.peer_latency.median);
  const double seconds = r.run.on_gpu.runs > 0 ? r.run.on_gpu.median : r.run.latency.median;
  text += fmt::format("{:.1f} G multiply-adds a second; {:.0f} % of the predicted speed\n",
                      static_cast<double>(t.multiply_adds) / seconds * 1e-9, 100 * t.seconds / seconds);
  const Prediction p = prediction_of(plan, r.kernels);
  text += fmt::format("predicted against measured, {} kernels: median error {:.0f} %, rank correlation {:.2f}\n\n",
                      p.kernels, 100 * p.median_error, p.rank_correlation);
  text += gains_text(r.gains);
  for (const std::string& line : decisions) text += line + "\n";
  if (!decisions.empty()) text += "\n";
  return text + plan_table(plan, {r.kernels, rows_shown});
}

} // namespace

int bench_command(const BenchArguments& a) {
  if (a.versus == "onnxruntime" && a.model.ends_with(".tw"))
    throw Error(Code::option, "--vs", "onnxruntime runs ONNX models, not text programs");
  const Opened m = open_model(a, a.in);
  Session session(m.program, m.options);
  for (const std::string& n : session.notes()) note(a, n);
  const std::vector<Array> out = make_outputs(session.program());
  const PlanOptions& options = session.plan().options;
  BenchResult r{
      {a.model, {}, {}, session.plan().kernels.size(), options.threads, options.isa, m.seconds, session.timing(), {}},
      {},
      {},
      {},
      {},
      {}};
  const int warmup = a.warmup < 0 ? 5 : a.warmup, iterations = a.iterations < 0 ? 50 : a.iterations;
  const Timed ours = [&](int before, int runs) { return measure(session, m.inputs, out, before, runs, 0); };
  if (a.versus.empty()) {
    Progress line(a, "benchmarking");
    r.run.latency =
        latency_of(measure(session, m.inputs, out, warmup, iterations, a.iterations < 0 ? most_seconds : 0));
  } else if (a.versus == "layerwise") {
    against_layers(a, m, session, ours, out, r);
  } else {
    against_peer(a, m, ours, options.threads, r);
  }
  if (session.gpu() >= 0) r.run.on_gpu = latency_of(session.device_seconds(std::max(iterations, 20)));
  // Once more with a clock behind every kernel, which costs a little.
  measure(session, m.inputs, out, 1, session.gpu() >= 0 ? 1 : std::min(iterations, 20), most_seconds / 4, &r.kernels);
  r.plan = plan_json(session.plan(), nullptr);
  write_result(a.json ? bench_json(r) : result_text(session.plan(), r, session.executable() ? cpu::decisions_text(session.plan(), *session.executable()) : std::vector<std::string>{}));
  suggest(a, fmt::format("tilewright explain {} --kernel NAME", a.model));
  return 0;
}

} // namespace tilewright
