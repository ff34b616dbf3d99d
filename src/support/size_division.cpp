// Division, remainder, minimum and maximum of sizes.
//
//   (6*n + 7)//6    ->  n + 1        terms divide one by one, and what is left lies in [0, 6)
//   (n*w + w - 1)//w ->  n           divided by a monomial; the rest w - 1 lies in [0, w), since w is not 0 as a
//   divisor (n*h + n)//(h + 1) -> n          long division without a rest (n//2 + m)//3   ->  (n + 2*m)//6
#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/size.h"
#include "support/size_form.h"

namespace tilewright {

namespace {

using AtomRef = Size::AtomRef;
using Atom = Size::Atom;
using Monomial = Size::Monomial;

struct Division {
  Size quotient, rest;
};

[[noreturn]] void division_by_zero(const Size& a) {
  throw Error(Code::size, "", "division by zero: (" + a.text() + ") by 0");
}

bool at_least_for(const Size& a, const Size& b, const Ranges& ranges) {
  return provably_at_least(a, b, ranges, any_size);
}

// The symbols of a divisor that is a product are not zero.
Ranges ranges_of_divisor(const Size& d) {
  Ranges ranges;
  if (d.offset() == 0 && d.terms().size() == 1)
    for (const AtomRef& atom : d.terms()[0].atoms)
      if (atom->op == Atom::symbol) ranges[atom->name] = {1, INT64_MAX};
  return ranges;
}

Division divide_by_number(const Size& p, std::int64_t d) {
  std::vector<Monomial> quotient, rest;
  for (const Monomial& term : p.terms()) {
    const std::int64_t q = floor_div_i64(term.coefficient, d), r = floor_mod_i64(term.coefficient, d);
    if (q != 0) quotient.push_back({q, term.atoms});
    if (r != 0) rest.push_back({r, term.atoms});
  }
  return {SizeForm::from_parts(floor_div_i64(p.offset(), d), std::move(quotient)),
          SizeForm::from_parts(floor_mod_i64(p.offset(), d), std::move(rest))};
}

// Long division by the leading term of d; every step removes the leading term of what is left, or moves it to the rest.
Division divide_long(const Size& p, const Size& d) {
  const Monomial& lead = d.terms()[0];
  Division result;
  Size left = p;
  std::vector<AtomRef> atoms;
  for (int steps = 0; !left.is_constant() && steps < 256; ++steps) {
    const Monomial term = left.terms()[0];
    const std::int64_t factor = divide_atoms(term.atoms, lead.atoms, atoms) && lead.coefficient != -1
                                    ? floor_div_i64(term.coefficient, lead.coefficient)
                                    : 0;
    const Size step = SizeForm::from_monomial({factor, atoms});
    result.quotient = result.quotient + step;
    left = left - step * d;
    const Size moved = left.is_constant() || compare(left.terms()[0].atoms, term.atoms) != 0
                           ? Size(0)
                           : SizeForm::from_monomial(left.terms()[0]);
    result.rest = result.rest + moved;
    left = left - moved;
  }
  result.rest = result.rest + left;
  return result;
}

Division divide(const Size& p, const Size& d) {
  return d.is_constant() ? divide_by_number(p, d.offset()) : divide_long(p, d);
}

// The k with k*d <= rest < (k+1)*d, if it can be shown. (That both hold implies d > 0.)
std::optional<std::int64_t> constant_quotient(const Size& rest, const Size& d) {
  if (rest == Size(0)) return 0;
  const Ranges ranges = ranges_of_divisor(d);
  for (std::int64_t k : {0, -1, 1})
    if (at_least_for(rest, k * d, ranges) && at_least_for((k + 1) * d - 1, rest, ranges)) return k;
  return std::nullopt;
}

std::int64_t gcd_of_terms(const Size& p, std::int64_t start) {
  for (const Monomial& term : p.terms()) start = std::gcd(start, term.coefficient == INT64_MIN ? 1 : term.coefficient);
  return start;
}

// The atoms common to all terms of p and d (none if either has an offset).
std::vector<AtomRef> common_atoms(const Size& p, const Size& d) {
  if (p.offset() != 0 || d.offset() != 0 || p.is_constant() || d.is_constant()) return {};
  std::vector<AtomRef> common = p.terms()[0].atoms;
  auto keep = [&](const Size& s) {
    for (const Monomial& term : s.terms()) {
      std::vector<AtomRef> both;
      std::set_intersection(common.begin(), common.end(), term.atoms.begin(), term.atoms.end(),
                            std::back_inserter(both),
                            [](const AtomRef& x, const AtomRef& y) { return x->text < y->text; });
      common = std::move(both);
    }
  };
  keep(p);
  keep(d);
  return common;
}

Size exactly(const Size& p, const Size& factor) { return divide(p, factor).quotient; }

// The one term of p that is a quotient atom with coefficient 1 and a divisor for which nested floors merge.
const Atom* lone_quotient(const Size& p) {
  const Atom* found = nullptr;
  for (const Monomial& term : p.terms())
    for (const AtomRef& atom : term.atoms)
      if (atom->op == Atom::div) {
        if (found || term.coefficient != 1 || term.atoms.size() != 1) return nullptr;
        found = atom.get();
      }
  return found;
}

// A number that divides d and all terms of p. What p's offset leaves over does not matter to a floor by a positive d,
// floor((g*x + o) / (g*d)) = floor((x + floor(o / g)) / d); where d may be negative the offset must divide too.
std::int64_t common_number(const Size& p, const Size& d) {
  const std::int64_t g = std::gcd(gcd_of_terms(p, 0), gcd_of_terms(d, d.offset()));
  return g <= 1 || p.offset() % g == 0 || at_least_for(d, 0, {}) ? g : std::gcd(g, p.offset());
}

// floor(rest / d) where nothing divides any more.
Size quotient_atom(Size rest, Size d) {
  if (const std::vector<AtomRef> common = common_atoms(rest, d); !common.empty()) {
    const Size factor = SizeForm::from_monomial({1, common});
    return floor_div(exactly(rest, factor), exactly(d, factor));
  }
  if (const std::int64_t g = common_number(rest, d); g > 1)
    return floor_div(divide_by_number(rest, g).quotient, divide_by_number(d, g).quotient);
  const bool positive = at_least_for(d, 0, {});
  if (const Atom* inner = lone_quotient(rest); inner && positive && at_least_for(inner->b, 0, {})) {
    std::vector<Monomial> others;
    for (const Monomial& term : rest.terms())
      if (term.atoms[0].get() != inner) others.push_back(term);
    try {
      return floor_div(inner->a + inner->b * SizeForm::from_parts(rest.offset(), std::move(others)), inner->b * d);
    } catch (const Error& error) { // the merged numbers would leave 64 bits: keep the two floors
      if (error.code != Code::size) throw;
    }
  }
  return SizeForm::operation(Atom::div, rest, d);
}

// x % m inside a remainder by d counts as x where d divides m.
Size without_inner_remainders(const Size& p, const Size& d) {
  return replace_atoms(p, [&](const AtomRef& atom) -> Size {
    return atom->op == Atom::mod && divides(d, atom->b) ? without_inner_remainders(atom->a, d)
                                                        : SizeForm::from_atom(atom);
  });
}

Size remainder_atom(const Size& rest, const Size& d) {
  if (const std::vector<AtomRef> common = common_atoms(rest, d); !common.empty()) {
    const Size factor = SizeForm::from_monomial({1, common});
    return factor * floor_mod(exactly(rest, factor), exactly(d, factor));
  }
  if (const std::int64_t g = common_number(rest, d); g > 1) {
    const Size outer = floor_mod(divide_by_number(rest, g).quotient, divide_by_number(d, g).quotient);
    return Size(g) * outer + floor_mod_i64(rest.offset(), g);
  }
  return SizeForm::operation(Atom::mod, rest, d);
}

Size extreme(Atom::Op op, const Size& a, const Size& b) {
  const bool least = op == Atom::min;
  if (at_least_for(a, b, {})) return least ? b : a;
  if (at_least_for(b, a, {})) return least ? a : b;
  const bool swap = a.is_constant() || (!b.is_constant() && b.text() < a.text()); // one spelling: numbers last
  return swap ? SizeForm::operation(op, b, a) : SizeForm::operation(op, a, b);
}

} // namespace

Size floor_div(const Size& a, const Size& b) {
  if (b == Size(0)) division_by_zero(a);
  if (a == Size(0) || b == Size(1)) return a;
  if (b.is_constant() && b.offset() < 0) return b == Size(-1) ? -a : floor_div(-a, -b);
  if (a.is_constant() && b.is_constant()) return floor_div_i64(a.offset(), b.offset());
  if (!b.is_constant() && b.terms()[0].coefficient < 0) return floor_div(-a, -b);
  const Division d = divide(a, b);
  if (auto k = constant_quotient(d.rest, b)) return d.quotient + *k;
  const bool by_product = b.is_constant() || (b.offset() == 0 && b.terms().size() == 1);
  return by_product ? d.quotient + quotient_atom(d.rest, b) : quotient_atom(a, b);
}

Size floor_mod(const Size& a, const Size& b) {
  if (b == Size(0)) division_by_zero(a);
  if (a == Size(0) || b == Size(1) || b == Size(-1)) return 0;
  if (a.is_constant() && b.is_constant()) return floor_mod_i64(a.offset(), b.offset());
  if (b.is_constant() ? b.offset() < 0 : b.terms()[0].coefficient < 0) return -floor_mod(-a, -b);
  const Size plain = without_inner_remainders(a, b);
  const Division d = divide(plain, b);
  if (auto k = constant_quotient(d.rest, b)) return d.rest - *k * b;
  const bool by_product = b.is_constant() || (b.offset() == 0 && b.terms().size() == 1);
  return remainder_atom(by_product ? d.rest : plain, b);
}

Size min(const Size& a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.offset(), b.offset());
  return extreme(Atom::min, a, b);
}

Size max(const Size& a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.offset(), b.offset());
  return extreme(Atom::max, a, b);
}

void split_terms(const Size& value, const Size& divisor, Size& quotient, Size& rest) {
  if (divisor == Size(0)) division_by_zero(value);
  const Division d = divide(value, divisor);
  quotient = d.quotient;
  rest = d.rest;
}

bool divides(const Size& divisor, const Size& value, Size* quotient) {
  if (divisor == Size(0)) return false;
  if (divisor == Size(-1)) return quotient ? (*quotient = -value, true) : true;
  const bool negative = divisor.is_constant() ? divisor.offset() < 0 : divisor.terms()[0].coefficient < 0;
  if (negative) return divides(-divisor, -value, quotient);
  const Division d = divide(value, divisor);
  if (!(d.rest == Size(0))) return false;
  if (quotient) *quotient = d.quotient;
  return true;
}

} // namespace tilewright
