// What the bounds of boxes can be over all tiles of a schedule.
//
//   steps tile y 14 (of 56):  2*y_0 - 1 is in [-1, 83], and no multiple of 2 in every tile
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

// The least and the largest value.
std::pair<std::int64_t, std::int64_t> range_of(const Region&, const Schedule&, const Affine&);
// Whether some tile of a loop in it is smaller than a full one.
bool ragged(const Region&, const Schedule&, const Span&);
// Whether it is a multiple of n in every tile.
bool multiple_of(const Schedule&, const Affine&, std::int64_t n);

}  // namespace tilewright
