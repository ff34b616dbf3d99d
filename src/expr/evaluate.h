// The evaluator: the referee. It runs any program, slowly enough to be simple and fast enough (300 MMAC/s) to judge
// whole networks.
//
// typed: each body in its compute type, results rounded to the declared dtype, reductions in axis order; the referee of
// bit-equality. fp64: floats held as f64 without rounding, integers exact; the referee of error.
//
//   Y[t] : f16 = sum[c] X[t c] * W[c]        X, W of f16
//
//   typed: acc = 0f; for c: acc = acc + float(X[t,c]) * float(W[c]), both rounded to f32; Y[t] = f16(acc)
//   fp64:  the same in double, and Y is an array of f64
//
// What is computed, where a machine could do otherwise (targets must agree with this to the last bit in typed mode):
// - A reduction starts from its identity (+0 for a sum) and adds its points one after the other, the first axis of
//   `reduced` outermost. It accumulates in the compute type of the body, or in the declared one where that is wider and
//   of the same kind (i32 -> i64, f32 -> f64). No multiplication is fused with an addition.
// - A cast and a store to the declared dtype are the same: float to integer truncates, saturates and makes NaN 0;
//   integer to integer wraps around; anything to bool is != 0 (NaN is true); to f16, bf16 and f8 it goes through f32.
//   An `else` value is cast to the dtype of the tensor. In fp64 mode casts from float to float do nothing.
// - Integers wrap around, in indices too; lowest / -1 wraps. div truncates, floor_div and mod floor. A zero divisor,
//   or zero to a negative power, is Error(input); other negative powers truncate. Shifts by less than 0, or by the
//   width or more, give 0 (-1 where a negative number goes right).
// - Floats: floor_div is floor(a/b), mod is fmod moved to the sign of b, x^2 is x*x, round is half to even; exp, log,
//   pow, erf and so on are the double functions of the C library, rounded to f32 where the node is f32.
// - max and min: NaN where either is; of equals (-0 and 0) the left one. argmax, argmin: the first winner, the first
//   NaN before all. A max of nothing is -inf or the lowest value of the declared dtype (min: the highest); the argmax
//   of nothing is Error(bounds).
// - A point whose guard fails contributes nothing, reads nothing and cannot fail; a map is 0 there. Neither can fail
//   what `select` does not choose, an `else` that is not needed, and the right side of an `and` or `or` that the left
//   side decides. Any other read out of range without `else` is Error(bounds).
// - An opaque node is its reference function, on arrays of the declared dtypes in both modes. An output with
//   `stored_in` is a copy: the input keeps its values. One with `counted_by` is cut to its results in the end.
#pragma once
#include <map>

#include "expr/program.h"

namespace tilewright {

enum class Evaluation { typed, fp64 };

// inputs: by tensor id, for every input and every weight without bytes. The result holds every tensor (fp64: floats as
// f64). Error(input) on a missing or wrongly shaped input, Error(bounds) on an out-of-range element of an index tensor,
// Error(memory) where the tensors do not fit. sizes: free ones that are absent follow the inputs' shapes, else their
// default. In fp64 mode an input of a float type may be given as f64.
using Values = std::map<TensorId, Array>;
Values evaluate(const Program&, const Values& inputs, const Binding& sizes, Evaluation);

} // namespace tilewright
