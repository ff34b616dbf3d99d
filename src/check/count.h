// Counts what a nest moves by walking every loop, and checks that each loaded box is exactly the hull of what the computes below
// read. It knows nothing of cost/ or schedule/'s sums: it is the referee of both (cost == count, to the byte).
#pragma once
#include <map>

#include "loop/nest.h"

namespace tilewright {

struct Counted {
  std::map<TensorId, std::int64_t> loaded, stored;    // bytes
  std::int64_t total() const;
};

// points: also enumerates every point of every compute and checks its reads one by one (small shapes only). Error(internal)
// names the buffer and the loop values where a box is not what is read.
Counted count(const Program&, const Nest&, bool points);

}  // namespace tilewright
