// Element access for the reference functions of opaque operations: any dtype as double or as a 64-bit integer.
#pragma once
#include <cstring>
#include <vector>

#include "expr/program.h"

namespace tilewright::onnx {

double real_at(const Array&, std::int64_t i);
std::int64_t integer_at(const Array&, std::int64_t i);  // floats are cut off
void put_real(Array&, std::int64_t i, double);          // rounded to the array's dtype
void put_integer(Array&, std::int64_t i, std::int64_t); // wraps

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims); // row-major

// f(position, linear) for all positions of a box, row-major.
template <class F> void for_each_position(const std::vector<std::int64_t>& dims, F&& f) {
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t extent : dims) {
    if (extent == 0) return;
  }
  for (std::int64_t linear = 0;; ++linear) {
    f(at, linear);
    std::size_t k = dims.size();
    while (k > 0 && ++at[k - 1] == dims[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}

} // namespace tilewright::onnx
