// Reductions that read statistics over their own elements, written so that they can run with them in one loop.
//
//   P[q x] = E[q x] / Z[q];  O[q d] = sum[x] P[q x] * V[x d]       ->   O_1[q d] = sum[x] E[q x] * V[x d];  O = O_1 / Z
//   U[t f] = sum[c] (X[t c] - M[t]) * r[t] * W[f c]                ->   U_1[t f] = sum[c] (X - M) * W;  U = U_1 * r
//   B[t] = argmax[e] exp(L[t e] - m[t]) / Z[t]                     ->   B[t] = argmax[e] L[t e]
//   T[t] = L[t, label[t]]  beside reductions of L over v           ->   T[t] = sum[v] L[t v] where index(v) == label[t]
//
// The program stays the same over the reals. A factor of statistics is taken out of the sum and multiplied in behind it (a fixed
// anchor); what bounds an exponential stays, and so does what elements are compared with: stream.h says how the sum follows them.
// What cannot be written so keeps its form, and the reason is told: exp(S - m) / Z, not summed, keeps its axis; tanh(S - m) is no product.
#pragma once
#include "expr/program.h"

namespace tilewright {

struct StreamRefusal { std::string tensor, axis, reason; };
// Without a kernel that streams them some forms gain nothing. exponentials: only those sums that an exponential bounded by its maximum
// stands in. products: those, and sums of products whose factors of elements fit into their two operands, at most one of which is no
// known weight; what an operand was declared as, weights that a factor goes into are.
//   N[t c] : f16 = X[t c] * r[t] * g[c];  Y[t f] = sum[c] N * W[f c]    ->    Y_1[t f] = sum[c] X * (W * g);  Y = Y_1 * r
enum class StreamForms : std::uint8_t { all, exponentials, products };
Program stream_forms(Program, std::vector<StreamRefusal>* refusals = nullptr, StreamForms = StreamForms::all);

}  // namespace tilewright
