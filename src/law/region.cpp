#include "law/region.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace tilewright {

namespace {

const Statement& at(const Program& p, StatementId id) {
  const Statement* s = p.statement(id);
  TW_ASSERT(s != nullptr);
  return *s;
}

using Accesses = std::vector<const Access*>;
Accesses accesses_of(const Statement& s) {
  Accesses found;
  for_each_access(s, [&](const Access& a) { found.push_back(&a); });
  return found;
}

// The image of a producer's axes under one access of a reader: each parallel axis is the reader's index of its dim.
Or<std::vector<Index>> image_through(const Program& p, const Statement& producer, const Access& access,
                                     const std::vector<Index>& reader_image) {
  std::vector<Index> image(producer.axes.size());
  std::vector<bool> known(producer.axes.size(), false);
  for (std::size_t d = 0; d < producer.at.size(); ++d) {
    const auto axis = plain_axis(producer.at[d]);
    if (!axis && p.tensor(producer.out).dims[d] == Size(1)) continue;   // one element: any index of it is that one
    if (!axis) return Refused{fmt::format("dim {} of {} is written through an index that cannot be inverted", d,
                                          p.tensor(producer.out).name)};
    Index through = substitute(p, access.at[d], reader_image);
    // The one element of an axis of extent 1 is number 0, however it is asked for.
    if (producer.axes[static_cast<std::size_t>(*axis)] == Size(1) && !plain_axis(through)) through = constant_index(0);
    image[static_cast<std::size_t>(*axis)] = std::move(through);
    known[static_cast<std::size_t>(*axis)] = true;
  }
  for (AxisId a : producer.reduced) known[static_cast<std::size_t>(a)] = true;
  for (bool k : known)
    if (!k) return Refused{fmt::format("{} does not write all of its axes", p.tensor(producer.out).name)};
  return image;
}

// Statements outside the set that lie on a path between two of its members.
bool convex(const Program& p, const std::vector<StatementId>& set, StatementId* offender) {
  std::set<TensorId> tainted;   // written outside the set, from a value of the set
  std::set<TensorId> inside;
  for (StatementId id = set.front(); id <= set.back(); ++id) {
    const bool member = std::binary_search(set.begin(), set.end(), id);
    bool reads_inside = false, reads_tainted = false;
    std::vector<TensorId> out;
    if (const Statement* s = p.statement(id)) {
      for_each_access(*s, [&](const Access& a) {
        reads_inside |= inside.count(a.tensor) > 0;
        reads_tainted |= tainted.count(a.tensor) > 0;
      });
      out = {s->out};
    } else {
      const Opaque& o = std::get<Opaque>(p.nodes[static_cast<std::size_t>(id)]);
      for (TensorId t : o.in) {
        reads_inside |= inside.count(t) > 0;
        reads_tainted |= tainted.count(t) > 0;
      }
      out = o.out;
    }
    if (member && reads_tainted) {
      *offender = id;
      return false;
    }
    for (TensorId t : out) {
      if (member) inside.insert(t);
      else if (reads_inside || reads_tainted) tainted.insert(t);
    }
  }
  return true;
}

struct Unifier {
  const Program& p;
  Region region;
  std::vector<bool> done;
  std::vector<Accesses> accesses = {};             // of each statement
  std::vector<TensorId> results = {};

  RegionAxis fresh(const Statement& s, AxisId a) {
    region.axes.push_back(s.axes[static_cast<std::size_t>(a)]);
    std::string name = s.names.size() > static_cast<std::size_t>(a) ? s.names[static_cast<std::size_t>(a)] : "a";
    while (std::count(region.names.begin(), region.names.end(), name) > 0) name += "'";
    region.names.push_back(name);
    return static_cast<RegionAxis>(region.axes.size()) - 1;
  }

