#include "law/statistics.h"

#include <algorithm>

#include <fmt/format.h>

#include "expr/text.h"

namespace tilewright {

namespace {

bool mentions_any(const ScalarRef& s, const std::vector<AxisId>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](AxisId a) { return mentions_axis(s, a); });
}

bool mentions_any(const Access& access, const std::vector<AxisId>& axes) {
  for (const Index& i : access.at)
    for (AxisId a : axes)
      if (mentions_axis(i, a)) return true;
  return access.otherwise && mentions_any(access.otherwise, axes);
}

// The statement's axes as the reader's indices, or nothing where it writes at indices that cannot be inverted.
std::optional<std::vector<Index>> axes_at(const Program& p, const Statement& map, const Access& a) {
  std::vector<Index> with(map.axes.size());
  std::vector<bool> known(map.axes.size(), false);
  for (std::size_t d = 0; d < map.at.size(); ++d) {
    const auto axis = plain_axis(map.at[d]);
    if (!axis && p.tensor(map.out).dims[d] == Size(1)) continue;
    if (!axis || known[static_cast<std::size_t>(*axis)]) return std::nullopt;
    with[static_cast<std::size_t>(*axis)] = a.at[d];
    known[static_cast<std::size_t>(*axis)] = true;
  }
  for (bool k : known)
    if (!k) return std::nullopt;
  return with;
}

} // namespace

Lineage::Lineage(const Program& p) : p_(p) {
  for (std::size_t n = 0; n < p.nodes.size(); ++n) note(static_cast<StatementId>(n));
}

Lineage::Lineage(const Program& p, const std::vector<StatementId>& some, std::set<TensorId> statistics)
    : p_(p), statistics_(std::move(statistics)) {
  for (StatementId id : some) note(id);
}

void Lineage::note(StatementId id) {
  const Statement* s = p_.statement(id);
  if (!s) return;
  writers_.resize(p_.tensors.size(), -1);
  StatementId& writer = writers_[static_cast<std::size_t>(s->out)];
  if (writer >= 0) several_.insert(s->out);
  writer = several_.count(s->out) ? -1 : id;
}

void Lineage::renew(TensorId t) {
  writers_.clear(), several_.clear();
  for (std::size_t n = 0; n < p_.nodes.size(); ++n) note(static_cast<StatementId>(n));
  for (std::size_t d = 0; d < p_.tensor(t).dims.size(); ++d) through_.erase(number(t, d));
  reached_.erase(reached_.lower_bound({t, 0}), reached_.lower_bound({t + 1, 0}));
  behind_.erase(t);
}

const Statement* Lineage::writer(TensorId t) const {
  const auto at = static_cast<std::size_t>(t);
  return at >= writers_.size() || writers_[at] < 0 ? nullptr : p_.statement(writers_[at]);
}

std::size_t Lineage::number(TensorId t, std::size_t dim) const {
  if (first_.empty()) first_.push_back(0);
  while (first_.size() <= static_cast<std::size_t>(t))
    first_.push_back(first_.back() + p_.tensor(static_cast<TensorId>(first_.size() - 1)).dims.size());
  return first_[static_cast<std::size_t>(t)] + dim;
}

const Bits& Lineage::reach(TensorId t, std::size_t dim) const {
  const std::size_t n = number(t, dim);
  const auto [at, fresh] = through_.try_emplace(n);
  if (!fresh) return at->second;
  Bits dims;
  dims.insert(n);
  const Statement* s = writer(t);
  const auto axis = s && is_map(*s) ? plain_axis(s->at[dim]) : std::nullopt;
  if (axis)
    for_each_access(*s, [&](const Access& a) {
      for (std::size_t d = 0; d < a.at.size(); ++d)
        if (plain_axis(a.at[d]) == axis) dims |= reach(a.tensor, d);
    });
  return at->second = std::move(dims);
}

const Bits& Lineage::reach(const Statement& s) const {
  const auto [at, fresh] = reached_.try_emplace(Key{s.out, s.reduced.front()});
  if (!fresh) return at->second;
  for_each_access(s, [&](const Access& a) {
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      const auto axis = plain_axis(a.at[d]);
      if (axis && std::find(s.reduced.begin(), s.reduced.end(), *axis) != s.reduced.end()) at->second |= reach(a.tensor, d);
    }
  });
  return at->second;
}

bool Lineage::over_the_same(const Statement& a, const Statement& b) const {
  const Bits &x = reach(a), &y = reach(b);
  if (!y.empty()) return x.meets(y);
  std::vector<Size> mine, theirs; // it counts: whatever has as many points
  for (AxisId r : a.reduced) mine.push_back(a.axes[static_cast<std::size_t>(r)]);
  for (AxisId r : b.reduced) theirs.push_back(b.axes[static_cast<std::size_t>(r)]);
  return mine == theirs;
}

bool Lineage::is_statistic(const Statement& reduction, TensorId t) const {
  const Statement* w = writer(t);
  if (statistics_) return statistics_->count(t) > 0 && t != reduction.out;
  return w && w != &reduction && !w->reduced.empty() && over_the_same(reduction, *w);
}

const std::set<TensorId>& Lineage::reductions_behind(TensorId t) const {
  const auto [at, fresh] = behind_.try_emplace(t);
  const Statement* w = fresh ? writer(t) : nullptr;
  if (!w) return at->second;
  if (!is_map(*w)) at->second.insert(t);
  else
    for_each_access(*w, [&](const Access& a) {
      const auto& more = reductions_behind(a.tensor);
      at->second.insert(more.begin(), more.end());
    });
  return at->second;
}

