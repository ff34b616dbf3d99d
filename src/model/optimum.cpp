#include "model/optimum.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/size.h"

namespace tilewright {

namespace {

using Vector = std::vector<double>;

// log of a sum of products as a function of the logarithms of the sizes, with its first and second derivatives.
struct LogSum {
  std::vector<double> factor; // logarithms
  std::vector<Vector> powers; // [product][size]

  LogSum(const Formula& f, const std::vector<TileSize>& tiles, const Point& axes) {
    const Formula numbers = f.with(axes);
    for (const Formula::Product& p : numbers.products()) {
      if (p.factor <= 0) continue;
      factor.push_back(std::log(p.factor));
      Vector row;
      for (const TileSize& t : tiles) row.push_back(p.power_of(t.symbol));
      powers.push_back(row);
    }
  }
  double at(const Vector& y, Vector* gradient = nullptr, std::vector<Vector>* second = nullptr) const {
    const std::size_t n = y.size();
    std::vector<double> each;
    double most = -INFINITY;
    for (std::size_t t = 0; t < factor.size(); ++t) {
      double v = factor[t];
      for (std::size_t i = 0; i < n; ++i) v += powers[t][i] * y[i];
      each.push_back(v), most = std::max(most, v);
    }
    if (each.empty()) return -INFINITY;
    double sum = 0;
    for (double& v : each) v = std::exp(v - most), sum += v;
    if (gradient) {
      gradient->assign(n, 0);
      for (std::size_t t = 0; t < each.size(); ++t)
        for (std::size_t i = 0; i < n; ++i) (*gradient)[i] += each[t] / sum * powers[t][i];
    }
    if (second) {
      second->assign(n, Vector(n, 0));
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          for (std::size_t t = 0; t < each.size(); ++t) (*second)[i][j] += each[t] / sum * powers[t][i] * powers[t][j];
          (*second)[i][j] -= (*gradient)[i] * (*gradient)[j];
        }
    }
    return most + std::log(sum);
  }
};

Vector solved(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t best = c;
    for (std::size_t r = c; r < n; ++r)
      if (std::abs(a[r][c]) > std::abs(a[best][c])) best = r;
    std::swap(a[c], a[best]), std::swap(b[c], b[best]);
    for (std::size_t r = c + 1; r < n; ++r) {
      const double f = a[r][c] / a[c][c];
      for (std::size_t k = c; k < n; ++k) a[r][k] -= f * a[c][k];
      b[r] -= f * b[c];
    }
  }
  for (std::size_t c = n; c-- > 0;) {
    for (std::size_t k = c + 1; k < n; ++k) b[c] -= a[c][k] * b[k];
    b[c] /= a[c][c];
  }
  return b;
}

struct Barrier {
  const LogSum& moved;
  const LogSum& footprint;
  double room; // log of the memory
  Vector high; // logs of the axes

  double value(const Vector& y, double t) const {
    const double slack = room - footprint.at(y);
    if (!(slack > 0)) return INFINITY;
    double v = t * moved.at(y) - std::log(slack);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (y[i] <= 0 || y[i] >= high[i]) return INFINITY;
      v -= std::log(y[i]) + std::log(high[i] - y[i]);
    }
    return v;
  }

  // One step of Newton's method from y, shortened until the value falls; false at the optimum.
  bool step(Vector& y, double t) const {
    const std::size_t n = y.size();
    Vector g, c;
    std::vector<Vector> h, ch;
    moved.at(y, &g, &h);
    const double slack = room - footprint.at(y, &c, &ch);
    for (std::size_t i = 0; i < n; ++i) {
      g[i] = t * g[i] + c[i] / slack - 1 / y[i] + 1 / (high[i] - y[i]);
      for (std::size_t j = 0; j < n; ++j) h[i][j] = t * h[i][j] + ch[i][j] / slack + c[i] * c[j] / (slack * slack);
      h[i][i] += 1 / (y[i] * y[i]) + 1 / ((high[i] - y[i]) * (high[i] - y[i])) + 1e-12;
    }
    Vector down;
    for (double v : g) down.push_back(-v);
    down = solved(h, down);
    double slope = 0;
    for (std::size_t i = 0; i < n; ++i) slope += g[i] * down[i];
    if (slope > -1e-12) return false;
    const double before = value(y, t);
    for (double length = 1; length > 1e-12; length /= 2) {
      Vector next = y;
      for (std::size_t i = 0; i < n; ++i) next[i] += length * down[i];
      if (value(next, t) < before + 0.1 * length * slope) {
        y = next;
        return true;
      }
    }
    return false;
  }
};

} // namespace

