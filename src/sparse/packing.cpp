#include "sparse/packing.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace tilewright {

std::int64_t dense_tiles(std::span<const std::uint32_t> counts, std::int64_t ratio) {
  std::int64_t n = 0;
  for (std::uint32_t c : counts) n += (static_cast<std::int64_t>(c) + ratio - 1) / ratio;
  return n;
}

std::vector<std::int64_t> tile_pointers(std::span<const std::uint32_t> counts, std::int64_t ratio) {
  std::vector<std::int64_t> out{0};
  for (std::uint32_t c : counts) out.push_back(out.back() + (static_cast<std::int64_t>(c) + ratio - 1) / ratio);
  return out;
}

Packing packing(const Cells& c, std::span<const std::uint32_t> counts, std::int64_t ratio) {
  std::int64_t cell = 1;
  for (std::int64_t u : c.unit) cell *= u;
  Packing p;
  p.micro_tiles = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  p.dense_tiles = dense_tiles(counts, ratio);
  p.covered = p.micro_tiles * cell;
  p.executed = p.dense_tiles * ratio * cell;
  p.fill = p.dense_tiles == 0 ? 1 : static_cast<double>(p.micro_tiles) / static_cast<double>(p.dense_tiles * ratio);
  return p;
}

double covered_sparsity(double sparsity, double pattern, double cover) {
  return cover < pattern ? sparsity : std::pow(sparsity, cover / pattern);
}

Sorted sort_by_key(std::span<const std::int64_t> key_of_row, std::int64_t keys) {
  Sorted s{std::vector<std::uint32_t>(key_of_row.size()),
           std::vector<std::int64_t>(static_cast<std::size_t>(keys) + 1, 0)};
  for (std::size_t r = 0; r < key_of_row.size(); ++r) {
    const std::int64_t k = key_of_row[r];
    if (k < 0 || k >= keys)
      throw Error(Code::bounds, fmt::format("row {}", r), fmt::format("its key {} is not in [0, {})", k, keys));
    ++s.begin[static_cast<std::size_t>(k) + 1];
  }
  for (std::size_t k = 1; k < s.begin.size(); ++k) s.begin[k] += s.begin[k - 1];
  std::vector<std::int64_t> at(s.begin.begin(), s.begin.end() - 1);
  for (std::size_t r = 0; r < key_of_row.size(); ++r)
    s.order[static_cast<std::size_t>(at[static_cast<std::size_t>(key_of_row[r])]++)] = static_cast<std::uint32_t>(r);
  return s;
}

} // namespace tilewright
