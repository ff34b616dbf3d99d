// The ends of a program: its inputs and results lie as the caller has them, which no plan changes. A CPU's windows run along what lies
// contiguously and must not slide there; one that does is interpreted. Copies in front of and behind it turn its tensors:
//
//   Y[n c y x] = sum[i j] X[n, c, y+i-1, x+j-1 else 0] * W[c i j]          X an input, Y a result
//   X.turned = X;  Y.turned = sum[i j] X.turned ...;  Y = Y.turned         tensors between kernels, for which channels are innermost
#pragma once
#include <optional>

#include "expr/program.h"

namespace tilewright {

// Nothing where no window needs it.
std::optional<Program> turn_ends(const Program&);

// Whether the axis along dim `dim` of a tensor slides in the window that makes it, at last through maps at the same points.
bool slides_along(const Program&, TensorId, std::size_t dim);

} // namespace tilewright
