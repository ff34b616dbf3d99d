// Windows along the spatial dims of convolutions and pools: kernel extents, strides, dilations and pads of a node,
// output extents, and where tap i of output y reads.
//
//   3x3, stride 2, pads 1: output (h + 2 - 3) // 2 + 1, tap index 2*y + i - 1
#pragma once
#include "onnx/context.h"

namespace tilewright::onnx {

struct WindowDim {
  Size in; // extent of the input
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  Size begin, end; // pads
  Size out;
  bool inside = false; // no tap leaves the input, provably
  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  Index at(AxisId y, AxisId i) const {
    return Size(stride) * axis_index(y) + Size(dilation) * axis_index(i) - constant_index(begin);
  }
};

// Reads strides, dilations, pads and auto_pad; ceil: ceil_mode of pools. Error(shape) where no window fits.
std::vector<WindowDim> window_dims(Context&, const std::vector<Size>& spatial, const std::vector<std::int64_t>& kernel,
                                   bool ceil);

} // namespace tilewright::onnx
