// Kernels that make, ahead of a kernel with a loop through slots, the tables of that loop (loop/nest.h, Slots). Nothing is asked of the
// host, nothing has to be cleared, and what they write does not depend on which thread comes first: lists ascend.
//
//   zeros or a mask     find: a block reads a group in pieces of 16 bytes and lists what lives, places by ballots
//   rows                mark: a byte a micro-tile; then count and place: rows that live, then the others, with the tiles that they fall into
//   lengths, keys       count and place
#pragma once
#include "loop/nest.h"
#include "schedule/layout.h"

namespace tilewright::cuda {

struct Ahead {
  enum class Argument { source, slot, count, tile, marks, parts, fault };
  std::string name, text;                // without the primitives
  std::vector<Argument> arguments;
  std::int64_t blocks = 1, scratch = 0;
  int threads = 256;
};
struct Detection {
  std::vector<Ahead> kernels;            // in the order in which they run
  std::int64_t marks = 0, parts = 0;     // bytes that they hand to one another
};
// `size`: rows of a tile of the grid's loop. Refused where the source's micro-tiles cannot be counted.
Or<Detection> detection(const Program&, const Slots&, std::int64_t size, const DimOrder& source_layout);

}  // namespace tilewright::cuda
