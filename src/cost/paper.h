// The cost equations of the planner that this one grew out of (spec fcm 2.3), for comparison only. Each tensor counts whole, once
// for each tile that does not cut it, and twice what lies between neighbouring tiles.
//
//   pointwise 24 -> 144, then 3x3, on 56 x 56 in tiles of f 8, y 14, x 14:
//     X 18 * 75264 + 2 * 672 * 24, weights 16 * 4752, result 451584                 1,914,624 elements; exactly 2,188,224
//
// What they miss, and cost.h counts: a halo is read again by each tile of filters; what overlaps is no multiple of the kernel's
// reach at the edges, and has not two sides; a stride skips pixels; weights of a window that is computed again are read again.
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

class PaperModel {
 public:
  PaperModel(const Program&, const Region&, const Schedule& order);
  std::int64_t bytes(const std::vector<std::int64_t>& sizes) const;     // one a step

 private:
  struct Overlap { std::size_t step; std::int64_t elements; };          // of each border between two tiles of the step
  struct Moved { std::int64_t elements, width; std::vector<std::size_t> repeated; std::vector<Overlap> overlaps; };
  Moved moved(const Program&, const Transfer&) const;
  std::vector<Moved> moved_;
  std::vector<std::int64_t> extents_;                                   // of the steps' axes
};

}  // namespace tilewright
