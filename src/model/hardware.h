// A streamed tile on a multiprocessor: what each value takes of which memory and in whose scope, how many warpgroups
// fit, and what a turn of the loop costs each pipe, a row at a time.
//
//   Q 128 x 128 f8 in scratch, of a warpgroup; K, V of the block in two stages;  O, the scores and three numbers a row
//   in registers scratch 48 KiB a block + 48 KiB a warpgroup, registers 74.75 KiB a warpgroup    ->  three warpgroups
//   of 227 and 256 KiB clocks a row and turn: tensor 2 + 4, special 4.06, fma 0.5
//
// Rows are the points of the tiled axes that are an m of every contraction in the loop. With opaque fragments, what the
// tensor unit makes or takes is not laid out as rows are: a result is a fragment, an exchange in scratch and a row, an
// operand an exchange too.
#pragma once
#include "model/columns.h"
#include "model/units.h"

namespace tilewright {

struct Sub {
  std::string result;
  std::int64_t piece = 0, slice = 0;
}; // of a contraction's columns: its fragment, and the row's part of it
struct Setup {
  std::int64_t rows = 128; // of a warpgroup
  int stages = 2;          // of what is streamed
  bool opaque = true;
  std::vector<Sub> pieces;           // sub-loops; a result without one is whole
  std::map<std::string, DType> held; // values held in another type than the program says
};

struct Held { // a line of the variable table
  std::string name;
  Formula size;
  DType type = DType::f32;
  bool scratch = false, block = false; // in scratch, else registers; of the block, else of a warpgroup
  int copies = 1;
  double bytes = 0;     // of the block, or of one warpgroup
  std::string lifetime; // "c3-c9"
};
struct Configuration {
  std::vector<Held> values;
  double scratch_block = 0, scratch_group = 0, registers_block = 0, registers_group = 0;
  double by_scratch = 0, by_registers = 0; // warpgroups that fit, as fractions
  int groups = 0;                          // that fit both
  std::int64_t tile_rows = 0;              // groups * rows
};
Configuration configuration(const Program&, const Region&, const Schedule&, const Columns&, const Nest&, const Machine&,
                            const Setup&);

struct Clock { // a line of the clock budget
  std::string what;
  UnitKind pipe = UnitKind::alu;
  DType type = DType::f32;
  double operations = 0, per_clock = 0, clocks = 0; // a row and turn
  StatementId statement = -1;
};
struct Budget {
  std::vector<Clock> lines;
  double of(UnitKind) const;  // clocks a row and turn
  double flops = 0;           // of contractions, a row and turn
  double turn_bytes = 0;      // that a turn brings into one multiprocessor
  double ideal = 0;           // operations a second at the tensor pipe's full rate
  double seconds_moving = 0;  // of a turn, all multiprocessors, from the machine's memory
  double rows_to_balance = 0; // of a tile, from which on the tensor pipe takes longer than the transfers
  double clock = 0;
};
Budget budget(const Program&, const Region&, const Schedule&, const Columns&, const Nest&, const Machine&,
              const Setup&);

} // namespace tilewright
