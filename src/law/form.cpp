#include "law/form.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tilewright {

namespace {

constexpr std::size_t most_terms = 64;
constexpr int most_degree = 4;

Side operator|(Side a, Side b) { return static_cast<Side>(static_cast<int>(a) | static_cast<int>(b)); }

void multiply(Factors& to, const Factors& by, double power = 1) {
  for (const auto& [atom, p] : by)
    if ((to[atom] += p * power) == 0) to.erase(atom);
}

void add_monomial(std::vector<Monomial>& to, const Monomial& m, double factor = 1) {
  const auto at = std::lower_bound(to.begin(), to.end(), m,
                                   [](const Monomial& a, const Monomial& b) { return a.factors < b.factors; });
  if (at != to.end() && at->factors == m.factors) {
    if ((at->coefficient += factor * m.coefficient) == 0) to.erase(at);
  } else {
    to.insert(at, {factor * m.coefficient, m.factors});
  }
}

bool same_sum(const std::vector<Monomial>& a, const std::vector<Monomial>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Monomial& x, const Monomial& y) {
    return x.coefficient == y.coefficient && x.factors == y.factors;
  });
}

FormTerm product(const FormTerm& a, const FormTerm& b) {
  FormTerm t = a;
  t.coefficient *= b.coefficient;
  multiply(t.factors, b.factors);
  for (const Monomial& m : b.exponent) add_monomial(t.exponent, m);
  for (AtomId c : b.conditions)
    if (const auto at = std::lower_bound(t.conditions.begin(), t.conditions.end(), c);
        at == t.conditions.end() || *at != c)
      t.conditions.insert(at, c);
  return t;
}

