// Packing arithmetic: how many dense tiles the live micro-tiles of a pattern fill, and how much of that is waste.
// Ceilings are kept: a group's last tile may be nearly empty, and at high sparsity that is a large part of the work.
//
//   counts 4 2, four micro-tiles a tile         2 tiles, tile_ptr 0 1 2
#pragma once
#include "sparse/pattern.h"

namespace tilewright {

struct Packing {
  std::int64_t micro_tiles = 0, dense_tiles = 0;
  std::int64_t covered = 0, executed = 0; // elements in live micro-tiles; in dense tiles
  double fill = 1;                        // of the slots of the dense tiles
  double waste(std::int64_t live_elements) const {
    return covered == 0 ? 0 : 1 - static_cast<double>(live_elements) / static_cast<double>(covered);
  }
  double executed_waste(std::int64_t live_elements) const {
    return executed == 0 ? 0 : 1 - static_cast<double>(live_elements) / static_cast<double>(executed);
  }
};
// `ratio`: micro-tiles of one group that a dense tile holds.
std::int64_t dense_tiles(std::span<const std::uint32_t> counts, std::int64_t ratio);
std::vector<std::int64_t> tile_pointers(std::span<const std::uint32_t> counts,
                                        std::int64_t ratio); // exclusive sums, groups + 1
Packing packing(const Cells&, std::span<const std::uint32_t> counts, std::int64_t ratio);

// Of cells of `pattern` elements live with probability 1 - sparsity, at random: the share of empty cells of `cover`
// elements along the same dim.
double covered_sparsity(double sparsity, double pattern, double cover);

// Ragged groups: row numbers sorted by key, stable. Keys outside [0, keys) are Error(bounds).
struct Sorted {
  std::vector<std::uint32_t> order;
  std::vector<std::int64_t> begin;
}; // begin: keys + 1
Sorted sort_by_key(std::span<const std::int64_t> key_of_row, std::int64_t keys);

} // namespace tilewright
