// Turns of a stream in which no point exists: where a condition on indices fails on the whole box of tile and chunk,
// every sum of the turn adds nothing, and neither its loads nor its work are needed.
//
//   where index(x) <= index(q), tile q 128, stream x 64, q = x = 8192:     4160 of 8192 turns are alive
//                                                                          per tile (q + g_q)/2 of x
#pragma once
#include <optional>

#include "model/flow.h"

namespace tilewright {

struct Live {
  int step = -1;                     // the stream
  ScalarRef condition;               // over region axes; null: every turn is alive
  std::int64_t alive = 0, turns = 0; // over the tiles of the axes in the condition
  std::optional<Formula>
      extent; // mean extent of the stream that a tile still sees, long chunks apart; none: only counts
};
// The outermost stream of the schedule; none where it has no stream.
std::optional<Live> live_share(const Program&, const Region&, const Schedule&);

// Values (or bytes) that are moved when dead turns are skipped, exactly.
std::int64_t moved_alive(const Program&, const Region&, const Schedule&, Count);
// The same, smooth: what the turns of the stream load is taken for the mean extent that is alive.
Flow flow_alive(const Program&, const Region&, const Schedule&);

} // namespace tilewright
