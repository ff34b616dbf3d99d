// Warpgroups that take turns at the pipes of a multiprocessor: who does what when, how long a turn takes in the steady
// state, and how long each pipe waits.
//
//   phases of a turn: S on the tensor pipe 2, rows on the special unit 4.06, O on the tensor pipe 4, O rescaled 0.5
//   three lanes       t = max(2 + 4, 4.06) = 6 a turn and row: the tensor pipe never waits
//   one lane that issues the next turn's first phase early   t = max(2, 4.06) + 4
//
// A pipe serves one phase at a time. A phase waits for the one before it in its turn, and for itself in the turn
// before; with `early` turns in flight the first phases of the next turns do not wait for the end of this one. List
// scheduling, the oldest turn first, over many turns; the interval is what the last ones take.
#pragma once
#include <string>
#include <vector>

#include "model/hardware.h"

namespace tilewright {

struct Phase {
  std::string what;
  int pipe = 0;
  double length = 0;
};
struct Slot {
  int lane = 0, turn = 0, phase = 0;
  double start = 0, end = 0;
};
struct Timeline {
  std::vector<Slot> slots;
  double interval = 0;      // a turn of all lanes, in the steady state
  std::vector<double> busy; // of each pipe, its share of the time
};
// early: turns of a lane in flight beside the oldest.
Timeline pipelined(const std::vector<Phase>& turn, int lanes, int early, int turns = 48);

// The phases of a turn as a budget has them: neighbours on one pipe are one phase, and row work beside special
// functions overlaps it.
std::vector<Phase> phases_of(const Budget&, std::vector<std::string>* pipes);

// Two contractions T1 and T2 around row work S: by lanes that take turns, and inside one.
double between_lanes(double t1, double t2, double s);
double inside_a_lane(double t1, double t2, double s);

} // namespace tilewright
