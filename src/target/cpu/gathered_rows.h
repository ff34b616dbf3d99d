// The rows of a tile of a gathered contraction: where each begins in every operand, which cells it lies in, and the
// chosen ones of a call.
//
//   rows 0..7, cells of 4 rows, rows 1 and 6 chosen     all: offsets 0 1 .. 7, group 0 0 0 0 1 1 1 1; chosen: 1 6
#pragma once
#include "target/cpu/gathered_leaf.h"
#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

struct RowTables {
  static constexpr std::int64_t words_a_row = 8; // beside the tables of offsets

  RowTables(const ContractLeaf&, const Gathered&, LeafLoops&, const Placement& a, std::int64_t* lists,
            std::int64_t* chosen);
  void number(std::int64_t first_panel);             // every row of the tile
  void stand_at(const std::int64_t* point);          // along the far axes
  void choose(std::int64_t row, std::int64_t place); // a row of the chosen tables
  void sort(); // the chosen tables: by key, equal ones in their order; once a tile

  // Lists: of a, of c, of the steps of the epilogue.
  std::int64_t* list(bool chosen, std::size_t list) const {
    return (chosen ? chosen_ : all_) + static_cast<std::int64_t>(list) * limit_;
  }
  kernels::Rows table(bool chosen, std::size_t of, std::int64_t first) const { return {0, list(chosen, of) + first}; }
  std::int64_t row(bool chosen, std::int64_t r) const { return chosen ? order_[r] : r; }
  std::int64_t mark(bool chosen, std::int64_t r) const { return mark_[row(chosen, r)]; }
  std::int64_t group(bool chosen, std::int64_t r) const { return group_[row(chosen, r)]; }
  std::int64_t in_group(bool chosen, std::int64_t r) const { return in_group_[row(chosen, r)]; }
  std::int64_t key(std::int64_t r) const { return group_[sorted_ ? order_[r] : r]; }

  LeafLoops& loops;
  std::int64_t count = 0, panel0 = 0;
  std::int64_t mark_base = 0, group_base = 0, b_far = 0, c_far = 0;
  std::int64_t *c_cells, *spare, *spare2, *spare3;

private:
  const ContractLeaf& l_;
  const Gathered& g_;
  const Placement& a_;
  std::int64_t *all_, *chosen_, limit_;
  std::int64_t *mark_, *group_, *in_group_, *order_;
  std::vector<std::int64_t> group_numbers_; // how lists count groups: row-major over the dims that are not packed
  bool sorted_ = false;

  const Strides& strides(std::size_t of) const {
    return of == 0 ? a_.strides : of == 1 ? l_.c_strides : l_.steps[of - 2].strides;
  }
  bool used(std::size_t of) const { return of < 2 || l_.steps[of - 2].buffer >= 0; }
  void number_by_key(const std::vector<RegionAxis>& axes, const std::int64_t* at, std::int64_t r);
};

// Where the cell of coordinate `at` of an axis stands, along that axis alone.
std::int64_t cell_of(const Side&, const Cells&, RegionAxis, std::int64_t at, const std::vector<std::int64_t>& stride);

} // namespace tilewright::cpu
