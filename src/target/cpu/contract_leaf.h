// A contraction and its epilogue as calls of the contract leaf: rows are the m axes, columns one n axis, k one reduced axis and
// taps the others. Weights are packed once, other operands a tile at a time.
#pragma once
#include "target/cpu/epilogue.h"

namespace tilewright::cpu {

// Bytes kept in cache-line alignment.
struct Aligned {
  explicit Aligned(std::size_t bytes);
  std::size_t bytes;
  std::shared_ptr<std::byte[]> owner;
  std::byte* data;
};

// How one operand lies in memory: in its tensor, or in the tile's own copy of a box (which holds the padding too).
struct Placement {
  Strides strides;
  std::vector<std::int64_t> taps;                 // element offsets of the taps, from the first
};

struct Gathered;                                  // gathered_leaf.h

// A dim of a that the taps of some rows leave: a row's reach from step * row + first to step * row + last. Rows whose taps stay inside
// are computed in place, the others on a copy of what they read.
struct Edge {
  RegionAxis row = -1;
  std::size_t dim = 0;
  std::int64_t step = 1, first = 0, last = 0, extent = 0;
};

struct ContractLeaf {
  BufferId a = -1, b = -1, c = -1;
  DType a_type = DType::f32, b_type = DType::f32, c_type = DType::f32, packed_type = DType::f32;
  Placement in_place, copied;                     // of a
  Strides b_strides, c_strides;
  std::vector<std::int64_t> b_taps;
  std::vector<std::vector<RegionAxis>> tap_groups; // the merged axes that became taps, outermost first
  std::vector<RegionAxis> far;                    // loops around the call: batch axes, further n axes, further k axes of a stream
  std::vector<std::vector<RegionAxis>> rows;      // merged m axes, outermost first
  std::vector<Edge> edges;                        // each of a row axis of its own; none: a tile that hangs over is copied whole
  RegionAxis n = -1;
  std::vector<RegionAxis> k;                      // one, or none (extent 1)
  std::int64_t k_extent = 1, taps = 1, n_extent = 1;
  RegionAxis k_outer = -1;                        // of the merged k axes the first, which alone a stream cuts; -1: none
  std::int64_t k_inner = 1;                       // products in a step of it
  bool accumulate = false;                        // onto c
  bool integers = false;                          // of eight bits, summed in i32
  bool split = false;                             // floats as sums of bf16: contract_split, panels counted in bytes
  std::vector<StepOf> steps;
  std::shared_ptr<const Aligned> packed;          // of a weight: [far axes of b][panels][taps * k][nr]
  std::vector<std::int64_t> packed_far;           // elements a step of each far axis moves in `packed`
  std::vector<std::int64_t> far_extent;           // of each far axis
  std::shared_ptr<Gathered> gathered;             // operands are read through slots
  std::string not_gathered;                       // or why one is not, though the schedule says so
  int panel = 0;                                  // columns of a packed panel
  std::int64_t wild_at = 0;                       // of split ones: where, behind them, it says whether some element is not finite
  std::int64_t gather_bytes = 0;                  // scratch for that
  std::int64_t pack_bytes = 0;                    // scratch for packing a tile, 0 if packed
  bool b_in_place = false;                        // made by the kernel so that its columns are adjacent
  std::int64_t kept = -1;                         // where in a tile's scratch b stays packed for all turns of a stream; -1: it does not
  std::int64_t row_limit = 0;                     // rows of a full tile, for the tables in scratch
};

// Refused if the operands' dtypes or the epilogue are not the leaf's. `out` is the statement whose result is stored: the
// contraction itself or the last of the maps. accumulator: not -1 inside a stream over reduced axes: the f32 scratch to which
// each turn adds its share (then there are no maps).
Or<ContractLeaf> compile_contract(const kernels::Kernels&, const Program&, const Region&, const Nest&, int statement,
                                  const std::vector<int>& maps, const std::vector<Stored>& in_place, const std::vector<Stored>& copied,
                                  const Stored& out, const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile, BufferId accumulator = -1);

std::int64_t scratch_bytes(const ContractLeaf&);
// a_copy: the origin of the tile's own copy of a, or null: in place. kept: where b stays packed; it is packed where `fresh`.
void run_contract(const kernels::Kernels&, const ContractLeaf&, const std::vector<View>&, const std::byte* a_copy, const std::int64_t* low,
                  const std::int64_t* high, std::byte* scratch, std::byte* kept = nullptr, bool fresh = true);

}  // namespace tilewright::cpu
