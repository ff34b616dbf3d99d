#include "model/levels.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace tilewright {

double moved_at(const ClosedForm& form, const Point& axes, double memory) {
  Point point = axes;
  point["M"] = memory;
  return form.at(memory).moved.at(point);
}

std::vector<LevelCost> over_levels(const ClosedForm& form, const Point& axes, const std::vector<Storage>& levels) {
  std::vector<LevelCost> out;
  for (const Storage& l : levels) {
    const double moved = moved_at(form, axes, l.memory);
    out.push_back({l.name, moved, moved * l.weight});
  }
  return out;
}

double speedup_of_halving(double beta) { return std::pow(2, 1 + beta); }

double exchange_saving(const ClosedForm& form, const Point& axes, double child_memory, int children, double parent,
                       double exchange) {
  const double alone = moved_at(form, axes, child_memory);
  const double together = moved_at(form, axes, child_memory * children);
  return (1 / parent - 1 / exchange) * (alone - together);
}

ClusterChoice best_cluster(const ClosedForm& form, const Point& axes, double child_memory, double parent,
                           const std::vector<Exchange>& sizes) {
  ClusterChoice best;
  for (const Exchange& e : sizes) {
    const double saving = exchange_saving(form, axes, child_memory, e.children, parent, e.rate);
    if (saving > best.saving * (1 + 1e-9)) best = {e.children, saving};
  }
  return best;
}

namespace {

// Where a falling function reaches a number between low and high, on a logarithmic scale.
std::optional<double> reaches(const std::function<double(double)>& f, double target, double low, double high) {
  if (f(high) > target) return std::nullopt;
  if (f(low) <= target) return low;
  for (int i = 0; i < 200; ++i) {
    const double middle = std::sqrt(low * high);
    (f(middle) > target ? low : high) = middle;
  }
  return high;
}

Threshold threshold(const Formula::Product& term, double rho, const Point& axes) {
  Threshold t;
  t.term = Formula::of(term);
  const double beta = -term.power_of("M");
  if (beta > 0) {
    Formula::Product alpha = term;
    alpha.powers.erase("M");
    t.memory = std::pow(alpha.at(axes) / rho, 1 / beta);
    return t;
  }
  for (const auto& [symbol, n] : term.powers)
    if (n < 0) t.axes[symbol] = axes.at(symbol) * std::pow(term.at(axes) / rho, -1 / n);
  return t;
}

} // namespace

Roofline roofline(const ClosedForm& form, const Formula& operations, const Point& axes, double memory,
                  double units_per_second, double operations_per_second) {
  Roofline out;
  out.rho = units_per_second / operations_per_second;
  const double k = operations.at(axes), h = moved_at(form, axes, memory);
  out.ratio = h / k, out.transfers = out.ratio > out.rho;
  out.seconds_moving = h / units_per_second, out.seconds_computing = k / operations_per_second;
  out.memory = reaches([&](double m) { return moved_at(form, axes, m) / k; }, out.rho, form.regimes.front().from, 1e18);
  if (operations.products().size() == 1) {
    const Formula ratio = form.regimes.front().moved / operations;
    for (const Formula::Product& term : ratio.products()) out.terms.push_back(threshold(term, out.rho, axes));
  }
  // How the ratio goes with each axis alone, in the regime of this memory.
  const Formula here = form.at(memory).moved;
  for (const auto& [axis, extent] : axes) {
    if (!operations.mentions(axis)) continue;
    auto at = [&, name = axis](double n) {
      Point point = axes;
      point["M"] = memory, point[name] = n;
      return here.at(point) / operations.at(point);
    };
    const double one = at(1), many = at(1e15);
    if (one > out.rho && many < out.rho) out.flips[axis] = *reaches(at, out.rho, 1, 1e15);
    if (one < out.rho && many > out.rho)
      out.flips[axis] = *reaches([&](double n) { return -at(n); }, -out.rho, 1, 1e15);
  }
  return out;
}

std::vector<Storage> storages(const Machine& m, double width, Weight weight, bool forwarding) {
  std::vector<Storage> out;
  const auto scratch = find(m, LevelRole::scratch);
  if (!scratch) return out;
  const auto path = path_to(m, *scratch);
  // A level takes in what the level above it sends; a cluster is passed by where blocks stand alone.
  LevelId above = path.front();
  for (LevelId l : path) {
    const Level& level = m.levels[static_cast<std::size_t>(l)];
    if (l == path.front() || level.role == LevelRole::cluster) continue;
    const Level& from = m.levels[static_cast<std::size_t>(above)];
    const double bytes = level.role == LevelRole::scratch && m.core.block_scratch > 0
                             ? static_cast<double>(m.core.block_scratch)
                             : static_cast<double>(level.usable > 0 ? level.usable : level.capacity);
    out.push_back({level.name, bytes / width,
                   width * (weight == Weight::seconds ? 1 / bytes_per_second(m, above) : from.energy)});
    above = l;
  }
  for (std::size_t i = 0; forwarding && i + 1 < out.size(); ++i)
    out[i].memory = out.back().memory * m.levels[static_cast<std::size_t>(*scratch)].count;
  return out;
}

} // namespace tilewright
