#include "sparse/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

namespace tilewright {

std::string_view name_of(Along a) {
  static constexpr std::string_view names[] = {"dense", "along k", "along m", "along m by blocks of k"};
  return names[static_cast<std::size_t>(a)];
}

MicroTile micro_tile(const Product& p, const TileForm& t, Along along, const SelectionCosts& costs) {
  MicroTile u = along == Along::k   ? MicroTile{t.m, 1}
                : along == Along::m ? MicroTile{1, std::max<std::int64_t>(p.k, 1)}
                                    : MicroTile{1, t.k};
  const auto width = static_cast<std::int64_t>(bytes_of(p.dtype));
  const std::int64_t adjacent = costs.k_adjacent ? u.k : u.m, wanted = (costs.transaction + width - 1) / width;
  if (adjacent >= wanted) return u;
  std::int64_t& packed = along == Along::k ? u.k : u.m;
  const bool helps = (along == Along::k) == costs.k_adjacent; // the packed axis is the adjacent one
  if (helps) packed = wanted;
  return u;
}

namespace {

std::int64_t up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

struct Selector {
  const Product& p;
  MicroTile unit;
  const std::vector<std::vector<std::uint8_t>>& samples;
  const SelectionCosts& costs;
  // Counts of the samples by (micro-tile, axis), since tiles share them: [sample][group].
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, std::vector<std::vector<std::uint32_t>>> counted{};

  double width() const { return static_cast<double>(bytes_of(p.dtype)); }

  const std::vector<std::vector<std::uint32_t>>& counts(const MicroTile& u, bool along_k) {
    const auto [at, fresh] = counted.try_emplace({u.m, u.k, along_k});
    if (!fresh) return at->second;
    for (const auto& s : samples) at->second.push_back(count(s, u, along_k));
    return at->second;
  }

  static void merge(const std::uint8_t* from, std::int64_t n, std::uint8_t* to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] |= from[i];
  }

  // Cells of the sample fall into micro-tiles; a row of micro-tiles is collected at a time.
  std::vector<std::uint32_t> count(const std::vector<std::uint8_t>& marks, const MicroTile& u, bool along_k) const {
    const std::int64_t rows = up(p.m, unit.m), columns = up(p.k, unit.k), by_m = u.m / unit.m, by_k = u.k / unit.k;
    const std::int64_t tall = up(rows, by_m), wide = up(columns, by_k);
    std::vector<std::uint32_t> out(static_cast<std::size_t>(along_k ? tall : wide), 0);
    std::vector<std::uint8_t> row(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < tall; ++i) {
      const std::int64_t first = i * by_m, last = std::min(rows, first + by_m);
      std::copy_n(marks.begin() + first * columns, columns, row.begin());
      for (std::int64_t r = first + 1; r < last; ++r) merge(marks.data() + r * columns, columns, row.data());
      // A micro-tile of several cells is live where one of them is: the row shrinks to its micro-tiles.
      for (std::int64_t j = 0; j < wide && by_k > 1; ++j) {
        const std::int64_t from = j * by_k, n = std::min(columns, from + by_k) - from;
        row[static_cast<std::size_t>(j)] = std::memchr(row.data() + from, 1, static_cast<std::size_t>(n)) != nullptr;
      }
      std::uint32_t live = 0;
      const std::uint8_t* const mark = row.data();
      if (along_k)
        for (std::int64_t j = 0; j < wide; ++j) live += mark[j];
      else
        for (std::int64_t j = 0; j < wide; ++j) out[static_cast<std::size_t>(j)] += mark[j];
      if (along_k) out[static_cast<std::size_t>(i)] = live;
    }
    return out;
  }

  double rate_seconds(double bytes, double rate) const { return rate > 0 ? bytes / rate : 0; }

  void finish(Estimate& e, double live_share) const {
    const double across = static_cast<double>(up(p.n, e.tile.n)), tiles = e.dense_tiles * across;
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
    const double tm = static_cast<double>(std::min(e.tile.m, p.m)), tn = static_cast<double>(std::min(e.tile.n, p.n)),
                 tk = static_cast<double>(std::min(e.tile.k, p.k));
    e.tile_seconds = tiles * e.tile.seconds;
    e.cache_seconds = rate_seconds(tiles * (tm * tk + tk * tn) * width(), costs.cache_rate);
    e.memory_seconds = rate_seconds((m * k * live_share + k * n + m * n) * width(), costs.memory_rate);
    e.seconds = std::max({e.tile_seconds, e.cache_seconds, e.memory_seconds}) + costs.launch + e.index_seconds +
                e.accumulate_seconds;
  }

  Estimate dense(const TileForm& t) const {
    Estimate e{Along::none, t, 1, 1, 0, static_cast<double>(up(p.m, t.m) * up(p.k, t.k)), 0, 0, 0, 0, 0, 0};
    finish(e, 1);
    return e;
  }

