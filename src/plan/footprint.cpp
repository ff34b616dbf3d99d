#include "plan/footprint.h"

#include <algorithm>
#include <set>

namespace tilewright {

Footprint::Footprint(const Program& p, const Region& r, const Schedule& order) {
  for (const AxisStep& s : order.steps) extents_.push_back(r.axes[static_cast<std::size_t>(s.axis)].constant());
  auto add = [&](TensorId t, const std::vector<Span>& box, bool stored) {
    Box b{{}, static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype)), stored};
    for (std::size_t d = 0; d < box.size(); ++d) {
      std::set<std::size_t> steps;
      for (const Affine* end : {&box[d].low, &box[d].high})
        for (const auto& term : end->terms) steps.insert(static_cast<std::size_t>(term.first) / 2);
      b.dims.push_back({box[d], p.tensor(t).dims[d].constant(), {steps.begin(), steps.end()}});
    }
    boxes_.push_back(std::move(b));
  };
  std::set<TensorId> kept; // made here, read by a reduction
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (s.reduced.empty()) continue;
    for_each_access(s, [&](const Access& a) { kept.insert(a.tensor); });
  }
  for (const Transfer& t : transfers(p, r, order))
    if (!t.store || !kept.count(t.tensor)) add(t.tensor, t.box, t.store);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (!kept.count(s.out)) continue;
    const auto axis_ranges = ranges(p, r, order, static_cast<int>(i));
    std::vector<Span> box;
    for (std::size_t d = 0; d < s.at.size(); ++d) {
      box.push_back(hull(s.at[d], axis_ranges, p.tensor(s.out).dims[d]));
      // A ring has room for as much again as it keeps.
      if (const auto x = plain_axis(s.at[d]); x && axis_ranges[static_cast<std::size_t>(*x)].walk >= 0) {
        const Span& range = axis_ranges[static_cast<std::size_t>(*x)];
        box.back().high.offset += range.kept.offset - range.low.offset;
      }
    }
    add(s.out, box, false);
  }
}

// The first tile may lose its halo at the edge, and the last one may be ragged: the second is the largest if there is
// one.
std::int64_t Footprint::most(const Dim& d, const std::vector<std::int64_t>& sizes) const {
  std::int64_t most = 0;
  for (const std::int64_t tile : {0, 1}) {
    std::int64_t variables[2 * 32] = {};
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      const std::int64_t low = tile * sizes[s] < extents_[s] ? tile * sizes[s] : 0;
      variables[2 * s] = low, variables[2 * s + 1] = std::min(low + sizes[s], extents_[s]);
    }
    most = std::max(most, d.span.count(variables, d.extent));
  }
  return most;
}

Footprint::Bytes Footprint::at(const std::vector<std::int64_t>& sizes) const {
  TW_ASSERT(sizes.size() == extents_.size() && sizes.size() <= 32);
  places_.find(sizes);
  Bytes sum;
  for (const Box& b : boxes_) {
    std::int64_t bytes = b.width;
    for (const Dim& d : b.dims)
      bytes = checked_mul(bytes, d.known.at(places_, d.steps, [&] { return most(d, sizes); }));
    (b.stored ? sum.all : sum.held) += bytes;
  }
  sum.all += sum.held;
  return sum;
}

} // namespace tilewright
