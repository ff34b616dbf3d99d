#include <set>

#include <fmt/format.h>

#include "law/stream.h"
#include "schedule/schedule.h"

namespace tilewright {

namespace {

bool is_constant_range(const Span& s) { return s.low.terms.empty() && s.high.terms.empty(); }

// Whether the turns of a walk make a whole axis between them, each point in one of them.
bool made_by_turns(const Span& range, const Region& r, const Schedule& s, std::int64_t extent) {
  const int walk = walked_loop(s);
  if (walk < 0) return false;
  for (const Affine* bound : {&range.low, &range.high})
    for (const auto& term : bound->terms)
      if (term.first / 2 != walk) return false;
  std::vector<std::int64_t> variables(2 * s.steps.size(), 0);
  if (range.low.at(variables.data()) > 0) return false;
  variables[2 * static_cast<std::size_t>(walk) + 1] = r.axes[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(walk)].axis)].constant();
  if (range.high.at(variables.data()) < extent) return false;
  if (range.walk >= 0) return true;
  // Nothing is kept: then a turn begins where the one before it has ended.
  Affine ended = range.high;
  for (auto& term : ended.terms) term.first -= term.first % 2;
  return ended.offset == range.low.offset && ended.terms == range.low.terms;
}

// What is complete only behind a loop cannot be read inside it, and what is made anew in each of its turns not outside.
void check_order(const Program& p, const Region& r, const Schedule& s, const std::vector<Depth>& places, std::vector<Refusal>& list) {
  const int followed = followed_loop(p, r, s);
  for (int loop = 0; loop < static_cast<int>(s.steps.size()); ++loop) {
    if (loop == followed) continue;
    std::set<TensorId> behind, within;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      bool reads = false, reads_within = false;
      for_each_access(st, [&](const Access& a) {
        reads |= behind.count(a.tensor) > 0;
        reads_within |= within.count(a.tensor) > 0;
      });
      const bool inside = places[i].points > loop;
      const std::string& axis = r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(loop)].axis)];
      if (inside && reads)
        list.push_back({Refusal::Rule::incomplete, loop + 1, places[i].points,
                        fmt::format("{} needs a result that is complete only behind the loop over {}", p.tensor(st.out).name, axis)});
      if (!inside && reads_within)
        list.push_back({Refusal::Rule::incomplete, loop + 1, places[i].points,
                        fmt::format("{} needs a result that the loop over {} makes anew in each turn", p.tensor(st.out).name, axis)});
      if (inside ? places[i].result <= loop : reads) behind.insert(st.out);
      if (inside && places[i].result > loop) within.insert(st.out);
    }
  }
}

// A result is read complete, and stored once, by the tile that owns it.
void check_stores(const Program& p, const Region& r, const Schedule& s, std::vector<Refusal>& list) {
  using Rule = Refusal::Rule;
  const auto places = depths(p, r, s);
  check_order(p, r, s, places, list);
  const Boundary b = boundary(p, r);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& st = *p.statement(r.statements[i]);
    const std::string& name = p.tensor(st.out).name;
    std::set<int> cut;                              // steps that cut the result
    const auto axis_ranges = ranges(p, r, s, static_cast<int>(i));
    for (AxisId a : parallel_axes(st))
      for (const Affine* bound : {&axis_ranges[static_cast<std::size_t>(a)].low, &axis_ranges[static_cast<std::size_t>(a)].high})
        for (const auto& term : bound->terms) cut.insert(term.first / 2);
    // A stream over its own reduced axis outside of one that cuts the result: the sum would be cut short.
    for (int step = 0; step < places[i].result; ++step) {
      const RegionAxis axis = s.steps[static_cast<std::size_t>(step)].axis;
      for (AxisId x : st.reduced)
        if (plain_axis(r.image[i][static_cast<std::size_t>(x)]) == axis)
          list.push_back({Rule::incomplete, step + 1, places[i].result, fmt::format("{} is still summed over {}", name, r.names[static_cast<std::size_t>(axis)])});
    }
    if (std::find(b.outputs.begin(), b.outputs.end(), st.out) == b.outputs.end()) continue;
    for (int step = 0; step < places[i].result; ++step) {
      const AxisStep& x = s.steps[static_cast<std::size_t>(step)];
      if (!cut.count(step) && x.size < r.axes[static_cast<std::size_t>(x.axis)].constant())
        list.push_back({Rule::stored_twice, 1, 2, fmt::format("{} in each tile of {}", name, r.names[static_cast<std::size_t>(x.axis)])});
    }
    std::set<RegionAxis> used;
    for (AxisId a : parallel_axes(st)) {
      const auto x = static_cast<std::size_t>(a);
      const Span& range = axis_ranges[x];
      const auto plain = plain_axis(r.image[i][x]);
      const bool whole = is_constant_range(range) ? range.low.offset <= 0 && range.high.offset >= st.axes[x].constant()
                                                        : (plain && r.axes[static_cast<std::size_t>(*plain)] == st.axes[x] && used.insert(*plain).second) ||
                                                              made_by_turns(range, r, s, st.axes[x].constant());
      if (!whole) list.push_back({Rule::stored_in_part, 0, 0, fmt::format("{} along {}", name, st.names[x])});
    }
  }
}

}  // namespace

