// tilewright verify: outputs against the evaluator or ONNX Runtime, and where a difference begins.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/console.h"
#include "cli/peer.h"
#include "cli/progress.h"
#include "expr/evaluate.h"
#include "normal/normal.h"
#include "report/explain.h"
#include "report/table.h"

namespace tilewright {

namespace {

Values values_of_inputs(const Opened& m, const Program& p) {
  Values values;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) values[p.inputs[i]] = m.inputs[i];
  // Weights that passes have left without readers have lost their bytes, but the evaluator asks for them.
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind == Kind::weight && p.tensors[t].data.empty())
      values[static_cast<TensorId>(t)] = Array::make(p.tensors[t].dtype, dims_of(p.tensors[t]));
  return values;
}

double worst(const Program& p, const Values& got, const Program& q, const Values& want, double tolerance) {
  double over = 0;
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const Tensor& t = q.tensor(q.outputs[i]);
    const double allowed = tolerance > 0 ? tolerance : default_tolerance(t.dtype);
    const double error = error_of(got.at(p.outputs[i]), want.at(q.outputs[i]));
    over = std::max(over, allowed > 0 ? error / allowed : error > 0 ? INFINITY : 0);
  }
  return over;
}

// The first pass after which the program, evaluated, gives other outputs; empty if none does.
std::string bad_pass(const VerifyArguments& a, const Opened& m, const Values& want) {
  Program p = m.program;
  for (const Pass& pass : passes()) {
    if (std::count(m.options.without.begin(), m.options.without.end(), pass.name) > 0) continue;
    p = pass.run(std::move(p));
    note(a, fmt::format("bisect: evaluating after pass '{}'", pass.name));
    const Values got = evaluate(p, values_of_inputs(m, p), {}, Evaluation::typed);
    if (worst(p, got, m.program, want, a.tolerance) > 1)
      return fmt::format("pass '{}' changes the result (--without '{}' leaves it out)", pass.name, pass.name);
  }
  return {};
}

// The first kernel, in the order in which they run, that stores something else than the evaluator finds.
std::string bad_kernel(const VerifyArguments& a, const Opened& m, const Plan& plan, const Values& want) {
  SessionOptions o = m.options;
  o.keep = true;
  Session session(m.program, o);
  const Program& p = *plan.program;
  std::vector<Array> out = make_outputs(p);
  const Cancellable region;
  cut(out, session.run(strided(m.inputs), strided(out), {nullptr, region.flag(), nullptr}));
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan.kernels[k];
    std::vector<TensorId> stored;
    if (kernel.region)
      stored = boundary(p, *kernel.region).outputs;
    else
      stored = std::get<Opaque>(p.nodes[static_cast<std::size_t>(kernel.opaque)]).out;
    for (TensorId t : stored) {
      const auto output = std::find(p.outputs.begin(), p.outputs.end(), t);
      const std::optional<Array> got = output != p.outputs.end()
                                           ? std::optional(out[static_cast<std::size_t>(output - p.outputs.begin())])
                                           : session.intermediate(t);
      if (!got) continue;
      const Difference d = difference(p.tensor(t), *got, want.at(t), a.tolerance);
      if (d.passed) continue;
      std::string leaves;
      if (session.executable())
        for (const std::string& leaf : session.executable()->kernels[k].leaves) leaves += "; leaf " + leaf;
      return fmt::format("kernel {} ({}) stores {} with an error of {:.3g}{}{}", k, kernel.name, p.tensor(t).name,
                         d.error, d.note.empty() ? "" : ": " + d.note, leaves);
    }
  }
  return {};
}

// The program after all passes is evaluated first: where it agrees, none of the passes is to blame.
std::string bisect(const VerifyArguments& a, const Opened& m, const Values& want) {
  const Plan plan =
      plan_program(m.program, m.options); // a session's weights may have left their bytes to packed copies
  const Program& p = *plan.program;
  note(a, "bisect: evaluating after all passes");
  const Values normal = evaluate(p, values_of_inputs(m, p), {}, Evaluation::typed);
  std::string found;
  if (worst(p, normal, m.program, want, a.tolerance) > 1) found = bad_pass(a, m, want);
  if (found.empty()) {
    note(a, fmt::format("bisect: comparing {} kernels", plan.kernels.size()));
    found = bad_kernel(a, m, plan, normal);
  }
  return found.empty() ? "every pass and every kernel agrees with the evaluator" : found;
}

