// Affine accesses as strides along region axes: what the leaves are called with.
#pragma once
#include "loop/nest.h"
#include "target/cpu/lane_program.h"

namespace tilewright::cpu {

// element(point) = offset + sum of axis[x] * point[x], in elements from the view's origin.
struct Strides {
  std::int64_t offset = 0;
  std::vector<std::int64_t> axis;               // one a region axis
  std::int64_t operator[](RegionAxis a) const { return axis[static_cast<std::size_t>(a)]; }
  std::int64_t at(const std::int64_t* point) const {
    std::int64_t sum = offset;
    for (std::size_t a = 0; a < axis.size(); ++a) sum += axis[a] * point[a];
    return sum;
  }
};

// The access of statement `i` of the region, with its axes replaced by region axes. Empty if an index is not affine.
std::optional<Strides> strides_of(const Program&, const Region&, int statement, const std::vector<Index>& at, const Stored&);

// Merges neighbours of `axes` (outermost first) that continue each other in every one of the strides, inner ones uncut.
// Returns groups of axes; a group runs as one loop with the stride of its last axis.
std::vector<std::vector<RegionAxis>> merge_axes(const Region&, std::vector<RegionAxis> axes, const std::vector<bool>& tiled,
                                                const std::vector<const Strides*>&);

// Offsets of all points of some loops, in row-major order.
struct Run { std::int64_t extent, stride; };
void offsets(const Run* runs, std::size_t count, std::int64_t* out);

}  // namespace tilewright::cpu
