#include "runtime/copy.h"

#include <algorithm>
#include <cstring>

#include "schedule/layout.h"

namespace tilewright {

namespace {

bool empty(const Strided& s) { return std::find(s.dims.begin(), s.dims.end(), 0) != s.dims.end(); }

// One row: elements of `width` bytes, strides in bytes. Bytes are moved, so nothing need be aligned.
template <std::size_t width>
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::int64_t n) {
  if (to_step == width && from_step == width) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * width);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step, from + i * from_step, width);
}

using RowCopy = void (*)(std::byte*, std::int64_t, const std::byte*, std::int64_t, std::int64_t);

RowCopy row_copy(std::size_t width) {
  switch (width) {
  case 1: return copy_row<1>;
  case 2: return copy_row<2>;
  case 4: return copy_row<4>;
  default: TW_ASSERT(width == 8); return copy_row<8>;
  }
}

// Dims in the order in which the destination lies, so that writes run along memory; strides in bytes.
struct Copier {
  struct Dim {
    std::int64_t extent, to, from;
  };
  std::vector<Dim> dims;
  RowCopy row;

  void run(std::byte* to, const std::byte* from, std::size_t d = 0) const {
    const Dim& dim = dims[d];
    if (d + 1 == dims.size()) return row(to, dim.to, from, dim.from, dim.extent);
    for (std::int64_t i = 0; i < dim.extent; ++i) run(to + i * dim.to, from + i * dim.from, d + 1);
  }
};

// The first and one past the last byte of an array that is not empty.
std::pair<const std::byte*, const std::byte*> reach(const Strided& s) {
  const std::byte *low = s.data, *high = s.data;
  const auto width = static_cast<std::int64_t>(bytes_of(s.dtype));
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    const std::int64_t last = (s.dims[d] - 1) * s.strides[d] * width;
    (last < 0 ? low : high) += last;
  }
  return {low, high + width};
}

} // namespace

std::vector<std::int64_t> row_strides(const std::vector<std::int64_t>& dims) {
  return dense_strides(dims, row_major(dims.size()));
}

bool is_dense(const Strided& s) {
  if (empty(s)) return true;
  if (reinterpret_cast<std::uintptr_t>(s.data) % bytes_of(s.dtype) != 0) return false;
  std::int64_t step = 1;
  for (std::size_t d = s.dims.size(); d-- > 0;) {
    if (s.dims[d] != 1 && s.strides[d] != step) return false;
    step *= s.dims[d];
  }
  return true;
}

bool overlap(const Strided& a, const Strided& b) {
  if (empty(a) || empty(b)) return false;
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  return a_low < b_high && b_low < a_high;
}

void copy_elements(const Strided& to, const Strided& from) {
  TW_ASSERT(to.dtype == from.dtype && to.dims == from.dims);
  if (empty(to)) return;
  const auto width = static_cast<std::int64_t>(bytes_of(to.dtype));
  Copier copier{{}, row_copy(static_cast<std::size_t>(width))};
  for (std::size_t d = 0; d < to.dims.size(); ++d)
    copier.dims.push_back({to.dims[d], to.strides[d] * width, from.strides[d] * width});
  std::stable_sort(copier.dims.begin(), copier.dims.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.to) > std::abs(b.to); });
  if (copier.dims.empty()) copier.dims.push_back({1, width, width});
  copier.run(to.data, from.data);
}

} // namespace tilewright
