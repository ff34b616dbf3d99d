#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

ScalarRef without_powers(const ScalarRef& s) {
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
      s->body = rewrite(s->body, without_powers);
      if (s->guard) s->guard = rewrite(s->guard, without_powers);
    }
  return p;
}

}  // namespace tilewright
