#include "cli/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "cli/console.h"

namespace tilewright {

Percentiles latency_of(std::vector<double> s) {
  if (s.empty()) return {};
  std::sort(s.begin(), s.end());
  const auto at = [&](double share) {
    return s[static_cast<std::size_t>(
        std::min(static_cast<double>(s.size()) - 1, std::floor(share * static_cast<double>(s.size()))))];
  };
  return {s.front(),
          at(0.5),
          at(0.9),
          at(0.99),
          std::accumulate(s.begin(), s.end(), 0.0) / static_cast<double>(s.size()),
          static_cast<int>(s.size())};
}

std::vector<double> measure(Session& session, const std::vector<Array>& in, const std::vector<Array>& out, int warmup,
                            int iterations, double most_seconds, std::vector<double>* kernels,
                            std::vector<std::vector<std::int64_t>>* dims) {
  using Clock = std::chrono::steady_clock;
  const Cancellable region;
  const std::vector<Strided> given = strided(in), wanted = strided(out);
  std::vector<double> seconds, of_kernels;
  std::vector<std::vector<double>> all(session.plan().kernels.size());
  const auto begin = Clock::now();
  for (int i = -warmup; i < iterations; ++i) {
    const auto start = Clock::now();
    auto found = session.run(given, wanted, {kernels ? &of_kernels : nullptr, region.flag(), nullptr});
    const auto end = Clock::now();
    if (dims) *dims = std::move(found);
    if (i < 0) continue;
    seconds.push_back(std::chrono::duration<double>(end - start).count());
    for (std::size_t k = 0; k < of_kernels.size(); ++k) all[k].push_back(of_kernels[k]);
    if (most_seconds > 0 && std::chrono::duration<double>(end - begin).count() > most_seconds) break;
  }
  if (kernels) {
    kernels->clear();
    for (auto& times : all) kernels->push_back(latency_of(times).median);
  }
  return seconds;
}

} // namespace tilewright
