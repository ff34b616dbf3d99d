#include "model/derivation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "expr/text.h"
#include "law/cascades.h"
#include "model/live.h"
#include "normal/normal.h"
#include "plan/plan.h"

namespace tilewright {

Room room_of(const Machine& m) {
  const Level& scratch = m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))];
  Room room;
  room.scratch = static_cast<double>(m.core.block_scratch > 0 ? m.core.block_scratch
                                     : scratch.usable > 0     ? scratch.usable
                                                              : scratch.capacity);
  if (m.target == Target::cuda) room.registers = 4.0 * static_cast<double>(m.core.registers);
  return room;
}

std::vector<TileSize> tiles_of(const Region& r, const Schedule& s) {
  const Names n = names_of(r, s);
  std::vector<TileSize> out;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const auto a = static_cast<std::size_t>(s.steps[i].axis);
    if (s.steps[i].how == AxisStep::How::tile)
      out.push_back({n.steps[i], n.axes[a], static_cast<double>(r.axes[a].constant())});
  }
  return out;
}

Or<ClosedForm> closed_form(const Program& p, const Part& part, Count c) {
  const Flow f = flow(p, part.region, part.schedule);
  const auto tiles = tiles_of(part.region, part.schedule);
  if (tiles.empty()) return Refused{"no axis is tiled"};
  return closed_form(f.run(c), resident_part(f.operands(c), f.stream_symbols(), tiles), tiles, f.point);
}

std::vector<std::string> source_lines(const Program& p, const Part& part) {
  std::vector<std::string> lines;
  for (StatementId id : part.region.statements) lines.push_back(print(p, *p.statement(id)));
  return lines;
}

namespace {

using Group = std::vector<StatementId>;

// What the author wrote as one statement, or a model as one node.
std::vector<Group> by_source(const Program& p) {
  std::vector<Group> groups;
  std::pair<int, std::string> last{0, ""};
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const auto id = static_cast<StatementId>(n);
    const Statement* s = p.statement(id);
    if (!s) continue;
    const std::pair<int, std::string> at{s->place.line, s->place.node};
    const bool known = at.first > 0 || !at.second.empty();
    if (known && !groups.empty() && at == last)
      groups.back().push_back(id);
    else
      groups.push_back({id});
    last = at;
  }
  return groups;
}

// Bytes in scratch and in registers, whichever is fuller, as a share of what there is.
struct Fill {
  std::vector<Formula> scratch, registers;
  Room room;

  Fill(const Columns& c, const Room& r) : room(r) {
    for (std::size_t i = 0; i < c.columns.size(); ++i) {
      Formula operands, made;
      std::set<int> seen;
      for (int v : c.columns[i].live) {
        const Lived& value = c.values[static_cast<std::size_t>(v)];
        if (!seen.insert(value.slot).second) continue;
        Formula& side = value.loaded || r.registers == 0 ? operands : made;
        side = side + static_cast<double>(bytes_of(value.held)) * value.size;
      }
      add(scratch, operands), add(registers, made);
    }
  }
  static void add(std::vector<Formula>& list, const Formula& f) {
    if (!f.is_zero() && std::find(list.begin(), list.end(), f) == list.end()) list.push_back(f);
  }
  double at(const Point& point) const {
    const double s = most(scratch, point) / room.scratch;
    return room.registers == 0 ? s : std::max(s, most(registers, point) / room.registers);
  }
};

struct Joiner {
  const Program& p;
  const Machine& m;
  Machine any_target; // what a target can print is not asked here
  Room room;
  Readers readers;

  Joiner(const Program& program, const Machine& machine)
      : p(program), m(machine), any_target(machine), room(room_of(machine)), readers(readers_by_tensor(program)) {
    any_target.target = Target::cpu;
  }

