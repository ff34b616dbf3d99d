// Maps and reductions of what a kernel itself makes, as calls of the fold leaf: one pass over rows of adjacent columns, with the steps
// of the register menu, what it stores and what it reduces.
//
//   m[q] = max[x] S[q x] where index(x) <= index(q)      S lies as [x][q]: rows x meet, columns q are lanes, of a row those that live
//   E[q x] = exp(S[q x] - m[q])                          the same rows; m is an operand along the columns
//   V[t] = sum[c] X[t c]^2                               X lies as [t][c]: columns meet
#pragma once
#include "target/cpu/epilogue.h"

namespace tilewright::cpu {

struct FoldLeaf {
  BufferId x = -1, y = -1, acc = -1;              // y or acc may be missing
  DType x_type = DType::f32, y_type = DType::f32;
  Strides x_strides, y_strides, acc_strides;
  kernels::FoldReduce reduce = kernels::FoldReduce::none;
  bool down = true;                               // the rows meet
  bool turned = false;                            // y's rows are its adjacent dim: a block of it is made beside, and turned
  RegionAxis column = -1;
  std::vector<std::vector<RegionAxis>> rows;      // merged, outermost first
  std::vector<RegionAxis> far;
  std::vector<StepOf> steps;
  std::vector<Strides> bounds;                    // a point lives where each is at least 0
  std::int64_t row_limit = 1, column_limit = 1;   // of a full tile
};

// A map (accumulator -1) or a reduction onto an accumulator of f32. Refused with what the leaf does not have.
Or<FoldLeaf> compile_fold(const Program&, const Region&, const Nest&, int statement, const std::vector<Stored>& in_place, const Stored& out,
                          const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile, BufferId accumulator = -1);
std::int64_t scratch_bytes(const FoldLeaf&);
void run_fold(const kernels::Kernels&, const FoldLeaf&, const std::vector<View>&, const std::int64_t* low, const std::int64_t* high, std::byte* scratch);

}  // namespace tilewright::cpu
