#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "plan/ends.h"
#include "plan/plan.h"

namespace tilewright {

namespace {

constexpr std::size_t most_statements = 16, most_tensors = 40;

struct Folder {
  const Program& p;
  std::map<TensorId, std::vector<StatementId>> writers;
  std::map<StatementId, int> group_of;                    // an opaque node has a group too, which stays empty
  std::vector<std::set<int>> sources;                     // the groups that a group reads
  Grouping out;

  const Statement& at(StatementId id) const { return *p.statement(id); }

  // Whether `map` reads the result of `producer` just where it is made: each dim at a different plain axis, all axes used. Dims
  // of extent 1 do not count.
  bool same_point(const Statement& map, const Statement& producer, std::string* why) const {
    bool fits = true;
    for_each_access(map, [&](const Access& a) {
      if (a.tensor != producer.out) return;
      std::set<AxisId> used;
      for (std::size_t d = 0; d < a.at.size(); ++d) {
        const Size& dim = p.tensor(a.tensor).dims[d];
        if (dim == Size(1)) continue;
        const auto axis = plain_axis(a.at[d]);
        fits &= axis && map.axes[static_cast<std::size_t>(*axis)] == dim && used.insert(*axis).second;
      }
      std::size_t axes = 0;
      for (const Size& e : map.axes) axes += e != Size(1);
      fits &= used.size() == axes && !a.otherwise;
    });
    for (std::size_t d = 0; d < producer.at.size(); ++d)
      fits &= plain_axis(producer.at[d]).has_value() || p.tensor(producer.out).dims[d] == Size(1);
    if (!fits) *why = fmt::format("{} reads {} at other points than it is made at", p.tensor(map.out).name, p.tensor(producer.out).name);
    return fits;
  }

  // All accesses of the map to results of the group are at the point where they are made.
  bool fits(const Statement& map, const std::vector<StatementId>& group, std::string* why) const {
    for (StatementId id : group) {
      bool reads = false;
      for_each_access(map, [&](const Access& a) { reads |= a.tensor == at(id).out; });
      if (reads && !same_point(map, at(id), why)) return false;
    }
    return true;
  }

  std::size_t tensors(const std::vector<StatementId>& group) const {
    std::set<TensorId> all;
    for (StatementId id : group) {
      all.insert(at(id).out);
      for_each_access(at(id), [&](const Access& a) { all.insert(a.tensor); });
    }
    return all.size();
  }

  // A copy that turns what a window has made into a result is no ending of the window.
  bool turns(const Statement& map) const {
    return map.body->op == Op::read && !map.at.empty() && p.is_result(map.out) && slides_along(p, map.out, map.at.size() - 1);
  }

  bool join(StatementId map, int g, std::string* why) {
    if (turns(at(map))) {
      *why = fmt::format("{} lies along an axis in which {} slides", p.tensor(at(map).out).name, p.tensor(at(out.groups[static_cast<std::size_t>(g)].front()).out).name);
      return false;
    }
    std::vector<StatementId> group = out.groups[static_cast<std::size_t>(g)];
    if (!fits(at(map), group, why)) return false;
    group.push_back(map);
    if (group.size() > most_statements || tensors(group) > most_tensors) {
      *why = fmt::format("{} would be statement {} of its kernel", p.tensor(at(map).out).name, group.size());
      return false;
    }
    const auto region = unify(p, group);
    if (!region) {
      *why = region.reason();
      return false;
    }
    if (circular(map, g)) {
      *why = fmt::format("{} needs a kernel that needs this one", p.tensor(at(map).out).name);
      return false;
    }
    out.groups[static_cast<std::size_t>(g)] = std::move(group);
    enter(map, g);
    return true;
  }

  // The group behind a tensor's writers, opaque nodes included; and what each group reads.
  void enter(StatementId id, int g) {
    group_of[id] = g;
    sources.resize(std::max<std::size_t>(sources.size(), static_cast<std::size_t>(g) + 1));
    auto reads = [&](TensorId t) {
      for (StatementId w : writers[t])
        if (const auto from = group_of.find(w); from != group_of.end() && from->second != g) sources[static_cast<std::size_t>(g)].insert(from->second);
    };
    if (const Statement* s = p.statement(id)) for_each_access(*s, [&](const Access& a) { reads(a.tensor); });
    else for (TensorId t : std::get<Opaque>(p.nodes[static_cast<std::size_t>(id)]).in) reads(t);
  }

  // Whether another group that the map reads depends on group g: convex groups can still wait for each other.
  bool circular(StatementId map, int g) {
    std::set<int> seen;
    std::vector<int> open;
    for_each_access(at(map), [&](const Access& a) {
      for (StatementId w : writers[a.tensor])
        if (const auto from = group_of.find(w); from != group_of.end() && from->second != g) open.push_back(from->second);
    });
    while (!open.empty()) {
      const int h = open.back();
      open.pop_back();
      if (h == g) return true;
      if (!seen.insert(h).second) continue;
      for (int from : sources[static_cast<std::size_t>(h)]) open.push_back(from);
    }
    return false;
  }

  // The groups whose results a map reads, latest first: the others are then already there.
  std::vector<int> candidates(const Statement& map) const {
    std::vector<std::pair<StatementId, int>> list;
    for_each_access(map, [&](const Access& a) {
      const auto w = writers.find(a.tensor);
      if (w == writers.end() || w->second.size() != 1) return;
      const auto g = group_of.find(w->second[0]);
      if (g != group_of.end() && p.statement(w->second[0])) list.emplace_back(w->second[0], g->second);
    });
    std::sort(list.rbegin(), list.rend());
    std::vector<int> groups;
    for (const auto& [id, g] : list)
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    return groups;
  }

  void run() {
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      if (const Statement* s = p.statement(id)) writers[s->out].push_back(id);
      else for (TensorId t : std::get<Opaque>(p.nodes[n]).out) writers[t].push_back(id);
    }
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      const Statement* s = p.statement(id);
      if (!s) {
        enter(id, static_cast<int>(out.groups.size()));
        out.groups.emplace_back();
        out.refusals.emplace_back();
        continue;
      }
      std::vector<std::string> refusals;
      bool joined = false;
      if (is_map(*s))
        for (int g : candidates(*s)) {
          std::string why;
          if ((joined = join(id, g, &why))) {
            auto& list = out.refusals[static_cast<std::size_t>(g)];
            list.insert(list.end(), refusals.begin(), refusals.end());
            break;
          }
          refusals.push_back(fmt::format("{} not folded into {}: {}", p.tensor(s->out).name,
                                         p.tensor(at(out.groups[static_cast<std::size_t>(g)].back()).out).name, why));
        }
      if (joined) continue;
      enter(id, static_cast<int>(out.groups.size()));
      out.groups.push_back({id});
      out.refusals.push_back(std::move(refusals));
    }
  }
};

}  // namespace

Grouping fold_maps(const Program& p) {
  Folder f{p, {}, {}, {}, {}};
  f.run();
  return std::move(f.out);
}

}  // namespace tilewright
