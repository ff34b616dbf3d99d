// The split law, written into the program: a reduction in parts that may run side by side, and the statements that merge them.
//
//   Y[f] = sum[c] X[c] * W[f c], c < 10, in 4 parts     ->     Y_part[p, f] = sum[c] X[3*p+c] * W[f, 3*p+c]       c < 3, p < 3
//                                                              Y_part[3, f] = sum[c] X[c+9] * W[f, c+9]           c < 1
//                                                              Y[f] = sum[p] Y_part[p f]                          p < 4
//
//   B[t] = argmax[v] Z[t v]                             ->     B_value[p t] = max[v] Z[t, n*p+v]     B_at[p t] = argmax[v] Z[t, n*p+v]
//                                                              B_best[t] = argmax[p] B_value[p t]
//                                                              B[t] = n * B_best[t] + B_at[B_best[t], t]
//
// Partial states have the type that the reduction accumulates in, so everything but a sum or product of floats, which is
// reassociated, stays the same to the last bit. The parts are as even as ceilings make them; the last may be shorter, and is a piece
// of its own: no guard appears. Under a guard a part may have no point: an argmax then also keeps which parts have one, and looks
// for the first element that equals the value of the part, which is defined where the argmax of nothing is not.
#pragma once
#include "expr/program.h"
#include "support/or.h"

namespace tilewright {

// Refused: the axis is not reduced or has no two points; fewer than two parts; a maximum under a guard whose value of nothing
// is not that of its parts.
Or<Program> split(const Program&, StatementId, AxisId, std::int64_t parts);

}  // namespace tilewright
