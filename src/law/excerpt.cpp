#include "law/excerpt.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace tilewright {

namespace {

// Statements over other tensors. Nodes that bodies share stay shared.
class Renumbering {
public:
  explicit Renumbering(const std::vector<TensorId>& tensors) : to_(tensors) {}

  Statement statement(Statement s) {
    s.out = tensor(s.out);
    for (Index& i : s.at) i = index(i);
    s.body = scalar(s.body);
    s.guard = scalar(s.guard);
    return s;
  }

private:
  const std::vector<TensorId>& to_; // ascending: the place of a tensor is its number
  std::unordered_map<const Scalar*, ScalarRef> done_;

  TensorId tensor(TensorId t) const {
    return static_cast<TensorId>(std::lower_bound(to_.begin(), to_.end(), t) - to_.begin());
  }

  Index index(Index i) {
    for (Index::Term& t : i.terms) {
      if (auto* a = std::get_if<std::shared_ptr<const Access>>(&t.of))
        t.of = std::make_shared<const Access>(access(**a));
      else if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of))
        t.of = std::make_shared<const Index>(index(**inner));
    }
    return i;
  }

  Access access(const Access& a) {
    Access out{tensor(a.tensor), {}, scalar(a.otherwise)};
    for (const Index& i : a.at) out.at.push_back(index(i));
    return out;
  }

  ScalarRef scalar(const ScalarRef& s) {
    if (!s) return s;
    if (const auto known = done_.find(s.get()); known != done_.end()) return known->second;
    auto copy = std::make_shared<Scalar>(*s);
    for (ScalarRef& arg : copy->args) arg = scalar(arg);
    if (const Access* a = std::get_if<Access>(&s->leaf)) copy->leaf = access(*a);
    return done_[s.get()] = copy;
  }
};

} // namespace

Excerpt excerpt_of(const Program& p, const Region& r) {
  std::set<TensorId> mentioned;
  for (StatementId id : r.statements) {
    mentioned.insert(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { mentioned.insert(a.tensor); });
  }
  const std::vector<TensorId> tensors(mentioned.begin(), mentioned.end());
  const auto number = [&](TensorId t) {
    const auto at = std::lower_bound(tensors.begin(), tensors.end(), t);
    return at != tensors.end() && *at == t ? static_cast<TensorId>(at - tensors.begin()) : -1;
  };
  auto program = std::make_shared<Program>();
  program->name = p.name;
  program->sizes = p.sizes;
  for (TensorId t : tensors) {
    Tensor copy = p.tensor(t);
    if (copy.stored_in) copy.stored_in = number(*copy.stored_in);
    if (copy.stored_in == -1) copy.stored_in.reset();
    copy.counted_by.clear();
    program->tensors.push_back(std::move(copy));
  }
  Excerpt out{program, r};
  Renumbering renumber(tensors);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    program->nodes.emplace_back(renumber.statement(*p.statement(r.statements[i])));
    out.region.statements[i] = static_cast<StatementId>(i);
  }
  Boundary bound = boundary(p, r);
  for (std::vector<TensorId>* list : {&bound.inputs, &bound.outputs, &bound.inner})
    for (TensorId& t : *list) t = number(t);
  program->outputs = bound.outputs;
  for (TensorId t : bound.inputs)
    if (program->tensor(t).kind == Kind::input) program->inputs.push_back(t);
  out.region.bound = std::move(bound);
  return out;
}

} // namespace tilewright