int followed_loop(const Program& p, const Region& r, const Schedule& s) {
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::stream && needs_stream(p, r, s.steps[i].axis)) return static_cast<int>(i);
  return -1;
}

std::vector<Refusal> legality(const Program& p, const Region& r, const Schedule& s, const Machine& m) {
  using Rule = Refusal::Rule;
  std::vector<Refusal> list;
  const std::vector<Role> role = s.steps.empty() ? std::vector<Role>() : roles(p, r);
  std::set<RegionAxis> seen;
  bool streaming = false, walking = false;
  for (const Size& e : r.axes)
    if (!e.is_constant()) list.push_back({Rule::size_unknown, 0, 0, e.text()});
  for (const AxisStep& step : s.steps) {
    const std::string& name = r.names[static_cast<std::size_t>(step.axis)];
    if (step.size <= 0) list.push_back({Rule::size_not_positive, 1, step.size, name});
    if (!seen.insert(step.axis).second) list.push_back({Rule::repeated_axis, 1, 2, name});
    if (step.how == AxisStep::How::tile) {
      if (streaming || walking) list.push_back({Rule::tile_after_stream, 0, walking, name});
      if (const auto law = may_be_tiled(r, step.axis, role[static_cast<std::size_t>(step.axis)]); !law)
        list.push_back({Rule::not_tiled, 0, 0, law.reason()});
    } else if (step.how == AxisStep::How::walk) {
      const auto no = [&](const std::string& why) { list.push_back({Rule::not_walked, 0, 0, why}); };
      if (streaming || walking) no(name + " stands inside a stream or another walk");
      if (const Laws l = laws(p, r, step.axis); !l.walk) no(l.walk.reason());
      else if (!l.tile) no(l.tile.reason());
      if (m.target != Target::cpu) no("what a turn of " + name + " has made is kept by kernels for a CPU only");
      walking = true;
    } else {
      if (walking) list.push_back({Rule::not_walked, 0, 0, name + " is streamed inside a walk: what is kept would be whole along it"});
      streaming = true;
      if (const auto law = may_be_streamed(p, r, step.axis, role[static_cast<std::size_t>(step.axis)]); !law)
        list.push_back({Rule::not_streamed, 0, 0, law.reason()});
    }
  }
  const auto streams = std::count_if(s.steps.begin(), s.steps.end(), [](const AxisStep& x) { return x.how == AxisStep::How::stream; });
  if (const int loop = followed_loop(p, r, s); loop >= 0 && list.empty()) {
    const std::string& name = r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(loop)].axis)];
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (const Statement& st = *p.statement(r.statements[i]); (st.reducer == Reducer::argmax || st.reducer == Reducer::argmin) &&
          plain_axis(r.image[i][static_cast<std::size_t>(st.reduced[0])]) == s.steps[static_cast<std::size_t>(loop)].axis)
        list.push_back({Rule::not_streamed, 0, 0, fmt::format("the winner of {} is not kept between turns", p.tensor(st.out).name)});
    if (streams > 1) list.push_back({Rule::two_streams, 1, streams, name});
    if (m.target != Target::cpu && !s.fragments) list.push_back({Rule::not_streamed, 0, 0, fmt::format("sums follow their statistics along {}, which only kernels for a CPU and those that keep rows in registers do", name)});
  }
  if (list.empty()) check_stores(p, r, s, list);
  return list;
}

const char* name_of(AxisStep::How how) {
  return how == AxisStep::How::tile ? "tile" : how == AxisStep::How::walk ? "walk" : "stream";
}

std::string text(const Refusal& refusal) {
  using Rule = Refusal::Rule;
  switch (refusal.rule) {
    case Rule::not_tiled: return "not tiled: " + refusal.where;
    case Rule::not_walked: return "not walked: " + refusal.where;
    case Rule::not_streamed: return "not streamed: " + refusal.where;
    case Rule::size_not_positive: return fmt::format("tile of {} is {}, at least {} is needed", refusal.where, refusal.have, refusal.need);
    case Rule::repeated_axis: return fmt::format("{} has more than one step", refusal.where);
    case Rule::tile_after_stream: return fmt::format("tile of {} stands inside a {}", refusal.where, refusal.have ? "walk" : "stream");
    case Rule::incomplete: return "not streamed: " + refusal.where;
    case Rule::two_streams: return fmt::format("sums follow their statistics along {}: then it is the only stream, there are {}", refusal.where, refusal.have);
    case Rule::stored_twice: return "stored more than once: " + refusal.where;
    case Rule::stored_in_part: return "made in part, but wanted whole outside of the kernel: " + refusal.where;
    case Rule::capacity: return fmt::format("{} {} B > {} B", refusal.where, refusal.need, refusal.have);
    case Rule::size_unknown: return fmt::format("size {} is not fixed (give it with --size)", refusal.where);
  }
  return {};
}

std::string text(const Region& r, const Schedule& s) {
  std::string out;
  for (const AxisStep& step : s.steps)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", name_of(step.how),
                       r.names[static_cast<std::size_t>(step.axis)], step.size);
  return out.empty() ? "whole" : out;
}

}  // namespace tilewright
