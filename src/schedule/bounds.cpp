#include "schedule/bounds.h"

#include <algorithm>

namespace tilewright {

namespace {

std::int64_t extent_of(const Region& r, const AxisStep& step) { return r.axes[static_cast<std::size_t>(step.axis)].constant(); }

}  // namespace

std::pair<std::int64_t, std::int64_t> range_of(const Region& r, const Schedule& s, const Affine& a) {
  std::pair<std::int64_t, std::int64_t> all{a.offset, a.offset};
  for (const auto& [v, c] : a.terms) {
    const AxisStep& step = s.steps[static_cast<std::size_t>(v / 2)];
    const std::int64_t extent = extent_of(r, step), size = std::min(step.size, extent);
    const std::int64_t least = v % 2 ? size : 0, most = v % 2 ? extent : (ceil_div_i64(extent, size) - 1) * size;
    all.first += std::min(c * least, c * most), all.second += std::max(c * least, c * most);
  }
  return all;
}

bool ragged(const Region& r, const Schedule& s, const Span& span) {
  for (const Affine* a : {&span.low, &span.high})
    for (const auto& term : a->terms) {
      const AxisStep& step = s.steps[static_cast<std::size_t>(term.first / 2)];
      if (const std::int64_t extent = extent_of(r, step); step.size < extent && extent % step.size) return true;
    }
  return false;
}

bool multiple_of(const Schedule& s, const Affine& a, std::int64_t n) {
  if (a.offset % n) return false;
  for (const auto& [v, c] : a.terms)
    if (v % 2 || c * s.steps[static_cast<std::size_t>(v / 2)].size % n) return false;
  return true;
}

}  // namespace tilewright
