#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "model/optimum.h"

namespace tilewright {

namespace {

using Product = Formula::Product;

// Tiles that stand everywhere with the same powers are one: only their product counts.
struct Variable {
  std::vector<TileSize> tiles;
  std::string name() const {
    std::string out;
    for (const TileSize& t : tiles) out += (out.empty() ? "" : "*") + t.symbol;
    return out;
  }
  Formula whole() const {
    Formula out = 1;
    for (const TileSize& t : tiles) out = out * Formula::symbol(t.axis);
    return out;
  }
  double extent() const {
    double out = 1;
    for (const TileSize& t : tiles) out *= t.extent;
    return out;
  }
  const std::string& key() const { return tiles[0].symbol; }
};

// Unknowns as exponents: sum over columns of row[c] * log(unknown c) = log(right side), a product a row.
struct LogLinear {
  std::vector<std::vector<double>> rows;
  std::vector<Formula> right;

  // The unknowns, if there is one solution; rows that say nothing new must agree in their left sides only.
  std::optional<std::vector<Formula>> solve(std::size_t unknowns) {
    std::vector<std::size_t> pivot_of(unknowns);
    std::size_t done = 0;
    for (std::size_t c = 0; c < unknowns; ++c) {
      std::size_t best = done;
      for (std::size_t r = done; r < rows.size(); ++r)
        if (std::abs(rows[r][c]) > std::abs(rows[best][c])) best = r;
      if (best >= rows.size() || std::abs(rows[best][c]) < 1e-9) return std::nullopt;
      std::swap(rows[done], rows[best]), std::swap(right[done], right[best]);
      const double by = 1 / rows[done][c];
      for (double& x : rows[done]) x *= by;
      right[done] = power(right[done], by);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const double factor = rows[r][c];
        if (r == done || factor == 0) continue;
        for (std::size_t k = 0; k < unknowns; ++k) rows[r][k] -= factor * rows[done][k];
        right[r] = right[r] / power(right[done], factor);
      }
      pivot_of[c] = done++;
    }
    std::vector<Formula> out;
    for (std::size_t c = 0; c < unknowns; ++c) out.push_back(right[pivot_of[c]]);
    return out;
  }
};

// The weights of the terms and the power of the memory: sum w = 1, and for each variable sum w * power + lambda * power
// in the tile = 0.
std::optional<std::vector<double>> weights(const std::vector<Product>& terms, const Product& tile,
                                           const std::vector<Variable>& active) {
  const std::size_t n = terms.size() + 1;
  std::vector<std::vector<double>> rows;
  std::vector<double> sum(n + 1, 1);
  sum[n - 1] = 0;
  rows.push_back(sum);
  for (const Variable& v : active) {
    std::vector<double> row;
    for (const Product& t : terms) row.push_back(t.power_of(v.key()));
    row.push_back(tile.power_of(v.key()));
    row.push_back(0);
    rows.push_back(row);
  }
  std::size_t done = 0;
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t best = done;
    for (std::size_t r = done; r < rows.size(); ++r)
      if (std::abs(rows[r][c]) > std::abs(rows[best][c])) best = r;
    if (best >= rows.size() || std::abs(rows[best][c]) < 1e-9) return std::nullopt;
    std::swap(rows[done], rows[best]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r == done) continue;
      const double factor = rows[r][c] / rows[done][c];
      for (std::size_t k = 0; k <= n; ++k) rows[r][k] -= factor * rows[done][k];
    }
    ++done;
  }
  for (std::size_t r = done; r < rows.size(); ++r)
    if (std::abs(rows[r][n]) > 1e-9) return std::nullopt;
  std::vector<double> out;
  for (std::size_t c = 0; c < n; ++c) out.push_back(rows[c][n] / rows[c][c]);
  return out;
}

struct Solver {
  std::vector<Variable> active;
  Point axes;
  Formula moved, resident;
  std::vector<std::pair<std::string, Formula>> settled{};
  ClosedForm out{};

  std::vector<Variable> in(const Formula& f) const {
    std::vector<Variable> list;
    for (const Variable& v : active)
      if (f.mentions(v.key())) list.push_back(v);
    return list;
  }

