#include "report/prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tilewright {

namespace {

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from;
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i) rank[order[i]] = 0.5 * static_cast<double>(from + to - 1);
    from = to;
  }
  return rank;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

} // namespace

Prediction judge(const std::vector<double>& predicted, const std::vector<double>& measured) {
  Prediction p{predicted.size(), 0, 0};
  if (predicted.empty()) return p;
  std::vector<double> errors;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    errors.push_back(measured[i] > 0 ? std::abs(predicted[i] - measured[i]) / measured[i] : 0);
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  p.median_error = errors[errors.size() / 2];
  p.rank_correlation = correlation(ranks(predicted), ranks(measured));
  return p;
}

} // namespace tilewright