bool Lineage::carries(const Statement& reduction, TensorId t) const {
  const Statement* w = writer(t);
  if (!w) return false;
  if (!is_map(*w)) return is_statistic(reduction, t);
  const auto& behind = reductions_behind(t);
  return std::any_of(behind.begin(), behind.end(), [&](TensorId r) { return is_statistic(reduction, r); });
}

std::set<TensorId> Lineage::elements(const Statement& s) const {
  std::set<TensorId> list;
  for_each_access(s, [&](const Access& a) {
    if (mentions_any(a, s.reduced)) list.insert(a.tensor);
  });
  return list;
}

namespace {

struct Reader {
  const Lineage& lineage;
  const Statement& s;
  ReadThrough& out;

  ScalarRef through(const ScalarRef& body) {
    if (!body) return body;
    return rewrite(body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      if (!lineage.carries(s, a.tensor)) return node;
      const Statement& w = *lineage.writer(a.tensor);
      if (!is_map(w)) {
        out.statistics.insert(a.tensor);
        return node;
      }
      const Program& p = lineage.program();
      const auto with = axes_at(p, w, a);
      if (a.otherwise || !with) {
        out.refused = fmt::format("{} is read {}", p.tensor(a.tensor).name,
                                  a.otherwise ? "outside of its bounds" : "at indices that cannot be inverted");
        return node;
      }
      ScalarRef value = substitute(p, w.body, *with);
      const DType declared = p.tensor(w.out).dtype;
      if (compute_type(value->dtype) != declared) value = cast(value, declared);
      if (w.guard) value = select(substitute(p, w.guard, *with), value, number(0, compute_type(value->dtype)));
      value = through(value);
      out.maps.push_back({node, value});
      return value;
    });
  }
};

} // namespace

ReadThrough read_through(const Lineage& lineage, const Statement& s) {
  ReadThrough out;
  bool carries = false;
  for_each_access(s, [&](const Access& a) { carries = carries || lineage.carries(s, a.tensor); });
  if (!carries) {
    out.body = s.body, out.guard = s.guard;
    return out;
  }
  Reader reader{lineage, s, out};
  out.body = reader.through(s.body);
  out.guard = reader.through(s.guard);
  return out;
}

namespace {

struct Finder {
  const Lineage& lineage;
  const Statement& reduction;
  std::set<TensorId> statistics = {};
  std::set<const Scalar*> met = {};
  bool refused = false;

  void body(const ScalarRef& s) {
    if (!s || !met.insert(s.get()).second) return;
    for (const ScalarRef& a : s->args) body(a);
    if (s->op != Op::read) return;
    const Access& a = std::get<Access>(s->leaf);
    if (!lineage.carries(reduction, a.tensor)) return;
    const Statement& w = *lineage.writer(a.tensor);
    if (!is_map(w)) {
      statistics.insert(a.tensor);
    } else if (a.otherwise || !axes_at(lineage.program(), w, a)) {
      refused = true;
    } else {
      body(w.body), body(w.guard);
    }
  }
};

} // namespace

std::optional<std::set<TensorId>> statistics_of(const Lineage& lineage, const Statement& s) {
  Finder f{lineage, s};
  f.body(s.body), f.body(s.guard);
  return f.refused ? std::nullopt : std::optional(std::move(f.statistics));
}

Atoms atoms_of(const Statement& s, const std::set<TensorId>& statistics) {
  return Atoms([reduced = s.reduced, statistics](const Scalar& leaf) {
    if (const AxisId* a = std::get_if<AxisId>(&leaf.leaf))
      return std::find(reduced.begin(), reduced.end(), *a) != reduced.end() ? Side::stream : Side::none;
    const Access* access = std::get_if<Access>(&leaf.leaf);
    if (!access) return Side::none;
    bool runs = false, statistic = statistics.count(access->tensor) > 0;
    for (const Index& i : access->at) {
      for (AxisId a : reduced) runs = runs || mentions_axis(i, a);
      for_each_access(i, [&](const Access& inner) { statistic = statistic || statistics.count(inner.tensor) > 0; });
    }
    if (access->otherwise) {
      for (AxisId a : reduced) runs = runs || mentions_axis(access->otherwise, a);
      for_each_access(access->otherwise,
                      [&](const Access& inner) { statistic = statistic || statistics.count(inner.tensor) > 0; });
    }
    return static_cast<Side>((runs ? 1 : 0) | (statistic ? 2 : 0));
  });
}

Facts facts_of(const Lineage& lineage, const Statement& s) {
  Facts facts;
  facts.print = [&lineage, names = s.names](const ScalarRef& r) { return print(lineage.program(), r, names); };
  facts.nonnegative = [&lineage](const Scalar& leaf) {
    // What a statement makes, followed a few statements back.
    std::function<bool(const Scalar&, int)> known = [&](const Scalar& l, int depth) {
      if (std::holds_alternative<AxisId>(l.leaf) || std::holds_alternative<Size>(l.leaf)) return true;
      const Access* a = std::get_if<Access>(&l.leaf);
      const Statement* w = a ? lineage.writer(a->tensor) : nullptr;
      if (!w || a->otherwise || depth > 8) return false;
      if (w->reducer == Reducer::argmax || w->reducer == Reducer::argmin || w->reducer == Reducer::any ||
          w->reducer == Reducer::all)
        return true;
      if (w->reducer == Reducer::max && w->guard) return false;
      Facts inner;
      inner.nonnegative = [&](const Scalar& x) { return known(x, depth + 1); };
      return nonnegative(w->body, inner);
    };
    return known(leaf, 0);
  };
  return facts;
}

} // namespace tilewright
