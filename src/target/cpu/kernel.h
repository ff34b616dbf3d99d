// A nest made ready for one CPU: its tiles, and for each tile a short list of leaf calls with strides computed. The plain form
// always works: what the contract and window leaves do not take, the block-vector interpreter runs.
#pragma once
#include <variant>

#include "loop/nest.h"
#include "schedule/layout.h"
#include "target/cpu/fold_leaf.h"
#include "target/cpu/row_lengths.h"
#include "target/cpu/window_leaf.h"

namespace tilewright::cpu {

struct Kernel {
  struct Loop { std::int64_t extent, size; int step, slots; };            // step: of the schedule, owner of the loop's variables; slots: that it goes through, or -1
  struct Step;
  // mask: a buffer of booleans without which a turn changes nothing: where its box holds none, the turn is left out. -1: none.
  struct Stream { Loop loop; std::vector<Step> body; Turns turns; BufferId mask = -1; };
  // Where a leaf's own axes run in a tile, clipped to [0, extent).
  struct Axis { Span span; std::int64_t extent; };
  struct Lanes { LaneProgram program; };
  struct Contract { ContractLeaf leaf; };
  struct Window { WindowLeaf leaf; };
  struct Fold { FoldLeaf leaf; };
  struct Moved { BufferId buffer = -1; bool back = false; };             // of what is read or written through slots: the box to scratch, or back
  struct Step { std::variant<Stream, Lanes, Contract, Window, Fold, Moved> op; std::vector<Axis> axes; };
  // A buffer is its tensor in place, or scratch; a padded copy is made where a tile's box leaves the tensor.
  struct Place {
    TensorId tensor = -1;
    bool scratch = false;
    std::int64_t offset = -1;                                            // of its scratch, or of the copy; -1: none
    std::vector<std::int64_t> stride, copy_stride, dims, extent;
    std::vector<int> order;
    std::vector<Span> box;                                               // of scratch, or of what the padded access reads
    DType dtype = DType::f32;
    std::uint64_t fill = 0;                                              // bits of the value outside the tensor
    bool padded = false;
    int ring = -1;                                                       // the dim along which a walk keeps what is there
    std::vector<Through> through = {};                                   // scratch of a tensor that is read or written through slots
    std::vector<std::int64_t> far_stride = {};                           // of that tensor
  };

  std::string name;
  std::vector<Loop> grid;
  std::int64_t tiles = 1;
  std::vector<Step> steps;
  std::vector<Slots> slots = {};
  std::vector<Place> places;                                             // one a buffer; accumulators after the nest's own
  std::int64_t scratch = 0;                                              // bytes a worker needs
  std::int64_t leaf_scratch = 0;                                         // where the leaves' own part of it begins
  std::int64_t packed_bytes = 0;
  std::vector<std::string> leaves;                                       // for reports: "contract 1x32 taps 9 k 16: add, max, min"
};

Kernel compile_kernel(const kernels::Kernels&, const Program&, const Region&, const Nest&, const std::vector<DimOrder>& layouts,
                      const RowLengths& = {});

// Runs one tile. tensors: base addresses by tensor id. scratch: kernel.scratch bytes, aligned to 64. Returns null, or what
// went wrong.
const LaneProgram::Fault* run_tile(const kernels::Kernels&, const Kernel&, std::int64_t tile, std::byte* const* tensors, std::byte* scratch);

}  // namespace tilewright::cpu
