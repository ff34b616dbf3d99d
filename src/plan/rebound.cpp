#include <algorithm>

#include "plan/choose.h"

namespace tilewright {

Standing standing_of(const Program& p, const std::vector<StatementId>& statements) {
  Standing s{statements, {}};
  for (StatementId id : statements) {
    s.tensors.push_back(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { s.tensors.push_back(a.tensor); });
  }
  return s;
}

Schedule rebound(Schedule s, const Standing& from, const Standing& to) {
  const auto place = [](const auto& list, auto x) { return static_cast<std::size_t>(std::find(list.begin(), list.end(), x) - list.begin()); };
  auto move = [&](TensorId& t) { t = to.tensors[place(from.tensors, t)]; };
  for (ValueAt& v : s.values) move(v.tensor);
  for (OperandAt& o : s.operands) move(o.tensor), move(o.source);
  for (LeafAt& l : s.leaves) l.statement = to.statements[place(from.statements, l.statement)];
  return s;
}

}  // namespace tilewright
