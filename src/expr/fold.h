// Arithmetic on constants, exactly as the compute type does it: f32 in f32, i32 and i64 with wrap-around.
// Nothing is returned where the answer is not certain for every machine: a NaN, a division by zero, a shift too far, a
// conversion out of range.
#pragma once
#include "expr/scalar.h"

namespace tilewright {

ScalarRef fold_unary(Op, DType type, const ScalarRef&);                      // null: leave the node
ScalarRef fold_binary(Op, DType type, const ScalarRef&, const ScalarRef&);   // type: the compute type of both
ScalarRef convert_literal(const ScalarRef& literal, DType to);               // null where it cannot be held
double literal_value(const Scalar& constant);                                // rounded to its dtype

}  // namespace tilewright
