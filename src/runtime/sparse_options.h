// Tensors that are said to be sparse from outside of the program, by name:
//
//   --sparse X=zeros:32x1@0.05      its zeros are looked for in micro-tiles of 32 x 1, of which 5 % are expected to
//   live
//   --sparse X=mask:M:8x1           the boolean input M is false only where X is zero
//   --sparse X=lengths:L            rows from L[b] on count as zeros
//   --sparse auto                   also where programs make zeros: max(x, 0), masks, rows behind a length
#pragma once
#include <map>
#include <string>

#include "expr/program.h"

namespace tilewright {

struct SparseOption {
  Sparse sparse{Sparse::zeros, "", 1, 1};
  double live = -1; // the share of micro-tiles that is expected to hold anything; negative: not said
};
SparseOption parse_sparse(const std::string& tensor, const std::string& text); // Error(option)
void annotate(Program&,
              const std::map<std::string, std::string>& by_tensor); // Error(option) where there is no such tensor

} // namespace tilewright