  std::int64_t extent(const Region& r, RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  std::string name_of_last(const Group& g) const { return p.tensor(p.statement(g.back())->out).name; }

  std::optional<Region> region(const Group& g) const {
    auto r = unify(p, g);
    if (!r) return std::nullopt;
    fix_boundary(p, readers, *r);
    return *r;
  }

  // Operations at these sizes over operations without any cut.
  double again(const Region& r, const Schedule& s) const {
    const Flow cut = flow(p, r, s), whole = flow(p, r, {});
    return whole.flops.is_zero() ? 1 : cut.flops.at(cut.point) / whole.flops.at(whole.point);
  }

  bool allowed(const Region& r, const Schedule& s) const { return legality(p, r, s, any_target).empty(); }

  // All tiles that are legal beside the stream and make nothing much again, in the order of the region's axes.
  Schedule structure(const Region& r, std::optional<RegionAxis> stream) const {
    Schedule s;
    const auto role = roles(p, r);
    auto with = [&](const std::vector<AxisStep>& tiles) {
      Schedule out;
      out.steps = tiles;
      if (stream)
        out.steps.push_back({AxisStep::How::stream, *stream, std::max<std::int64_t>(1, extent(r, *stream) / 4)});
      return out;
    };
    std::vector<AxisStep> tiles;
    for (RegionAxis a = 0; a < static_cast<RegionAxis>(r.axes.size()); ++a) {
      if (role[static_cast<std::size_t>(a)].reducer != Reducer::none || extent(r, a) <= 1) continue;
      auto more = tiles;
      more.push_back({AxisStep::How::tile, a, ceil_div_i64(extent(r, a), 2)});
      if (allowed(r, with(more)) && again(r, with(more)) < 1.5) tiles = more;
    }
    return with(tiles);
  }

  std::vector<std::optional<RegionAxis>> streams(const Region& r) const {
    std::vector<std::optional<RegionAxis>> list{std::nullopt};
    std::vector<RegionAxis> following, plain;
    const auto role = roles(p, r);
    for (RegionAxis a = 0; a < static_cast<RegionAxis>(r.axes.size()); ++a) {
      if (role[static_cast<std::size_t>(a)].reducer == Reducer::none || extent(r, a) <= 1) continue;
      (needs_stream(p, r, a) ? following : plain).push_back(a);
    }
    for (RegionAxis a : following.empty() ? plain : following) list.emplace_back(a);
    return list;
  }

  // The best whole sizes of a structure; the chunk is short while tiles are chosen, and takes what room is left.
  Part sized(const Region& r, Schedule s) const {
    Part part{r, std::move(s), name_of_last(r.statements), 0, "", 0};
    Schedule& order = part.schedule;
    const Divisors div = divisors(p, r, m, false);
    Lattice lattice;
    std::size_t tiles = 0;
    for (AxisStep& step : order.steps) {
      const std::int64_t n = extent(r, step.axis), g = std::min(div.granule(step.axis), n);
      if (step.how == AxisStep::How::stream)
        step.size = g;
      else
        lattice.axes.push_back({n, g}), ++tiles;
    }
    const Nest nest = expand(p, r, order, part.name);
    const Columns c = columns(p, r, order, nest);
    const Fill fill(c, room);
    const Model model(p, r, order, any_target);
    auto all = [&](const std::vector<std::int64_t>& t) {
      std::vector<std::int64_t> sizes = t;
      for (std::size_t i = tiles; i < order.steps.size(); ++i) sizes.push_back(order.steps[i].size);
      return sizes;
    };
    auto held = [&](const std::vector<std::int64_t>& sizes) {
      Point point = c.point;
      for (std::size_t i = 0; i < sizes.size(); ++i) point[c.names.steps[i]] = static_cast<double>(sizes[i]);
      return fill.at(point);
    };
    lattice.moved = [&](const auto& t) {
      const Cost cost = model.at(all(t));
      return static_cast<double>(cost.loaded + cost.stored);
    };
    lattice.footprint = [&](const auto& t) { return held(all(t)); };
    lattice.memory = 1;
    const auto best = best_on_lattice(lattice);
    if (!best) {
      std::vector<std::int64_t> least;
      for (const auto& a : lattice.axes) least.push_back(std::min(a.extent, a.granule));
      part.over = held(all(least));
      part.full =
          fmt::format("{} holds {:.3g} times what a tile may hold, at its smallest tiles", part.name, part.over);
      for (std::size_t i = 0; i < tiles; ++i) order.steps[i].size = least[i];
      part.moved = lattice.moved(least);
      return part;
    }
    for (std::size_t i = 0; i < tiles; ++i) order.steps[i].size = best->sizes[i];
    part.moved = best->moved;
    grow_chunk(part, tiles, held);
    return part;
  }

  template <class Held> void grow_chunk(Part& part, std::size_t at, const Held& held) const {
    if (at >= part.schedule.steps.size()) return;
    AxisStep& step = part.schedule.steps[at];
    const std::int64_t n = extent(part.region, step.axis);
    std::vector<std::int64_t> sizes;
    for (const AxisStep& s : part.schedule.steps) sizes.push_back(s.size);
    while (step.size < n && step.size < 128) {
      sizes[at] = std::min(n, 2 * step.size);
      if (held(sizes) > 1) return;
      step.size = sizes[at];
    }
  }

  std::optional<Part> best(const Group& g) const {
    const auto r = region(g);
    if (!r) return std::nullopt;
    std::optional<Part> found;
    for (const auto& stream : streams(*r)) {
      const Schedule s = structure(*r, stream);
      if (!allowed(*r, s)) continue;
      Part part = sized(*r, s);
      const bool better = !found || (part.full.empty() != found->full.empty() ? part.full.empty()
                                     : part.full.empty()                      ? part.moved < found->moved * (1 - 1e-6)
                                                                              : part.over < found->over * (1 - 1e-6));
      if (better) found = std::move(part);
    }
    return found;
  }

  // ---- joining

  std::vector<Part> joined() const {
    std::vector<Part> parts;
    std::set<StatementId> taken;
    for (const Cascade& c : cascades(p)) {
      if (std::any_of(c.statements.begin(), c.statements.end(), [&](StatementId id) { return taken.count(id) > 0; }))
        continue;
      auto part = best(c.statements);
      if (!part) continue; // also where tiles become small or do not fit: that is told
      taken.insert(c.statements.begin(), c.statements.end());
      parts.push_back(std::move(*part));
    }
    for (Group g : fold_maps(p).groups) {
      std::erase_if(g, [&](StatementId id) { return taken.count(id) > 0; });
      if (g.empty()) continue;
      if (auto part = best(g))
        parts.push_back(std::move(*part));
      else
        for (StatementId id : g)
          if (auto one = best({id})) parts.push_back(std::move(*one));
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.region.statements.back() < b.region.statements.back(); });
    // Pairs, while one of them pays; a long program is left as its cascades are.
    while (parts.size() > 1 && parts.size() <= 16) {
      bool any = false;
      for (std::size_t i = 0; i < parts.size() && !any; ++i)
        for (std::size_t j = i + 1; j < parts.size() && !any; ++j)
          if (neighbours(parts[i], parts[j])) any = join(parts, {i, j});
      if (!any) break;
    }
    return parts;
  }

