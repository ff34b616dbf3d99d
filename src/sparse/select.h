// Selection: which micro-tile of a sparse operand, packed along which axis into which dense tile, computes a product
// soonest; or that it stays dense.
//
//   C[m n] = sum[k] A[m k] * B[k n], A 4096 x 4096 sparse in 32 x 1, dense tiles of 32 x 64 (x n 32)
//     along k: groups of 32 rows, 64 micro-tiles a dense tile      26205 micro-tiles, 487 dense tiles, 1.21 ms
//     dense                                                                            10.22 ms
//
// A candidate's cost is its dense tiles after packing, ceilings and all, times the cost of one tile, but not less than
// the bytes it moves through the shared cache and from memory; and the index, the launch and, where partial sums of one
// element come from several tiles, their accumulation. With samples of several runs it is the mean. B sparse is the
// same problem mirrored.
#pragma once
#include <string>

#include "machine/machine.h"
#include "sparse/packing.h"

namespace tilewright {

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
};

enum class Along : std::uint8_t {
  none,  // dense
  k,     // micro-tiles of rows x 1: columns of a row block, with the rows of B that they meet
  m,     // whole rows
  m_by_k // pieces of rows, a block of k at a time: partial sums are added up over the blocks
};
std::string_view name_of(Along);

// A dense tile: C[m n] += A[m k] * B[k n] once, in a machine that is busy with such tiles.
struct TileForm {
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

struct SelectionCosts {
  double launch = 0;                      // of a kernel
  double cache_rate = 0, memory_rate = 0; // bytes a second; 0: unlimited
  double index_rate = 0;                  // bytes of A a second that a detector reads; 0: the index is there already
  double accumulate = 0;                  // seconds to add one partial sum of C
  std::int64_t transaction = 1;           // bytes that a micro-tile must have side by side
  bool k_adjacent = true;                 // A lies with k innermost; else m
  bool ordered = true;                    // partial sums in a fixed order only
  bool tail_shrinks = false;              // the last tile of a group takes only as long as it is full
  double margin = 0.1;                    // of the dense time that must be saved
};

struct Estimate {
  Along along = Along::none;
  TileForm tile;
  std::int64_t unit_m = 1, unit_k = 1;     // micro-tile of A
  double micro_tiles = 0, dense_tiles = 0; // mean over the samples
  double tile_seconds = 0, cache_seconds = 0, memory_seconds = 0, index_seconds = 0, accumulate_seconds = 0,
         seconds = 0;
};

// The micro-tile of A that a tile takes along an axis, widened along that axis until it fills a transaction.
struct MicroTile {
  std::int64_t m = 1, k = 1;
};
MicroTile micro_tile(const Product&, const TileForm&, Along, const SelectionCosts&);

struct Selection {
  Estimate best, dense;
  std::vector<Estimate> tried; // all but dense, in the order of the tiles
  std::string reason;          // why it is dense, if it is
};
// samples: marks (0 or 1) of A in cells of `unit`, [m / unit.m][k / unit.k] row-major. Tiles whose micro-tile is no
// multiple of the unit are covered by the unit's.
Selection select(const Product&, MicroTile unit, const std::vector<std::vector<std::uint8_t>>& samples,
                 const std::vector<TileForm>&, const SelectionCosts&);

// Where nothing was measured: tiles of usual shapes, priced by the machine's rates.
std::vector<TileForm> tile_forms(const Machine&, DType);
SelectionCosts selection_costs(const Machine&);

} // namespace tilewright
