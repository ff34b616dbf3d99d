// The scalar normal form of a body: what in it runs with an axis, what is a statistic over that axis, and how the two meet.
//
//   sum of  coefficient * product of atom^power * exp(polynomial in atoms) where conditions
//
//   (X[c] - M)^2 * r * g[c]   over c; M, r statistics   ->   (X - M)^2 * r * g           X - M is an atom of its own, linear in M
//   exp(S[x] - m) / Z * V[x d]                      ->     exp(S - m) * Z^-1 * V
//
// Atoms are maximal subterms of one side alone: products, quotients, powers and exponentials are taken apart, pure sums are not
// (but inside an exponent). Casts between floats are looked through. What is mixed under any other function is refused, and the
// term is printed: exp(S*m) has S*m in its exponent, tanh(S - m) has S - m under tanh.
#pragma once
#include <map>

#include "expr/scalar.h"
#include "support/or.h"

namespace tilewright {

// What a scalar depends on: neither, the axes of the reduction, statistics over them, or both.
enum class Side : std::uint8_t { none = 0, stream = 1, statistic = 2, mixed = 3 };

using AtomId = int;
using Factors = std::map<AtomId, double>;                   // atom -> power; no zero powers
struct Monomial { double coefficient = 1; Factors factors; };
struct FormTerm {
  double coefficient = 1;
  Factors factors;
  std::vector<Monomial> exponent;                           // sorted by factors, no constant
  std::vector<AtomId> conditions;                           // ascending; booleans that must hold
};
using Form = std::vector<FormTerm>;                         // like terms are merged
bool is_linear(const ScalarRef&);                           // in what it reads: sums, products and quotients, extremes

// The atoms of the forms that are to be compared, and the side of each.
class Atoms {
 public:
  explicit Atoms(std::function<Side(const Scalar& leaf)> side_of_leaf) : leaf_(std::move(side_of_leaf)) {}
  AtomId intern(const ScalarRef&);
  AtomId intern_sum(const ScalarRef&, Form);                // of elements and statistics, linear in the latter; mixed
  const Form* sum(AtomId a) const;                          // of such an atom, its terms
  const ScalarRef& value(AtomId a) const { return values_[static_cast<std::size_t>(a)]; }
  Side side(AtomId a) const { return sides_[static_cast<std::size_t>(a)]; }
  Side side(const ScalarRef&);                              // of any scalar over the same axes

 private:
  std::function<Side(const Scalar&)> leaf_;
  std::vector<ScalarRef> values_;
  std::vector<Side> sides_;
  std::map<AtomId, Form> sums_;
  std::map<const Scalar*, std::pair<ScalarRef, Side>> known_;
};

// nonnegative: whether a scalar is known not to be less than zero (of a leaf; the rest follows). print: for refusals.
struct Facts {
  std::function<bool(const Scalar& leaf)> nonnegative;
  std::function<std::string(const ScalarRef&)> print;
  std::function<bool(const ScalarRef&)> whole;              // what is an atom as it is, if anything
};
// together: a statistic that is added to an element is one atom, however it is made (X - S/n: the anchor S/n). apart: it is taken
// apart too (x*r - mu*r: r is a factor of both). expanded: there are no atoms for sums at all.
enum class Sums { together, apart, expanded };
Or<Form> normal_form(const ScalarRef&, Atoms&, const Facts&, Sums = Sums::together);
std::optional<std::vector<Monomial>> polynomial(const ScalarRef&, Atoms&, const Facts&);          // as in an exponent; no exponentials in it
bool nonnegative(const ScalarRef&, const Facts&);

Form product(const Form&, const Form&);
Form sum(Form, const Form&);
bool same_but_for_coefficient(const FormTerm&, const FormTerm&);
// a == ratio * b, or nothing.
std::optional<double> ratio(const Form& a, const Form& b);

// Back to scalars of a float type. An atom is looked up in `instead` first.
using Instead = std::map<AtomId, ScalarRef>;
ScalarRef scalar_of(const Factors&, double coefficient, const Atoms&, DType, const Instead& = {});
ScalarRef scalar_of(const std::vector<Monomial>& sum, const Atoms&, DType, const Instead& = {});
ScalarRef scalar_of(const FormTerm&, const Atoms&, DType, const Instead& = {});       // its conditions are left out
ScalarRef scalar_of(const Form&, const Atoms&, DType, const Instead& = {});           // its conditions as selects
ScalarRef condition_of(const std::vector<AtomId>&, const Atoms&);                     // null: always

}  // namespace tilewright
