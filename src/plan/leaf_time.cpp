// What the leaves of a CPU take for a product or a window, over the rate that its multiply-adds have in the middle of a long sum.
//
//   product 196 x 64 x 384        1.03        rows are dealt out evenly; columns fill vectors; each tile's end takes as
//   product 12544 x 96 x 16       1.75        long as some products
//   window of 9 taps              2.2         beside its taps each result is loaded for, ended and stored
//   window of 49                  1.3
#include <algorithm>
#include <cmath>

#include "plan/cpu_time.h"

namespace tilewright {

namespace {

// Multiply-adds that take as long: of the ends of a product's tiles, of a window's results; and a tap over a product.
constexpr double end_of_product = 12, end_of_window = 10, tap = 1.1;
constexpr double rows_at_once = 4;             // fewer do not fill the pipes
constexpr double short_run = 256;              // bytes of a tensor's rows, of which the hardware brings all if it brings some
constexpr std::int64_t panels_at_once = 512 * 1024; // bytes of packed weights that all rows of a tile go through

// Of an axis: full tiles, and what is left.
struct Tiles {
  std::int64_t size, count, rest;
};
Tiles tiles_of(std::int64_t extent, std::int64_t size) {
  return size <= 0 || size >= extent ? Tiles{extent, 1, 0} : Tiles{size, extent / size, extent % size};
}

double whole(double x, double granule) { return static_cast<double>(ceil_div_i64(static_cast<std::int64_t>(x), static_cast<std::int64_t>(granule))) * granule; }

} // namespace

SplitProduct split_product(const Program& p, const Statement& s, const Contraction& c, const PlanOptions& o) {
  SplitProduct made{0, 0, 1, 0, false};
  if (!o.splits || p.tensor(c.a->tensor).sparse || p.tensor(c.b->tensor).sparse) return made;
  std::int64_t run = 0;                                  // products that lie side by side, at most
  for (AxisId x : c.k) run = std::max(run, s.axes[static_cast<std::size_t>(x)].constant());
  if (run < 32) return made;
  made.pairs = split_pairs(p.tensor(c.a->tensor).dtype, p.tensor(c.b->tensor).dtype);
  made.packed = p.tensor(c.b->tensor).kind == Kind::weight;
  for (AxisId x : c.k) made.products *= static_cast<double>(s.axes[static_cast<std::size_t>(x)].constant());
  return made;
}

CpuTime::Shapes CpuTime::shapes(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  const auto along = [&](AxisId x) {
    const std::int64_t e = statement(i).axes[static_cast<std::size_t>(x)].constant();
    return tiles_of(e, extent_in_tile(i, x, steps, size));
  };
  // The points of all row axes are the rows of a tile; of column axes the longest.
  const auto& c = *form(i).product;
  Shapes all;
  for (AxisId x : c.m) {
    const Tiles tiles = along(x);
    const bool ragged = tiles.rest > 0 && 2 * all.count <= Shapes::most_rows; // of many ragged axes the last are as if they were not
    for (int n = 0; n < all.count; ++n) {
      if (ragged) all.list[all.count + n] = {all.list[n].rows * static_cast<double>(tiles.rest), 0, all.list[n].count};
      all.list[n].rows *= static_cast<double>(tiles.size), all.list[n].count *= static_cast<double>(tiles.count);
    }
    all.count *= ragged ? 2 : 1;
  }
  Tiles columns{1, 1, 0};
  for (AxisId x : c.n)
    if (const Tiles tiles = along(x); tiles.size > columns.size) columns = tiles;
  for (int n = 0; n < all.count; ++n) {
    if (columns.rest > 0) all.list[all.count + n] = {all.list[n].rows, static_cast<double>(columns.rest), all.list[n].count};
    all.list[n].columns = static_cast<double>(columns.size), all.list[n].count *= static_cast<double>(columns.count);
  }
  all.count *= columns.rest > 0 ? 2 : 1;
  return all;
}

SplitProduct CpuTime::split(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  const auto& c = form(i).product;
  SplitProduct made = form(i).split;
  made.products = 1;
  for (AxisId x : c->k) made.products *= static_cast<double>(extent_in_tile(i, x, steps, size));
  return made;
}

// Whether its full tiles are products of split floats.
bool CpuTime::splits(std::size_t i, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  if (!o.splits || !form(i).product) return false;
  SplitProduct made = split(i, steps, size);
  const Shape first = shapes(i, steps, size).list[0];
  made.rows = first.rows, made.columns = first.columns;
  return split_share(made) < 1;
}

// Of a tile of a product. Fused multiply-adds fill vectors; what is split knows its own tiles.
double CpuTime::share(const Shape& tile, SplitProduct made) const {
  const double columns = whole(tile.columns, std::max(o.lanes, 1));
  made.rows = tile.rows, made.columns = tile.columns;
  if (const double left = split_share(made); left < 1) return left * columns / tile.columns;
  return std::max(tile.rows, rows_at_once) / tile.rows * columns / tile.columns * (1 + end_of_product / std::max(made.products, 1.0));
}

// Of the multiply-adds of a statement: their time over that of as many of a unit's.
double CpuTime::share(std::size_t i, const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  const Cost::Done& done = c.done[i];
  if (form(i).window && done.points > 0 && done.multiply_adds > 0)
    return done.share * (tap + end_of_window * points_of_sum(i));
  if (!form(i).product) return done.share;
  const Shapes tiles = shapes(i, steps, size);
  // In a followed stream a product with one row is a sum of rows, each read once.
  if (tiles.count == 1 && tiles.list[0].rows == 1 && follows(steps)) return 2 * done.share;
  const SplitProduct made = split(i, steps, size);
  double all = 0, taken = 0;
  for (int n = 0; n < tiles.count; ++n) {
    const Shape& tile = tiles.list[n];
    const double points = tile.rows * tile.columns * tile.count;
    all += points, taken += points * share(tile, made);
  }
  return all > 0 ? done.share * taken / all : done.share;
}

// What no tiles can beat: in one piece nothing is ragged but the ends of axes.
double CpuTime::best_share(std::size_t i, const Cost& c) const {
  if (form(i).window && c.done[i].multiply_adds > 0) return c.done[i].share * (tap + end_of_window * points_of_sum(i));
  if (!form(i).product) return c.done[i].share;
  const SplitProduct made = split(i, {}, {});
  const Shape tile = shapes(i, {}, {}).list[0];
  return c.done[i].share * share(tile, made);
}

// One over the points of a result's sum.
double CpuTime::points_of_sum(std::size_t i) const {
  double points = 1;
  for (AxisId x : statement(i).reduced) points *= static_cast<double>(std::max<std::int64_t>(1, statement(i).axes[static_cast<std::size_t>(x)].constant()));
  return 1 / points;
}

// How many times its bytes a tensor brings along that a window reads or makes by single vectors of channels: those beside them come
// along, and are gone before their tile wants them.
double CpuTime::lines_wasted(const Moved& x, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  if (!lanes_) {
    lanes_.emplace();
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (!form(i).window) continue;
      // Lanes that lie side by side in it; those of a batch may be anywhere.
      const auto enter = [&](TensorId t, const std::vector<Index>& at) {
        const DimOrder& order = layouts[static_cast<std::size_t>(t)];
        for (AxisId lane : form(i).window->lanes)
          if (!order.empty() && mentions_axis(at[static_cast<std::size_t>(order.back())], lane)) lanes_->try_emplace(t, i, lane);
      };
      enter(statement(i).out, statement(i).at);
      for_each_access(statement(i), [&](const Access& a) { enter(a.tensor, a.at); });
    }
  }
  const auto found = lanes_->find(x.tensor);
  if (found == lanes_->end()) return 1;
  const auto [i, lane] = found->second;
  const std::int64_t e = extent_in_tile(i, lane, steps, size);
  if (e >= statement(i).axes[static_cast<std::size_t>(lane)].constant()) return 1;
  return std::max(1.0, short_run / (static_cast<double>(e) * static_cast<double>(bytes_of(p.tensor(x.tensor).dtype))));
}

