#include <algorithm>

#include "plan/choose.h"

namespace tilewright {

static TensorId named(const Program& p, const std::string& name) {
  const auto at = std::find_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  return at == p.tensors.end() ? -1 : static_cast<TensorId>(at - p.tensors.begin());
}

Standing standing_of(const Program& p, const std::vector<StatementId>& statements) {
  Standing s{statements, {}};
  for (StatementId id : statements) {
    s.tensors.push_back(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { s.tensors.push_back(a.tensor); });
  }
  // What says where they are zero is read ahead of them.
  for (std::size_t i = 0, own = s.tensors.size(); i < own; ++i) {
    const auto& sparse = p.tensor(s.tensors[i]).sparse;
    if (sparse && sparse->form != Sparse::zeros) s.tensors.push_back(named(p, sparse->of));
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