  // Nothing where the micro-tile cannot be made of the sample's cells, or the order of sums may not vary and would.
  std::optional<Estimate> sparse(const TileForm& t, Along along) {
    MicroTile u = micro_tile(p, t, along, costs);
    const bool along_k = along == Along::k;
    // A tile taller than the sample's cells takes them as they are where the unit is larger.
    u.m = std::max(u.m, unit.m), u.k = std::max(u.k, unit.k);
    if (along == Along::m) u.k = up(p.k, unit.k) * unit.k;
    if (u.m % unit.m != 0 || u.k % unit.k != 0) return {};
    const std::int64_t ratio = std::max<std::int64_t>(1, along_k ? t.k / u.k : t.m / u.m);
    Estimate e{along, t, u.m, u.k, 0, 0, 0, 0, 0, 0, 0, 0};
    double partial = 0, live = 0;
    for (const auto& count : counts(u, along_k)) {
      for (std::uint32_t c : count) {
        const double full = static_cast<double>(c) / static_cast<double>(ratio);
        e.dense_tiles += costs.tail_shrinks ? full : std::ceil(full);
        live += c;
      }
    }
    const double runs = static_cast<double>(samples.size());
    e.micro_tiles = live / runs;
    e.dense_tiles /= runs;
    if (along == Along::m) e.dense_tiles *= static_cast<double>(up(p.k, t.k)); // a tile holds t.k of each row
    // A micro-tile larger than the tile takes several.
    if (along != Along::m && u.k > t.k) e.dense_tiles *= static_cast<double>(up(u.k, t.k));
    if (u.m > t.m) e.dense_tiles *= static_cast<double>(up(u.m, t.m));
    if (along == Along::m_by_k) partial = e.dense_tiles * static_cast<double>(t.m * p.n);
    e.index_seconds = rate_seconds(static_cast<double>(p.m) * static_cast<double>(p.k) * width(), costs.index_rate);
    e.accumulate_seconds = partial * costs.accumulate;
    finish(e, std::min(1.0, e.micro_tiles * static_cast<double>(u.m * std::min(u.k, p.k)) /
                                (static_cast<double>(p.m) * static_cast<double>(p.k))));
    return e;
  }
};

// Ties by the shape, so that the order of the list does not matter.
bool sooner(const Estimate& a, const Estimate& b) {
  const auto key = [](const Estimate& e) { return std::tuple(e.seconds, e.along, -e.tile.m, -e.tile.n, -e.tile.k); };
  return key(a) < key(b);
}

} // namespace

Selection select(const Product& p, MicroTile unit, const std::vector<std::vector<std::uint8_t>>& samples,
                 const std::vector<TileForm>& tiles, const SelectionCosts& costs) {
  TW_ASSERT(!tiles.empty() && !samples.empty());
  for (const auto& s : samples) TW_ASSERT(static_cast<std::int64_t>(s.size()) == up(p.m, unit.m) * up(p.k, unit.k));
  Selector selector{p, unit, samples, costs};
  Selection out;
  for (const TileForm& t : tiles) {
    const Estimate dense = selector.dense(t);
    if (out.dense.tile.m == 0 || sooner(dense, out.dense)) out.dense = dense;
    for (Along along : {Along::k, Along::m, Along::m_by_k}) {
      if (along == Along::m_by_k && costs.ordered && costs.accumulate == 0) continue;
      if (const auto e = selector.sparse(t, along)) out.tried.push_back(*e);
    }
  }
  out.best = out.dense;
  const auto best = std::min_element(out.tried.begin(), out.tried.end(), sooner);
  if (best == out.tried.end()) {
    out.reason = "no micro-tile is made of the cells that are known";
  } else if (best->seconds >= out.dense.seconds * (1 - costs.margin)) {
    out.reason = fmt::format("{} in {} x {} would take {:.4g} ms, dense {:.4g} ms", name_of(best->along), best->unit_m,
                             best->unit_k, best->seconds * 1e3, out.dense.seconds * 1e3);
  } else {
    out.best = *best;
  }
  return out;
}

std::vector<TileForm> tile_forms(const Machine& m, DType dtype) {
  const bool cpu = m.target == Target::cpu;
  std::optional<UnitId> unit = cpu ? std::nullopt : unit_for(m, UnitKind::tensor, dtype);
  if (!unit) unit = unit_for(m, UnitKind::fma, dtype);
  if (!unit) unit = unit_for(m, UnitKind::fma, DType::f32);
  std::vector<TileForm> out;
  if (!unit) return out;
  const bool tensor = m.units[static_cast<std::size_t>(*unit)].kind == UnitKind::tensor;
  const DType type = rate_for(m, *unit, dtype) ? dtype : DType::f32;
  const std::vector<std::int64_t> tall =
      tensor ? std::vector<std::int64_t>{64, 128, 192, 256} : std::vector<std::int64_t>{1, 8, 16, 32, 64, 128};
  const std::vector<std::int64_t> deep = cpu ? std::vector<std::int64_t>{1, 16, 64} : std::vector<std::int64_t>{32, 64};
  const std::vector<std::int64_t> wide = cpu      ? std::vector<std::int64_t>{256}
                                         : tensor ? std::vector<std::int64_t>{64, 128, 256}
                                                  : std::vector<std::int64_t>{32, 64, 128};
  // A row of the tile costs as much as it multiplies, and about two rows more to bring its column of B. A CPU's
  // registers hold some 14 rows.
  for (std::int64_t tm : tall)
    for (std::int64_t tk : deep)
      for (std::int64_t tn : wide) {
        const double useful =
            tensor ? 1.0 : static_cast<double>(tm) / static_cast<double>(tm + (cpu ? 2 * up(tm, 14) : 4));
        out.push_back({tm, tn, tk, seconds_for(m, *unit, type, 2.0 * static_cast<double>(tm * tn * tk), useful)});
      }
  return out;
}

SelectionCosts selection_costs(const Machine& m) {
  SelectionCosts c;
  c.launch = m.launch.first + m.launch.step;
  const LevelId memory = level_of(m, LevelRole::memory);
  c.memory_rate = bytes_per_second(m, memory);
  if (const auto cache = find(m, LevelRole::cache)) c.cache_rate = bytes_per_second(m, *cache);
  c.index_rate = c.memory_rate;
  c.transaction = m.target == Target::cpu ? 1 : m.levels[static_cast<std::size_t>(memory)].transaction;
  c.accumulate = c.cache_rate > 0 ? 16 / c.cache_rate : 0; // read and written again, each with its line
  c.tail_shrinks = m.target == Target::cpu;
  return c;
}

} // namespace tilewright
