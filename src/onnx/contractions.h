// Where the operands of convolutions and matrix products are read: what the operators over floats and those over
// integers share.
//
//   Conv, 3x3, stride 2, pads 1      ->  axes n o y x k i j;  X[n, k, 2*y+i-1, 2*x+j-1],  W[o k i j],  out[n o y x]
//   MatMul(A[b m k], B[k n])         ->  axes b m n k;  A[b m k],  B[k n]
#pragma once
#include "onnx/context.h"

namespace tilewright::onnx {

struct Convolution {
  std::vector<Size> axes, dims; // of the sum; of its result
  std::vector<AxisId> reduced;
  std::vector<Index> at, at_x, at_w; // of the result, of the input, of the weights
  Index filter;                      // which filter a point belongs to
  bool inside = true;                // no tap leaves the input, provably
};
Convolution convolution_of(Context&, int x_input, int w_input); // reads the attributes of a Conv

struct MatrixProduct {
  std::vector<Size> axes; // batch, [row], [column], inner; the result has all but the last
  std::vector<Index> at_a, at_b;
  AxisId row = -1, column = -1, inner = -1;
};
MatrixProduct matrix_product_of(Context&, TensorId a, TensorId b);

} // namespace tilewright::onnx
