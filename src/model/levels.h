// From one memory to a machine: weighted sums over levels, levels that only forward, children that exchange, and what
// is bound by what.
//
//   total     = sum over levels of H*(M_l) / rate_l                       seconds, or joules with energies in place of
//   1/rate forwarded: a level whose children are all at work together acts as if it had the memory of them all: H*(N *
//   M_child) exchanged: N children that share what they load take H*(N * M_child) from above, and the rest from each
//   other bound     : transfers, where H*/K is above rho = (values a second) / (operations a second)
//
// Rates are in the unit of H (values or bytes) a second. Halving the width of every value makes all of it 2^(1 + beta)
// faster.
#pragma once
#include <optional>

#include "machine/machine.h"
#include "model/optimum.h"

namespace tilewright {

struct Storage {
  std::string name;
  double memory = 0, weight = 0; // units it holds for a tile; seconds (or joules) a unit that comes into it
};
struct LevelCost {
  std::string name;
  double moved = 0, weighted = 0;
};
std::vector<LevelCost> over_levels(const ClosedForm&, const Point& axes, const std::vector<Storage>&);

double moved_at(const ClosedForm&, const Point& axes, double memory);
double speedup_of_halving(double beta); // of the width of all values

// Of the weight that the children's loads have, what N children save that exchange at `exchange` units a second, where
// the parent sends `parent` units a second. A term of beta 0 cannot be saved.
double exchange_saving(const ClosedForm&, const Point& axes, double child_memory, int children, double parent,
                       double exchange);
struct Exchange {
  int children = 1;
  double rate = 0;
};
struct ClusterChoice {
  int children = 1;
  double saving = 0;
};
ClusterChoice best_cluster(const ClosedForm&, const Point& axes, double child_memory, double parent,
                           const std::vector<Exchange>&);

// A term of H/K below rho: from which memory, or from which extent of an axis on, everything else as it is.
struct Threshold {
  Formula term;                       // of H*/K
  std::optional<double> memory;       // from here on
  std::map<std::string, double> axes; // each alone, where the term falls with it and has no memory in it
};
struct Roofline {
  double rho = 0, ratio = 0; // of the machine; H*/K at the given memory
  bool transfers = false;    // bound by them
  double seconds_moving = 0, seconds_computing = 0;
  std::optional<double> memory; // from which on it is bound by operations; none: never
  std::vector<Threshold> terms;
  std::map<std::string, double> flips; // extents at which the bound changes, the other axes as they are
};
Roofline roofline(const ClosedForm&, const Formula& operations, const Point& axes, double memory,
                  double units_per_second, double operations_per_second);

// The levels of a machine above its innermost scratch, for values of a width: what each holds for a tile, and its
// weight a value.
enum class Weight { seconds, joules };
// forwarding: a cache above them only passes on what all of them stream, and counts with the memory of them all.
std::vector<Storage> storages(const Machine&, double bytes_per_unit, Weight, bool forwarding = false);

} // namespace tilewright