  void settle(const Variable& v, const Formula& size) {
    settled.emplace_back(v.name(), size);
    moved = moved.with(v.key(), size);
    resident = resident.with(v.key(), size);
    std::erase_if(active, [&](const Variable& x) { return x.key() == v.key(); });
  }

  // What costs memory and saves nothing stays at 1; what costs no memory is whole.
  void settle_the_free() {
    for (const Variable& v : std::vector<Variable>(active)) {
      const bool saves = std::any_of(moved.products().begin(), moved.products().end(),
                                     [&](const Product& p) { return p.power_of(v.key()) < 0; });
      if (!saves)
        settle(v, 1);
      else if (!resident.mentions(v.key()))
        settle(v, v.whole());
    }
  }

  // One regime with the tiles that are not settled; refused with a reason.
  Or<std::vector<std::pair<Variable, Formula>>> solve(Formula& best) const {
    const Product tile = resident.products()[0];
    const Formula memory = Formula::symbol("M");
    std::vector<Product> rest;
    best = {};
    for (const Product& t : moved.products()) {
      std::optional<double> ratio;
      bool parallel = true, any = false;
      for (const Variable& v : active) {
        const double mine = t.power_of(v.key()), its = tile.power_of(v.key());
        any |= mine != 0;
        if (its == 0 || (ratio && std::abs(*ratio * its - mine) > 1e-9))
          parallel = parallel && mine == 0 && its == 0;
        else
          ratio = mine / its;
      }
      if (!any)
        best = best + Formula::of(t);
      else if (parallel && ratio)
        best = best + Formula::of(t) * power(memory / Formula::of(tile), *ratio);
      else
        rest.push_back(t);
    }
    std::vector<std::pair<Variable, Formula>> sizes;
    LogLinear system;
    std::vector<double> row;
    for (const Variable& v : active) row.push_back(tile.power_of(v.key()));
    Product constant = tile;
    for (const Variable& v : active) constant.powers.erase(v.key());
    system.rows.push_back(row), system.right.push_back(memory / Formula::of(constant));
    if (!rest.empty()) {
      const auto w = weights(rest, tile, active);
      if (!w || std::any_of(w->begin(), w->end(), [](double x) { return x <= 1e-9; }))
        return Refused{
            fmt::format("{} terms share {} tile sizes: no closed form, only numbers", rest.size(), active.size())};
      Formula sum = power(Formula::of(constant) / memory, w->back());
      for (std::size_t i = 0; i < rest.size(); ++i) {
        Product a = rest[i];
        for (const Variable& v : active) a.powers.erase(v.key());
        sum = sum * power(Formula::of(a) / (*w)[i], (*w)[i]);
      }
      for (std::size_t i = 0; i < rest.size(); ++i) {
        Product a = rest[i];
        std::vector<double> powers;
        for (const Variable& v : active) powers.push_back(a.power_of(v.key())), a.powers.erase(v.key());
        system.rows.push_back(powers), system.right.push_back((*w)[i] * sum / Formula::of(a));
      }
      best = best + sum;
    }
    const auto solved = system.solve(active.size());
    if (!solved) return Refused{"the memory does not decide every tile size: no closed form, only numbers"};
    for (std::size_t i = 0; i < active.size(); ++i) sizes.emplace_back(active[i], (*solved)[i]);
    return sizes;
  }

  // The memory at which a size of the form c * M^p reaches a number.
  double memory_at(const Formula& size, double reach) const {
    const Formula numbers = size.with(axes);
    const double p = numbers.products()[0].power_of("M");
    return p <= 1e-12 ? INFINITY : std::pow(reach / numbers.products()[0].factor, 1 / p);
  }

