// A contraction whose operand is read through slots, as calls of the same contract leaf. Before the tiles run all
// workers mark the operand's live micro-tiles, list their slots, and pack the other operand where it is no weight; then
// each tile is, by how cells are packed,
//
//   columns    a call for each run of rows with one list: the live k as taps of A and of B's panels
//   rows       one call for the rows that are live, and one with no k for those that are not, which are what an empty
//   sum leaves buckets    rows in the order of their keys, wherever they lie; a call for each run of one key, on that
//   key's slice of B pieces     a call for each block of k with the rows that are live there, onto the sums so far,
//   block after block; then the end
//
// Nothing is added by several workers: sums are taken in a fixed order. Where more than `most_live` cells are live the
// tile is the ordinary call.
#pragma once
#include <atomic>

#include "law/permute.h"
#include "sparse/packing.h"
#include "target/cpu/contract_leaf.h"
#include "target/cpu/detect.h"

namespace tilewright::cpu {

inline constexpr std::int64_t tall_block = 6; // rows from which on a block's live columns are copied side by side first

struct Gathered {
  enum class Form { columns, rows, pieces, buckets } form = Form::columns;
  Detector detector; // of the source
  TensorId source = -1;
  bool lengths = false;
  std::vector<RegionAxis> axis;          // of each of the source's dims; -1: one element
  int reduced = -1;                      // which of them is the reduced one, or -1
  std::int64_t block = 1;                // k in a cell
  std::int64_t copies = 1;               // of B that are packed, if it is no weight
  double most_live = 1;                  // share of the cells
  std::int64_t keys = 0, key_stride = 0; // slices of B, and elements between them
  bool within_tiles = false; // rows are sorted tile by tile, since others of the kernel read the tile's result
  LaneProgram::Fault wrong_key{LaneProgram::Cause::bounds, ""};
  // Written before the tiles, read by them; one run at a time.
  std::shared_ptr<Aligned> marks, count, slot, packed;
  std::vector<std::int64_t> key_of; // of buckets, by row of the key's tensor
  Sorted sorted;
  bool wrong = false; // a key that is no slice
  std::atomic<std::int64_t> live{0};
  bool dense() const {
    return static_cast<double>(live.load(std::memory_order_relaxed)) >
           most_live * static_cast<double>(detector.cells.count());
  }
};

// Null, and why, where the operand cannot be read through slots by this leaf: then it is read as it lies.
std::shared_ptr<Gathered> compile_gathered(const kernels::Kernels&, const Program&, const Region&, int statement,
                                           const OperandAt&, const Access& a, const ContractLeaf&,
                                           const std::vector<std::int64_t>& full_tile, std::string* why);
// Of a product that reads an operand at a key: `key` is over the statement's axes.
std::shared_ptr<Gathered> compile_buckets(const kernels::Kernels&, const Program&, const Region&, int statement,
                                          const KeyedProduct&, const Stored& b, const ContractLeaf&, std::string* why);
// All slices of a weight, once.
std::shared_ptr<Aligned> pack_slices(const kernels::Kernels&, const ContractLeaf&, const std::byte* b);
std::int64_t gathered_scratch(const ContractLeaf&, const std::vector<std::int64_t>& full_tile);

// The two steps before the tiles, with a barrier behind each. Behind the second `wrong` is known.
void prepare_gathered(const kernels::Kernels&, const ContractLeaf&, std::byte* const* tensors, TensorId b, int worker,
                      int workers);
void list_gathered(const ContractLeaf&, int worker, int workers);

void run_gathered(const kernels::Kernels&, const ContractLeaf&, const std::vector<View>&, const std::int64_t* low,
                  const std::int64_t* high, std::byte* scratch);

} // namespace tilewright::cpu
