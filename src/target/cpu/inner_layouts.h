// How what a streamed kernel keeps to itself lies: with a parallel axis that all of it has innermost, so that one vector holds as many
// rows of a result, statistics are vectors, and no lanes of a vector ever have to meet.
//
//   S[q x] = sum[d] Q * K;  m[q] = max[x] S;  E[q x] = exp(S - m);  O[q d] = sum[x] E * V         S and E lie as [x][q], O as [d][q]
//
// Nothing changes where the turns read what lies elsewhere element by element (rows of X in a variance), or no axis has a vector's length.
#pragma once
#include "loop/nest.h"

namespace tilewright::cpu {

void lay_lanes_inside(const Program&, const Region&, const Nest&, int lanes, std::vector<DimOrder>& layouts);

}  // namespace tilewright::cpu
