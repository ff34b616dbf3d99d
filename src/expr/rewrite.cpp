// Walking and rebuilding scalar bodies. Shared nodes are visited once, so a body that is a graph costs no more than its
// nodes.
#include <bit>
#include <cmath>
#include <set>
#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "expr/fold.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

// ---- equality and hashes

class Comparison {
public:
  bool equal(const ScalarRef& a, const ScalarRef& b) {
    if (a == b) return true;
    if (!a || !b || a->op != b->op || a->dtype != b->dtype || a->args.size() != b->args.size()) return false;
    const bool shared = a.use_count() > 1 && b.use_count() > 1;
    if (shared && known_.count({a.get(), b.get()})) return true;
    if (!equal_leaves(*a, *b)) return false;
    for (std::size_t i = 0; i < a->args.size(); ++i)
      if (!equal(a->args[i], b->args[i])) return false;
    if (shared) known_.insert({a.get(), b.get()});
    return true;
  }

  bool equal(const Access& a, const Access& b) {
    return a.tensor == b.tensor && a.at == b.at && equal(a.otherwise, b.otherwise);
  }

private:
  std::set<std::pair<const Scalar*, const Scalar*>> known_;

  // Constants are equal bit for bit as values of their type: -0 is not 0, and a NaN is itself.
  bool equal_leaves(const Scalar& a, const Scalar& b) {
    if (a.leaf.index() != b.leaf.index()) return false;
    if (auto* i = std::get_if<std::int64_t>(&a.leaf)) return *i == std::get<std::int64_t>(b.leaf);
    if (std::holds_alternative<double>(a.leaf))
      return std::bit_cast<std::uint64_t>(literal_value(a)) == std::bit_cast<std::uint64_t>(literal_value(b));
    if (auto* axis = std::get_if<AxisId>(&a.leaf)) return *axis == std::get<AxisId>(b.leaf);
    if (auto* size = std::get_if<Size>(&a.leaf)) return *size == std::get<Size>(b.leaf);
    if (auto* access = std::get_if<Access>(&a.leaf)) return equal(*access, std::get<Access>(b.leaf));
    return true;
  }
};

class Hashing {
public:
  std::size_t of(const ScalarRef& s) {
    if (!s) return 7;
    if (auto found = known_.find(s.get()); found != known_.end()) return found->second;
    std::size_t h = static_cast<std::size_t>(s->op) * 31 + static_cast<std::size_t>(s->dtype);
    mix(h, leaf(*s));
    for (const ScalarRef& a : s->args) mix(h, of(a));
    if (s.use_count() > 1) known_.emplace(s.get(), h);
    return h;
  }

private:
  std::unordered_map<const Scalar*, std::size_t> known_;

  static void mix(std::size_t& h, std::size_t v) { h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2); }

  std::size_t leaf(const Scalar& s) {
    std::size_t h = s.leaf.index();
    if (auto* i = std::get_if<std::int64_t>(&s.leaf)) mix(h, std::hash<std::int64_t>{}(*i));
    if (std::holds_alternative<double>(s.leaf)) mix(h, std::bit_cast<std::uint64_t>(literal_value(s)));
    if (auto* axis = std::get_if<AxisId>(&s.leaf)) mix(h, static_cast<std::size_t>(*axis));
    if (auto* size = std::get_if<Size>(&s.leaf)) mix(h, size->hash());
    if (auto* access = std::get_if<Access>(&s.leaf)) {
      mix(h, static_cast<std::size_t>(access->tensor));
      for (const Index& i : access->at) mix(h, tilewright::hash(i));
      mix(h, of(access->otherwise));
    }
    return h;
  }
};

// ---- traversal

// Nodes with several owners that were met: most bodies have a few.
class Met {
public:
  bool insert(const Scalar* s) {
    if (std::find(few_.begin(), few_.begin() + count_, s) != few_.begin() + count_) return false;
    if (count_ < static_cast<std::ptrdiff_t>(few_.size())) return few_[static_cast<std::size_t>(count_++)] = s, true;
    return many_.insert(s).second;
  }

private:
  std::array<const Scalar*, 16> few_;
  std::ptrdiff_t count_ = 0;
  std::unordered_set<const Scalar*> many_;
};

