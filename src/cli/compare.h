// How far two arrays are apart.
#pragma once
#include "cli/results.h"

namespace tilewright {

double default_tolerance(DType); // norm of the difference over norm; integers must be equal

// The norm of the difference over the norm of `want`, over the finite elements; elements that are NaN or infinite must
// be the same in both, else the error is infinite. Integers: the share of elements that differ. A norm of 0 counts
// as 1.
double error_of(const Array& got, const Array& want, std::string* note = nullptr);

Difference difference(const Tensor&, const Array& got, const Array& want, double tolerance); // tolerance 0: the default

} // namespace tilewright
