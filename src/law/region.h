// Regions: sets of statements that will be one kernel, and what may be done along each of their axes.
//
//   Y[n f y x] = sum[c] X[n c y x] * W[f c]         region axes: n f y x (of Z, the last statement) and c
//   Z[n f y x] = max(Y[n f y x] + b[f], 0)          image of Y's axes: n f y x c; of Z's: n f y x
//
// Region axes are the classes of statement axes that unification made equal, by solving producer index = reader index. Every
// other statement axis is an index over them (y' = 2*y + i - 1), and its tile is that index's hull. This folder knows no machine.
#pragma once
#include "expr/scalar.h"
#include "support/or.h"

namespace tilewright {

using RegionAxis = int;

struct Role {
  Reducer reducer = Reducer::none;   // none: parallel; else reduced with it
  bool windowed = false;             // shares an index with another axis so that neighbours overlap (2*y + i)
  bool indirect = false;             // stands inside a gather's index
  bool plain = false;                // each index that mentions it is the axis alone, and the body does not use its value
};
std::vector<Role> roles(const Program&, StatementId);                    // one an axis of the statement

// Tensors that a region reads from outside, stores for others, and keeps to itself, in order of first appearance.
struct Boundary { std::vector<TensorId> inputs, outputs, inner; };

struct Region {
  std::vector<StatementId> statements;                                   // convex, in program order
  std::vector<Size> axes;                                                // extents of the region axes
  std::vector<std::string> names;
  std::vector<std::vector<Index>> image;                                 // [statement][its axis]: an index over region axes
  std::optional<Boundary> bound;                                         // once it was asked for with readers
  int position(StatementId) const;                                       // in `statements`, or -1
};
// Unifies the axes of a convex set of statements, or says why it is no region.
Or<Region> unify(const Program&, std::vector<StatementId>);

// The role of a region axis: reduced if it is reduced in the statement that it comes from.
std::vector<Role> roles(const Program&, const Region&);

// The region's axes in groups that travel together: wherever an access has one axis of a group it has all, each as the whole index
// of a dim, and no body uses their values. A group may be taken as one axis (pixels = batch*y*x, k = heads*d): tiled, and where
// `permute` allows permuted and packed, across the borders of its axes. In what order its dims stand, each access says. Groups and
// their axes ascend; an axis may be alone.
std::vector<std::vector<RegionAxis>> travelling(const Program&, const Region&);

// What is allowed, or why not (design.md 3).
struct Laws { Or<bool> tile, split, stream, walk, permute, bucket; };
Laws laws(const Program&, const Region&, RegionAxis);
// One of them, for those who know the role of the axis.
Or<bool> may_be_tiled(const Region&, RegionAxis, const Role&);
Or<bool> may_be_streamed(const Program&, const Region&, RegionAxis, const Role&);

// Looks through the whole program for readers of what the region writes, unless they are known: a planner with many regions makes
// the readers once, and fixes the boundary of each region that will not change any more.
Boundary boundary(const Program&, const Region&);
using Readers = std::vector<std::vector<StatementId>>;                   // by tensor; nodes in program order, opaque ones too
Readers readers_by_tensor(const Program&);
void fix_boundary(const Program&, const Readers&, Region&);

// What the contraction inside a statement is: sum over k of a product of two accesses, with the axes sorted by who has them.
struct Contraction {
  const Access *a = nullptr, *b = nullptr;                               // b holds the n axes
  std::vector<AxisId> batch, m, n, k;                                    // of the statement: in both and out; a and out; b and out; reduced, in both
};
Or<Contraction> contraction(const Program&, const Statement&);
// A window: reduction of one access, alone or weighted, each operand holding the lane axis; reduced axes slide over parallel ones.
struct Window { const Access *data = nullptr, *weights = nullptr; std::vector<AxisId> lanes, parallel, taps; };
Or<Window> window(const Program&, const Statement&);

}  // namespace tilewright
