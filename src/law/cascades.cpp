#include "law/cascades.h"

#include <algorithm>
#include <map>
#include <set>

#include "law/excerpt.h"
#include "law/statistics.h"

namespace tilewright {

namespace {

struct Finder {
  const Program& p;
  const Lineage lineage{p};
  const Readers readers = readers_by_tensor(p);
  KnownStreams& known; // axis -1: no stream
  std::map<TensorId, StatementId> writer{};

  const Statement& at(StatementId id) const { return *p.statement(id); }

  // Reductions with their statistics, united where they share one.
  std::vector<std::set<StatementId>> united() const {
    std::vector<std::set<StatementId>> sets;
    auto unite = [&](StatementId a, StatementId b) {
      std::set<StatementId> both{a, b};
      std::erase_if(sets, [&](const std::set<StatementId>& s) {
        const bool meets = s.count(a) || s.count(b);
        if (meets) both.insert(s.begin(), s.end());
        return meets;
      });
      sets.push_back(std::move(both));
    };
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      const Statement* s = p.statement(id);
      if (!s || s->reduced.empty()) continue;
      if (const auto statistics = statistics_of(lineage, *s))
        for (TensorId t : *statistics) unite(id, writer.at(t));
    }
    return sets;
  }

  // Reductions that read an element that the set's own make or read too, as they are.
  void add_beside(std::set<StatementId>& set) const {
    std::set<TensorId> elements;
    for (StatementId id : set)
      for (TensorId t : lineage.elements(at(id)))
        if (p.tensor(t).kind == Kind::intermediate) elements.insert(t);
    for (TensorId t : elements)
      for (StatementId id : readers[static_cast<std::size_t>(t)]) {
        const Statement* s = p.statement(id);
        if (s && !s->reduced.empty() && lineage.elements(*s).count(t)) set.insert(id);
      }
  }

  void add_maps_between(std::set<StatementId>& set) const {
    std::vector<StatementId> open(set.begin(), set.end());
    while (!open.empty()) {
      const StatementId id = open.back();
      open.pop_back();
      for_each_access(at(id), [&](const Access& a) {
        const auto w = writer.find(a.tensor);
        if (w == writer.end() || !is_map(at(w->second)) || set.count(w->second)) return;
        const bool carries = std::any_of(set.begin(), set.end(), [&](StatementId r) {
          return !at(r).reduced.empty() && lineage.carries(at(r), a.tensor);
        });
        if (carries) set.insert(w->second), open.push_back(w->second);
      });
    }
  }

  // The first axis along which the region has to be a stream, if it can be one along each of them.
  static StreamedAlong along(const Excerpt& a) {
    StreamedAlong found;
    for (RegionAxis x = 0; x < static_cast<RegionAxis>(a.region.axes.size()); ++x) {
      if (!needs_stream(*a.program, a.region, x)) continue;
      const auto stream = derive_stream(*a.program, a.region, x);
      if (!stream) return {};
      if (found.axis >= 0) continue;
      found.axis = x;
      for (const Stream::State& s : stream->state) found.running |= s.anchor == Stream::Anchor::running;
    }
    return found;
  }

  std::optional<Cascade> derived(const std::set<StatementId>& set) const {
    Cascade c{{set.begin(), set.end()}, {}, -1};
    const auto region = unify(p, c.statements);
    if (!region) return std::nullopt;
    c.region = *region;
    fix_boundary(p, readers, c.region);
    const std::string key = signature(p, c.region);
    auto at = known.find(key);
    if (at == known.end()) at = known.emplace(key, along(excerpt_of(p, c.region))).first;
    if (at->second.axis < 0) return std::nullopt;
    c.axis = at->second.axis, c.running = at->second.running;
    return c;
  }

  bool inside(TensorId t, const std::set<StatementId>& set) const {
    if (std::find(p.outputs.begin(), p.outputs.end(), t) != p.outputs.end()) return false;
    const auto& list = readers[static_cast<std::size_t>(t)];
    return std::all_of(list.begin(), list.end(), [&](StatementId id) { return set.count(id) > 0; });
  }

  // Whether it reads a statistic of its own.
  bool follows(const Statement& s) const {
    const auto statistics = statistics_of(lineage, s);
    return statistics && !statistics->empty();
  }

  // What makes the elements of the statistics, and of nothing else: it has all of their rows.
  std::set<StatementId> makers(const std::set<StatementId>& set) const {
    std::set<StatementId> list;
    for (StatementId id : set) {
      const Statement& s = at(id);
      if (!is_map(s) && follows(s)) continue;
      for_each_access(s, [&](const Access& a) {
        const auto w = writer.find(a.tensor);
        if (w == writer.end() || set.count(w->second) || !inside(a.tensor, set)) return;
        std::set<AxisId> mentioned;
        for (const Index& i : a.at)
          if (const auto axis = plain_axis(i)) mentioned.insert(*axis);
        if (mentioned.size() == s.axes.size()) list.insert(w->second);
      });
    }
    return list;
  }

  // Maps of results alone.
  std::set<StatementId> behind(const std::set<StatementId>& set) const {
    std::set<StatementId> list;
    for (StatementId id : set)
      for (StatementId reader : readers[static_cast<std::size_t>(at(id).out)]) {
        const Statement* s = p.statement(reader);
        if (!s || !is_map(*s) || set.count(reader)) continue;
        bool of_results = true;
        for_each_access(*s, [&](const Access& a) {
          const auto w = writer.find(a.tensor);
          of_results = of_results && (p.tensor(a.tensor).kind != Kind::intermediate ||
                                      (w != writer.end() && set.count(w->second) > 0));
        });
        if (of_results) list.insert(reader);
      }
    return list;
  }

  std::vector<Cascade> run() {
    for (std::size_t n = 0; n < p.nodes.size(); ++n)
      if (const Statement* s = p.statement(static_cast<StatementId>(n)); s && lineage.writer(s->out))
        writer[s->out] = static_cast<StatementId>(n);
    std::vector<Cascade> list;
    for (std::set<StatementId> set : united()) {
      std::set<StatementId> more = set;
      add_beside(more);
      add_maps_between(set), add_maps_between(more);
      auto best = derived(more);
      if (best)
        set = more;
      else
        best = derived(set);
      if (!best) continue;
      for (bool grown = true; grown;) {
        grown = false;
        for (const auto& candidates : {makers(set), behind(set)})
          for (StatementId id : candidates) {
            std::set<StatementId> with = set;
            with.insert(id);
            if (auto c = derived(with)) best = std::move(c), set = std::move(with), grown = true;
          }
      }
      list.push_back(std::move(*best));
    }
    std::sort(list.begin(), list.end(),
              [](const Cascade& a, const Cascade& b) { return a.statements.front() < b.statements.front(); });
    return list;
  }
};

} // namespace

std::vector<Cascade> cascades(const Program& p, KnownStreams* known) {
  KnownStreams own;
  return Finder{.p = p, .known = known ? *known : own}.run();
}

} // namespace tilewright
