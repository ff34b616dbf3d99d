// Turns of a stream that change nothing: a boolean tensor guards all that they would add.
//
//   for t0, t1 in tiles(0, 4096, 64) seq:                            where no M[s, t0:t1] holds:
//     contract U;  map S;  reduce m = max S where M                  m stays
//     map P = exp(S - m) where M                                     P is 0
//     contract O += P * V                                            O stays, and so do corrections by exp(m_was - m)
#pragma once
#include "loop/nest.h"

namespace tilewright::cpu {

// The buffer of such a tensor; -1: there is none.
BufferId mask_of_turns(const Program&, const Region&, const Nest&, const Block& body);

} // namespace tilewright::cpu
