// How a tensor between kernels lies in memory: its dims, outermost first; dense. The program's inputs, outputs and weights keep
// the caller's order, which is row-major.
#pragma once
#include <cstdint>
#include <vector>

namespace tilewright {

using DimOrder = std::vector<int>;
DimOrder row_major(std::size_t rank);
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& dims, const DimOrder&);   // elements, one a dim

}  // namespace tilewright