VerifyResult against_reference(const VerifyArguments& a, const Opened& m, const std::vector<Array>& got) {
  VerifyResult r{a.model, a.against, {}, {}, true};
  const Program& p = m.program;
  note(a, "evaluating the reference, in its types and in fp64");
  const Values typed = evaluate(p, values_of_inputs(m, p), {}, Evaluation::typed);
  {
    const Values exact = evaluate(p, values_of_inputs(m, p), {}, Evaluation::fp64);
    for (std::size_t i = 0; i < p.outputs.size(); ++i) {
      r.outputs.push_back(difference(p.tensor(p.outputs[i]), got[i], typed.at(p.outputs[i]), a.tolerance));
      r.outputs.back().against_fp64 = error_of(got[i], exact.at(p.outputs[i]));
      r.passed = r.passed && r.outputs.back().passed;
    }
  }
  if (a.bisect) r.culprit = bisect(a, m, typed);
  return r;
}

VerifyResult against_onnxruntime(const VerifyArguments& a, const Opened& m, const std::vector<Array>& got,
                                 int threads) {
  VerifyResult r{a.model, {}, {}, {}, true};
  const Program& p = m.program;
  std::vector<NamedArray> inputs;
  std::vector<std::string> names;
  std::vector<DType> types;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) inputs.push_back({p.tensor(p.inputs[i]).name, m.inputs[i]});
  for (TensorId t : p.outputs) names.push_back(p.tensor(t).name), types.push_back(p.tensor(t).dtype);
  Peer peer(python_for_peer(a.python), a.model, threads, inputs);
  r.against = peer.version();
  const std::vector<Array> want = peer.outputs(names, types);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    r.outputs.push_back(difference(p.tensor(p.outputs[i]), got[i], want[i], a.tolerance));
    r.passed = r.passed && r.outputs.back().passed;
  }
  if (a.bisect) r.culprit = bisect(a, m, evaluate(p, values_of_inputs(m, p), {}, Evaluation::typed));
  return r;
}

std::string result_text(const VerifyResult& r) {
  const bool fp64 = !r.outputs.empty() && r.outputs[0].against_fp64 >= 0;
  std::vector<std::vector<std::string>> rows{
      {"output", "type", "error", "allowed", "", fp64 ? "error against fp64" : ""}};
  for (const Difference& d : r.outputs)
    rows.push_back({shortened(d.name, 40), d.type, fmt::format("{:.2e}", d.error), fmt::format("{:.1e}", d.tolerance),
                    d.passed ? "ok" : "DIFFERS" + (d.note.empty() ? "" : ": " + d.note),
                    fp64 ? fmt::format("{:.2e}", d.against_fp64) : ""});
  std::string text =
      fmt::format("against {}; error: norm of the difference over norm, or the share of unequal integers\n",
                  r.against) +
      table(rows, "llrrll");
  if (!r.culprit.empty()) text += "bisect  " + r.culprit + "\n";
  return text + (r.passed ? "verified\n" : "NOT verified\n");
}

} // namespace

int verify_command(const VerifyArguments& a) {
  if (a.against == "onnxruntime" && a.model.ends_with(".tw"))
    throw Error(Code::option, "--against", "onnxruntime runs ONNX models, not text programs",
                "use --against reference");
  const Opened m = open_model(a, a.in);
  std::vector<Array> out;
  int threads = 1;
  {
    Session session(m.program, m.options);
    threads = session.plan().options.threads;
    out = make_outputs(session.program());
    const Cancellable region;
    cut(out, session.run(strided(m.inputs), strided(out), {nullptr, region.flag(), nullptr}));
  }
  const VerifyResult r = [&] {
    const Progress line(a, "comparing with " + a.against);
    return a.against == "reference" ? against_reference(a, m, out) : against_onnxruntime(a, m, out, threads);
  }();
  write_result(a.json ? verify_json(r) : result_text(r));
  suggest(a, r.passed ? fmt::format("tilewright bench {}", a.model)
                      : fmt::format("tilewright verify {} --bisect", a.model));
  return r.passed ? 0 : static_cast<int>(ErrorKind::check_failed);
}

} // namespace tilewright
