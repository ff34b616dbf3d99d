// A group of statements as one program of the block-vector interpreter: how any body at all is run on a CPU.
//
//   S[q] = sum[x] P[q x];  R[q] = 1 / S[q]          one program: body adds P, end divides and stores R
//
// The group works over region axes: at most one reduction, then maps of its result at the same point. Affine accesses become
// pointers with a stride an axis; the others compute element offsets and gather. Axes that travel together in every pointer
// are merged; one becomes the lanes, one the inner loop (reduced), one the outer loop, and the rest are loops around the call.
#pragma once
#include "loop/nest.h"
#include "target/cpu/kernels/kernels.h"

namespace tilewright::cpu {

// Where a buffer's element with index 0 in every dim would lie, and its strides in elements. A tile's copy of a box is a view
// too: its origin is shifted so that the tensor's own indices reach it.
struct View {
  std::byte* origin = nullptr;
  std::vector<std::int64_t> stride;
};

struct LaneProgram {
  struct PointerOf {
    BufferId buffer;                             // negative: flags, see faults
    DType dtype;
    std::int64_t offset = 0;                     // elements
    std::vector<std::int64_t> axis;              // stride along each region axis
  };
  // Region axes run as one loop: their extents multiply; only the first may be cut by a tile.
  struct Loop { std::vector<RegionAxis> axes; bool reduced = false; };

  std::vector<PointerOf> pointers;
  struct IndexOf { std::int64_t offset = 0; std::vector<std::int64_t> axis; };   // offset + sum of coefficient * region axis
  std::vector<IndexOf> indices;                  // Frame::indices
  std::vector<Loop> loops;                       // far loops first, then outer, inner, lanes; see below
  int outer = -1, inner = -1, lanes = -1;        // positions in loops, or -1
  kernels::VectorCode code;
  // What can go wrong at a point; where: the statements that may do it; first: the first of them, a position in the region.
  // Fault i has its flags (u8), one for each value of the lanes' loop, in scratch; a pointer to them has the buffer -1 - i.
  enum class Cause { bounds, division };
  static constexpr std::size_t causes = 2;
  struct Fault { Cause cause; std::string where; int first = 0; };
  std::vector<Fault> faults;
  std::int64_t flags = 0;                        // of each fault
};

// What a buffer looks like to the compiler: strides of its tensor's dims where it lies, and the dtype it is stored as.
struct Stored {
  DType dtype = DType::f32;
  std::vector<std::int64_t> stride;
};

struct Group {
  std::vector<int> statements;                   // positions in the region; at most the first is a reduction
  // whole: reduce and map in one pass. Else through an accumulator in memory: init writes the reducer's identity, accumulate
  // adds this tile's share, finish reads the result and runs the maps.
  enum class Part { whole, init, accumulate, finish } part = Part::whole;
  BufferId accumulator = -1;
};

// tiled: whether a region axis is cut. live: whether a buffer must be written (inner values that only this group reads need not).
// Refused where one pass cannot do the whole reduction (then: init, accumulate, finish).
Or<LaneProgram> compile_lanes(const Program&, const Region&, const Nest&, const Group&, const std::vector<Stored>& buffers,
                              const std::vector<bool>& tiled, const std::vector<bool>& live);

// The fault of the statement that stands first; null is none. So what is told does not depend on who found what when.
inline const LaneProgram::Fault* earlier(const LaneProgram::Fault* a, const LaneProgram::Fault* b) {
  if (!a || !b) return a ? a : b;
  return std::pair(b->first, b->cause) < std::pair(a->first, a->cause) ? b : a;
}

std::int64_t scratch_bytes(const LaneProgram&);
// Runs it over one tile. low and high: the region axes' ranges. Returns what went wrong, or null.
const LaneProgram::Fault* run_lanes(const kernels::Kernels&, const LaneProgram&, const std::vector<View>& buffers, const std::int64_t* low,
               const std::int64_t* high, std::byte* scratch);

}  // namespace tilewright::cpu
