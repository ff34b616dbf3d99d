// Turns of a stream that a boolean tensor leaves out, on a GPU: a kernel ahead looks at the tensor and writes a byte for each turn of each
// tile: bit 0 where some element lets a point through, bit 1 where all do. The stream goes from one turn that counts to the next, and turns
// that count whole ask nothing of their points.
//
//   M[s t], tiles of 128 s, turns of 64 t        marks[s / 128][t / 64]
//
// The nest says it as Slots that have neither counts nor tiles: `slot` is the table of marks.
#pragma once
#include "target/cuda/detector.h"

namespace tilewright::cuda {

inline bool only_marks(const Slots& l) { return l.count < 0 && l.tile < 0; }
// The nest with such marks, where a mask guards all that some stream adds; else as it is.
Nest with_marks(const Program& planned, const Region& planned_region, const Schedule&, Nest);
// What makes them: a warp a turn of a tile.
Detection marks_of_turns(const Program&, const Slots&, const DimOrder& mask_layout);

}  // namespace tilewright::cuda
