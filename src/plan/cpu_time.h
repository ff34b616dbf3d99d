// What a kernel of several reductions takes on a CPU, for any tile sizes: reductions run one after the other, each
// bound by its work or by what it reads; what no leaf takes is interpreted, and takes longer.
//
//   pointwise 16 -> 96, depthwise 3x3 behind it, 14 x 14 tiles:  the first is bound by its work, what it makes stays in
//   the core's own cache, the second reads it from there
//
// What does not depend on sizes is found once.
#pragma once
#include <map>
#include <set>

#include "plan/plan.h"

namespace tilewright {

// Of a contraction, for split_share: products, and pairs if the leaves split; a call's rows and columns are the caller's to set.
SplitProduct split_product(const Program&, const Statement&, const Contraction&, const PlanOptions&);

class CpuTime {
public:
  CpuTime(const Program& program, const Region& region, const Machine& machine, const PlanOptions& options,
          const std::vector<DimOrder>& orders)
      : p(program), r(region), m(machine), o(options), layouts(orders) {}

  // Of one core, all tiles. ideal: no size is known, nothing is lost at the ends of tiles.
  double seconds(const Cost&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size, bool ideal) const;
  // Of the slowest thread, with what starting tiles and turns takes.
  double kernel_seconds(const Cost&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  // Whether some leaf has this axis in its vectors.
  bool in_vectors(RegionAxis) const;

private:
  const Program& p;
  const Region& r;
  const Machine& m;
  const PlanOptions& o;
  const std::vector<DimOrder>& layouts;

  struct Form {
    std::optional<Contraction> product;
    std::optional<Window> window;
    SplitProduct split = {};
    double weights = 0; // bytes of the product's
  };
  // Phases, and those that read what a statement makes for them.
  struct Flow {
    std::vector<std::size_t> phase;
    std::vector<std::set<std::size_t>> later;
    std::map<std::pair<TensorId, bool>, std::size_t> moved;
    std::size_t place(const Moved& x) const {
      const auto at = moved.find({x.tensor, x.store});
      return at == moved.end() ? 0 : at->second;
    }
  };
  const Statement& statement(std::size_t i) const { return *p.statement(r.statements[i]); }
  const Form& form(std::size_t) const;
  const Flow& flow() const;
  bool along_lanes(std::size_t) const;
  bool stored_between(const Boundary&, std::size_t) const;
  std::vector<bool> endings(const Boundary&) const;
  bool follows(const std::vector<AxisStep>&) const;
  const std::vector<double>& longer(const std::vector<AxisStep>&) const;
  static constexpr double by_interpreter = -1;
  bool by_chunks(RegionAxis stream) const;
  std::vector<double> factors_of(RegionAxis stream) const;
  std::vector<std::size_t> phases() const;
  // A statement that the interpreter runs: its vectors, instructions on them, and whether their lanes are summed.
  struct Interpreted {
    AxisId axis = -1;
    double instructions = 0;
    bool sums = false;
  };
  AxisId vector_axis(std::size_t) const;
  const Interpreted& interpreted(std::size_t) const;
  double interpreted_seconds(std::size_t, std::int64_t points, const std::vector<AxisStep>&,
                             const std::vector<std::int64_t>& size, bool ideal) const;
  double turns(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  double read_again(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  // Tiles of a product (leaf_time.cpp).
  struct Shape {
    double rows, columns, count;
  };
  struct Shapes { // full ones first
    static constexpr int most_rows = 8;
    Shape list[2 * most_rows] = {{1, 1, 1}};
    int count = 1;
  };
  Shapes shapes(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  SplitProduct split(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  bool splits(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  double share(const Shape&, SplitProduct) const;
  double share(std::size_t, const Cost&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  double best_share(std::size_t, const Cost&) const;
  double points_of_sum(std::size_t) const;
  double lines_wasted(const Moved&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  std::int64_t extent_in_tile(std::size_t, AxisId, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  double gathered(std::size_t) const;
  double packing(std::size_t i, const Cost&) const;
  std::int64_t tile_rows(std::size_t, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;
  double operations(UnitKind) const;
  LevelId far(const Cost&) const;
  LevelId far_weights(const Cost&) const;
  double rate(LevelId, const Cost&) const;
  double near_rate(const Cost&) const;
  double weights(std::size_t i) const { return form(i).weights; }
  bool weights_stay() const;
  double weight_bytes(std::size_t, const Cost&) const;
  // That a product of weights takes longer than its work: while the first rows of a tile go through the weights, these come
  // from afar, no faster than those rows are computed.
  double waiting(std::size_t, const Cost&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size, double work) const;
  double passes(std::size_t, const Cost&, const std::vector<AxisStep>&, const std::vector<std::int64_t>& size) const;

  mutable std::vector<Form> forms_ = {};
  mutable std::vector<Interpreted> interpreted_ = {};
  mutable std::optional<Flow> flow_ = {};
  mutable std::optional<std::map<TensorId, std::pair<std::size_t, AxisId>>> lanes_ = {}; // a window's statement and lanes
  mutable double fma_ = 0, alu_ = 0;                               // operations of a core
  mutable std::vector<double> gathered_ = {};
  mutable std::map<RegionAxis, std::vector<double>> factors_ = {}; // by what is streamed
  mutable std::map<RegionAxis, bool> follows_ = {};                // by what is streamed
};

} // namespace tilewright
