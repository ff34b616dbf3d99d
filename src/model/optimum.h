// The best tile sizes for a memory, three ways: in closed form, by geometric programming, and on the lattice of whole
// sizes.
//
//   H = a*b*c/g_a + a*b*c/g_c + a*c     M >= g_a*g_c      ->   g_a = g_c = M^(1/2),  H* = 2*a*b*c*M^(-1/2) + a*c
//
// Closed form: the resident tile is the product of highest degree in tile sizes; chunks of streams are taken as short.
// Terms of H that are powers of it become alpha * M^-beta at once; of the others the weighted means of arithmetic and
// geometry are equal at the optimum (the dual of a geometric program without degrees of freedom). A tile that reaches
// its axis stays there, and the rest is solved again: H* is piecewise in M, and its last piece is what must be moved at
// least.
#pragma once
#include <functional>

#include "model/formula.h"
#include "support/or.h"

namespace tilewright {

struct TileSize {
  std::string symbol; // g_q
  std::string axis;   // q
  double extent = 1;
};

struct Regime {
  double from = 1, to = 0; // memory, in the unit of the footprint; to 0: without end
  // Of each tile, or product of tiles that only counts as one, a formula in M and the axes.
  std::vector<std::pair<std::string, Formula>> sizes;
  Formula moved; // sum of alpha * M^-beta
};
std::vector<std::pair<double, Formula>> by_beta(const Formula& moved); // beta, alpha; ascending

struct ClosedForm {
  std::vector<Regime> regimes; // ascending in M
  const Regime& at(double memory) const;
};
// moved, resident: in tile symbols and axes. Refused with the reason where the terms have no closed form.
Or<ClosedForm> closed_form(const Formula& moved, const Formula& resident, std::vector<TileSize>, const Point& axes);

// What a footprint keeps when chunks are short and tiles are large.
Formula resident_part(const Formula& footprint, const std::set<std::string>& streams, const std::vector<TileSize>&);

// Smooth optimum of `moved` under `footprint` <= memory, tiles between 1 and their axes: convex in the logarithms, by
// Newton's method with a barrier. None where not even tiles of 1 fit. Negative products are left out of it.
struct Smooth {
  Point sizes;
  double moved = 0;
};
Or<Smooth> geometric_program(const Formula& moved, const Formula& footprint, double memory,
                             const std::vector<TileSize>&, const Point& axes);

// Whole sizes: multiples of `granule` (the last may be the axis itself), of which only the smallest for each number of
// tiles matter.
struct Lattice {
  struct Axis {
    std::int64_t extent = 1, granule = 1;
  };
  std::vector<Axis> axes;
  std::function<double(const std::vector<std::int64_t>&)> moved, footprint; // footprint grows with every size
  double memory = 0;
};
struct Whole {
  std::vector<std::int64_t> sizes;
  double moved = 0, footprint = 0;
  std::int64_t tried = 0;
};
Or<Whole> best_on_lattice(const Lattice&);

// The slope of log H over log M at memories from low to high: beta, as one would measure it.
double fitted_beta(const std::function<double(double)>& moved, double low, double high, int points = 9);

} // namespace tilewright
