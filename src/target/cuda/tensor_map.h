// How the copy engine sees a tensor whose boxes it brings: up to five dims, innermost first; rows of a box are 128 bytes, whose pieces
// of 16 it exchanges by the row's number. What a box asks for outside of the tensor arrives as zeros.
//
//   W[k n] in chunks of 64 x 256, f16      dims 64, k, n / 64     box 64, 64, 4: four panels of 64 columns
#pragma once
#include <cstdint>
#include <vector>

#include "support/dtype.h"

namespace tilewright::cuda {

struct TensorMap {
  int argument = 0;                      // of the kernel, in place of the tensor's address
  DType dtype = DType::f16;
  std::vector<std::int64_t> dims, box;   // elements
  std::vector<std::int64_t> strides;     // bytes, of dims 1 and on
};

}  // namespace tilewright::cuda
