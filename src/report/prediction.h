// How well predicted times fit measured ones, over many kernels.
//
//   predicted 10 20 40 us, measured 12 20 60 us      median error 17 %, rank correlation 1
#pragma once
#include <vector>

namespace tilewright {

struct Prediction {
  std::size_t kernels = 0;
  double median_error = 0;     // of |predicted - measured| / measured
  double rank_correlation = 0; // Spearman's; equal values share their ranks
};
Prediction judge(const std::vector<double>& predicted, const std::vector<double>& measured);

} // namespace tilewright
