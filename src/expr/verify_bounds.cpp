// Accesses without `else` stay inside their tensors: by the hull of each index, by what the guard says, by enumeration
// of few points; and where the sizes leave it open, the same at the declared defaults.
#include <algorithm>

#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"
#include "expr/verify.h"
#include "support/error.h"

namespace tilewright {

namespace {

constexpr std::int64_t max_points = 1 << 16;

// Whether a value of type i32 is what the index is, and has not wrapped around. Where sizes are open it is taken to be;
// the program is verified again when they are numbers.
bool fits(const Index& index, DType type, const std::vector<Size>& extents) {
  const bool open = std::any_of(extents.begin(), extents.end(), [](const Size& e) { return !e.is_constant(); });
  if (open || type != DType::i32) return true;
  const Interval reach = bounds(index, extents);
  return reach.low >= INT32_MIN && reach.high <= INT32_MAX;
}

// The value of an integer scalar as an affine index, if it is one. `steps` ends the search in bodies that share parts
// again and again.
std::optional<Index> affine_of(const ScalarRef& s, const std::vector<Size>& extents, int& steps) {
  if (--steps < 0) return std::nullopt;
  auto both = [&](auto combine) -> std::optional<Index> {
    const auto a = affine_of(s->args[0], extents, steps);
    const auto b = a ? affine_of(s->args[1], extents, steps) : std::nullopt;
    return b ? combine(*a, *b) : std::nullopt;
  };
  switch (s->op) {
  case Op::constant:
    if (auto* value = std::get_if<std::int64_t>(&s->leaf)) return constant_index(*value);
    return std::nullopt;
  case Op::axis: return axis_index(std::get<AxisId>(s->leaf));
  case Op::size: return constant_index(std::get<Size>(s->leaf));
  case Op::add: return both([](const Index& a, const Index& b) { return std::optional(a + b); });
  case Op::sub: return both([](const Index& a, const Index& b) { return std::optional(a - b); });
  case Op::mul:
    return both([](const Index& a, const Index& b) -> std::optional<Index> {
      if (a.terms.empty()) return a.offset * b;
      return b.terms.empty() ? std::optional(b.offset * a) : std::nullopt;
    });
  case Op::neg:
    if (auto a = affine_of(s->args[0], extents, steps)) return Size(-1) * *a;
    return std::nullopt;
  case Op::cast: {
    const DType from = s->args[0]->dtype;
    if (!is_integer(s->dtype) || !is_integer(from) || bytes_of(s->dtype) < bytes_of(from)) return std::nullopt;
    const auto a = affine_of(s->args[0], extents, steps);
    return a && fits(*a, compute_type(from), extents) ? a : std::nullopt;
  }
  default: return std::nullopt;
  }
}

// What holds at every point that the guard lets through, as indices that are not negative.
void add_facts(const ScalarRef& guard, const std::vector<Size>& extents, std::vector<Index>& facts) {
  if (!guard || facts.size() > 16) return;
  if (guard->op == Op::logical_and) {
    add_facts(guard->args[0], extents, facts);
    add_facts(guard->args[1], extents, facts);
    return;
  }
  if (guard->args.size() != 2) return;
  int steps = 1000;
  const auto a = affine_of(guard->args[0], extents, steps), b = affine_of(guard->args[1], extents, steps);
  const DType type = compute_type(guard->args[0]->dtype);
  if (!a || !b || !fits(*a, type, extents) || !fits(*b, type, extents)) return;
  const Index less = constant_index(1);
  switch (guard->op) {
  case Op::lt: facts.push_back(*b - *a - less); break;
  case Op::le: facts.push_back(*b - *a); break;
  case Op::gt: facts.push_back(*a - *b - less); break;
  case Op::ge: facts.push_back(*a - *b); break;
  case Op::eq:
    facts.push_back(*a - *b);
    facts.push_back(*b - *a);
    break;
  default: break;
  }
}

class Prover {
public:
  Prover(const Program& p, std::vector<Size> extents, Ranges ranges, std::vector<Index> facts)
      : p_(p), extents_(std::move(extents)), ranges_(std::move(ranges)), facts_(std::move(facts)) {}

  bool inside(const Index& index, const Size& dim) const {
    if (in_bounds(index, dim, extents_, ranges_, &p_)) return true;
    const Index simple = simplify(index, extents_, ranges_, &p_);
    if (in_bounds(simple, dim, extents_, ranges_, &p_)) return true;
    return by_facts(simple, dim) || by_points(simple, dim);
  }

private:
  const Program& p_;
  std::vector<Size> extents_;
  Ranges ranges_;
  std::vector<Index> facts_;

