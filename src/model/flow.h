// What a scheduled region moves and computes, as formulas in the sizes of its axes and of its tiles: the list of
// transfers read smoothly, without ragged ends (cost/ counts those). One value of H per tensor and direction; M is in
// columns.h.
//
//   O[q d] = sum[x] P*V with P made inside, tile q, stream x:      H  = 2*d*q + 2*d*q*x/g_q
//                                                                  of one tile: 2*d*g_q + 2*d*x
// Symbols: the name of an axis is its extent, g_q the size of its tile, s_x of its chunk.
#pragma once
#include "model/formula.h"
#include "schedule/schedule.h"

namespace tilewright {

enum class Count { values, bytes };

struct Names {
  std::vector<std::string> axes;  // of the region: two axes of one name and different extents are told apart
  std::vector<std::string> steps; // of the schedule
};
Names names_of(const Region&, const Schedule&);

// Extents as formulas under a schedule. An index over region axes has the extent of its hull: 2*y + i reads 2*g_y + i
// - 2.
struct Extents {
  const Program& p;
  const Region& r;
  const Schedule& s;
  Names names;
  Point point; // axes at their extents, steps at their sizes

  Extents(const Program&, const Region&, const Schedule&);
  Formula of(RegionAxis) const; // of a tile of it; the whole axis where it is not cut
  Formula of(const Index& over_region_axes, const Size& dim) const;
  Formula box(const Region&, int statement, const std::vector<Index>& at,
              const Tensor&) const; // the region may be a stream's
  std::set<int> steps_in(const Region&, int statement, const std::vector<Index>& at) const; // by which loops it moves
  Formula tiles(int step) const;                                                            // q/g_q
  int step_of(RegionAxis) const;                                                            // -1: it is whole
};

struct Flow {
  struct Move {
    TensorId tensor = -1;
    bool store = false;
    int depth = 0, width = 0; // loops around it; bytes of a value
    Formula box, run;         // values at once, and in the whole run
  };
  Names names;
  Point point;
  std::vector<Move> moves;
  std::vector<int> streams; // steps that are streams
  Formula tiles = 1;        // of the grid
  Formula flops;            // of contractions and weighted windows: two a multiply-add
  Formula run(Count) const;
  Formula tile(Count) const;     // of one tile
  Formula operands(Count) const; // all boxes at once: the least that a tile holds of what it moves
  std::set<std::string> stream_symbols() const;
};
Flow flow(const Program&, const Region&, const Schedule& order);

} // namespace tilewright
