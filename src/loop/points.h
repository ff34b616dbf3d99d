// Statements that run at the same points: a reduction and the maps behind it, or a chain of maps. Targets make one leaf of them.
//
//   contract Y[n f y x] = sum[c] X * W         one group, over axes of its own: n f y x c,
//   map Z[n f y x] = max(Y + b[f], 0)          whatever loops stand around and whoever reads Z
#pragma once
#include "loop/nest.h"

namespace tilewright {

struct Points {
  Region region;                         // of the group alone
  std::vector<Span> spans;               // where its axes run in a tile, to be clipped to [0, extent)
  std::vector<std::int64_t> extent;
  std::vector<bool> tiled;               // whether an axis is cut
  std::vector<std::int64_t> full;        // its extent in a full tile
};

const Compute& compute_of(const Nest&, StatementId);
std::int64_t full_extent(const Nest&, const Span&);           // in the first tile, which is full

// Refused where they have no common points: then they run one after the other.
Or<Points> common_points(const Program&, const Nest&, const std::vector<StatementId>& group);

// The group that starts with `first`: the maps behind node n that can run with it. Moves n onto the last of them.
std::vector<StatementId> with_maps(const Program&, const Nest&, const Block&, std::size_t& n, StatementId first);

}  // namespace tilewright
