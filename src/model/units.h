// What the units of a machine ask of the axes: an instruction's shape, a row of memory. Each axis carries the numbers
// that it must be a multiple of, with their causes, so that a size which does not fit can say why.
//
//   S = sum[d] Q*K, O = sum[x] P*V in f16 on an H100       q^(64): m of wgmma in S, O    x^(16): n of wgmma in S, k of
//   wgmma in O
//                                                          d^(64): rows of 128 bytes of Q, K, V
#pragma once
#include "machine/machine.h"
#include "schedule/schedule.h"

namespace tilewright {

struct Divisor {
  std::int64_t of = 1;
  std::string cause;
};
struct Divisors {
  std::vector<std::vector<Divisor>> axes; // of a region
  std::int64_t granule(RegionAxis) const; // the least common multiple
  std::string causes(RegionAxis) const;
};
// rows: also of the memory's rows, for axes that are contiguous in what is loaded.
Divisors divisors(const Program&, const Region&, const Machine&, bool rows);

// The unit that a contraction runs on, and which axes are its m, n and k; none where the machine has no instruction for
// its types.
struct Placed {
  UnitId unit = -1;
  DType type = DType::f32;
  std::vector<RegionAxis> m, n, k, batch;
};
std::optional<Placed> placed(const Program&, const Region&, int statement, const Machine&);

} // namespace tilewright
