// tilewright run: a model's outputs, and the time it takes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/npy.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "report/table.h"
#include "support/file.h"

namespace tilewright {

namespace {

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return;
  struct stat info {};
  if (errno == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return;
  throw Error(
      Code::file, path,
      fmt::format("the folder cannot be made: {}", errno == EEXIST ? "a file has its name" : std::strerror(errno)),
      "give --output a folder that can be written");
}

// A tensor's name as the name of a file: what a file system or a shell could misread becomes '_'.
std::string file_name(const std::string& tensor, std::set<std::string>& taken) {
  constexpr std::size_t longest = 200;
  std::string name;
  for (char c : tensor.substr(0, longest)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    name += plain ? c : '_';
  }
  if (name.empty() || name[0] == '.' || name[0] == '-') name.insert(0, "_");
  std::string free = name;
  for (int i = 2; !taken.insert(free).second; ++i) free = fmt::format("{}-{}", name, i);
  return free + ".npy";
}

std::string row_text(const ArraySummary& a) {
  std::string text = fmt::format("output  {}  {} [{}]\n        min {:.6g}  mean {:.6g}  max {:.6g}", a.name, a.type,
                                 fmt::join(a.shape, ", "), a.min, a.mean, a.max);
  if (a.not_finite > 0) text += fmt::format("  ({} not finite)", a.not_finite);
  if (!a.argmax.empty()) text += fmt::format("  argmax {}", fmt::join(a.argmax, ", "));
  text += "\n        ";
  for (double v : a.first) text += fmt::format("{:.6g}  ", v);
  text.erase(text.find_last_not_of(' ') + 1);
  if (!a.file.empty()) text += fmt::format("\n        written to {}", a.file);
  return text + "\n";
}

std::string result_text(const Opened& m, const RunResult& r) {
  std::string text;
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    const Tensor& t = m.program.tensor(m.program.inputs[i]);
    text += fmt::format("input   {}  {}  {}\n", t.name, shape_text(t), m.origins[i]);
  }
  for (const ArraySummary& a : r.outputs) text += row_text(a);
  const Percentiles& l = r.latency;
  text += fmt::format("time    {} median of {} runs (min {}, p90 {}); {} kernels, {}\n", time_text(l.median), l.runs,
                      time_text(l.min), time_text(l.p90), r.kernels,
                      r.on_gpu.runs > 0 ? "copies of inputs and outputs included"
                                        : fmt::format("{} threads, {}", r.threads, r.isa));
  if (r.on_gpu.runs > 0)
    text += fmt::format("gpu     {} median of {} runs (min {}, p90 {}) on the GPU alone\n", time_text(r.on_gpu.median),
                        r.on_gpu.runs, time_text(r.on_gpu.min), time_text(r.on_gpu.p90));
  return text;
}

} // namespace

int run_command(const RunArguments& a) {
  constexpr double most_seconds = 3;
  const Opened m = open_model(a, a.in);
  Session session(m.program, m.options);
  note(a, fmt::format("loaded in {}: import {}, normal forms {}, plan {}, packing {}",
                      time_text(m.seconds + session.timing().normalise + session.timing().plan + session.timing().pack),
                      time_text(m.seconds), time_text(session.timing().normalise), time_text(session.timing().plan),
                      time_text(session.timing().pack)));
  for (const std::string& n : session.notes()) note(a, n);
  if (session.gpu() >= 0)
    note(a, fmt::format("GPU reached in {}, kernels printed and compiled in {}", time_text(session.timing().device),
                        time_text(session.timing().compile)));
  if (!a.output.empty()) make_folder(a.output);
  std::vector<Array> out = make_outputs(session.program());
  std::vector<std::vector<std::int64_t>> dims;
  RunResult r{a.model,
              {},
              {},
              session.plan().kernels.size(),
              session.plan().options.threads,
              session.plan().options.isa,
              m.seconds,
              session.timing(),
              {}};
  {
    Progress line(a, "running");
    r.latency =
        latency_of(measure(session, m.inputs, out, a.warmup < 0 ? 1 : a.warmup, a.iterations < 0 ? 10 : a.iterations,
                           a.iterations < 0 ? most_seconds : 0, nullptr, &dims));
  }
  cut(out, dims);
  if (session.gpu() >= 0) r.on_gpu = latency_of(session.device_seconds(r.latency.runs));
  std::set<std::string> names;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Tensor& t = session.program().tensor(session.program().outputs[i]);
    r.outputs.push_back(summary_of(t, out[i]));
    if (a.output.empty()) continue;
    r.outputs.back().file = a.output + "/" + file_name(t.name, names);
    write_file(r.outputs.back().file, npy_bytes(out[i]));
  }
  write_result(a.json ? run_json(r) : result_text(m, r));
  suggest(a, fmt::format("tilewright verify {}", a.model));
  return 0;
}

} // namespace tilewright
