// A scheduled region as columns: points in time with what is alive at each. The widest column is what a tile must hold.
//
//   c0  load Q[g_q d]                    Q
//   c1  load K[s_x d]                    Q K
//   c2  S = sum[d] Q*K                   Q K S
//   c3  P = exp(S - m)                   Q   P      in the place of S, which dies here
//
// A value lives from what makes it to its last reader; one that is made outside of a loop and used inside lives through
// all of its turns. A map takes the place of an operand of its own size that dies in it.
#pragma once
#include "loop/nest.h"
#include "model/flow.h"

namespace tilewright {

struct Lived {
  TensorId tensor = -1;
  std::string name;
  DType held = DType::f32;
  Formula size;
  bool loaded = false, stored = false, streamed = false; // streamed: brought in by every turn of a stream
  int first = 0, last = 0;                               // columns
  int slot = 0; // values in one slot do not live at once, or one becomes the other
};

struct Column {
  enum class Kind { grid, loop, load, init, compute, store, end } kind = Kind::compute;
  int depth = 0; // loops around it
  std::string text;
  StatementId statement = -1; // of the nest's program
  int value = -1;             // that it makes, loads or stores
  std::vector<int> reads;     // values
  std::vector<int> live;
};

struct Columns {
  std::vector<Lived> values;
  std::vector<Column> columns;
  Names names;
  Point point;
  std::vector<std::vector<int>> slots; // the values of each
  Formula held(std::size_t column, Count) const;
  std::size_t widest(Count) const; // at the planned sizes
  Formula peak(Count c) const { return held(widest(c), c); }
  std::vector<Formula> footprint(Count) const; // what the columns hold, each formula once
};

// late: an operand is loaded in front of its first reader and not at the head of its loop, so that others may be dead
// by then.
Columns columns(const Program&, const Region&, const Schedule&, const Nest&, bool late = false);
double most(const std::vector<Formula>& footprint, const Point&);
std::string print(const Columns&); // pseudo-code, with the values that are alive behind each line

} // namespace tilewright
