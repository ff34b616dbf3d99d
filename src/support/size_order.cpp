// Bounds of sizes and proofs of order. Sound, not complete: "no" means "not shown".
#include <algorithm>

#include "support/error.h"
#include "support/size.h"
#include "support/size_form.h"

namespace tilewright {

namespace {

using AtomRef = Size::AtomRef;
using Atom = Size::Atom;
using Monomial = Size::Monomial;

constexpr std::int64_t plus_infinity = INT64_MAX, minus_infinity = INT64_MIN;
bool finite(std::int64_t v) { return v != plus_infinity && v != minus_infinity; }

std::int64_t clamp(__int128 v) {
  if (v >= plus_infinity) return plus_infinity;
  return v <= minus_infinity ? minus_infinity : static_cast<std::int64_t>(v);
}

// Each end is added on its own: both of a pair are low ends or both high ends, so infinities never cancel.
std::int64_t add_ends(std::int64_t a, std::int64_t b) {
  if (!finite(a)) return a;
  return finite(b) ? clamp(static_cast<__int128>(a) + b) : b;
}

std::int64_t multiply_ends(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (finite(a) && finite(b)) return clamp(static_cast<__int128>(a) * b);
  return (a < 0) == (b < 0) ? plus_infinity : minus_infinity;
}

std::int64_t negate_end(std::int64_t a) {
  return a == minus_infinity ? plus_infinity : a == plus_infinity ? minus_infinity : -a;
}

std::int64_t divide_ends(std::int64_t a, std::int64_t positive) {
  if (!finite(a)) return a;
  return positive == plus_infinity ? (a < 0 ? -1 : 0) : floor_div_i64(a, positive);
}

Interval range_of_atom(const Atom& atom, const Ranges& ranges, Interval absent) {
  if (atom.op == Atom::symbol) {
    auto found = ranges.find(atom.name);
    return found == ranges.end() ? absent : found->second;
  }
  const Interval a = range_of(atom.a, ranges, absent), b = range_of(atom.b, ranges, absent);
  switch (atom.op) {
  case Atom::div: return floor_div(a, b);
  case Atom::mod: return floor_mod(a, b);
  case Atom::min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
  default: return {std::max(a.low, b.low), std::max(a.high, b.high)};
  }
}

// Shows p >= 0. First by intervals; then with every symbol written as its lower bound plus something not negative,
// where all coefficients must come out positive; then atom by atom, by what bounds a quotient, a remainder, a minimum
// or a maximum.
class Prover {
public:
  Prover(const Ranges& ranges, Interval absent) : ranges_(ranges), absent_(absent) {}

  bool not_negative(const Size& p, int depth) const {
    if (range_of(p, ranges_, absent_).low >= 0) return true;
    if (p.is_constant() || p.terms().size() > 32) return false;
    if (p.terms().size() + (p.offset() != 0) > 1 && by_shift(p)) return true;
    if (depth == 0) return false;
    for (const Monomial& term : p.terms())
      for (const AtomRef& atom : term.atoms)
        if (atom->op != Atom::symbol && by_atom(p, term, atom, depth - 1)) return true;
    return false;
  }

private:
  const Ranges& ranges_;
  Interval absent_;

  bool by_shift(const Size& p) const {
    const Size q = replace_atoms(p, [&](const AtomRef& atom) -> Size {
      const Size same = SizeForm::from_atom(atom);
      const std::int64_t low = range_of_atom(*atom, ranges_, absent_).low;
      return atom->op == Atom::symbol && low > 0 ? same + low : same;
    });
    if (q.offset() < 0) return false;
    return std::all_of(q.terms().begin(), q.terms().end(), [&](const Monomial& term) {
      return term.coefficient > 0 && std::all_of(term.atoms.begin(), term.atoms.end(), [&](const AtomRef& atom) {
               return range_of_atom(*atom, ranges_, absent_).low >= 0;
             });
    });
  }

