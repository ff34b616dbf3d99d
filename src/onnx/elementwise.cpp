#include "onnx/elementwise.h"

#include <algorithm>

namespace tilewright::onnx {

void elementwise(Context& c, int inputs, const Body& body, std::optional<DType> result) {
  if (inputs == any_number) inputs = std::max(c.inputs(), 1);
  std::vector<Size> dims;
  for (int i = 0; i < inputs; ++i) dims = broadcast(c, dims, c.dims(c.input(i)));
  std::vector<ScalarRef> args;
  for (int i = 0; i < inputs; ++i) args.push_back(c.read_broadcast(c.input(i), dims));
  DType d = result ? *result : c.dtype(c.input(0));
  c.output(0, c.map(c.name(), d, dims, body(args)));
}

} // namespace tilewright::onnx
