// Runs one statement: blocks of points along its parallel axes are the lanes of the registers, its reduced axes are
// loops.
//
//   Y[n f y x] = sum[c i j] X[n, c, y+i-1, x+j-1 else 0] * W[f c i j]
//
//   for each block of 256 points (x innermost: it is dense in X and Y)
//     acc = 0
//     for c, for i, for j:  acc += body(block)         each lane on its own, in the order of reduction
//     store acc
//
// The innermost axis of the blocks is the one along which most accesses are dense or constant. Operands that are read
// many times are first copied into the type they are computed in, with the window's `else` values around them and the
// axis of the lanes innermost, so that a convolution of any layout and padding runs at the speed of its arithmetic.
#pragma once
#include <map>

#include "expr/evaluate.h"

namespace tilewright::evaluator {

// Computes the statement's points into values.at(statement.out), which exists and is zeroed.
void run(const Program&, const Statement&, const Binding&, Evaluation, std::map<TensorId, Array>& values);

} // namespace tilewright::evaluator
