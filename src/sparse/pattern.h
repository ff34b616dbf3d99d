// Patterns: which micro-tiles of a tensor are live, known only when its data is there.
//
//   A 4 x 8, micro-tiles of 2 x 1, packed along k (dim 1)       group 0 (rows 0, 1)   slots 0 2 5 7
//                                                               group 1 (rows 2, 3)   slots 3 6
//
// Micro-tiles are the cells of a grid at aligned origins; those at an edge may be cut. Cells that agree in all dims but
// the packed ones are a group: only they may share a dense tile, and in which order they stand in it is free. A slot is
// the number of a cell in its group. Slots ascend, and those at and beyond a group's count are unspecified.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "expr/program.h"
#include "support/error.h"

namespace tilewright {

struct Cells {
  std::vector<std::int64_t> dims, unit; // of the tensor; extent of a cell in each dim
  std::vector<std::size_t> packed;      // dims along which cells are packed, ascending; a slot counts them row-major

  std::int64_t along(std::size_t dim) const; // cells along one dim
  std::int64_t groups() const;               // of the dims that are not packed, row-major
  std::int64_t length() const;               // slots of a group
  std::int64_t count() const { return groups() * length(); }
  bool is_packed(std::size_t dim) const;
  std::int64_t table_bytes() const; // of counts and slots; 64-bit, checked
};
// Error(option) where units are not positive, packed dims are not dims, or a group has 2^32 cells or more.
Cells cells(std::vector<std::int64_t> dims, std::vector<std::int64_t> unit, std::vector<std::size_t> packed);

struct Pattern {
  Cells cells;
  std::vector<std::uint32_t> count; // live cells of each group
  std::vector<std::uint32_t> slot;  // [groups][length]

  std::span<const std::uint32_t> group(std::int64_t g) const {
    return {slot.data() + g * cells.length(), count[static_cast<std::size_t>(g)]};
  }
  std::int64_t live() const;
};

// One byte a cell, [groups][length]: not 0 where any element inside is not 0 (NaN is not, -0 and only -0 is). The plain
// form that every detector must agree with. A boolean tensor is its own mask.
std::vector<std::uint8_t> cover(const Array&, const Cells&);
Pattern pattern_of(const Cells&, std::span<const std::uint8_t> marks);
std::vector<std::uint8_t> marks_of(const Pattern&);

// The same elements in larger cells: each unit a multiple of the pattern's, along any dims.
std::vector<std::uint8_t> coarser(std::span<const std::uint8_t> marks, const Cells& from, const Cells& to);

// Slots live in both lists, ascending: what two operands that are sparse along one reduced axis have in common.
std::vector<std::uint32_t> intersection(std::span<const std::uint32_t>, std::span<const std::uint32_t>);

} // namespace tilewright
