// How far apart the rows of a tensor between kernels lie. A row, along the dim that is innermost in its layout, may be followed by
// a gap: rows that are a power of two apart fall on a few sets of the caches, and what walks down an image then loads every line
// from afar; rows that are no whole lines long begin inside of one.
//
//   [1 512 14 14], channels last: pixels 2048 bytes apart       528 floats from one to the next
//   [1 728 37 37], channels last                                736
//
// Only tensors that nothing but kernels see have gaps: no input, output, nor operand of an opaque node or of a sparse view.
#pragma once
#include "plan/plan.h"

namespace tilewright::cpu {

using RowLengths = std::vector<std::int64_t>;         // elements, by tensor; 0, or none at all: as long as the dim is

std::vector<bool> may_have_gaps(const Plan&);         // by tensor
RowLengths row_lengths(const Plan&);

std::vector<std::int64_t> strides_of_rows(std::vector<std::int64_t> dims, const DimOrder&, std::int64_t row);
std::vector<std::int64_t> bytes_of_rows(const Plan&, const RowLengths&);      // by tensor; none where all are dense
std::int64_t elements_of_rows(const std::vector<std::int64_t>& dims, const DimOrder&, std::int64_t row);

}  // namespace tilewright::cpu
