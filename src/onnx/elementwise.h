// One map over all inputs of a node, broadcast to a common shape.
//
//   elementwise(c, 2, [](Args a) { return binary(Op::add, a[0], a[1]); });
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "onnx/context.h"

namespace tilewright::onnx {

using Body = std::function<ScalarRef(const std::vector<ScalarRef>&)>;
constexpr int any_number = 0;
// The node must have so many inputs. The result has the dtype of the first one unless another is given.
void elementwise(Context&, int inputs, const Body&, std::optional<DType> result = {});

ScalarRef saturated(ScalarRef x, DType narrow); // to the largest finite value of a float of eight bits

} // namespace tilewright::onnx
