// A nest as CUDA C++: one block a tile of the grid, its loops and computes as they stand in the nest.
//
//   for y grid: for c seq: load X; window D; contract acc     ->    extern "C" __global__ void Z(const f16* X, ...) { ... }
//
// What may be refused here and nowhere earlier: a leaf that the nest asks for but that its operands do not fit.
#pragma once
#include <string>

#include "loop/points.h"
#include "schedule/layout.h"
#include "target/cuda/tensor_map.h"

namespace tilewright::cuda {

struct Source {
  std::string name;                      // of the entry
  std::string text;                      // without the primitives
  std::vector<TensorId> arguments;       // pointers, in order: inputs, then outputs
  std::vector<TensorMap> maps;           // of arguments that the copy engine reads: it is given these, over their addresses
  std::int64_t blocks = 1;
  int threads = 1;
  std::int64_t scratch = 0;              // bytes of dynamic shared memory
  bool faults = false;                   // a last argument: a word that is not 0 once an index was out of range
  bool waits = false;                    // for the kernel in front, by itself: it may be started early
};

std::string_view primitives();
Or<Source> source_of(const Program&, const Region&, const Schedule&, const Nest&, const std::vector<DimOrder>& layouts);

}  // namespace tilewright::cuda
