// Operands as contractions were declared to take them, once factors of statistics are taken out of their sums.
//
//   before  E[q x] : f32 = exp(S - m);  P[q x] : f16 = E / Z;  O[q d] = sum[x] P * V
//   formed  O_1[q d] = sum[x] E * V;  O = O_1 / Z
//   after   E_operand[q x] : f16 = E;  O_1[q d] = sum[x] E_operand * V;  O = O_1 / Z
//
// The program says that P is rounded where it is summed; E, which differs from it by a factor of its row, is rounded as finely in its
// place. For machines whose instructions take narrow operands only: elsewhere E may stay as wide as it is.
#pragma once
#include "expr/program.h"

namespace tilewright {

Program round_operands(const Program& before, Program formed);

}  // namespace tilewright