  bool not_negative(const Index& e) const {
    const auto reach = hull(e, extents_, ranges_, &p_);
    return reach && at_least(reach->low, 0, ranges_);
  }

  // e >= 0 because e - factor * fact >= 0, with the factor that removes a common axis; or by two facts.
  bool not_negative_given_facts(const Index& e) const {
    if (not_negative(e)) return true;
    for (const Index& fact : facts_)
      for (const Index::Term& term : fact.terms) {
        const Size wanted = coefficient_of(e, std::get<AxisId>(term.of));
        Size factor;
        if (wanted == Size(0)) continue;
        if (divides(term.coefficient, wanted, &factor) && at_least(factor, 0, ranges_) &&
            not_negative(e - factor * fact))
          return true;
        // factor * e >= fact - factor + 1 > -factor, so e > -1.
        if (divides(wanted, term.coefficient, &factor) && at_least(factor, 1, ranges_) &&
            not_negative(factor * e - fact + constant_index(factor - 1)))
          return true;
      }
    for (const Index& f : facts_)
      for (const Index& g : facts_)
        if (&f != &g && not_negative(e - f - g)) return true;
    return false;
  }

  bool by_facts(const Index& index, const Size& dim) const {
    if (facts_.empty() || facts_.size() > 16 || index.mod != Size(0)) return false;
    Index inner = index;
    inner.div = 1;
    if (!is_affine(inner)) return false;
    return not_negative_given_facts(inner) && not_negative_given_facts(constant_index(dim * index.div - 1) - inner);
  }

  std::optional<std::int64_t> at(const Index& index, const std::vector<std::int64_t>& point) const {
    std::int64_t sum = index.offset.constant();
    for (const Index::Term& term : index.terms) {
      std::int64_t value = 0;
      if (auto* axis = std::get_if<AxisId>(&term.of))
        value = point[static_cast<std::size_t>(*axis)];
      else if (auto inner = at(*std::get<std::shared_ptr<const Index>>(term.of), point))
        value = *inner;
      else
        return std::nullopt;
      sum = checked_add(sum, checked_mul(term.coefficient.constant(), value));
    }
    const std::int64_t div = index.div.constant(), mod = index.mod.constant();
    if (div <= 0 || mod < 0) return std::nullopt;
    if (div != 1) sum = floor_div_i64(sum, div);
    return mod == 0 ? sum : floor_mod_i64(sum, mod);
  }

  static bool is_constant(const Index& index) {
    return index.offset.is_constant() && index.div.is_constant() && index.mod.is_constant() &&
           std::all_of(index.terms.begin(), index.terms.end(), [](const Index::Term& t) {
             auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of);
             return t.coefficient.is_constant() && t.of.index() != 1 && (!inner || is_constant(**inner));
           });
  }

  // Views of views can be right where no hull shows it: x - x//2.
  bool by_points(const Index& index, const Size& dim) const {
    if (!is_constant(index) || !dim.is_constant() || is_affine(index)) return false;
    std::vector<AxisId> axes;
    std::int64_t points = 1;
    for (std::size_t a = 0; a < extents_.size(); ++a) {
      if (!mentions_axis(index, static_cast<AxisId>(a))) continue;
      if (!extents_[a].is_constant() || extents_[a].constant() > max_points) return false;
      points *= extents_[a].constant();
      if (points > max_points) return false;
      axes.push_back(static_cast<AxisId>(a));
    }
    std::vector<std::int64_t> point(extents_.size(), 0);
    for (std::int64_t n = 0; n < points; ++n) {
      std::int64_t rest = n;
      for (AxisId a : axes) {
        const std::int64_t extent = extents_[static_cast<std::size_t>(a)].constant();
        point[static_cast<std::size_t>(a)] = rest % extent;
        rest /= extent;
      }
      const auto value = at(index, point);
      if (!value || *value < 0 || *value >= dim.constant()) return false;
    }
    return true;
  }
};

// Elements of an integer tensor that does not say what it indexes are checked when the program runs.
bool checked_at_run_time(const Program& p, const Index& index) {
  return std::any_of(index.terms.begin(), index.terms.end(), [&](const Index::Term& term) {
    if (auto* gather = std::get_if<std::shared_ptr<const Access>>(&term.of))
      return !p.tensor((*gather)->tensor).index_of || (*gather)->otherwise;
    auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of);
    return inner && checked_at_run_time(p, **inner);
  });
}

