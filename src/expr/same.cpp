// Whether two programs say the same: up to places and labels, to the order of tensor ids and axis ids, to the names of
// axes and of derived and fixed sizes, and to how an index that means the same is grouped.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "expr/fold.h"
#include "expr/print_expr.h"
#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"

namespace tilewright {

namespace {

// An index as its constructors would write it, so that grouping does not matter.
Index canonical(const Index& i) {
  Index sum = constant_index(i.offset);
  for (const Index::Term& term : i.terms) {
    Index one;
    if (auto* nested = std::get_if<std::shared_ptr<const Index>>(&term.of))
      one = canonical(**nested);
    else
      one.terms.push_back({1, term.of});
    sum = sum + term.coefficient * one;
  }
  if (i.div != Size(1)) sum = floor_div(sum, i.div);
  return i.mod == Size(0) ? sum : floor_mod(sum, i.mod);
}

class Comparer {
public:
  Comparer(const Program& a, const Program& b) : a_(a), b_(b) {}

  bool programs() {
    if (a_.name != b_.name || !free_sizes() || a_.nodes.size() != b_.nodes.size()) return false;
    for (const TensorId id : used(b_)) by_name_[b_.tensor(id).name] = id;
    const std::vector<TensorId> mine = used(a_);
    if (mine.size() != by_name_.size()) return false;
    for (const TensorId id : mine) {
      auto found = by_name_.find(a_.tensor(id).name);
      if (found == by_name_.end()) return false;
      map_[id] = found->second;
    }
    for (const TensorId id : mine)
      if (!tensors(a_.tensor(id), b_.tensor(map_[id]))) return false;
    for (std::size_t i = 0; i < a_.nodes.size(); ++i)
      if (!nodes(a_.nodes[i], b_.nodes[i])) return false;
    return lists(a_.inputs, b_.inputs) && lists(a_.outputs, b_.outputs);
  }

private:
  const Program &a_, &b_;
  std::map<std::string, TensorId> by_name_;
  std::map<TensorId, TensorId> map_;
  std::map<AxisId, AxisId> axes_; // of the two statements at hand
  std::set<std::pair<const Scalar*, const Scalar*>> known_;

  static std::vector<TensorId> used(const Program& p) {
    std::set<TensorId> ids;
    for (std::size_t i = 0; i < p.tensors.size(); ++i)
      if (p.tensors[i].kind != Kind::intermediate) ids.insert(static_cast<TensorId>(i));
    for (const auto& node : p.nodes)
      if (const auto* s = std::get_if<Statement>(&node))
        ids.insert(s->out);
      else
        ids.insert(std::get<Opaque>(node).out.begin(), std::get<Opaque>(node).out.end());
    return {ids.begin(), ids.end()};
  }

  bool free_sizes() const {
    auto free_of = [](const Program& p) {
      std::vector<const SizeDecl*> sizes;
      for (const SizeDecl& s : p.sizes)
        if (is_free(s)) sizes.push_back(&s);
      return sizes;
    };
    const auto x = free_of(a_), y = free_of(b_);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const SizeDecl* s, const SizeDecl* t) {
      return s->name == t->name && s->value == t->value && s->range.low == t->range.low &&
             s->range.high == t->range.high;
    });
  }

