// A schedule decorates a region and says nothing else: how each region axis is cut, in which order the loops run, and where
// the operands are brought in.
//
//   region axes n f y x c (c reduced)
//   steps       tile y 14, tile f 32, stream c 64        loops outermost first; an axis without a step is whole
//
// Tile steps form the grid: their tiles are independent. Stream steps run inside a tile, in order, over a reduced axis, and keep
// an accumulator. Every tile is [low, min(low + size, extent)): the last one may be ragged.
#pragma once
#include "law/region.h"
#include "machine/machine.h"

namespace tilewright {

struct AxisStep {
  enum class How { tile, stream } how = How::tile;
  RegionAxis axis = 0;
  std::int64_t size = 1;
};

struct Schedule {
  std::vector<AxisStep> steps;    // tiles before streams
  int threads = 1;
  std::string isa;                // the vector instructions that a CPU's leaves are made for
};

// A bound that is affine in the loop variables. Step i of a schedule owns two of them: 2*i is the low end of its tile and
// 2*i + 1 the high end, so that the box of a ragged tile is as exact as that of a full one.
struct Affine {
  std::int64_t offset = 0;
  std::vector<std::pair<int, std::int64_t>> terms;             // variable, coefficient; each variable once, ascending
  std::int64_t at(const std::int64_t* variables) const;
};
// [low, high) before clipping to the tensor; of those, only low + k * step (a pointwise convolution of stride 2 reads every second pixel).
struct Span {
  Affine low, high;
  std::int64_t step = 1;
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

// The range of a statement's axes inside a tile, and the hull of an index over it: what transfers and nests are made of.
std::vector<Span> ranges(const Program&, const Region&, const Schedule&, int statement);        // one an axis of the statement
Span hull(const Index&, const std::vector<Span>& axis_ranges, const Size& dim);

// Why a schedule cannot be, with numbers; text is made only when printed.
struct Refusal {
  enum class Rule { not_tiled, not_streamed, size_not_positive, repeated_axis, tile_after_stream, capacity, size_unknown } rule;
  std::int64_t need = 0, have = 0;
  std::string where;
};
std::vector<Refusal> legality(const Program&, const Region&, const Schedule&, const Machine&);
std::string text(const Refusal&);
std::string text(const Region&, const Schedule&);                // "tile y 14, tile f 32"

}  // namespace tilewright