class Visit {
public:
  explicit Visit(const std::function<void(const Access&)>& f) : f_(f) {}

  void scalar(const ScalarRef& s) {
    if (!s) return;
    if (s.use_count() > 1 && !seen_.insert(s.get())) return; // who has one owner is met once
    for (const ScalarRef& a : s->args) scalar(a);
    if (auto* found = std::get_if<Access>(&s->leaf)) access(*found);
  }

  void access(const Access& a) {
    for (const Index& i : a.at) index(i);
    scalar(a.otherwise);
    f_(a);
  }

  void index(const Index& i) {
    for (const Index::Term& term : i.terms) {
      if (auto* a = std::get_if<std::shared_ptr<const Access>>(&term.of)) access(**a);
      if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) index(**inner);
    }
  }

private:
  const std::function<void(const Access&)>& f_;
  Met seen_;
};

// ---- rebuilding

// The node with other arguments, through the constructors: types are derived again and constants folded.
ScalarRef remake(const Scalar& s, std::vector<ScalarRef> args) {
  if (s.op == Op::cast) return cast(args[0], s.dtype);
  if (s.op == Op::select) return select(args[0], args[1], args[2]);
  if (args.size() == 1) return unary(s.op, args[0]);
  return binary(s.op, args[0], args[1]);
}

// Rebuilds bottom-up. `leaf` gets each node without arguments (reads with their parts already rebuilt), `inner` each
// other node.
class Rebuild {
public:
  using Node = std::function<ScalarRef(const ScalarRef&)>;
  Rebuild(Node node, std::function<Index(AxisId)> axis, bool leaves_only = false)
      : node_(std::move(node)), axis_(std::move(axis)), leaves_only_(leaves_only) {}

  ScalarRef scalar(const ScalarRef& s) {
    if (!s) return s;
    if (auto found = known_.find(s.get()); found != known_.end()) return found->second.second;
    ScalarRef result = s;
    // A node that folds into what is left of it (0 + x) has been rewritten already, as an argument.
    bool visit = s->args.empty() || !leaves_only_;
    if (auto* a = std::get_if<Access>(&s->leaf)) {
      Access rebuilt = access(*a);
      if (!same(rebuilt, *a)) result = std::make_shared<const Scalar>(Scalar{s->op, s->dtype, {}, std::move(rebuilt)});
    } else if (!s->args.empty()) {
      std::vector<ScalarRef> args;
      for (const ScalarRef& arg : s->args) args.push_back(scalar(arg));
      if (args != s->args) {
        result = remake(*s, args);
        visit = visit && std::find(args.begin(), args.end(), result) == args.end();
      }
    }
    if (visit) result = node_(result);
    known_.emplace(s.get(), std::pair(s, result));
    return result;
  }

  Access access(const Access& a) {
    Access rebuilt{a.tensor, {}, scalar(a.otherwise)};
    for (const Index& i : a.at) rebuilt.at.push_back(index(i));
    return rebuilt;
  }

  Index index(const Index& i) {
    Index sum = constant_index(i.offset);
    for (const Index::Term& term : i.terms) sum = sum + term.coefficient * factor(term);
    return floor_mod_or_none(floor_div(sum, i.div), i.mod);
  }

private:
  Node node_;
  std::function<Index(AxisId)> axis_;
  bool leaves_only_;
  std::unordered_map<const Scalar*, std::pair<ScalarRef, ScalarRef>> known_; // the key is kept alive

  static Index floor_mod_or_none(const Index& i, const Size& m) { return m == Size(0) ? i : floor_mod(i, m); }
  static bool same(const Access& a, const Access& b) { return a.otherwise == b.otherwise && a.at == b.at; }

  Index factor(const Index::Term& term) {
    if (auto* axis = std::get_if<AxisId>(&term.of)) return axis_(*axis);
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) return index(**inner);
    Index i;
    i.terms.push_back({1, std::make_shared<const Access>(access(*std::get<std::shared_ptr<const Access>>(term.of)))});
    return i;
  }
};

