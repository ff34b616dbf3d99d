#include <algorithm>

#include "plan/choose.h"

namespace tilewright {

namespace {

// A region's tensors in the order in which its statements name them.
std::vector<TensorId> tensors_of(const Program& p, const Region& r) {
  std::vector<TensorId> list;
  for (StatementId id : r.statements) {
    list.push_back(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { list.push_back(a.tensor); });
  }
  return list;
}

} // namespace

Schedule rebound(const Program& p, Schedule s, const Region& from, const Region& to) {
  if (s.values.empty() && s.leaves.empty()) return s;
  const auto old = tensors_of(p, from), now = tensors_of(p, to);
  for (ValueAt& v : s.values)
    v.tensor = now[static_cast<std::size_t>(std::find(old.begin(), old.end(), v.tensor) - old.begin())];
  for (LeafAt& l : s.leaves) l.statement = to.statements[static_cast<std::size_t>(from.position(l.statement))];
  return s;
}

}  // namespace tilewright
