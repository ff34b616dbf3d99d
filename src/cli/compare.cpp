#include "cli/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace tilewright {

double default_tolerance(DType t) {
  switch (t) {
  case DType::f64: return 1e-10;
  case DType::f32: return 1e-4;
  case DType::f16: return 2e-3;
  case DType::bf16: return 1.6e-2;
  case DType::f8e4m3:
  case DType::f8e5m2: return 0.2;
  default: return 0;
  }
}

double error_of(const Array& got, const Array& want, std::string* note) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::int64_t n = want.count();
  if (got.dims != want.dims) {
    if (note) *note = fmt::format("shapes are [{}] and [{}]", fmt::join(got.dims, ", "), fmt::join(want.dims, ", "));
    return infinite;
  }
  double difference = 0, norm = 0;
  std::int64_t odd = 0, unequal = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = element(got, i), b = element(want, i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      odd += !(a == b || (std::isnan(a) && std::isnan(b)));
      continue;
    }
    unequal += a != b;
    difference += (a - b) * (a - b), norm += b * b;
  }
  if (odd > 0) {
    if (note) *note = fmt::format("{} elements are NaN or infinite in one only", odd);
    return infinite;
  }
  if (!is_float(got.dtype)) {
    if (unequal > 0 && note) *note = fmt::format("{} of {} elements differ", unequal, n);
    return n == 0 ? 0 : static_cast<double>(unequal) / static_cast<double>(n);
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

Difference difference(const Tensor& t, const Array& got, const Array& want, double tolerance) {
  Difference d;
  d.name = t.name;
  d.type = std::string(name_of(t.dtype));
  d.tolerance = tolerance > 0 ? tolerance : default_tolerance(t.dtype);
  d.error = error_of(got, want, &d.note);
  d.passed = d.error <= d.tolerance;
  return d;
}

} // namespace tilewright
