// What may be packed in a kernel, in words: which axes may be permuted and with what in mind, which of them as one, by
// what keys there are buckets, and what slices of a sparse operand leave behind.
//
//   permuted    m n; up to rounding k
//   as one      b s
//   A sparse    along k nothing is left of C; along m C is 0
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tilewright {

std::vector<std::string> packing_text(const Program&, const Region&);
// What was chosen for operands that are read through slots: rule, axis, micro-tile, waste, and times, for random
// micro-tiles of the expected share.
//
//   A at 5 % live: columns of 32 x 1, packed along k (exact up to rounding); 13107 micro-tiles, waste 0 %; 20.1 ms,
//   dense 204 ms; searched in 0.4 ms
std::vector<std::string> gathered_text(const Program&, const Region&, const PlannedKernel&);

} // namespace tilewright