  Or<ClosedForm> run() {
    settle_the_free();
    double from = 0;
    while (!active.empty()) {
      if (resident.products().size() != 1)
        return Refused{"the resident tile is a sum of unlike products: " + resident.text()};
      Regime regime;
      const auto sizes = solve(regime.moved);
      if (!sizes) return Refused{sizes.reason()};
      double first = INFINITY, least = 0;
      std::optional<Variable> capped;
      regime.sizes = settled;
      for (const auto& [v, size] : *sizes) {
        regime.sizes.emplace_back(v.name(), size);
        least = std::max(least, memory_at(size, 1));
        if (const double m = memory_at(size, v.extent()); m < first) first = m, capped = v;
      }
      TW_ASSERT(capped);
      regime.from = std::max(from, least), regime.to = first, from = std::max(from, first);
      if (regime.to > regime.from * (1 + 1e-9)) out.regimes.push_back(regime);
      settle(*capped, capped->whole());
      settle_the_free();
    }
    Regime last;
    last.from = std::max(from, resident.with(axes).at({})), last.sizes = settled, last.moved = moved;
    out.regimes.push_back(last);
    return out;
  }
};

// Tiles with equal powers in every product of both formulas.
std::vector<Variable> united(const std::vector<TileSize>& tiles, const Formula& moved, const Formula& resident) {
  std::vector<Variable> list;
  auto alike = [](const Formula& f, const std::string& a, const std::string& b) {
    return std::all_of(f.products().begin(), f.products().end(),
                       [&](const Product& p) { return std::abs(p.power_of(a) - p.power_of(b)) < 1e-9; });
  };
  for (const TileSize& t : tiles) {
    const auto same = std::find_if(list.begin(), list.end(), [&](const Variable& v) {
      return moved.mentions(t.symbol) && alike(moved, v.key(), t.symbol) && alike(resident, v.key(), t.symbol);
    });
    if (same == list.end())
      list.push_back({{t}});
    else
      same->tiles.push_back(t);
  }
  return list;
}

} // namespace

std::vector<std::pair<double, Formula>> by_beta(const Formula& moved) {
  std::vector<std::pair<double, Formula>> list;
  for (const Product& p : moved.products()) {
    Product alpha = p;
    const double beta = -p.power_of("M");
    alpha.powers.erase("M");
    const auto it =
        std::find_if(list.begin(), list.end(), [&](const auto& x) { return std::abs(x.first - beta) < 1e-9; });
    if (it == list.end())
      list.emplace_back(beta, Formula::of(alpha));
    else
      it->second = it->second + Formula::of(alpha);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return list;
}

const Regime& ClosedForm::at(double memory) const {
  TW_ASSERT(!regimes.empty());
  for (const Regime& r : regimes)
    if (r.to == 0 || memory < r.to) return r;
  return regimes.back();
}

Formula resident_part(const Formula& footprint, const std::set<std::string>& streams,
                      const std::vector<TileSize>& tiles) {
  const Formula kept = footprint.without(streams);
  double most = 0;
  auto degree = [&](const Product& p) {
    double sum = 0;
    for (const TileSize& t : tiles) sum += p.power_of(t.symbol);
    return sum;
  };
  for (const Product& p : kept.products()) most = std::max(most, degree(p));
  Formula out;
  for (const Product& p : kept.products())
    if (degree(p) > most - 1e-9) out = out + Formula::of(p);
  return out;
}

Or<ClosedForm> closed_form(const Formula& moved, const Formula& resident, std::vector<TileSize> tiles,
                           const Point& axes) {
  if (resident.is_zero()) return Refused{"nothing is resident: every operand is streamed"};
  std::erase_if(tiles, [](const TileSize& t) { return t.extent <= 1; });
  Formula positive;
  for (const Product& p : moved.products()) {
    const bool tiled =
        std::any_of(tiles.begin(), tiles.end(), [&](const TileSize& t) { return p.powers.count(t.symbol) > 0; });
    if (p.factor > 0 || !tiled) positive = positive + Formula::of(p);
  }
  Solver s{united(tiles, positive, resident), axes, positive, resident};
  // The tiles of one variable are written as its first; the others are taken into it.
  for (const Variable& v : s.active)
    for (std::size_t i = 1; i < v.tiles.size(); ++i)
      s.moved = s.moved.with(v.tiles[i].symbol, 1), s.resident = s.resident.with(v.tiles[i].symbol, 1);
  return s.run();
}

} // namespace tilewright
