#include "target/cpu/map_order.h"

#include <algorithm>

namespace tilewright::cpu {

Block brought_together(Block nodes) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Compute* map = std::get_if<Compute>(&nodes[n].op);
    if (!map || map->kind != Compute::Kind::map) continue;
    for (std::size_t m = n + 1; m < nodes.size(); ++m) {
      const Compute* next = std::get_if<Compute>(&nodes[m].op);
      if (!next) break;
      const bool reads = std::count(next->reads.begin(), next->reads.end(), map->out) > 0;
      const bool reduces = next->kind != Compute::Kind::map && next->kind != Compute::Kind::contract;
      const bool changes = next->out == map->out || std::count(map->reads.begin(), map->reads.end(), next->out) > 0;
      const auto at = [&](std::size_t k) { return nodes.begin() + static_cast<std::ptrdiff_t>(k); };
      if (reads && reduces) std::rotate(at(n), at(n + 1), at(m));
      if (reads || changes) break;
    }
  }
  return nodes;
}

}  // namespace tilewright::cpu
