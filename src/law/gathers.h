// An element that a tensor picks along an axis that other statements reduce, as a sum over that axis.
//
//   T[t] = L[t, label[t]]     ->     T_picked[t] = sum[v] L[t v] where index(v) == label[t];  T = T_picked
//
// Only of what statements make and nobody else sees: then it need not be stored for the sake of one element.
#pragma once
#include "expr/program.h"

namespace tilewright {

void gathers_as_sums(Program&);

}  // namespace tilewright
