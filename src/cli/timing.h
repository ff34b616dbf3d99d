// Latencies as people ask for them.
#pragma once
#include <vector>

#include "cli/inputs.h"

namespace tilewright {

struct Percentiles {
  double min = 0, median = 0, p90 = 0, p99 = 0, mean = 0;
  int runs = 0;
};
Percentiles latency_of(std::vector<double> seconds);

// Runs a session warmup + iterations times and ends early, after at least one measured run, when `most_seconds` are
// over (0: never). Error(interrupted) on Ctrl-C. kernels: if not null, the median of each kernel. dims: if not null, of
// the results, as Session::run tells them.
std::vector<double> measure(Session&, const std::vector<Array>& in, const std::vector<Array>& out, int warmup,
                            int iterations, double most_seconds, std::vector<double>* kernels = nullptr,
                            std::vector<std::vector<std::int64_t>>* dims = nullptr);

} // namespace tilewright
