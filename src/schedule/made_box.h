// The box of a tensor that one run of a statement makes; in a walk, what earlier turns have not.
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

inline std::vector<Span> made_box(const Program& p, const Statement& s, const std::vector<Span>& axis_ranges) {
  std::vector<Span> box;
  for (std::size_t d = 0; d < s.at.size(); ++d) {
    box.push_back(hull(s.at[d], axis_ranges, p.tensor(s.out).dims[d]));
    const auto axis = plain_axis(s.at[d]);
    if (!axis) continue;
    const Span& range = axis_ranges[static_cast<std::size_t>(*axis)];
    box.back().walk = range.walk, box.back().kept = range.kept;
  }
  return box;
}

} // namespace tilewright
