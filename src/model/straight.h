// A nest as a straight-line program, which the evaluator can run: the loops are walked with their numbers, every
// compute becomes a statement over its clipped ranges, every store a piece of its tensor. That is what a move must
// leave equal.
//
//   for q in tiles of 2: load Q; O = ...; save O        ->   O_1[i] = ... at q = 0, 1;   O[i] = O_1[i];   O_2[i] = ...
//   at q = 2, 3; ...
//
// For small sizes: there is a statement for each compute of each turn of each tile.
#pragma once
#include "loop/nest.h"

namespace tilewright {

// planned: the program that the region is of; its nodes outside of the region stay as they are. Refused where a value
// has no straight form (the index of a winner that is joined), or where there would be more than `most` statements.
Or<Program> straight(const Program& planned, const Region&, const Nest&, std::size_t most = 4000);

} // namespace tilewright
