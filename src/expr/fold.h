// Arithmetic on constants, exactly as the compute type does it: f32 in f32, i32 and i64 with wrap-around.
// Nothing is returned where the answer is not certain for every machine: a NaN, a division by zero, a shift too far, a
// conversion out of range.
#pragma once
#include <cmath>

#include "expr/scalar.h"

namespace tilewright {

ScalarRef fold_unary(Op, DType type, const ScalarRef&);                      // null: leave the node
ScalarRef fold_binary(Op, DType type, const ScalarRef&, const ScalarRef&);   // type: the compute type of both
ScalarRef convert_literal(const ScalarRef& literal, DType to);               // null where it cannot be held
double literal_value(const Scalar& constant);                                // rounded to its dtype

// exp, log, tanh, erf and the trigonometric functions in double; null for other operators. An f32 node rounds the result once
// more: right to the last bit but for the rarest of ties, and the same for what is folded and what is evaluated.
using RealFunction = double (*)(double);
RealFunction real_function(Op);
// x^2 is x * x, rounded once; every other power the double function, rounded.
template <class T> T real_power(T base, T exponent) {
  if (exponent == T(2)) return base * base;
  return static_cast<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

}  // namespace tilewright
