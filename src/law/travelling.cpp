#include <algorithm>

#include "law/region.h"

namespace tilewright {

namespace {

// How a region axis occurs: where it is the whole index of a dim, access by access; whether it occurs in any other way; and, of a
// reduced one, in which statement.
struct Trace {
  std::vector<bool> alone;
  bool otherwise = false;
  int reduced_in = -1;
};

struct Tracer {
  const Program& p;
  const Region& r;
  std::vector<Trace> traces;

  void access(const std::vector<Index>& at, const std::vector<Index>& image) {
    std::vector<int> dims(traces.size(), 0);
    for (const Index& i : at) {
      const Index here = substitute(p, i, image);
      const auto plain = plain_axis(here);
      for (std::size_t x = 0; x < traces.size(); ++x) {
        if (plain == static_cast<RegionAxis>(x)) ++dims[x];
        else traces[x].otherwise |= mentions_axis(here, static_cast<AxisId>(x));
      }
    }
    for (std::size_t x = 0; x < traces.size(); ++x) {
      traces[x].alone.push_back(dims[x] > 0);
      traces[x].otherwise |= dims[x] > 1;
    }
  }

  void statement(int position) {
    const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(position)]);
    const auto& image = r.image[static_cast<std::size_t>(position)];
    access(s.at, image);
    for_each_access(s, [&](const Access& a) { access(a.at, image); });
    for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) {
      const Index& to = image[static_cast<std::size_t>(a)];
      const auto plain = plain_axis(to);
      const bool reduced = std::find(s.reduced.begin(), s.reduced.end(), a) != s.reduced.end();
      const bool valued = uses_axis_value(s.body, a) || uses_axis_value(s.guard, a);
      for (std::size_t x = 0; x < traces.size(); ++x) {
        if (!mentions_axis(to, static_cast<AxisId>(x))) continue;
        traces[x].otherwise |= valued || plain != static_cast<RegionAxis>(x);
        if (reduced) traces[x].reduced_in = position;
      }
    }
  }
};

bool together(const Trace& a, const Trace& b) {
  return !a.otherwise && !b.otherwise && a.alone == b.alone && a.reduced_in == b.reduced_in;
}

}  // namespace

std::vector<std::vector<RegionAxis>> travelling(const Program& p, const Region& r) {
  Tracer tracer{p, r, std::vector<Trace>(r.axes.size())};
  for (int i = 0; i < static_cast<int>(r.statements.size()); ++i) tracer.statement(i);
  std::vector<std::vector<RegionAxis>> groups;
  for (RegionAxis x = 0; x < static_cast<RegionAxis>(r.axes.size()); ++x) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<RegionAxis>& g) {
      return together(tracer.traces[static_cast<std::size_t>(g[0])], tracer.traces[static_cast<std::size_t>(x)]);
    });
    if (group == groups.end()) groups.push_back({x});
    else group->push_back(x);
  }
  return groups;
}

}  // namespace tilewright