Or<Smooth> geometric_program(const Formula& moved, const Formula& footprint, double memory,
                             const std::vector<TileSize>& all, const Point& axes) {
  std::vector<TileSize> tiles;
  Smooth out;
  Point fixed = axes;
  for (const TileSize& t : all) {
    if (t.extent <= 1)
      out.sizes[t.symbol] = fixed[t.symbol] = 1;
    else
      tiles.push_back(t);
  }
  const LogSum h(moved, tiles, fixed), m(footprint, tiles, fixed);
  const double room = std::log(memory);
  Vector y(tiles.size(), 0), high;
  for (const TileSize& t : tiles) high.push_back(std::log(t.extent));
  if (m.at(y) > room)
    return Refused{"tiles of 1 hold " + number_text(std::exp(m.at(y))) + ", more than " + number_text(memory)};
  // Strictly inside: a little above 1, less where the memory is tight.
  for (double inset = 0.01; inset > 1e-9; inset /= 4) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = inset * high[i];
    if (m.at(y) < room) break;
  }
  const Barrier barrier{h, m, room, high};
  if (!tiles.empty() && std::isfinite(barrier.value(y, 1)))
    for (double t = 1; t < 1e10; t *= 8)
      for (int i = 0; i < 60 && barrier.step(y, t); ++i) {
      }
  for (std::size_t i = 0; i < tiles.size(); ++i) out.sizes[tiles[i].symbol] = std::exp(y[i]);
  Point all_sizes = fixed;
  for (const auto& [symbol, size] : out.sizes) all_sizes[symbol] = size;
  out.moved = moved.at(all_sizes);
  return out;
}

namespace {

struct Search {
  const Lattice& l;
  std::vector<std::vector<std::int64_t>> candidates{};
  Whole best{};
  bool found = false;

  void list() {
    for (const Lattice::Axis& a : l.axes) {
      std::set<std::int64_t> sizes;
      const std::int64_t most = ceil_div_i64(a.extent, a.granule);
      for (std::int64_t n = 1; n <= most;) {
        const std::int64_t granules = ceil_div_i64(most, n);
        sizes.insert(std::min(a.extent, granules * a.granule));
        // The next number of tiles that needs a smaller size.
        n = granules == 1 ? most + 1 : ceil_div_i64(most, granules - 1);
      }
      candidates.emplace_back(sizes.rbegin(), sizes.rend());
    }
  }

  void consider(const std::vector<std::int64_t>& sizes, double footprint) {
    const double moved = l.moved(sizes);
    ++best.tried;
    const bool better =
        !found || moved < best.moved * (1 - 1e-12) || (moved <= best.moved * (1 + 1e-12) && footprint < best.footprint);
    if (better) best.sizes = sizes, best.moved = moved, best.footprint = footprint, found = true;
  }

  // Of the last axis only the largest size that fits: what is moved falls with every size.
  void go(std::vector<std::int64_t>& sizes, std::size_t at) {
    for (std::int64_t size : candidates[at]) {
      sizes[at] = size;
      for (std::size_t i = at + 1; i < sizes.size(); ++i) sizes[i] = candidates[i].back();
      const double footprint = l.footprint(sizes);
      if (footprint > l.memory) continue;
      if (at + 1 < sizes.size())
        go(sizes, at + 1);
      else {
        consider(sizes, footprint);
        return;
      }
    }
  }
};

} // namespace

Or<Whole> best_on_lattice(const Lattice& l) {
  Search s{l};
  s.list();
  std::vector<std::int64_t> sizes(l.axes.size(), 1);
  if (sizes.empty()) {
    if (l.footprint(sizes) > l.memory) return Refused{"what stays whole does not fit"};
    s.consider(sizes, l.footprint(sizes));
    return s.best;
  }
  s.go(sizes, 0);
  if (s.found) return s.best;
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = s.candidates[i].back();
  return Refused{"the smallest tiles hold " + number_text(l.footprint(sizes)) + ", more than " + number_text(l.memory)};
}

double fitted_beta(const std::function<double(double)>& moved, double low, double high, int points) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int i = 0; i < points; ++i) {
    const double memory = low * std::pow(high / low, static_cast<double>(i) / (points - 1));
    const double x = std::log(memory), y = std::log(moved(memory));
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return -(points * sxy - sx * sy) / (points * sxx - sx * sx);
}

} // namespace tilewright
