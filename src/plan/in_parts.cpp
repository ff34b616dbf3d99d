#include "plan/in_parts.h"

#include "law/parts.h"
#include "plan/block_price.h"

namespace tilewright {

namespace {

constexpr std::int64_t least_part = 128, granule = 64; // elements of a stream

std::int64_t tiles_of(const Region& r, const Schedule& s) {
  std::int64_t n = 1;
  for (const AxisStep& step : s.steps)
    if (step.how == AxisStep::How::tile) n = checked_mul(n, ceil_div_i64(r.axes[static_cast<std::size_t>(step.axis)].constant(), step.size));
  return n;
}

// As many equal parts as there are cores for, two for each at most; 1: there are none.
std::int64_t parts_for(std::int64_t extent, std::int64_t tiles, std::int64_t cores) {
  for (std::int64_t n = 2 * cores / tiles; n > 1; --n)
    if (extent % (n * granule) == 0 && extent / n >= least_part) return n;
  return 1;
}

std::optional<Program> one_more(const Program& p, const Machine& m) {
  const auto layouts = choose_layouts(p, true);
  for (const Cascade& c : cascades(p)) {
    const Size& extent = c.region.axes[static_cast<std::size_t>(c.axis)];
    if (!c.running || !extent.is_constant()) continue;
    const auto choices = fragment_choices(p, c.region, m, layouts);
    if (choices.empty()) continue;
    const std::int64_t tiles = tiles_of(c.region, choices[0].schedule), parts = 2 * tiles > m.core.count ? 1 : parts_for(extent.constant(), tiles, m.core.count);
    if (parts < 2) continue;
    if (auto parted = stream_in_parts(p, c, parts)) return std::move(*parted);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Program> in_parts(const Program& p, const Machine& m) {
  if (m.target != Target::cuda) return std::nullopt;
  std::optional<Program> all;
  while (auto more = one_more(all ? *all : p, m)) all = std::move(more);
  return all;
}

}  // namespace tilewright
