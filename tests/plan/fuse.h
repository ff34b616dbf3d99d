// Random kernels of several statements, for laws that must hold of any of them.
#pragma once
#include <algorithm>
#include <map>
#include <set>

#include "expr/random_program.h"
#include "plan/plan.h"

namespace tilewright::testing {

// Joins random neighbours into one kernel, wherever their axes unify; returns how many kernels hold several reductions then.
inline int fuse(const Program& p, Grouping& g, Random& random) {
  std::map<TensorId, std::size_t> writer;
  for (std::size_t n = 0; n < g.groups.size(); ++n)
    for (StatementId id : g.groups[n]) writer[p.statement(id)->out] = n;
  int fused = 0;
  for (std::size_t n = 0; n < g.groups.size(); ++n) {
    std::set<std::size_t> from;
    for (StatementId id : g.groups[n])
      for_each_access(*p.statement(id), [&](const Access& a) {
        if (const auto w = writer.find(a.tensor); w != writer.end() && w->second != n) from.insert(w->second);
      });
    for (std::size_t f : from) {
      if (random() % 3 == 0 || g.groups[f].empty()) continue;
      Grouping tried = g;
      tried.groups[n].insert(tried.groups[n].end(), g.groups[f].begin(), g.groups[f].end());
      std::sort(tried.groups[n].begin(), tried.groups[n].end());
      tried.groups[f].clear();
      const auto r = unify(p, tried.groups[n]);
      if (!r || !legality(p, *r, {}, machine_named("generic-avx2")).empty() || !runnable(p, tried)) continue;
      for (auto& [t, w] : writer)
        if (w == f) w = n;
      g = std::move(tried);
      ++fused;
    }
  }
  return fused;
}

// Any legal schedule: random tiles of parallel axes and streams of reduced ones, in a random order. Of several reductions not
// every order is legal: loops are dropped until what remains is.
inline Schedule random_schedule(const Program& p, const Region& r, Random& random, int threads = 1) {
  Schedule s;
  s.threads = threads;
  for (const bool streams : {false, true})
    for (std::size_t a = 0; a < r.axes.size(); ++a) {
      const Laws l = laws(p, r, static_cast<RegionAxis>(a));
      const Role role = roles(p, r)[a];
      const bool pair = role.reducer == Reducer::argmax || role.reducer == Reducer::argmin;
      if (random() % 2 || r.axes[a].constant() < 1 || (streams ? !l.stream || pair : !l.tile)) continue;
      s.steps.push_back({streams ? AxisStep::How::stream : AxisStep::How::tile, static_cast<RegionAxis>(a),
                         1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(r.axes[a].constant()))});
    }
  std::shuffle(s.steps.begin(), s.steps.end(), random);
  std::stable_partition(s.steps.begin(), s.steps.end(), [](const AxisStep& x) { return x.how == AxisStep::How::tile; });
  // Perhaps the last tile is a walk.
  for (std::size_t i = s.steps.size(); i-- > 0 && random() % 2;)
    if (s.steps[i].how == AxisStep::How::tile) {
      Schedule walks = s;
      walks.steps.erase(std::remove_if(walks.steps.begin(), walks.steps.end(), [](const AxisStep& x) { return x.how == AxisStep::How::stream; }), walks.steps.end());
      walks.steps[i].how = AxisStep::How::walk;
      std::rotate(walks.steps.begin() + static_cast<std::ptrdiff_t>(i), walks.steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, walks.steps.end());
      if (legality(p, r, walks, machine_named("generic-avx2")).empty()) return walks;
    }
  while (!s.steps.empty() && !legality(p, r, s, machine_named("generic-avx2")).empty()) s.steps.pop_back();
  return s;
}

}  // namespace tilewright::testing
