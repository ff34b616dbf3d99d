// What may be packed in a kernel, in words: which axes may be permuted and with what in mind, which of them as one, by
// what keys there are buckets, and what slices of a sparse operand leave behind.
//
//   permuted    m n; up to rounding k
//   as one      b s
//   A sparse    along k nothing is left of C; along m C is 0
#pragma once
#include <string>
#include <vector>

#include "law/region.h"

namespace tilewright {

std::vector<std::string> packing_text(const Program&, const Region&);

} // namespace tilewright
