// Copies between arrays of any strides, and what there is to know before one may be used in place.
//
//   Strided nhwc = ...;                          // a view that a caller transposed
//   copy_elements(dense(array), nhwc);           // now row-major
#pragma once
#include "runtime/session.h"

namespace tilewright {

std::vector<std::int64_t> row_strides(const std::vector<std::int64_t>& dims); // elements
bool is_dense(const Strided&);                // row-major without gaps, and aligned to its elements
bool overlap(const Strided&, const Strided&); // whether the bytes between first and last element of each meet
void copy_elements(const Strided& to, const Strided& from); // equal dtype and dims; they must not overlap

} // namespace tilewright
