// Detection: the pattern of a tensor where it lies, in two steps that any number of workers share without atomics.
// First every cell is marked, rows of cells in parallel; then each group's live cells are listed in ascending order,
// groups in parallel. The same values give the same pattern, whoever works.
//
//   Detector d = detector(cells({4096, 4096}, {32, 1}, {1}), DType::f32, {4096, 1});
//   mark_cells(leaf, d, data, marks, worker, workers);  barrier;  list_slots(d, marks, count, slot, worker, workers);
//
// Of a boolean mask the cells are marked where it is true. Memory: d.cells.count() bytes of marks,
// d.cells.table_bytes() of table.
#pragma once
#include "sparse/pattern.h"
#include "support/threads.h"
#include "target/cpu/kernels/kernels.h"

namespace tilewright::cpu {

struct Detector {
  Cells cells;
  DType dtype = DType::f32;
  std::vector<std::int64_t> stride;                    // of the tensor, in elements
  std::size_t column = 0, row = 0;                     // the dims that a call of the leaf runs over; equal: one row
  std::vector<std::size_t> far;                        // the others, outermost first
  std::vector<std::int64_t> group_stride, slot_stride; // of marks, by dim
};
Detector detector(Cells, DType, std::vector<std::int64_t> stride);
void place_marks(Detector&); // anew, where its cells have changed

void mark_cells(const kernels::Kernels&, const Detector&, const std::byte* data, std::uint8_t* marks, int worker,
                int workers);
void list_slots(const Detector&, const std::uint8_t* marks, std::uint32_t* count, std::uint32_t* slot, int worker,
                int workers);

Pattern detect(const kernels::Kernels&, const Detector&, const std::byte* data, Pool&);

} // namespace tilewright::cpu
