// From a program to scheduled kernels, move by move, with what each move does to H (moved) and M (held).
//
//   start          every statement as it was written is a kernel           H = 4*d*q + 4*q*x     M = ...
//   factors        what statistics multiply is taken out of the sums
//   one kernel     what lies between is not stored any more                H = 2*d*q + 2*d*x     M = q*x + ...
//   stream x       a chunk of x a turn; sums follow their statistics       H as before           M = 2*d*s_x + ...
//   tile q         each tile is on its own                                 H = 2*d*q + 2*d*q*x/g_q
//
// Kernels are joined where that lowers what is moved at tiles that fit the machine, and no contraction is done again by
// more than half. Which axis is streamed and which are tiled the laws allow and the numbers decide. All moves are
// equalities over the reals; `check` runs each of them at small sizes through the evaluator.
#pragma once
#include <memory>

#include "law/stream_forms.h"
#include "model/columns.h"
#include "model/optimum.h"
#include "model/units.h"

namespace tilewright {

struct Part { // a kernel
  Region region;
  Schedule schedule; // sizes: the best on the lattice
  std::string name;  // of what it ends in
  double moved = 0;  // bytes, at those sizes
  std::string full;  // why no sizes fit, where none do
  double over = 0;   // and how many times what a tile may hold the smallest hold
};

struct Move {
  std::string name, does;
  std::shared_ptr<const Program> program;
  std::vector<std::vector<StatementId>> groups; // what is one kernel
  std::vector<Part> parts;                      // the same with schedules; none while nothing is scheduled
  struct Numbers {
    Formula moved, held;
    double moved_at = 0, held_at = 0;
  } values, bytes; // held: of the part that holds most
};

struct Derivation {
  std::vector<Move> moves;
  std::vector<StreamRefusal> refused;
  const Move& last() const { return moves.back(); }
};

// What a machine gives one tile: values that are made lie in registers, where it has those beside its scratch, operands
// in scratch.
struct Room {
  double scratch = 0, registers = 0;
};
Room room_of(const Machine&);

Derivation derive(const Program& fixed, const Machine&);
std::vector<std::string> source_lines(const Program&, const Part&); // its statements as text

// At small sizes: the largest difference between what a move computes and the program as written, over the largest
// value; or why not.
struct Checked {
  std::string move;
  double difference = 0;
  std::string not_checked;
};
std::vector<Checked> check(const Program& free, const Binding& sizes, const Derivation&);
Binding small_sizes(const Program& free, const Binding& planned);

// The tile sizes of a part's schedule, and the closed form in values or bytes.
std::vector<TileSize> tiles_of(const Region&, const Schedule&);
Or<ClosedForm> closed_form(const Program&, const Part&, Count);

} // namespace tilewright