  // From the last statement backwards: a statement that no later member reads opens region axes of its own, unless it reads a
  // member whose image is known; a producer's axes are what its readers make of them.
  std::string run() {
    const auto count = region.statements.size();
    region.image.resize(count);
    done.assign(count, false);
    for (StatementId id : region.statements)
      accesses.push_back(accesses_of(at(p, id))), results.push_back(at(p, id).out);
    for (std::size_t i = count; i-- > 0;) {
      const Statement& s = at(p, region.statements[i]);
      std::vector<Index> image;
      for (std::size_t r = i + 1; r < count; ++r) {
        for (const Access* a : accesses[r]) {
          if (a->tensor != s.out) continue;
          auto through = image_through(p, s, *a, region.image[r]);
          if (!through) return through.reason();
          if (image.empty() && !s.axes.empty()) {
            image = *through;
          } else {
            for (AxisId x : parallel_axes(s))
              if (!(image[static_cast<std::size_t>(x)] == (*through)[static_cast<std::size_t>(x)]))
                return fmt::format("{} is read through two maps", p.tensor(s.out).name);
          }
        }
      }
      if (image.empty()) {
        image.resize(s.axes.size());
        for (AxisId a : parallel_axes(s)) image[static_cast<std::size_t>(a)] = axis_index(sink_axis(i, a));
      }
      for (AxisId a : s.reduced) image[static_cast<std::size_t>(a)] = axis_index(reduced_axis(s, a, image));
      region.image[i] = std::move(image);
      done[i] = true;
    }
    return {};
  }

  // Reductions along one dim of one tensor share its axis, where the axes of both can be it.
  RegionAxis reduced_axis(const Statement& s, AxisId axis, const std::vector<Index>& image) {
    const auto taken = [&](RegionAxis r) {
      for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a)
        if (a != axis && mentions_axis(image[static_cast<std::size_t>(a)], r)) return true;
      return false;
    };
    const Dims mine = along(s, axis);
    for (std::size_t other = region.statements.size(); other-- > 0;) {
      if (!done[other]) continue;
      const Statement& o = at(p, region.statements[other]);
      for (AxisId b : o.reduced) {
        const auto r = plain_axis(region.image[other][static_cast<std::size_t>(b)]);
        if (!r || taken(*r) || !(region.axes[static_cast<std::size_t>(*r)] == s.axes[static_cast<std::size_t>(axis)])) continue;
        if (mine.empty() && reads_through_maps(o, s.out)) return *r;          // it counts what the other sums
        const Dims theirs = along(o, b);
        if (std::any_of(mine.begin(), mine.end(), [&](const auto& dim) { return theirs.count(dim) > 0; })) return *r;
      }
    }
    return fresh(s, axis);
  }

  bool reads_through_maps(const Statement& s, TensorId t) const {
    bool found = false;
    for_each_access(s, [&](const Access& a) {
      found = found || a.tensor == t;
      for (StatementId id : region.statements)
        if (const Statement& w = at(p, id); !found && w.out == a.tensor && is_map(w)) found = reads_through_maps(w, t);
    });
    return found;
  }

  // The dims along which a statement reads at an axis alone, itself or through maps of the set.
  using Dims = std::set<std::pair<TensorId, std::size_t>>;
  Dims along(const Statement& s, AxisId axis) const {
    Dims dims;
    std::vector<std::pair<const Statement*, AxisId>> open{{&s, axis}};
    while (!open.empty()) {
      const auto [reader, x] = open.back();
      open.pop_back();
      for_each_access(*reader, [&, x = x](const Access& a) {
        for (std::size_t d = 0; d < a.at.size(); ++d) {
          if (plain_axis(a.at[d]) != x || !dims.insert({a.tensor, d}).second) continue;
          for (StatementId id : region.statements) {
            const Statement& w = at(p, id);
            const auto its = w.out == a.tensor && is_map(w) ? plain_axis(w.at[d]) : std::nullopt;
            if (its) open.emplace_back(&w, *its);
          }
        }
      });
    }
    return dims;
  }