Rebuild substitution(const Program& p, const std::vector<Index>& with) {
  auto image = [&with](AxisId axis) -> Index {
    TW_ASSERT(axis >= 0 && static_cast<std::size_t>(axis) < with.size());
    return with[static_cast<std::size_t>(axis)];
  };
  auto value = [&p, image](const ScalarRef& s) -> ScalarRef {
    if (s->op != Op::axis) return s;
    const Index i = image(std::get<AxisId>(s->leaf));
    if (auto axis = plain_axis(i)) return axis_value(*axis, s->dtype);
    return cast(index_value(p, i), s->dtype);
  };
  return Rebuild(value, image, true);
}

} // namespace

bool equal(const ScalarRef& a, const ScalarRef& b) { return Comparison().equal(a, b); }
bool equal(const Access& a, const Access& b) { return Comparison().equal(a, b); }
std::size_t hash(const ScalarRef& s) { return Hashing().of(s); }

void for_each_access(const ScalarRef& s, const std::function<void(const Access&)>& f) { Visit(f).scalar(s); }

void for_each_access(const Index& i, const std::function<void(const Access&)>& f) { Visit(f).index(i); }

void for_each_access(const Statement& s, const std::function<void(const Access&)>& f) {
  Visit visit(f);
  for (const Index& i : s.at) visit.index(i);
  visit.scalar(s.body);
  visit.scalar(s.guard);
}

namespace {

// Calls f with the axis of each index(axis) until it says that this is enough.
template <class F> bool any_axis_value(const ScalarRef& s, std::unordered_set<const Scalar*>& seen, const F& f) {
  if (!s || (s.use_count() > 1 && !seen.insert(s.get()).second)) return false;
  if (auto* a = std::get_if<AxisId>(&s->leaf)) return f(*a);
  if (auto* a = std::get_if<Access>(&s->leaf)) return any_axis_value(a->otherwise, seen, f);
  return std::any_of(s->args.begin(), s->args.end(), [&](const ScalarRef& arg) { return any_axis_value(arg, seen, f); });
}

} // namespace

bool uses_axis_value(const ScalarRef& s, AxisId axis) {
  std::unordered_set<const Scalar*> seen;
  return any_axis_value(s, seen, [&](AxisId a) { return a == axis; });
}

std::vector<AxisId> used_axis_values(const Statement& s) {
  std::set<AxisId> used;
  std::unordered_set<const Scalar*> seen;
  for (const ScalarRef& x : {s.body, s.guard}) any_axis_value(x, seen, [&](AxisId a) { return used.insert(a), false; });
  return {used.begin(), used.end()};
}

bool mentions_axis(const Index& i, AxisId axis) {
  for (const Index::Term& term : i.terms) {
    if (auto* a = std::get_if<AxisId>(&term.of); a && *a == axis) return true;
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of); inner && mentions_axis(**inner, axis))
      return true;
    if (auto* access = std::get_if<std::shared_ptr<const Access>>(&term.of)) {
      for (const Index& at : (*access)->at)
        if (mentions_axis(at, axis)) return true;
      if (mentions_axis((*access)->otherwise, axis)) return true;
    }
  }
  return false;
}

bool mentions_axis(const ScalarRef& s, AxisId axis) {
  if (uses_axis_value(s, axis)) return true;
  bool found = false;
  for_each_access(s, [&](const Access& a) {
    for (const Index& i : a.at) found = found || mentions_axis(i, axis);
  });
  return found;
}

ScalarRef rewrite(const ScalarRef& s, const std::function<ScalarRef(const ScalarRef&)>& f) {
  return Rebuild(f, [](AxisId axis) { return axis_index(axis); }).scalar(s);
}

ScalarRef substitute(const Program& p, const ScalarRef& s, const std::vector<Index>& with) {
  return substitution(p, with).scalar(s);
}

Index substitute(const Program& p, const Index& i, const std::vector<Index>& with) {
  return substitution(p, with).index(i);
}

} // namespace tilewright
