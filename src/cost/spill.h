// Seconds that a CPU's core waits for what it stores. A result that its own cache holds is written behind the work; of
// a larger one the rest goes to the cache behind, which takes it as fast as it gives.
#pragma once
#include <algorithm>

#include "machine/machine.h"

namespace tilewright {

inline double spill_seconds(const Machine& m, std::int64_t stored, int threads, LevelId to) {
  const auto own = find(m, LevelRole::scratch);
  if (m.target != Target::cpu || !own) return 0;
  const double room =
      0.5 * static_cast<double>(m.levels[static_cast<std::size_t>(*own)].capacity) * std::max(threads, 1);
  return std::max(0.0, static_cast<double>(stored) - room) / bytes_per_second(m, to, Direction::down, 1);
}

} // namespace tilewright