  // A second sink shares the axes of the first where both read one member at the same plain dims.
  RegionAxis sink_axis(std::size_t sink, AxisId axis) {
    const Statement& s = at(p, region.statements[sink]);
    for (std::size_t other = 0; other < region.statements.size(); ++other) {
      if (!done[other]) continue;
      for (std::size_t producer = 0; producer < sink; ++producer) {
        const TensorId t = results[producer];
        for (const Access* mine : accesses[sink])
          for (const Access* theirs : accesses[other])
            for (std::size_t d = 0; mine->tensor == t && theirs->tensor == t && d < mine->at.size(); ++d) {
              const auto a = plain_axis(mine->at[d]), b = plain_axis(theirs->at[d]);
              if (!a || !b || *a != axis) continue;
              const auto r = plain_axis(region.image[other][static_cast<std::size_t>(*b)]);
              if (r && region.axes[static_cast<std::size_t>(*r)] == s.axes[static_cast<std::size_t>(axis)]) return *r;
            }
      }
    }
    return fresh(s, axis);
  }
};

}  // namespace

int Region::position(StatementId id) const {
  const auto it = std::find(statements.begin(), statements.end(), id);
  return it == statements.end() ? -1 : static_cast<int>(it - statements.begin());
}

Or<Region> unify(const Program& p, std::vector<StatementId> set) {
  std::sort(set.begin(), set.end());
  TW_ASSERT(!set.empty());
  for (StatementId id : set)
    if (!p.statement(id)) return Refused{"an opaque node is a kernel of its own"};
  std::set<TensorId> written;
  for (StatementId id : set)
    if (!written.insert(at(p, id).out).second) return Refused{fmt::format("two pieces of {}", p.tensor(at(p, id).out).name)};
  StatementId offender = -1;
  if (!convex(p, set, &offender))
    return Refused{fmt::format("not convex: {} needs a result that leaves the set and comes back",
                               p.tensor(at(p, offender).out).name)};
  Unifier u{p, {}, {}};
  u.region.statements = std::move(set);
  if (std::string why = u.run(); !why.empty()) return Refused{why};
  return std::move(u.region);
}

Readers readers_by_tensor(const Program& p) {
  Readers readers(p.tensors.size());
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const auto id = static_cast<StatementId>(n);
    auto add = [&](TensorId t) {
      auto& list = readers[static_cast<std::size_t>(t)];
      if (list.empty() || list.back() != id) list.push_back(id);
    };
    if (const Statement* s = p.statement(id)) for_each_access(*s, [&](const Access& a) { add(a.tensor); });
    else for (TensorId t : std::get<Opaque>(p.nodes[n]).in) add(t);
  }
  return readers;
}

namespace {

Boundary boundary_of(const Program& p, const Region& r, const Readers& readers) {
  Boundary b;
  auto add = [](std::vector<TensorId>& list, TensorId t) {
    if (std::find(list.begin(), list.end(), t) == list.end()) list.push_back(t);
  };
  std::set<TensorId> written;
  for (StatementId id : r.statements) written.insert(at(p, id).out);
  for (StatementId id : r.statements)
    for_each_access(at(p, id), [&](const Access& a) {
      if (!written.count(a.tensor)) add(b.inputs, a.tensor);
    });
  for (StatementId id : r.statements) {
    const TensorId t = at(p, id).out;
    const auto& list = readers[static_cast<std::size_t>(t)];
    const bool needed = p.is_result(t) ||
                        std::any_of(list.begin(), list.end(), [&](StatementId reader) { return r.position(reader) < 0; });
    add(needed ? b.outputs : b.inner, t);
  }
  return b;
}

}  // namespace

Boundary boundary(const Program& p, const Region& r) { return r.bound ? *r.bound : boundary_of(p, r, readers_by_tensor(p)); }

void fix_boundary(const Program& p, const Readers& readers, Region& r) { r.bound = boundary_of(p, r, readers); }

}  // namespace tilewright
