// From the normal form back to scalars, spelled as a person would.
#include <cmath>

#include "law/form.h"

namespace tilewright {

namespace {

ScalarRef times(const ScalarRef& a, const ScalarRef& b) { return a ? binary(Op::mul, a, b) : b; }

ScalarRef as(const ScalarRef& s, DType type) {
  return is_literal(s) || compute_type(s->dtype) == type ? s : cast(s, type);
}

ScalarRef powered(ScalarRef base, double power, DType type) {
  if (power == 1) return base;
  if (power == 0.5) return unary(Op::sqrt, base);
  if (power == 2) return binary(Op::mul, base, base);
  return binary(Op::pow, base, number(power, type));
}

} // namespace

ScalarRef scalar_of(const Factors& factors, double coefficient, const Atoms& atoms, DType type,
                    const Instead& instead) {
  ScalarRef above, below;
  for (const auto& [a, power] : factors) {
    const auto found = instead.find(a);
    const ScalarRef base = as(found == instead.end() ? atoms.value(a) : found->second, type);
    ScalarRef& side = power > 0 ? above : below;
    side = times(side, powered(base, std::abs(power), type));
  }
  const bool negative = coefficient < 0;
  const double size = std::abs(coefficient);
  if (!above)
    above = number(size, type);
  else if (size != 1)
    above = binary(Op::mul, above, number(size, type));
  if (below) above = binary(Op::div, above, below);
  return negative ? unary(Op::neg, above) : above;
}

ScalarRef scalar_of(const std::vector<Monomial>& list, const Atoms& atoms, DType type, const Instead& instead) {
  ScalarRef sum;
  for (const bool positive : {true, false}) // S - m, not -m + S
    for (const Monomial& m : list) {
      if ((m.coefficient > 0) != positive) continue;
      if (!sum)
        sum = scalar_of(m.factors, m.coefficient, atoms, type, instead);
      else
        sum = binary(positive ? Op::add : Op::sub, sum,
                     scalar_of(m.factors, std::abs(m.coefficient), atoms, type, instead));
    }
  return sum ? sum : number(0, type);
}

ScalarRef scalar_of(const FormTerm& t, const Atoms& atoms, DType type, const Instead& instead) {
  if (t.exponent.empty()) return scalar_of(t.factors, t.coefficient, atoms, type, instead);
  const ScalarRef e = unary(Op::exp, scalar_of(t.exponent, atoms, type, instead));
  if (t.factors.empty() && t.coefficient == 1) return e;
  Factors above, below;
  for (const auto& [a, p] : t.factors) (p > 0 ? above : below)[a] = std::abs(p);
  ScalarRef all = e;
  if (!above.empty() || t.coefficient != 1) {
    if (above.empty() && t.coefficient == -1)
      all = unary(Op::neg, e);
    else
      all = binary(Op::mul, e, scalar_of(above, t.coefficient, atoms, type, instead));
  }
  return below.empty() ? all : binary(Op::div, all, scalar_of(below, 1, atoms, type, instead));
}

ScalarRef scalar_of(const Form& f, const Atoms& atoms, DType type, const Instead& instead) {
  ScalarRef sum;
  for (const bool positive : {true, false})
    for (const FormTerm& t : f) {
      if ((t.coefficient > 0) != positive) continue;
      FormTerm term = t;
      if (sum && !positive) term.coefficient = -term.coefficient;
      ScalarRef value = scalar_of(term, atoms, type, instead);
      if (const ScalarRef c = condition_of(t.conditions, atoms)) value = select(c, value, number(0, type));
      sum = sum ? binary(positive ? Op::add : Op::sub, sum, value) : value;
    }
  return sum ? sum : number(0, type);
}

ScalarRef condition_of(const std::vector<AtomId>& conditions, const Atoms& atoms) {
  ScalarRef all;
  for (AtomId c : conditions) all = all ? binary(Op::logical_and, all, atoms.value(c)) : atoms.value(c);
  return all;
}

} // namespace tilewright
