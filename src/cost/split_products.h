// A contraction of floats on a unit that multiplies tiles of bf16 (AMX): every float is split into the sum of up to three of them,
// and some of their products are added up. Whether that is faster than fused multiply-adds in vectors depends on how well rows,
// columns and products fill the tiles, and on what splitting costs. Leaf and planner ask here.
//
//   512 x 512 x 512 floats, weights split ahead:      0.62 of the time of multiply-adds
//   3136 x 96 x 16:                                   1 (multiply-adds are faster: half of each tile would be empty)
#pragma once
#include "support/dtype.h"

namespace tilewright {

struct SplitProduct {
  double rows = 0, columns = 0, products = 0;   // of a call
  int pairs = 0;                                // products of bf16 that one product becomes; 0: there is no such unit
  bool packed = false;                          // the operand with the columns is split ahead
};
int split_pairs(DType a, DType b);              // 6 of f32 and f32, 4 of f16 and f16, 1 of bf16 and bf16; 0: not split
// Its time over that of fused multiply-adds: below 1 where it is worth it, else 1.
double split_share(const SplitProduct&);

} // namespace tilewright
