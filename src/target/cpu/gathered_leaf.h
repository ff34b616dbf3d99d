// A contraction whose operands are read through slots, as calls of the same contract leaf. Before the tiles run all
// workers mark live micro-tiles, one of them decides by their counts how the tiles are to run, then live columns are
// listed with their values side by side, and B is packed where it is no weight and is read often enough. A tile is then
//
//   columns    a call for each run of rows with one list: the live k as taps of B's panels, on A's live values
//   rows       one call for the rows that are live, and one with no k for those that are not, which are what an empty
//              sum leaves
//   pieces     a call for each block of k with the rows that are live there, onto the sums so far, block after block
//   buckets    rows in the order of their keys, wherever they lie; a call for each run of one key, on that key's slice
//              of B
//   plain      the ordinary call, where so much is live that it is the faster one
//
// Micro-tiles of A that are smaller than a form wants are merged. A sparse B leaves out, panel by panel, the k that are
// zero in all of the panel's columns; a result that is wanted in places only leaves out the rows that are wanted
// nowhere in a group of panels. Every sum takes its terms in the order of k, and the terms that are left out are zeros:
// all forms give the same bits, whoever works. (Of a zero that is skipped the sign is lost: a sum of nothing is +0.)
#pragma once
#include <atomic>

#include "law/permute.h"
#include "sparse/decide.h"
#include "target/cpu/contract_leaf.h"
#include "target/cpu/detect.h"

namespace tilewright::cpu {

// A tensor whose live micro-tiles are looked for, and where they stand over the kernel's axes.
struct Side {
  Detector detector; // of the source
  TensorId source = -1;
  bool lengths = false;
  std::vector<RegionAxis> axis;     // of each of the source's dims; -1: one element
  int reduced = -1;                 // which of them is the reduced one, or -1
  std::vector<std::int64_t> tap_at; // of each tap its coordinate along the reduced axis; empty: that is the inner k
  std::shared_ptr<Aligned> marks;

  bool there() const { return source >= 0; }
  const std::uint8_t* marked() const { return reinterpret_cast<const std::uint8_t*>(marks->data); }
};
// A side's marks by panel: whether a cell of row (or of k) `at` lives in any column of a panel.
struct ByPanel {
  std::shared_ptr<Aligned> marks; // [cells of the other dims][panels][cells along k]
  std::int64_t far = 1, panels = 0, other = 1;
  int dim = -1;                     // of the side's cells, that runs through the panels; -1: none
  std::vector<std::int64_t> stride; // of the other dims, as they are counted in `far`
  bool used = false;                // in this run: enough is dead
};

struct Gathered {
  enum class Form : std::uint8_t { columns, rows, pieces, buckets, plain };
  struct Way { // how the tiles of a run are made
    Form form = Form::plain;
    std::int64_t tall = 1, wide = 1; // cells merged along the rows and along k
    bool operator==(const Way&) const = default;
  };
  Form form = Form::columns; // of the cells as they are declared, for reports
  Side a, b, c;              // c: of the result
  std::int64_t copies = 1;   // of B that are packed, if it is no weight
  int tall_dim = -1;         // of a's cells, along which they may be merged; -1: none
  bool merges = false;
  std::vector<std::int64_t> a_dim_stride, counting;
  std::int64_t b_unit = INT64_MAX; // k in a cell of b; all of it, if b has its cells over other axes
  bool compact = false;            // live values of A are copied side by side, [group][row][live k]
  bool plain_sums = false;         // f32 throughout, with columns side by side: short lists take a leaf of their own
  bool lies_as_panels = false;     // B need not be packed: its columns lie side by side
  std::int64_t group_rows = 1;     // rows of a group of the cells as declared
  std::int64_t b_copy_bytes = 0, piece_bytes = 0; // scratch for panels: of live k; of a block of k
  std::int64_t tiles_of_rows = 1;                 // that read all of B each
  DType dtype = DType::f32;                       // of A, as the selection sees it
  std::optional<Way> forced;                      // by a test
  std::optional<bool> packs_forced;
  // What the selection chooses among, set when the machine is known.
  std::vector<TileForm> tiles;
  SelectionCosts costs;

  std::int64_t keys = 0, key_stride = 0; // slices of B, and elements between them
  std::int64_t slice_bytes = 0;          // of a tile's columns of one, packed by each run of a key for itself; 0: packed ahead
  std::int64_t wild_at = 0;              // in these bytes
  bool slices_split = false;             // into sums of bf16
  bool within_tiles = false; // rows are sorted tile by tile, since others of the kernel read the tile's result
  LaneProgram::Fault wrong_key{LaneProgram::Cause::bounds, ""};

  // Written before the tiles, read by them; one run at a time.
  Decisions decisions;
  Way way;
  Detector merged;       // of a, as `way` has its cells
  std::int64_t rows = 1; // of a group of those
  bool packs = true;     // B is packed in this run
  // Of each group [groups + 1]: where its list begins; a list's values, of all its rows, begin at rows times that.
  std::shared_ptr<Aligned> merged_marks, begin, taps, values, packed;
  ByPanel b_panels, c_panels;
  std::vector<std::int64_t> key_of; // of buckets, by row of the key's tensor
  Sorted sorted;
  bool wrong = false; // a key that is no slice
  std::atomic<std::int64_t> live{0};

  const std::uint8_t* marks() const {
    const bool same = way.tall == 1 && way.wide == 1;
    return reinterpret_cast<const std::uint8_t*>((same ? a.marks : merged_marks)->data);
  }
};

// Null, and why, where no operand can be read through slots by this leaf: then all are read as they lie. `views` are
// those of the operands a and b and of a step of the epilogue, each with its access over the statement's axes; absent
// ones have no tensor.
struct GatheredView {
  const OperandAt* view = nullptr;
  Access access;
  int statement = -1; // of the region, whose axes the access is over
};
std::shared_ptr<Gathered> compile_gathered(const kernels::Kernels&, const Program&, const Region&, const ContractLeaf&,
                                           const GatheredView& a, const GatheredView& b, const GatheredView& c,
                                           std::string* why);
// Of a product that reads an operand at a key: `key` is over the statement's axes.
std::shared_ptr<Gathered> compile_buckets(const kernels::Kernels&, const Program&, const Region&, int statement,
                                          const KeyedProduct&, const Stored& b, const ContractLeaf&, std::string* why);
// All slices of a weight, once.
std::shared_ptr<Aligned> pack_slices(const kernels::Kernels&, const ContractLeaf&, const std::byte* b);
std::int64_t gathered_scratch(const ContractLeaf&, const std::vector<std::int64_t>& full_tile);

// The steps before the tiles, with a barrier behind each: marks; the decision, by one worker; merged marks; the lengths
// of lists; lists, values and panels. Behind the first `wrong` is known.
struct BeforeTiles {
  const kernels::Kernels& leaf;
  const ContractLeaf& l;
  std::byte* const* tensors;
  TensorId a, b;
};
inline constexpr int steps_before_tiles = 5;
void before_tiles(const BeforeTiles&, int step, int worker, int workers);

void run_gathered(const kernels::Kernels&, const ContractLeaf&, const std::vector<View>&, const std::byte* a_copy,
                  const std::int64_t* low, const std::int64_t* high, std::byte* scratch);

std::string text(const Gathered&, const Gathered::Way&); // "columns of 32 x 1"

} // namespace tilewright::cpu
