// Loops through slots: a schedule names operands of which only live micro-tiles are to be visited (OperandAt); the nest that comes of
// it is the ordinary one, but for a loop that goes through a list of them, and loads and stores that look an axis up in that list.
// Inside of the loop an axis is a place in the list, so that every leaf stays what it is.
//
//   C[m n] = sum[k] A[m k] * B[k n], A in micro-tiles of 32 x 1, packed along k; tile m 32, tile n 128, stream k 16
//     for k0, k1 in tiles(0, A_count[m0 / 32], 16) seq:
//       load A[m0:m1, A_slot[m0 / 32][k0:k1]];  load B[A_slot[m0 / 32][k0:k1], n0:n1];  contract C
//
//   U[t j n] = sum[k] X[t k] * W[e[t j], k, n], points t j packed by their key; tile t 64, tile n 128, stream k 32
//     for t0, t1 in e_tile grid:                                    parts of the list that have one key
//       for k0, k1:  load X[e_slot[t0:t1] / 2, k0:k1];  load W[key, k0:k1, n0:n1];  contract U
//       store U[e_slot[t0:t1] / 2, e_slot[t0:t1] % 2, n0:n1]
//
// Micro-tiles of whole rows (or what lies before a length) are the second form with one key: behind the tiles of those that live stand
// tiles of the others, which read nothing, so that they hold what an empty sum and the maps behind it leave.
#pragma once
#include "loop/nest.h"

namespace tilewright {

// The nest of a schedule, through slots where it has operands. Refused where a loop, a tile or an access does not fit that.
Or<Nest> expand_through(const Program&, const Region&, const Schedule&, std::string name);

// What the tables of a loop hold. Plain forms, which every detector and sorter must agree with.
std::int64_t most_tiles(std::int64_t rows, std::int64_t keys, std::int64_t size);       // of a grid, in tiles of so many rows

}  // namespace tilewright