void collect_symbols(const Index& index, const std::vector<Size>& extents, std::vector<std::string>& names) {
  for (const Size* s : {&index.offset, &index.div, &index.mod}) s->collect_symbols(names);
  for (const Index::Term& term : index.terms) {
    term.coefficient.collect_symbols(names);
    if (auto* axis = std::get_if<AxisId>(&term.of)) extents[static_cast<std::size_t>(*axis)].collect_symbols(names);
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) collect_symbols(**inner, extents, names);
  }
}

class Checker {
public:
  Checker(const Program& p, const Statement& s, const Ranges& ranges, const Binding& defaults, const Sources& sources)
      : p_(p), s_(s), ranges_(ranges), defaults_(defaults), sources_(sources) {}

  void run() {
    for (const Index& index : s_.at)
      for (const Index::Term& term : index.terms)
        if (auto* gather = std::get_if<std::shared_ptr<const Access>>(&term.of)) check(**gather, {});
    std::vector<Index> facts;
    if (s_.guard) for_each_access(s_.guard, [&](const Access& a) { check(a, {}); });
    add_facts(s_.guard, s_.axes, facts);
    for_each_access(s_.body, [&](const Access& a) { check(a, facts); });
  }

private:
  const Program& p_;
  const Statement& s_;
  const Ranges& ranges_;
  const Binding& defaults_;
  const Sources& sources_;

  void check(const Access& access, const std::vector<Index>& facts) {
    if (access.otherwise) return;
    const Tensor& t = p_.tensor(access.tensor);
    for (std::size_t dim = 0; dim < access.at.size(); ++dim) {
      const Index& index = access.at[dim];
      if (checked_at_run_time(p_, index) || Prover(p_, s_.axes, ranges_, facts).inside(index, t.dims[dim])) continue;
      const std::string why = at_defaults(index, t.dims[dim], facts);
      if (!why.empty()) fail(access, dim, why);
    }
  }

  // Empty if the access is inside at the declared defaults; else what they are.
  std::string at_defaults(const Index& index, const Size& dim, const std::vector<Index>& facts) const {
    std::vector<std::string> names;
    dim.collect_symbols(names);
    collect_symbols(index, s_.axes, names);
    std::string shown;
    for (const std::string& name : names) {
      auto found = defaults_.find(name);
      if (found == defaults_.end()) return "for some sizes in range";
      shown += (shown.empty() ? "at " : ", ") + name + " = " + std::to_string(found->second);
    }
    if (names.empty()) return "at some point";
    std::vector<Size> extents = s_.axes;
    for (Size& extent : extents) extent = extent.with(defaults_);
    std::vector<Index> bound;
    for (const Index& fact : facts) bound.push_back(with_sizes(fact, defaults_));
    const bool inside = Prover(p_, extents, ranges_, bound).inside(with_sizes(index, defaults_), dim.with(defaults_));
    return inside ? "" : shown;
  }

  [[noreturn]] void fail(const Access& access, std::size_t dim, const std::string& when) const {
    const Tensor& t = p_.tensor(access.tensor);
    const Index& index = access.at[dim];
    std::string declared;
    if (auto found = sources_.tensors.find(access.tensor); found != sources_.tensors.end())
      declared = " (" + found->second + ")";
    const std::string of_dim =
        "dim " + std::to_string(dim + 1) + " of " + t.name + declared + " has extent " + t.dims[dim].text();
    auto found = sources_.accesses.find(&access);
    const std::string where = found != sources_.accesses.end() ? found->second : place_of(p_, s_);
    if (auto axis = plain_axis(index)) {
      const auto a = static_cast<std::size_t>(*axis);
      throw Error(Code::shape, where,
                  "axis " + (a < s_.names.size() ? s_.names[a] : std::to_string(a)) + " has extent " +
                      s_.axes[a].text() + ", but " + of_dim,
                  "use one size for both, derive one from the other in the header, or write `else`");
    }
    std::string reach;
    if (auto h = hull(index, s_.axes, ranges_, &p_)) reach = " runs from " + h->low.text() + " to " + h->high.text();
    throw Error(Code::bounds, where,
                "index " + print(p_, index, s_.names) + reach + " and leaves its tensor " + when + ": " + of_dim,
                "give the value outside with `else`, or exclude those points with `where`");
  }
};

} // namespace

void verify_bounds(const Program& p, const Statement& s, const Ranges& ranges, const Binding& defaults,
                   const Sources& sources) {
  Checker(p, s, ranges, defaults, sources).run();
}

} // namespace tilewright
