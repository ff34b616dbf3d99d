#include "target/cpu/detect.h"

#include <algorithm>
#include <cstring>

namespace tilewright::cpu {

Detector detector(Cells c, DType dtype, std::vector<std::int64_t> stride) {
  const std::size_t rank = c.dims.size();
  TW_ASSERT(rank > 0 && stride.size() == rank);
  Detector d{std::move(c), dtype, std::move(stride), rank - 1, rank - 1, {}, {}, {}};
  // Columns lie side by side in memory, if anything does.
  for (std::size_t i = rank; i-- > 0;)
    if (d.stride[i] == 1 && d.cells.dims[i] > 1) d.column = i;
  d.row = d.column;
  for (std::size_t i = 0; i < rank; ++i) // the dim with the tallest cells
    if (i != d.column && (d.row == d.column || d.cells.unit[i] > d.cells.unit[d.row])) d.row = i;
  for (std::size_t i = 0; i < rank; ++i)
    if (i != d.column && i != d.row) d.far.push_back(i);
  place_marks(d);
  return d;
}

// Marks stand as the cells do, the column dim innermost, whatever is packed.
void place_marks(Detector& d) {
  const std::size_t rank = d.cells.dims.size();
  d.group_stride.assign(rank, 0), d.slot_stride.assign(rank, 0);
  std::vector<std::size_t> order = d.far;
  if (d.row != d.column) order.push_back(d.row);
  order.push_back(d.column);
  std::int64_t n = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    (d.cells.is_packed(order[i]) ? d.slot_stride : d.group_stride)[order[i]] = n;
    n *= d.cells.along(order[i]);
  }
}

namespace {

std::int64_t mark_stride(const Detector& d, std::size_t dim) { return d.group_stride[dim] + d.slot_stride[dim]; }

// Row n of cells: its coordinates along the row dim and the far ones, in cells.
struct CellRow {
  std::vector<std::int64_t> at; // by dim; the column's is 0
  std::int64_t mark = 0;
};
CellRow cell_row(const Detector& d, std::int64_t n) {
  CellRow r{std::vector<std::int64_t>(d.cells.dims.size(), 0), 0};
  auto take = [&](std::size_t dim) {
    const std::int64_t extent = d.cells.along(dim);
    r.at[dim] = n % extent;
    n /= extent;
    r.mark += r.at[dim] * mark_stride(d, dim);
  };
  if (d.row != d.column) take(d.row);
  for (std::size_t i = d.far.size(); i-- > 0;) take(d.far[i]);
  return r;
}

} // namespace

void mark_cells(const kernels::Kernels& leaf, const Detector& d, const std::byte* data, std::uint8_t* marks, int worker,
                int workers) {
  const std::int64_t across = d.cells.along(d.column);
  if (across == 0) return;
  const std::int64_t rows = d.cells.count() / across, first = rows * worker / workers,
                     last = rows * (worker + 1) / workers;
  const auto width = static_cast<std::int64_t>(bytes_of(d.dtype));
  for (std::int64_t n = first; n < last; ++n) {
    const CellRow r = cell_row(d, n);
    kernels::Detect call;
    call.columns = d.cells.dims[d.column], call.unit = d.cells.unit[d.column], call.column = d.stride[d.column];
    call.bytes = static_cast<int>(width), call.sign = is_float(d.dtype), call.marks = marks + r.mark;
    call.rows = 1;
    if (d.row != d.column) {
      call.row = d.stride[d.row];
      call.rows = std::min(d.cells.unit[d.row], d.cells.dims[d.row] - r.at[d.row] * d.cells.unit[d.row]);
    }
    std::memset(call.marks, 0, static_cast<std::size_t>(across));
    // Every element of the cell along the far dims.
    std::vector<std::int64_t> low(d.cells.dims.size(), 0), point;
    for (std::size_t i = 0; i < low.size(); ++i) low[i] = r.at[i] * d.cells.unit[i];
    point = low;
    for (bool more = true; more;) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < point.size(); ++i) offset += point[i] * d.stride[i];
      call.src = data + offset * width;
      leaf.detect(call);
      more = false;
      for (std::size_t i = d.far.size(); i-- > 0 && !more;) {
        const std::size_t dim = d.far[i];
        if (++point[dim] < std::min(low[dim] + d.cells.unit[dim], d.cells.dims[dim]))
          more = true;
        else
          point[dim] = low[dim];
      }
    }
  }
}

void list_slots(const Detector& d, const std::uint8_t* marks, std::uint32_t* count, std::uint32_t* slot, int worker,
                int workers) {
  const std::int64_t groups = d.cells.groups(), length = d.cells.length();
  const std::size_t inner = d.cells.packed.back();
  const std::int64_t run = d.cells.along(inner), step = d.slot_stride[inner];
  for (std::int64_t g = groups * worker / workers, end = groups * (worker + 1) / workers; g < end; ++g) {
    const std::uint8_t* origin = marks;
    std::int64_t rest = g;
    for (std::size_t i = d.cells.dims.size(); i-- > 0;) {
      if (d.cells.is_packed(i)) continue;
      origin += rest % d.cells.along(i) * d.group_stride[i];
      rest /= d.cells.along(i);
    }
    std::uint32_t* const out = slot + g * length;
    std::uint32_t n = 0;
    for (std::int64_t first = 0; first < length; first += run) { // the packed dims before the last, row-major
      const std::uint8_t* m = origin;
      std::int64_t left = first / run;
      for (std::size_t i = d.cells.packed.size() - 1; i-- > 0;) {
        const std::size_t dim = d.cells.packed[i];
        m += left % d.cells.along(dim) * d.slot_stride[dim];
        left /= d.cells.along(dim);
      }
      for (std::int64_t s = 0; s < run; ++s) {
        out[n] = static_cast<std::uint32_t>(first + s); // kept only if live; never past the group's last slot
        n += m[s * step];
      }
    }
    count[g] = n;
  }
}

Pattern detect(const kernels::Kernels& leaf, const Detector& d, const std::byte* data, Pool& pool) {
  const auto cells = static_cast<std::size_t>(d.cells.count());
  Pattern p{d.cells, std::vector<std::uint32_t>(static_cast<std::size_t>(d.cells.groups())),
            std::vector<std::uint32_t>(cells)};
  std::vector<std::uint8_t> marks(cells);
  Barrier barrier(pool.size());
  pool.run([&](int w) {
    mark_cells(leaf, d, data, marks.data(), w, pool.size());
    if (pool.size() > 1) barrier.wait(w);
    list_slots(d, marks.data(), p.count.data(), p.slot.data(), w, pool.size());
  });
  return p;
}

} // namespace tilewright::cpu
