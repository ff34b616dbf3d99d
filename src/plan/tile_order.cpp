#include "plan/tile_order.h"

#include <algorithm>

namespace tilewright {

std::vector<TileShare> tile_shares(const std::vector<double>& lengths, std::int64_t inner, std::int64_t outer, std::int64_t band, std::int64_t blocks) {
  const auto rows = static_cast<std::int64_t>(lengths.size()), all = rows * inner * outer;
  const bool late_longer = lengths.front() < lengths.back();
  band = std::clamp<std::int64_t>(band, 1, inner);
  std::vector<TileShare> shares(static_cast<std::size_t>(blocks));
  for (std::int64_t round = 0, begin = 0; begin < all; ++round, begin += blocks) {
    const std::int64_t here = std::min(blocks, all - begin);
    for (std::int64_t block = 0; block < here; ++block) {
      const std::int64_t tile = begin + (round % 2 ? here - 1 - block : block), of_all = tile % (rows * inner);
      const std::int64_t first = of_all / (band * rows) * band, high = std::min(band, inner - first), row = of_all % (band * rows) / high;
      TileShare& share = shares[static_cast<std::size_t>(block)];
      ++share.tiles, share.turns += lengths[static_cast<std::size_t>(late_longer ? rows - 1 - row : row)];
    }
  }
  return shares;
}

}  // namespace tilewright
