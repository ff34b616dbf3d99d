// Which tile of rows and chunk suits a streamed pair of contractions on a multiprocessor with warpgroups, before
// anything is measured.
//
//   a 128 x 176 tile, head 128, f16:   two warpgroups of 64 rows; scratch 32 KiB + 2 * (44 + 44) KiB; registers of a
//   thread 88 + 44 + 64 a turn, clocks: tensor 2821, rows on the special and the vector pipes, scratch read and filled,
//   one warpgroup's chain of steps
//
// Of a turn the slowest pipe counts in full and the others in part: they do not overlap perfectly. Capacities decide
// what is tried: each accumulator, the operand that is made (in registers, or passed through scratch), the operands in
// stages.
#pragma once
#include "model/derivation.h"
#include "model/hardware.h"

namespace tilewright {

struct TileChoice {
  std::int64_t rows = 0, chunk = 0;
  int groups = 0;
  bool in_registers = true; // the operand that is made
  double clocks = 0;        // a row and element of the stream
  std::string bound;        // tensor, rows, scratch, chain, cache
  std::int64_t scratch = 0; // bytes
  int registers = 0;        // of a thread, for accumulators and operands
};
// The best first, each (rows, chunk) once. Refused where the part is no stream of contractions over tiles of rows, or
// the machine has no tensor unit for it.
Or<std::vector<TileChoice>> tile_choices(const Program&, const Part&, const Machine&);

} // namespace tilewright
