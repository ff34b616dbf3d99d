#include <set>

#include <fmt/format.h>

#include "schedule/schedule.h"

namespace tilewright {

std::vector<Refusal> legality(const Program& p, const Region& r, const Schedule& s, const Machine&) {
  using Rule = Refusal::Rule;
  std::vector<Refusal> list;
  std::set<RegionAxis> seen;
  bool streaming = false;
  for (const Size& e : r.axes)
    if (!e.is_constant()) list.push_back({Rule::size_unknown, 0, 0, e.text()});
  for (const AxisStep& step : s.steps) {
    const std::string& name = r.names[static_cast<std::size_t>(step.axis)];
    const Laws l = laws(p, r, step.axis);
    if (step.size <= 0) list.push_back({Rule::size_not_positive, 1, step.size, name});
    if (!seen.insert(step.axis).second) list.push_back({Rule::repeated_axis, 1, 2, name});
    if (step.how == AxisStep::How::tile) {
      if (streaming) list.push_back({Rule::tile_after_stream, 0, 0, name});
      if (!l.tile) list.push_back({Rule::not_tiled, 0, 0, l.tile.reason()});
    } else {
      streaming = true;
      if (!l.stream) list.push_back({Rule::not_streamed, 0, 0, l.stream.reason()});
    }
  }
  return list;
}

std::string text(const Refusal& refusal) {
  using Rule = Refusal::Rule;
  switch (refusal.rule) {
    case Rule::not_tiled: return "not tiled: " + refusal.where;
    case Rule::not_streamed: return "not streamed: " + refusal.where;
    case Rule::size_not_positive: return fmt::format("tile of {} is {}, at least {} is needed", refusal.where, refusal.have, refusal.need);
    case Rule::repeated_axis: return fmt::format("{} has more than one step", refusal.where);
    case Rule::tile_after_stream: return fmt::format("tile of {} stands inside a stream", refusal.where);
    case Rule::capacity: return fmt::format("{} {} B > {} B", refusal.where, refusal.need, refusal.have);
    case Rule::size_unknown: return fmt::format("size {} is not fixed (give it with --size)", refusal.where);
  }
  return {};
}

std::string text(const Region& r, const Schedule& s) {
  std::string out;
  for (const AxisStep& step : s.steps)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", step.how == AxisStep::How::tile ? "tile" : "stream",
                       r.names[static_cast<std::size_t>(step.axis)], step.size);
  return out.empty() ? "whole" : out;
}

}  // namespace tilewright
