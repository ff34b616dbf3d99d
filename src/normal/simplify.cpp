#include <algorithm>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

// Parsed bodies are as they were written; what the constructors make of constants is a constant.
ScalarRef folded(const ScalarRef& s) {
  if (s->args.empty() || !std::all_of(s->args.begin(), s->args.end(), [](const ScalarRef& a) { return is_literal(a); })) return s;
  ScalarRef made;
  if (s->op == Op::cast) made = cast(s->args[0], s->dtype);
  else if (s->op == Op::select) made = select(s->args[0], s->args[1], s->args[2]);
  else made = s->args.size() == 1 ? unary(s->op, s->args[0]) : binary(s->op, s->args[0], s->args[1]);
  return made->dtype == s->dtype ? made : s;
}

ScalarRef simpler(const ScalarRef& node) {
  const ScalarRef s = folded(node);
  double v = 0;
  if (s->op != Op::pow || !is_float(s->dtype) || !is_literal(s->args[1], &v)) return s;
  const ScalarRef& x = s->args[0];
  if (v == 1) return cast(x, s->dtype);
  if (v == 2) return binary(Op::mul, x, x);
  if (v == 3) return binary(Op::mul, binary(Op::mul, x, x), x);
  if (v == -1) return binary(Op::div, number(1, s->dtype), x);
  return s;
}

}  // namespace

Program simplify_scalars(Program p) {
  for (auto& node : p.nodes)
    if (Statement* s = std::get_if<Statement>(&node)) {
      s->body = rewrite(s->body, simpler);
      if (s->guard) s->guard = rewrite(s->guard, simpler);
    }
  return p;
}

}  // namespace tilewright
