// A stream in parts that may run side by side, written into the program: every part has a state of its own, and statements behind it
// merge the states as the law of streams corrects one when its statistic moves.
//
//   m[q] = max[x] S;  E[q x] = exp(S - m);  Z[q] = sum[x] E;  O[q d] = sum[x] E * V[x d]          x < 4096, in 8 parts
//
//   ->  S_part[z q x], m_part[z q], E_part[z q x], Z_part[z q], O_part[z q d]                     x < 512, of V[512*z+x d]
//       m[q] = max[z] m_part;  Z[q] = sum[z] Z_part * exp(m_part - m);  O[q d] = sum[z] O_part * exp(m_part - m)
//
// One query has no rows to share out among the cores of a GPU; the parts of its keys are.
#pragma once
#include "law/cascades.h"

namespace tilewright {

// Refused: the axis does not fall into equal parts, or a statement runs along it in another way than as it is.
Or<Program> stream_in_parts(const Program&, const Cascade&, std::int64_t parts);

}  // namespace tilewright
