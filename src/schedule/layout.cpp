#include "schedule/layout.h"

#include <algorithm>
#include <numeric>

namespace tilewright {

DimOrder row_major(std::size_t rank) {
  DimOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& dims, const DimOrder& order) {
  std::vector<std::int64_t> stride(dims.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    stride[static_cast<std::size_t>(order[i])] = step;
    step *= std::max<std::int64_t>(dims[static_cast<std::size_t>(order[i])], 1);
  }
  return stride;
}

}  // namespace tilewright
