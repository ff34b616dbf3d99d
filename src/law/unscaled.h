// Factors of elements behind their extremes: what is compared is what a contraction made, and the factor stands in the exponent.
//
//   S[q x] = D[q x] * 0.125;  m[q] = max[x] S;  E[q x] = exp(S - m)
//   ->  m[q] = max[x] D;  E[q x] = exp(D * 0.125 - m * 0.125)
//
// An exponential of such a difference is one multiply-add and one instruction of a special unit, so that the map of all elements is gone.
// What an extreme is declared as, and what it is read as, may be wider than what the program says: it decides nothing.
#pragma once
#include "expr/program.h"

namespace tilewright {

Program unscaled(Program);

}  // namespace tilewright
