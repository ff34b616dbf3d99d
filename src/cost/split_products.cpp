#include "cost/split_products.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

int split_pairs(DType a, DType b) {
  const auto planes = [](DType t) { return t == DType::f32 ? 3 : t == DType::f16 ? 2 : t == DType::bf16 ? 1 : 0; };
  const int x = planes(a), y = planes(b);
  return x + y == 6 ? 6 : x + y == 5 ? 5 : x * y; // of three planes each, those beyond the bits of a float are left out
}

// In cycles, measured on a core with two vector pipes of 16 floats: they reach five sixths of their peak on long sums; the unit
// takes 92 cycles for 32 x 32 x 32 products of bf16, moving its operands included. Packed weights come from afar once a call, 9 bytes
// a cycle; the unit waits for them, while vectors hide a third less of them behind their work.
double split_share(const SplitProduct& s) {
  const auto whole = [](double x, double granule) { return std::ceil(x / granule) * granule; };
  if (s.pairs == 0 || s.rows < 16 || s.columns < 9) return 1;
  const double fused = s.rows * whole(s.columns, 16) * s.products / 32 * 1.2 + (s.packed ? 0 : s.columns * s.products / 16);
  const double tiles = whole(s.rows, 16) * whole(s.columns, 16) * whole(s.products, 32) / 32768 * 92 * s.pairs;
  const double splitting = 0.25 * (s.rows * s.products * std::ceil(s.columns / 512) + (s.packed ? 0 : 2 * s.columns * s.products));
  const double waiting = s.packed ? 0.67 * s.columns * s.products : 0;
  const double share = (tiles + splitting + waiting + s.rows * s.columns / 8) / fused;
  return share < 0.9 ? share : 1;
}

} // namespace tilewright
