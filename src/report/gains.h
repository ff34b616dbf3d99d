// What each joined kernel gained: its measured time beside that of the kernels of a plan layer by layer that do the same work.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tilewright {

struct JoinedGain {
  std::string name;                // of the joined kernel
  double joined = 0, apart = 0;    // seconds
  std::size_t kernels = 0;         // apart
};
// In the order of the plan. The two are compared by the names of the tensors that they write; a kernel whose work is not
// just that of some kernels of the other plan is left out.
std::vector<JoinedGain> joined_gains(const Plan&, const std::vector<double>& seconds, const Plan& apart,
                                     const std::vector<double>& apart_seconds);

}  // namespace tilewright