  bool lists(const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](TensorId x, TensorId y) { return same_tensor(x, y); });
  }

  bool same_tensor(TensorId a, TensorId b) const {
    auto found = map_.find(a);
    return found != map_.end() && found->second == b;
  }

  bool tensors(const Tensor& a, const Tensor& b) const {
    if (a.kind != b.kind || a.dtype != b.dtype || a.dims != b.dims || a.index_of != b.index_of) return false;
    if (a.stored_in.has_value() != b.stored_in.has_value() || (a.stored_in && !same_tensor(*a.stored_in, *b.stored_in)))
      return false;
    const auto counts = [&](TensorId x, TensorId y) { return x < 0 || y < 0 ? x == y : same_tensor(x, y); };
    if (!std::equal(a.counted_by.begin(), a.counted_by.end(), b.counted_by.begin(), b.counted_by.end(), counts))
      return false;
    if (a.sparse.has_value() != b.sparse.has_value()) return false;
    if (a.sparse && (a.sparse->form != b.sparse->form || a.sparse->of != b.sparse->of ||
                     a.sparse->tile_rows != b.sparse->tile_rows || a.sparse->tile_columns != b.sparse->tile_columns))
      return false;
    if (a.data.empty() || b.data.empty()) return true; // a text has no bytes of weights
    return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
  }

  bool nodes(const std::variant<Statement, Opaque>& a, const std::variant<Statement, Opaque>& b) {
    if (a.index() != b.index()) return false;
    if (const auto* s = std::get_if<Statement>(&a)) return statements(*s, std::get<Statement>(b));
    const Opaque &x = std::get<Opaque>(a), &y = std::get<Opaque>(b);
    return x.op == y.op && lists(x.in, y.in) && lists(x.out, y.out);
  }

  bool statements(const Statement& a, const Statement& b) {
    if (!same_tensor(a.out, b.out) || a.reducer != b.reducer || a.at.size() != b.at.size() ||
        a.axes.size() != b.axes.size())
      return false;
    const std::vector<AxisId> x = order_of(a), y = order_of(b);
    if (x.size() != y.size() || a.reduced.size() != b.reduced.size()) return false;
    axes_.clear();
    known_.clear();
    for (std::size_t i = 0; i < x.size(); ++i) {
      axes_[x[i]] = y[i];
      if (a.axes.at(static_cast<std::size_t>(x[i])) != b.axes.at(static_cast<std::size_t>(y[i]))) return false;
    }
    for (std::size_t d = 0; d < a.at.size(); ++d)
      if (!indices(a.at[d], b.at[d])) return false;
    return scalars(a.body, b.body) && scalars(a.guard, b.guard);
  }

  bool indices(const Index& a, const Index& b) { return linear(canonical(a), canonical(b)); }

  // Sums, up to the order of their terms.
  bool linear(const Index& a, const Index& b) {
    if (a.offset != b.offset || a.div != b.div || a.mod != b.mod || a.terms.size() != b.terms.size()) return false;
    std::vector<bool> used_up(b.terms.size());
    return std::all_of(a.terms.begin(), a.terms.end(), [&](const Index::Term& term) {
      for (std::size_t j = 0; j < b.terms.size(); ++j)
        if (!used_up[j] && terms(term, b.terms[j])) return used_up[j] = true, true;
      return false;
    });
  }

  bool terms(const Index::Term& a, const Index::Term& b) {
    if (a.coefficient != b.coefficient || a.of.index() != b.of.index()) return false;
    if (auto* axis = std::get_if<AxisId>(&a.of)) {
      auto found = axes_.find(*axis);
      return found != axes_.end() && found->second == std::get<AxisId>(b.of);
    }
    if (auto* gather = std::get_if<std::shared_ptr<const Access>>(&a.of))
      return accesses(**gather, *std::get<std::shared_ptr<const Access>>(b.of));
    return linear(*std::get<std::shared_ptr<const Index>>(a.of), *std::get<std::shared_ptr<const Index>>(b.of));
  }

  bool accesses(const Access& a, const Access& b) {
    if (!same_tensor(a.tensor, b.tensor) || a.at.size() != b.at.size()) return false;
    for (std::size_t d = 0; d < a.at.size(); ++d)
      if (!indices(a.at[d], b.at[d])) return false;
    return scalars(a.otherwise, b.otherwise);
  }

  bool scalars(const ScalarRef& a, const ScalarRef& b) {
    if (!a || !b) return a == b;
    if (a->op != b->op || a->dtype != b->dtype || a->args.size() != b->args.size() ||
        a->leaf.index() != b->leaf.index())
      return false;
    if (known_.contains({a.get(), b.get()})) return true;
    if (!leaves(*a, *b)) return false;
    for (std::size_t i = 0; i < a->args.size(); ++i)
      if (!scalars(a->args[i], b->args[i])) return false;
    known_.insert({a.get(), b.get()});
    return true;
  }

  bool leaves(const Scalar& a, const Scalar& b) {
    if (std::holds_alternative<double>(a.leaf)) { // as values of their type
      const double x = literal_value(a), y = literal_value(b);
      return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
    }
    if (auto* value = std::get_if<std::int64_t>(&a.leaf)) return *value == std::get<std::int64_t>(b.leaf);
    if (auto* size = std::get_if<Size>(&a.leaf)) return *size == std::get<Size>(b.leaf);
    if (auto* access = std::get_if<Access>(&a.leaf)) return accesses(*access, std::get<Access>(b.leaf));
    if (std::holds_alternative<AxisId>(a.leaf))
      return axes_.contains(std::get<AxisId>(a.leaf)) && axes_[std::get<AxisId>(a.leaf)] == std::get<AxisId>(b.leaf);
    return true;
  }
};

} // namespace

bool same(const Program& a, const Program& b) { return Comparer(a, b).programs(); }

} // namespace tilewright
