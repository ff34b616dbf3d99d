#include "expr/results.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace tilewright {

std::set<TensorId> Program::results() const {
  std::set<TensorId> all(outputs.begin(), outputs.end());
  for (TensorId out : outputs)
    for (TensorId count : tensor(out).counted_by)
      if (count >= 0) all.insert(count);
  return all;
}

bool Program::is_result(TensorId t) const {
  return std::any_of(outputs.begin(), outputs.end(), [&](TensorId out) {
    const std::vector<TensorId>& counts = tensor(out).counted_by;
    return out == t || std::find(counts.begin(), counts.end(), t) != counts.end();
  });
}

std::vector<std::int64_t> result_dims(const Program& p, TensorId output, std::vector<std::int64_t> dims,
                                      const std::function<std::int64_t(TensorId)>& count) {
  const Tensor& t = p.tensor(output);
  for (std::size_t d = 0; d < t.counted_by.size(); ++d) {
    if (t.counted_by[d] < 0) continue;
    const std::int64_t rows = count(t.counted_by[d]);
    if (rows < 0 || rows > dims[d])
      throw Error(Code::bounds, t.name,
                  p.tensor(t.counted_by[d]).name + " counts " + std::to_string(rows) + " of the " +
                      std::to_string(dims[d]) + " rows of dim " + std::to_string(d));
    dims[d] = rows;
  }
  return dims;
}

Array first_rows(const Array& a, const std::vector<std::int64_t>& dims) {
  TW_ASSERT(dims.size() == a.dims.size());
  if (dims == a.dims) return a;
  Array part = Array::make(a.dtype, dims);
  if (part.count() == 0) return part;
  // Rows of the last dim lie together in both.
  const std::int64_t row = dims.back();
  const std::size_t width = bytes_of(a.dtype);
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t to = 0; to < part.count(); to += row) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < at.size(); ++d) from = from * a.dims[d] + at[d];
    std::memcpy(part.data + static_cast<std::size_t>(to) * width, a.data + static_cast<std::size_t>(from) * width,
                static_cast<std::size_t>(row) * width);
    for (std::size_t d = dims.size() - 1; d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  return part;
}

} // namespace tilewright
