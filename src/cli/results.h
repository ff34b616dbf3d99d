// What run, verify and bench found out, and its JSON.
#pragma once
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/timing.h"
#include "report/gains.h"

namespace tilewright {

struct ArraySummary {
  std::string name, type, file; // file: where it was written; empty: nowhere
  std::vector<std::int64_t> shape;
  std::vector<double> first;         // some values
  std::vector<std::int64_t> argmax;  // along the last dim, of the first rows
  double min = 0, mean = 0, max = 0; // of the finite values
  std::int64_t not_finite = 0;
};
ArraySummary summary_of(const Tensor&, const Array&);

struct RunResult {
  std::string model;
  std::vector<ArraySummary> outputs;
  Percentiles latency;
  std::size_t kernels = 0;
  int threads = 1;
  std::string isa;
  double import_seconds = 0;
  Timing timing;
  Percentiles on_gpu; // without copies of inputs and outputs; no runs: there is no GPU
};
std::string run_json(const RunResult&);

// The plan, which is the same at every call, and behind it the seconds that this one took.
std::string plan_result_json(const std::string& plan, double import_seconds, const Timing&);

struct Difference {
  std::string name, type;
  double error = 0;         // norm of the difference over norm; of integers the share that differs
  double against_fp64 = -1; // the same against the fp64 evaluation; -1: not asked
  double tolerance = 0;
  bool passed = false;
  std::string note; // "12 values are NaN in one only"
};
struct VerifyResult {
  std::string model, against;
  std::vector<Difference> outputs;
  std::string culprit; // of --bisect
  bool passed = false;
};
std::string verify_json(const VerifyResult&);

struct BenchResult {
  RunResult run;
  std::vector<double> kernels; // median seconds of each
  std::string plan;            // JSON of the plan
  std::string peer;            // "onnxruntime 1.32.0"; empty: none
  Percentiles peer_latency;
  std::vector<JoinedGain> gains; // against layer by layer
};
std::string bench_json(const BenchResult&);

} // namespace tilewright