  bool neighbours(const Part& a, const Part& b) const {
    const Boundary &x = *a.region.bound, &y = *b.region.bound;
    return std::any_of(x.outputs.begin(), x.outputs.end(),
                       [&](TensorId t) { return std::count(y.inputs.begin(), y.inputs.end(), t) > 0; });
  }

  bool join(std::vector<Part>& parts, const std::vector<std::size_t>& members) const {
    Group all;
    double apart = 0;
    for (std::size_t i : members) {
      const Group& g = parts[i].region.statements;
      all.insert(all.end(), g.begin(), g.end());
      apart += parts[i].moved;
    }
    std::sort(all.begin(), all.end());
    auto together = best(all);
    if (!together || !together->full.empty() || together->moved > 0.99 * apart) return false;
    parts[members[0]] = std::move(*together);
    for (std::size_t k = members.size(); k-- > 1;) parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(members[k]));
    return true;
  }
};

Move::Numbers numbers(const Program& p, const std::vector<Part>& parts, Count c) {
  Move::Numbers n;
  for (const Part& part : parts) {
    const Flow f = flow(p, part.region, part.schedule);
    n.moved = n.moved + f.run(c);
    n.moved_at += f.run(c).at(f.point);
    const Columns cols = columns(p, part.region, part.schedule, expand(p, part.region, part.schedule, part.name));
    const Formula peak = cols.peak(c);
    if (const double held = peak.at(cols.point); held > n.held_at) n.held = peak, n.held_at = held;
  }
  return n;
}

Move::Numbers crossing(const Program&, const std::vector<Group>&, Count);

struct Teller {
  Derivation out;

  void groups(std::string name, std::string does, std::shared_ptr<const Program> p) {
    Move m{std::move(name), std::move(does), std::move(p), {}, {}, {}, {}};
    m.groups = by_source(*m.program);
    m.values = crossing(*m.program, m.groups, Count::values), m.bytes = crossing(*m.program, m.groups, Count::bytes);
    out.moves.push_back(std::move(m));
  }