void add_term(Form& to, const FormTerm& t) {
  for (std::size_t i = 0; i < to.size(); ++i)
    if (same_but_for_coefficient(to[i], t)) {
      if ((to[i].coefficient += t.coefficient) == 0) to.erase(to.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  to.push_back(t);
}

bool looked_through(const Scalar& s) { return s.op == Op::cast && is_float(s.dtype) && is_float(s.args[0]->dtype); }

// Thrown inside, caught at the border: the term that has no normal form.
struct Blocked {
  std::string why;
};

struct Normaliser {
  Atoms& atoms;
  const Facts& facts;
  bool apart = false;

  [[noreturn]] void blocked(const ScalarRef& s, const char* where) const {
    throw Blocked{fmt::format("{} stands {}", facts.print(s), where)};
  }

  Form atom(const ScalarRef& s) const { return {FormTerm{1, {{atoms.intern(s), 1}}, {}, {}}}; }
  static Form number_form(double v) { return v == 0 ? Form{} : Form{FormTerm{v, {}, {}, {}}}; }

  Form limited(Form f, const ScalarRef& s) const {
    if (f.size() > most_terms) blocked(s, "for more than 64 terms");
    return f;
  }

  Form negated(Form f) const {
    for (FormTerm& t : f) t.coefficient = -t.coefficient;
    return f;
  }

  // X - M stays together: expanded, its square would be a difference of large numbers.
  Form addition(const ScalarRef& s, Form f, bool expand) const {
    if (expand || atoms.side(s) != Side::mixed) return f;
    for (const FormTerm& t : f) {
      if (!t.exponent.empty() || !t.conditions.empty()) return f;
      for (const auto& [a, p] : t.factors) {
        if (atoms.sum(a)) return f;
        if (atoms.side(a) == Side::statistic && !(p > 0 && p == std::floor(p) && is_linear(atoms.value(a)))) return f;
      }
    }
    return {FormTerm{1, {{atoms.intern_sum(s, std::move(f)), 1}}, {}, {}}};
  }

  // A statistic that the body rounds is followed as it is rounded.
  bool rounded(const ScalarRef& s) const {
    return looked_through(*s) && atoms.side(s) == Side::statistic &&
           bytes_of(s->dtype) < bytes_of(compute_type(s->args[0]->dtype));
  }

  Form summand(const ScalarRef& s, bool expand) const {
    double v = 0;
    if (expand || apart || atoms.side(s) != Side::statistic || is_literal(s, &v)) return of(s, expand);
    return looked_through(*s) && !rounded(s) ? summand(s->args[0], expand) : atom(s);
  }

  // expand: pure sums too are taken apart.
  Form of(const ScalarRef& s, bool expand) const {
    double v = 0;
    if (is_literal(s, &v)) return number_form(v);
    const Side side = atoms.side(s);
    const bool mixed = side == Side::mixed;
    if (rounded(s)) return atom(s);
    if (looked_through(*s)) return of(s->args[0], expand);
    if (!mixed && facts.whole && facts.whole(s)) return atom(s);
    if (!is_float(s->dtype)) {
      if (mixed) blocked(s, "in integers or conditions");
      return atom(s);
    }
    switch (s->op) {
    case Op::add:
    case Op::sub:
      if (!mixed && !expand) return atom(s);
      return addition(s,
                      limited(sum(summand(s->args[0], expand), s->op == Op::add ? summand(s->args[1], expand)
                                                                                : negated(summand(s->args[1], expand))),
                              s),
                      expand);
    case Op::neg: return negated(of(s->args[0], expand));
    case Op::mul:
      if (mixed && s->args[0]->op == Op::abs && equal(s->args[0], s->args[1])) return power(s->args[0], 2, s, expand);
      return limited(tilewright::product(of(s->args[0], expand), of(s->args[1], expand)), s);
    case Op::div: return limited(tilewright::product(of(s->args[0], expand), power(s->args[1], -1, s, expand)), s);
    case Op::sqrt: return power(s->args[0], 0.5, s, expand);
    case Op::pow: return powered(s, expand);
    case Op::exp: return exponential(s);
    case Op::log: return mixed || expand ? logarithm(s) : atom(s);
    case Op::abs: return mixed ? magnitude(s) : atom(s);
    case Op::select: return mixed ? selection(s) : atom(s);
    case Op::cast:
      if (const Scalar& a = *s->args[0]; mixed && a.op == Op::select)
        return of(select(a.args[0], cast(a.args[1], s->dtype), cast(a.args[2], s->dtype)), expand);
      break;
    default: break;
    }
    if (!mixed) return atom(s);
    throw Blocked{fmt::format("{} applies {} to an element and a statistic together", facts.print(s), name_of(s->op))};
  }

  Form powered(const ScalarRef& s, bool expand) const {
    double e = 0, base = 0;
    if (is_literal(s->args[1], &e)) return power(s->args[0], e, s, expand);
    if (is_literal(s->args[0], &base) && base > 0) {
      Form f = of(s->args[1], true);
      for (FormTerm& t : f) t.coefficient *= std::log(base);
      return from_exponent(f, s);
    }
    if (atoms.side(s) == Side::mixed) blocked(s, "as a power that is neither constant nor of a constant");
    return atom(s);
  }

  // A power of one term: of products only where the signs let it be drawn in.
  Form power(const ScalarRef& base, double e, const ScalarRef& whole, bool expand) const {
    const bool integral = e == std::floor(e);
    if (base->op == Op::abs && std::fmod(e, 2) == 0) return power(base->args[0], e, whole, expand);
    const Form f = of(base, expand && integral && e > 0 && atoms.side(base) == Side::mixed);
    if (e == 0) return number_form(1);
    if (f.size() == 1) {
      FormTerm t = f[0];
      bool drawn = integral || (t.coefficient > 0 && (t.factors.size() + !t.exponent.empty() <= 1));
      if (!drawn && t.coefficient > 0)
        drawn = std::all_of(t.factors.begin(), t.factors.end(), [&](const auto& x) {
          return std::fmod(x.second, 2) == 0 || nonnegative(atoms.value(x.first), facts);
        });
      // (x^2)^0.5 is no x.
      if (!integral)
        for (const auto& [a, p] : t.factors) drawn = drawn && (p == 1 || nonnegative(atoms.value(a), facts));
      if (e < 0 && !t.conditions.empty()) drawn = false;
      for (const auto& [a, p] : t.factors)
        if (atoms.sum(a) && !(integral && e > 0 && p * e <= most_degree)) drawn = false;
      if (drawn) {
        FormTerm r{std::pow(t.coefficient, e), {}, {}, t.conditions};
        multiply(r.factors, t.factors, e);
        for (const Monomial& m : t.exponent) add_monomial(r.exponent, m, e);
        return {r};
      }
    }
    if (atoms.side(whole) != Side::mixed && atoms.side(base) != Side::mixed) {
      FormTerm t{1, {{atoms.intern(base), e}}, {}, {}};
      return {t};
    }
    if (integral && e > 0 && e <= most_degree) {
      Form r = f;
      for (int i = 1; i < static_cast<int>(e); ++i) r = limited(tilewright::product(r, f), whole);
      return r;
    }
    blocked(base, e < 0 ? "in a divisor, as a sum of elements and statistics"
                        : "under a root or power that its sign or degree does not let through");
  }

  Form exponential(const ScalarRef& s) const {
    const ScalarRef& arg = s->args[0];
    if (atoms.side(s) == Side::mixed && arg->op == Op::select)
      return of(select(arg->args[0], unary(Op::exp, arg->args[1]), unary(Op::exp, arg->args[2])), false);
    return from_exponent(of(arg, true), s);
  }

  Form from_exponent(const Form& f, const ScalarRef& s) const {
    FormTerm t;
    for (const FormTerm& x : f) {
      if (!x.exponent.empty() || !x.conditions.empty()) {
        if (atoms.side(s) == Side::mixed) blocked(s, "with an exponential or a condition inside an exponent");
        return atom(s);
      }
      check_exponent(x);
      if (x.factors.empty()) {
        t.coefficient *= std::exp(x.coefficient);
      } else if (const auto base = logarithm_in(x)) {
        multiply(t.factors, {{*base, 1}}, x.coefficient);
      } else {
        add_monomial(t.exponent, {x.coefficient, x.factors});
      }
    }
    return {t};
  }

  void check_exponent(const FormTerm& x) const {
    Side side = Side::none;
    for (const auto& [a, p] : x.factors) side = side | atoms.side(a);
    if (side == Side::mixed)
      blocked(scalar_of(x.factors, x.coefficient, atoms, DType::f32),
              "in an exponent: an element and a statistic, multiplied");
  }

  // exp(k * log(a)) is a^k.
  std::optional<AtomId> logarithm_in(const FormTerm& x) const {
    if (x.factors.size() != 1 || x.factors.begin()->second != 1) return std::nullopt;
    const ScalarRef& s = atoms.value(x.factors.begin()->first);
    if (s->op != Op::log) return std::nullopt;
    return atoms.intern(s->args[0]);
  }

  Form logarithm(const ScalarRef& s) const {
    const Form f = of(s->args[0], false);
    const bool mixed = atoms.side(s) == Side::mixed;
    const bool splits = f.size() == 1 && f[0].coefficient > 0 && f[0].conditions.empty() &&
                        f[0].factors.size() + f[0].exponent.size() > (mixed ? 0u : 1u) &&
                        std::all_of(f[0].factors.begin(), f[0].factors.end(),
                                    [&](const auto& x) { return nonnegative(atoms.value(x.first), facts); });
    if (!splits && !mixed) return atom(s);
    if (!splits) blocked(s, "as the logarithm of what is no product of known sign");
    Form r = number_form(std::log(f[0].coefficient));
    for (const auto& [a, p] : f[0].factors) {
      FormTerm t = atom(unary(Op::log, atoms.value(a)))[0];
      t.coefficient = p;
      add_term(r, t);
    }
    for (const Monomial& m : f[0].exponent) add_term(r, {m.coefficient, m.factors, {}, {}});
    return r;
  }

  Form magnitude(const ScalarRef& s) const {
    const Form f = of(s->args[0], false);
    if (f.size() != 1) blocked(s->args[0], "under abs");
    for (const auto& [a, p] : f[0].factors)
      if (atoms.sum(a) && std::fmod(p, 2) != 0) blocked(s->args[0], "under abs");
    FormTerm t{std::abs(f[0].coefficient), {}, f[0].exponent, f[0].conditions};
    for (const auto& [a, p] : f[0].factors) {
      const bool plain = std::fmod(p, 2) == 0 || nonnegative(atoms.value(a), facts);
      multiply(t.factors, {{plain ? a : atoms.intern(unary(Op::abs, atoms.value(a))), p}});
    }
    return {t};
  }

  Form selection(const ScalarRef& s) const {
    const ScalarRef& c = s->args[0];
    if (atoms.side(c) == Side::mixed || atoms.side(c) == Side::statistic)
      blocked(c, "as a condition that a statistic decides");
    const FormTerm yes{1, {}, {}, {atoms.intern(c)}}, no{1, {}, {}, {atoms.intern(unary(Op::logical_not, c))}};
    return limited(
        sum(tilewright::product(of(s->args[1], false), {yes}), tilewright::product(of(s->args[2], false), {no})), s);
  }
};

} // namespace

bool is_linear(const ScalarRef& s) {
  switch (s->op) {
  case Op::read:
  case Op::constant:
  case Op::size:
  case Op::axis:
  case Op::cast:
  case Op::add:
  case Op::sub:
  case Op::neg:
  case Op::mul:
  case Op::div:
  case Op::max:
  case Op::min: return std::all_of(s->args.begin(), s->args.end(), is_linear);
  default: return false;
  }
}

AtomId Atoms::intern_sum(const ScalarRef& s, Form f) {
  const AtomId a = intern(s);
  sums_.try_emplace(a, std::move(f));
  return a;
}

const Form* Atoms::sum(AtomId a) const {
  const auto found = sums_.find(a);
  return found == sums_.end() ? nullptr : &found->second;
}

AtomId Atoms::intern(const ScalarRef& s) {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (equal(values_[i], s)) return static_cast<AtomId>(i);
  values_.push_back(s);
  sides_.push_back(side(s));
  return static_cast<AtomId>(values_.size()) - 1;
}

Side Atoms::side(const ScalarRef& s) {
  const auto found = known_.find(s.get());
  if (found != known_.end()) return found->second.second;
  Side all = Side::none;
  if (s->args.empty()) all = leaf_(*s);
  for (const ScalarRef& a : s->args) all = all | side(a);
  known_[s.get()] = {s, all};
  return all;
}

Or<Form> normal_form(const ScalarRef& s, Atoms& atoms, const Facts& facts, Sums sums) {
  try {
    return Normaliser{atoms, facts, sums != Sums::together}.of(s, sums == Sums::expanded);
  } catch (const Blocked& b) {
    return Refused{b.why};
  }
}

std::optional<std::vector<Monomial>> polynomial(const ScalarRef& s, Atoms& atoms, const Facts& facts) {
  try {
    std::vector<Monomial> list;
    for (const FormTerm& t : Normaliser{atoms, facts}.of(s, true)) {
      if (!t.exponent.empty() || !t.conditions.empty()) return std::nullopt;
      add_monomial(list, {t.coefficient, t.factors});
    }
    return list;
  } catch (const Blocked&) {
    return std::nullopt;
  }
}

bool nonnegative(const ScalarRef& s, const Facts& facts) {
  double v = 0;
  if (is_literal(s, &v)) return v >= 0;
  auto is = [&](std::size_t i) { return nonnegative(s->args[i], facts); };
  switch (s->op) {
  case Op::exp:
  case Op::abs:
  case Op::sqrt: return true;
  case Op::mul: return equal(s->args[0], s->args[1]) || (is(0) && is(1));
  case Op::add:
  case Op::div:
  case Op::min: return is(0) && is(1);
  case Op::max: return is(0) || is(1);
  case Op::select: return is(1) && is(2);
  case Op::cast: return s->args[0]->dtype == DType::boolean || is(0);
  case Op::pow: return is(0) || (is_literal(s->args[1], &v) && std::fmod(v, 2) == 0);
  default: return s->args.empty() && facts.nonnegative(*s);
  }
}

Form product(const Form& a, const Form& b) {
  Form r;
  for (const FormTerm& x : a)
    for (const FormTerm& y : b) add_term(r, product(x, y));
  return r;
}

Form sum(Form a, const Form& b) {
  for (const FormTerm& t : b) add_term(a, t);
  return a;
}

bool same_but_for_coefficient(const FormTerm& a, const FormTerm& b) {
  return a.factors == b.factors && a.conditions == b.conditions && same_sum(a.exponent, b.exponent);
}

std::optional<double> ratio(const Form& a, const Form& b) {
  if (a.size() != b.size() || a.empty()) return std::nullopt;
  std::optional<double> r;
  for (const FormTerm& x : a) {
    const auto y = std::find_if(b.begin(), b.end(), [&](const FormTerm& t) { return same_but_for_coefficient(x, t); });
    if (y == b.end()) return std::nullopt;
    const double here = x.coefficient / y->coefficient;
    if (r && std::abs(here - *r) > 1e-12 * std::abs(*r)) return std::nullopt;
    if (!r) r = here;
  }
  return r;
}

} // namespace tilewright
