// Maps behind a reduction as steps on its result in registers: the fast form of an epilogue. Where a body is no chain of the
// menu's steps, the maps run through the block-vector interpreter instead.
//
//   Z = min(max(Y + b[f], 0), 6)      ->      add b (along columns), max 0, min 6
#pragma once
#include "target/cpu/strides.h"

namespace tilewright::cpu {

struct StepOf {
  kernels::StepOp op;
  BufferId buffer = -1;            // the operand, or -1: the constants a, b
  DType dtype = DType::f32;
  Strides strides;
  float a = 0, b = 0;
  std::int32_t whole = 0;
};

// The steps from the value of statement `from` of the region to that of the last of `maps` (positions in the region). Refused
// with the term that is not in the menu. Where `from` is a sum of integers, the steps begin on integers; a last rounding to the
// type that is stored is the store's.
Or<std::vector<StepOf>> epilogue_steps(const Program&, const Region&, const Nest&, int from, const std::vector<int>& maps,
                                       const std::vector<Stored>&);

// The same of one statement's body, from the value of `source` on, which it reads; what the kernel itself makes may be an operand.
Or<std::vector<StepOf>> chain_steps(const Program&, const Region&, const Nest&, int statement, TensorId source, const std::vector<Stored>&);

}  // namespace tilewright::cpu
