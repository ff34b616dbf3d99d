// Which tiles each block takes where blocks take several in turn and tiles differ in their turns: the order that a target prints (CUDA:
// grid_tiles in target/cuda/source.cpp). So many batches stand in a band; inside of one, row tiles with most turns come first, and the
// band's batches follow each other. Rounds of blocks go there and back.
//
//   4 batches of 3 row tiles of 1, 2, 3 turns, bands of 2, 5 blocks:   3 3 2 2 1 | 3 3 2 2 1 (back) | ...
#pragma once
#include <cstdint>
#include <vector>

namespace tilewright {

struct TileShare {
  std::int64_t tiles = 0;
  double turns = 0;                      // of them all
};

// Of each block. lengths: turns of each row tile; inner: batches that stand in bands, outer: how many times all of those.
std::vector<TileShare> tile_shares(const std::vector<double>& lengths, std::int64_t inner, std::int64_t outer, std::int64_t band, std::int64_t blocks);

}  // namespace tilewright
