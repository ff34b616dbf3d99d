// Finite rank: a body as products of what statistics alone decide and what elements alone decide, and how a sum of it moves when
// the statistics do.
//
//   exp(S - m) / Z * V        one group: exp(-m) * Z^-1 times exp(S) * V
//   (X - a)^2                 one group: a polynomial in a; its derivatives (X - a) and 1 close it under a change of a:
//                             sum (X - b)^2 = sum (X - a)^2 - 2 (b - a) sum (X - a) + (b - a)^2 sum 1
#pragma once
#include "law/statistics.h"

namespace tilewright {

struct Group {
  Factors factors;                      // of statistics
  std::vector<Monomial> exponent;       // of statistics; it stays with `inside`, whose exponentials it bounds
  Form inside;                          // of elements and anchors; the coefficients too
  std::vector<AtomId> anchors;          // statistics that `inside` is a polynomial in
};

// Refused where an exponential of elements is not bounded by the statistics beside it. `apart`, where that gives fewer groups.
Or<std::vector<Group>> separate(const ScalarRef& body, const Lineage&, const Statement&, Atoms&, const Facts&);

Form derivative(const Form&, AtomId, const Atoms&);

// sum over `powers` of prod (anchor's move)^power / power! * (the sum of the derivative): the first is the body itself.
struct Derivative { std::vector<int> powers; Form body; };
std::vector<Derivative> derivatives(const Group&, const Atoms&);

}  // namespace tilewright
