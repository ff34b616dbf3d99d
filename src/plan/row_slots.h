// What maps and reductions of rows in registers take, a point.
#pragma once
#include <algorithm>
#include <functional>

#include "expr/program.h"

namespace tilewright {

inline bool transcendental(const ScalarRef& s) {
  if (s->op == Op::exp || s->op == Op::log || s->op == Op::tanh || s->op == Op::erf || s->op == Op::pow) return true;
  return std::any_of(s->args.begin(), s->args.end(), transcendental);
}

// Instructions of a map or a reduction: those of extremes and roundings take two slots.
inline double row_slots(const Statement& st) {
  if (st.reducer != Reducer::none) return st.reducer == Reducer::sum ? 1 : 2;
  double n = 0;
  const std::function<void(const ScalarRef&)> visit = [&](const ScalarRef& x) {
    if (!x->args.empty()) n += x->op == Op::cast ? 0.5 : 1;
    for (const ScalarRef& a : x->args) visit(a);
  };
  visit(st.body);
  return std::max(n, 1.0);
}

}  // namespace tilewright
