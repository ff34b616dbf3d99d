// What schedules have in common whose operands the copy engine brings: boxes that it can bring, clusters of blocks that share them.
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

// Whether blocks of a cluster follow one another along one axis: its tiles fall into whole clusters. Sets the cluster, rounds the band.
bool in_clusters(const Region&, Schedule&, int cluster);
// Whether everything that lies in scratch comes in boxes: of a turn's ring, or for a whole tile.
bool comes_in_boxes(const Program&, const Region&, const Schedule&, const std::vector<DimOrder>& layouts);
// Bytes of a block's scratch that they take, with the barriers.
std::int64_t scratch_of_boxes(const Program&, const Region&, const Schedule&);

}  // namespace tilewright