  // p = rest + c * others * atom, with others >= 0: p is bounded from below by putting a bound of the atom in its
  // place.
  bool by_atom(const Size& p, const Monomial& term, const AtomRef& atom, int depth) const {
    std::vector<AtomRef> others;
    divide_atoms(term.atoms, {atom}, others);
    const Size factor = SizeForm::from_monomial({term.coefficient, others});
    const bool positive = term.coefficient > 0;
    for (const AtomRef& other : others)
      if (range_of_atom(*other, ranges_, absent_).low < 0) return false;
    const Size rest = p - factor * SizeForm::from_atom(atom);
    auto holds = [&](const Size& bound) { return not_negative(rest + factor * bound, depth); };
    switch (atom->op) {
    case Atom::div: return by_quotient(rest, factor, *atom, others, depth);
    case Atom::mod:
      if (positive || range_of(atom->b, ranges_, absent_).low < 0) return false;
      return holds(atom->b - 1) || (range_of(atom->a, ranges_, absent_).low >= 0 && holds(atom->a));
    case Atom::min: return positive ? holds(atom->a) && holds(atom->b) : holds(atom->a) || holds(atom->b);
    case Atom::max: return positive ? holds(atom->a) || holds(atom->b) : holds(atom->a) && holds(atom->b);
    default: return false;
    }
  }

  // a - d + 1 <= d * (a // d) <= a. The d comes from the other factors, or, where it is a number, from scaling all of
  // p.
  bool by_quotient(const Size& rest, const Size& factor, const Atom& atom, const std::vector<AtomRef>& others,
                   int depth) const {
    if (range_of(atom.b, ranges_, absent_).low < 0) return false;
    const bool positive = factor.terms().empty() ? factor.offset() > 0 : factor.terms()[0].coefficient > 0;
    const Size bound = positive ? atom.a - atom.b + 1 : atom.a;
    if (atom.b.is_constant()) return not_negative(rest * atom.b + factor * bound, depth);
    if (atom.b.offset() != 0 || atom.b.terms().size() != 1 || atom.b.terms()[0].coefficient != 1) return false;
    std::vector<AtomRef> left;
    if (!divide_atoms(others, atom.b.terms()[0].atoms, left)) return false;
    const std::int64_t coefficient = factor.terms()[0].coefficient;
    return not_negative(rest + SizeForm::from_monomial({coefficient, left}) * bound, depth);
  }
};

} // namespace

Interval operator+(Interval a, Interval b) { return {add_ends(a.low, b.low), add_ends(a.high, b.high)}; }

Interval operator*(Interval a, Interval b) {
  const std::int64_t corners[] = {multiply_ends(a.low, b.low), multiply_ends(a.low, b.high),
                                  multiply_ends(a.high, b.low), multiply_ends(a.high, b.high)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

// A divisor is not zero, so a low end of 0 counts as 1.
Interval floor_div(Interval a, Interval b) {
  if (b.high <= 0 && b.low < 0)
    return floor_div({negate_end(a.high), negate_end(a.low)}, {negate_end(b.high), negate_end(b.low)});
  if (b.low < 0) {
    const std::int64_t size = std::max(a.low < 0 ? negate_end(a.low) : a.low, a.high < 0 ? negate_end(a.high) : a.high);
    return {negate_end(size), size};
  }
  b.low = std::max<std::int64_t>(b.low, 1);
  b.high = std::max(b.high, b.low);
  return {std::min(divide_ends(a.low, b.low), divide_ends(a.low, b.high)),
          std::max(divide_ends(a.high, b.low), divide_ends(a.high, b.high))};
}

Interval floor_mod(Interval a, Interval b) {
  if (b.low < 0)
    return {std::min<std::int64_t>(0, b.low + 1),
            std::max<std::int64_t>(0, b.high > 0 && finite(b.high) ? b.high - 1 : b.high)};
  if (a.low >= 0 && a.high < std::max<std::int64_t>(b.low, 1)) return a;
  std::int64_t high = finite(b.high) ? std::max<std::int64_t>(b.high - 1, 0) : b.high;
  if (a.low >= 0) high = std::min(high, a.high);
  return {0, high};
}

Interval range_of(const Size& s, const Ranges& ranges, Interval absent) {
  Interval sum{s.offset(), s.offset()};
  for (const Monomial& term : s.terms()) {
    Interval product{term.coefficient, term.coefficient};
    for (const AtomRef& atom : term.atoms) product = product * range_of_atom(*atom, ranges, absent);
    sum = sum + product;
  }
  return sum;
}

bool provably_at_least(const Size& a, const Size& b, const Ranges& ranges, Interval absent) {
  if (a.is_constant() && b.is_constant()) return a.offset() >= b.offset();
  try {
    return Prover(ranges, absent).not_negative(a - b, 4);
  } catch (const Error& error) { // an overflow inside a proof is no proof
    if (error.code != Code::size) throw;
    return false;
  }
}

bool at_least(const Size& a, const Size& b, const Ranges& ranges) {
  return provably_at_least(a, b, ranges, {0, std::int64_t{1} << 31});
}

} // namespace tilewright
