// A GPU's schedules of a product with an operand that is read through slots (loop/through.h), priced at the share that is expected to live.
//
//   columns     tiles as high as a micro-tile (merged ones are tried too), a stream along what is packed
//   rows        tiles of rows that live, or that have one key
#pragma once
#include "plan/choose.h"

namespace tilewright {

// The fastest by prediction first.
std::vector<BlockChoice> gathered_choices(const Program&, const Region&, const Machine&, const PlanOptions&, const std::vector<DimOrder>& layouts);

}  // namespace tilewright