// A contraction goes through its rows again for each cut of its columns, and for each part of its weights that a cache holds: some
// 40 ns a tile of rows, and their bytes where a tile's do not stay close by.
double CpuTime::passes(std::size_t i, const Cost& c, const std::vector<AxisStep>& steps, const std::vector<std::int64_t>& size) const {
  const Statement& s = statement(i);
  const auto& made = form(i).product;
  if (!made) return 0;
  double products = 1, cuts = 1, columns = 1, inside = 1;
  for (AxisId x : made->k) products *= static_cast<double>(s.axes[static_cast<std::size_t>(x)].constant());
  for (AxisId x : made->n) {
    const auto axis = plain_axis(r.image[i][static_cast<std::size_t>(x)]);
    const std::int64_t n = s.axes[static_cast<std::size_t>(x)].constant();
    columns *= static_cast<double>(n);
    inside *= static_cast<double>(extent_in_tile(i, x, steps, size));
    for (std::size_t k = 0; k < steps.size(); ++k)
      if (axis && steps[k].axis == *axis) cuts *= static_cast<double>(ceil_div_i64(n, size[k]));
  }
  const double rows = static_cast<double>(c.done[i].multiply_adds) / std::max(products * columns, 1.0);
  const double parts = std::ceil(inside * products * 4 / static_cast<double>(panels_at_once)), held = static_cast<double>(tile_rows(i, steps, size)) * products * 4;
  const bool stays = held <= static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity);
  return (cuts - 1) * rows / o.leaf_rows * 40e-9 + (stays ? 0 : (parts - 1) * rows * products * 4 / rate(far(c), c));
}

} // namespace tilewright