  void move(std::string name, std::string does, std::shared_ptr<const Program> p, std::vector<Part> parts) {
    Move m{std::move(name), std::move(does), std::move(p), {}, std::move(parts), {}, {}};
    for (const Part& part : m.parts) m.groups.push_back(part.region.statements);
    m.values = numbers(*m.program, m.parts, Count::values);
    m.bytes = numbers(*m.program, m.parts, Count::bytes);
    out.moves.push_back(std::move(m));
  }
};

// The steps of a schedule of one kind, in all parts.
std::vector<Part> only(std::vector<Part> parts, bool streams, bool tiles) {
  for (Part& part : parts)
    std::erase_if(part.schedule.steps,
                  [&](const AxisStep& s) { return s.how == AxisStep::How::stream ? !streams : !tiles; });
  return parts;
}

std::string axes_of(const std::vector<Part>& parts, AxisStep::How how) {
  std::string text;
  for (const Part& part : parts) {
    const Names n = names_of(part.region, part.schedule);
    for (const AxisStep& s : part.schedule.steps)
      if (s.how == how) text += (text.empty() ? "" : ", ") + n.axes[static_cast<std::size_t>(s.axis)];
  }
  return text;
}

bool follows(const Program& p, const std::vector<Part>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return followed_loop(p, part.region, part.schedule) >= 0; });
}

// Groups as kernels that hold everything: each tensor that crosses their border is moved once, whole.
Move::Numbers crossing(const Program& p, const std::vector<Group>& groups, Count c) {
  Move::Numbers n;
  const Readers readers = readers_by_tensor(p);
  for (const Group& g : groups) {
    const std::set<StatementId> inside(g.begin(), g.end());
    std::map<TensorId, Formula> moved;
    double at = 0;
    std::set<TensorId> made;
    for (StatementId id : g) {
      const auto r = unify(p, {id});
      if (!r) continue;
      const Schedule none;
      const Extents e(p, *r, none);
      const Statement& s = *p.statement(id);
      auto add = [&](TensorId t, const std::vector<Index>& index) {
        const double width = c == Count::bytes ? static_cast<double>(bytes_of(p.tensor(t).dtype)) : 1;
        if (!moved.count(t)) moved[t] = width * e.box(*r, 0, index, p.tensor(t)), at += moved[t].at(e.point);
      };
      for_each_access(s, [&](const Access& a) {
        if (!made.count(a.tensor)) add(a.tensor, a.at);
      });
      made.insert(s.out);
      const auto& list = readers[static_cast<std::size_t>(s.out)];
      if (p.is_result(s.out) || std::any_of(list.begin(), list.end(), [&](StatementId x) { return !inside.count(x); }))
        add(s.out, s.at);
    }
    Formula total;
    for (const auto& one : moved) total = total + one.second;
    n.moved = n.moved + total, n.moved_at += at;
    if (at > n.held_at) n.held = total, n.held_at = at;
  }
  return n;
}

void tell(Teller& t, const std::shared_ptr<const Program>& normal, const std::shared_ptr<const Program>& formed,
          const std::vector<Part>& parts) {
  t.groups("start", "each statement, as it was written, is a kernel", normal);
  if (!same(*normal, *formed)) t.groups("factors", "what statistics multiply is taken out of the sums", formed);
  const auto fused = only(parts, false, false);
  t.move(parts.size() == 1 ? "one kernel" : fmt::format("{} kernels", parts.size()),
         "what lies between is held, not stored", formed, fused);
  if (const std::string axes = axes_of(parts, AxisStep::How::stream); !axes.empty())
    t.move("stream " + axes,
           follows(*formed, parts) ? "a chunk a turn; sums follow their statistics" : "a chunk a turn", formed,
           only(parts, true, false));
  if (const std::string axes = axes_of(parts, AxisStep::How::tile); !axes.empty())
    t.move("tile " + axes, "each tile is on its own; inputs without the axis are sent to each", formed, parts);
}

} // namespace

Derivation derive(const Program& fixed, const Machine& m) {
  const auto normal = std::make_shared<const Program>(normalise(fixed));
  Teller t;
  const auto formed = std::make_shared<const Program>(stream_forms(*normal, &t.out.refused));
  const std::vector<Part> parts = Joiner(*formed, m).joined();
  tell(t, normal, formed, parts);
  return std::move(t.out);
}

} // namespace tilewright
