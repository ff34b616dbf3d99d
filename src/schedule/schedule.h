// A schedule decorates a region and says nothing else: how each region axis is cut, in which order the loops run, and where
// the operands are brought in.
//
//   region axes n f y x c (c reduced)
//   steps       tile y 14, tile f 32, stream c 64        loops outermost first; an axis without a step is whole
//   steps       tile x 56, walk y 4                      a window's rows of the turn before are still there
//
// Tile steps form the grid: their tiles are independent. Stream steps run inside a tile, in order, over a reduced axis, and keep
// an accumulator. A walk runs inside a tile, in order, over a parallel axis that windows slide along: what the turn before has made or
// brought in is kept, and each turn makes what is new. Every tile is [low, min(low + size, extent)): the last one may be ragged.
#pragma once
#include "law/region.h"
#include "machine/machine.h"
#include "schedule/layout.h"
#include "schedule/turns.h"

namespace tilewright {

struct AxisStep {
  enum class How { tile, walk, stream } how = How::tile;
  RegionAxis axis = 0;
  std::int64_t size = 1;
};

// Where a value lives while the kernel runs: brought into scratch by a copy, or made there. Without an entry an operand is read
// where it lies, and a result lives wherever the target likes. `pad`: elements between rows, against bank conflicts; or `swizzled`:
// rows of 128 bytes whose pieces of 16 bytes are exchanged by the row's number, a longer row in panels. `stages`: how many boxes of a
// streamed operand (of one that stays for a tile: of tiles) are there at once, so that the next ones are on their way while one is read; each is read for `kept` iterations
// more than its own. `bulk`: the copy engine brings whole boxes, on behalf of four warps beside those that compute. `lead`: elements before
// each row, for what a copy in pieces of 16 bytes brings where the box begins within one.
struct ValueAt {
  TensorId tensor = -1;
  LevelRole level = LevelRole::scratch;
  DimOrder order;
  std::int64_t pad = 0;
  bool swizzled = false;
  int stages = 1, kept = 0;
  bool bulk = false;
  std::int64_t lead = 0;
};

// How the threads of a block share the points of a reduction and of the maps behind it.
//   vector:  each thread computes boxes of `tile` points (one extent a parallel axis of the statement, ascending); or `lanes` threads
//            side by side share the reduced points of each box, and add up what they have in the end
//   tensor:  each warp computes rows x columns of a contraction, `warps` of them side by side; warps_k share the products of each chunk
//            and add up what they have in the end; `by_element`: products of several axes, or of few elements, one behind the other; fragments
//            are put together from single elements of scratch
//   group:   the same, but four warps issue an instruction together, which reads both operands from swizzled scratch by itself; not tensor:
//            a reduction of the first operand's rows, by the threads that have the rows' sums, meanwhile
struct LeafAt {
  StatementId statement = -1;
  bool tensor = false, group = false;
  std::vector<std::int64_t> tile;
  int warps_m = 1, warps_n = 1, rows = 16, columns = 8;
  int lanes = 1, warps_k = 1;
  bool by_element = false;
};

// An operand that is read through slots: micro-tiles of it that hold nothing but zeros are not visited, and what is between the
// others is packed. Which are live the data says, in the `source`: the operand itself, or a boolean mask over some of its dims, or
// lengths, which bound the dim behind theirs.
//
//   A[m k] in micro-tiles of 32 x 1         source A, dims {0, 1}, unit {32, 1}, packed {1}: columns of each block of 32 rows
struct OperandAt {
  TensorId tensor = -1, source = -1;
  bool lengths = false;
  std::vector<std::size_t> dims;         // of the operand, that the cells are over
  std::vector<std::int64_t> unit;        // extents of a micro-tile along them
  std::vector<std::size_t> packed;       // positions in `dims`
  DimOrder order = {};                   // how the source lies; empty: row-major
};

struct Schedule {
  std::vector<AxisStep> steps;    // tiles before a walk, that before streams
  int threads = 1;                // of a CPU's pool; of a GPU's block
  std::vector<ValueAt> values;
  std::vector<LeafAt> leaves;
  std::string isa;                // the vector instructions that a CPU's leaves are made for
  int resident = 0;               // blocks of a GPU that share a core: bounds their registers; 0: as it comes
  std::int64_t band = 0;          // blocks go through the last two tiled axes in bands of so many tiles of the outer one; 0: row by row
  std::int64_t blocks = 0;        // of a GPU's grid: each takes every so many-th tile, in order; 0: a block a tile
  int cluster = 1;                // blocks that follow one another share what they read alike: each brings a part of it to all
  // Of a GPU: groups of four warps own 64 rows of the tile each and keep whatever a turn makes of them in registers, as the fragments of
  // their instructions: results of contractions, maps of them, statistics of rows.
  // `overlapped`: the contraction that ends a turn runs beside the first one of the next turn, while what lies between the two is
  // computed; groups take turns at them.
  bool fragments = false, overlapped = false;
  std::vector<OperandAt> operands = {};   // those that are not read as they lie
};

// A bound that is affine in the loop variables. Step i of a schedule owns two of them: 2*i is the low end of its tile and
// 2*i + 1 the high end, so that the box of a ragged tile is as exact as that of a full one.
struct Affine {
  std::int64_t offset = 0;
  std::vector<std::pair<int, std::int64_t>> terms;             // variable, coefficient; each variable once, ascending
  std::int64_t at(const std::int64_t* variables) const;
};
// [low, high) before clipping to the tensor; of those, only low + k * step (a pointwise convolution of stride 2 reads every second pixel).
// Nothing lies below `floor` nor from `ceiling` on: what would be read there belongs to points that a statement does not have.
// In a walk (its step), what lies below `kept` is there from the turn before, except in the first.
struct Span {
  Affine low, high;
  std::int64_t step = 1;
  std::int64_t floor = INT64_MIN, ceiling = INT64_MAX;
  int walk = -1;
  Affine kept = {};
  // Where it begins at these variables: with what is new.
  std::int64_t from(const std::int64_t* variables) const;
  // What it is in any turn, also of what is kept.
  Span all() const { return {low, high, step, floor, ceiling}; }
  // Elements of the span inside [0, dim) at these variables; `first` receives the smallest of them.
  std::int64_t count(const std::int64_t* variables, std::int64_t dim, std::int64_t* first = nullptr) const;
};

// One movement of a box of a tensor. `depth` is the number of loops around it; the box is the hull of the reads below, and is
// clipped to the tensor when counted. An index that is not affine (a gather) reads the whole dim.
struct Transfer {
  TensorId tensor = -1;
  int depth = 0;
  std::vector<Span> box;
  bool store = false;
};
std::vector<Transfer> transfers(const Program&, const Region&, const Schedule&);

// The range of a statement's axes inside a tile, before clipping to [0, extent); and the hull of an index over it: what transfers
// and nests are made of. A statement computes every point of its ranges, also where its readers skip some.
std::vector<Span> ranges(const Program&, const Region&, const Schedule&, int statement);        // one an axis of the statement
Span hull(const Index&, const std::vector<Span>& axis_ranges, const Size& dim);

// How many of the schedule's loops stand around a statement: around its points, and around its whole result. The loops between
// are streams over its own reduced axes. Loops that do not cut it run it again.
//
//   depthwise then pointwise, steps tile y, stream c:      depthwise {2, 2}, pointwise {1, 2}, its epilogue {1, 1}
struct Depth { int result = 0, points = 0; };
std::vector<Depth> depths(const Program&, const Region&, const Schedule&);              // one a statement

// The loop that is a walk; -1: there is none.
int walked_loop(const Schedule&);

// The loop along which statements read what is not complete yet, and follow it as the law of streams says; -1: there is none.
int followed_loop(const Program&, const Region&, const Schedule&);
// The turns of that loop that count.
Turns live_turns(const Program&, const Region&, const Schedule&);

// Why a schedule cannot be, with numbers; text is made only when printed.
struct Refusal {
  enum class Rule { not_tiled, not_walked, not_streamed, size_not_positive, repeated_axis, tile_after_stream, incomplete, two_streams, stored_twice, stored_in_part, capacity, size_unknown } rule;
  std::int64_t need = 0, have = 0;
  std::string where;
};
std::vector<Refusal> legality(const Program&, const Region&, const Schedule&, const Machine&);
std::string text(const Refusal&);
const char* name_of(AxisStep::How);
std::string text(const Region&, const Schedule&);                // "tile y 14, tile f 32"

}  // namespace tilewright
