// What a scheduled region costs on a machine: bytes moved into and out of a core's tiles, exactly; operations; and from them the
// time that the slowest thread needs. check/count walks the expanded nest and must find the same bytes.
//
//   pointwise convolution 64 -> 128 on 56 x 56, tiles of 14 x 28 pixels and 32 filters (4 bytes an element):
//     input 4 times, weights 8 times, output once                       1,269,760 elements
#pragma once
#include <map>

#include "cost/memo.h"
#include "cost/split_products.h"
#include "machine/machine.h"
#include "schedule/schedule.h"

namespace tilewright {

struct Moved { TensorId tensor; std::int64_t bytes; bool store; };

struct Cost {
  std::vector<Moved> moved;               // one a transfer of the schedule
  // share: of a multiply-add in floats, the time of one of these (bytes have their own unit).
  struct Done { std::int64_t points = 0, multiply_adds = 0, operations = 0; double share = 1; };
  std::vector<Done> done;                 // by each statement of the region; points that are computed again count again
  std::int64_t loaded = 0, stored = 0;    // bytes, whole run
  std::int64_t compulsory = 0;            // each tensor's touched box once
  std::int64_t multiply_adds = 0;         // of contractions and weighted windows, recomputed ones too
  std::int64_t operations = 0;            // scalar operations of everything else
  std::int64_t tiles = 1;
  double share = 1;                       // of the work, that of the busiest thread
  double seconds = 0;
  std::string bound;                      // what decides: "fma", "alu", a level's name, "launch"
};

// The register tile of the leaf that will run the tiles: work is done in whole multiples of it. The rows of a tile are the points
// of all `rows` axes together.
struct Granule {
  std::vector<RegionAxis> rows;
  RegionAxis columns = -1;
  std::int64_t row = 1, column = 1;
  SplitProduct split = {};         // `rows` and `columns` as the tile has them
};

// The cost of one region under one order of steps, for any sizes: the list of transfers is made once, its boxes are evaluated.
class Model {
 public:
  Model(const Program&, const Region&, const Schedule& order, const Machine&, Granule = {});
  Cost at(const std::vector<std::int64_t>& sizes) const;          // one a step
  // Of those sizes no more than a planner compares: bytes moved, and multiply-adds where they are asked for.
  std::int64_t bytes(const std::vector<std::int64_t>& sizes) const;
  std::int64_t multiply_adds(const std::vector<std::int64_t>& sizes) const;

 private:
  // Dims that share loops; `turns`: only in live turns.
  struct Part { std::vector<std::size_t> steps; std::vector<std::pair<Span, std::int64_t>> dims; bool turns = false; Memo known = {}; };
  // Elements of a box over all of its tiles, each `width` times.
  struct Sum { std::int64_t width; std::vector<Part> parts; std::vector<std::size_t> repeated; };
  struct Transferred { TensorId tensor; bool store; Sum sum; };
  // Of a statement; multiply-adds and operations a point. share: of a multiply-add in floats, the time of one (bytes have their own unit).
  struct Work { Sum points; std::int64_t multiply_adds, operations; double share; };
  Sum sum_of(const std::vector<Span>& box, const std::vector<std::int64_t>& dims, int depth, std::int64_t width) const;
  std::int64_t total(const Part&, const std::vector<std::int64_t>& sizes) const;
  std::int64_t total(const Part&, const std::vector<std::size_t>& steps, const std::vector<std::int64_t>& sizes, std::int64_t* variables) const;
  const std::vector<std::int64_t>& lives(const std::vector<std::int64_t>& sizes) const;
  std::int64_t total(const Sum&, const std::vector<std::int64_t>& sizes, const Places&) const;
  double busiest(std::int64_t tiles, const std::vector<std::int64_t>& sizes) const;
  void price(Cost&, const std::vector<std::int64_t>& sizes) const;

  Turns turns_;
  int followed_ = -1;                                             // the loop whose turns they are
  std::vector<Transferred> moves_;
  std::vector<Work> work_;
  std::vector<std::int64_t> extents_;                             // of the steps' axes
  std::vector<RegionAxis> axes_;
  std::vector<std::int64_t> region_;                              // extents of the region axes
  std::vector<bool> tile_;
  std::int64_t compulsory_ = 0;
  Granule granule_;
  const Machine& machine_;
  int threads_;
  mutable Places places_;                                         // sizes that were asked for
  mutable std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> lives_;    // by sizes of the turns' steps
};

Cost cost(const Program&, const Region&, const Schedule&, const Machine&, const Granule& = {});

}  // namespace tilewright
