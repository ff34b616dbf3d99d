#include "model/pipeline.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

namespace {

struct Scheduler {
  const std::vector<Phase>& turn;
  int lanes, early, turns;
  std::vector<double> free_at{};                       // of a pipe
  std::vector<std::vector<std::vector<double>>> end{}; // [lane][turn][phase]; < 0: not yet

  double ready(int lane, int t, int phase) const {
    const auto& mine = end[static_cast<std::size_t>(lane)];
    double at = 0;
    auto after = [&](int turn_of, int p) {
      const double e = mine[static_cast<std::size_t>(turn_of)][static_cast<std::size_t>(p)];
      at = e < 0 ? INFINITY : std::max(at, e);
    };
    if (phase > 0) after(t, phase - 1);
    if (t > 0) after(t - 1, phase);
    const int oldest = t - early - 1; // must be over
    if (oldest >= 0) after(oldest, static_cast<int>(turn.size()) - 1);
    return at;
  }

  Timeline run() {
    int pipes = 0;
    for (const Phase& p : turn) pipes = std::max(pipes, p.pipe + 1);
    free_at.assign(static_cast<std::size_t>(pipes), 0);
    end.assign(static_cast<std::size_t>(lanes),
               std::vector<std::vector<double>>(static_cast<std::size_t>(turns), std::vector<double>(turn.size(), -1)));
    Timeline out;
    const int all = lanes * turns * static_cast<int>(turn.size());
    for (int n = 0; n < all; ++n) {
      Slot best;
      best.start = INFINITY;
      for (int lane = 0; lane < lanes; ++lane)
        for (int t = 0; t < turns; ++t) {
          const auto& mine = end[static_cast<std::size_t>(lane)][static_cast<std::size_t>(t)];
          const auto next =
              static_cast<int>(std::find_if(mine.begin(), mine.end(), [](double e) { return e < 0; }) - mine.begin());
          if (next == static_cast<int>(turn.size())) continue;
          const Phase& phase = turn[static_cast<std::size_t>(next)];
          const double start = std::max(ready(lane, t, next), free_at[static_cast<std::size_t>(phase.pipe)]);
          // The earliest; of those that could start together the older turn, and in it the later phase.
          const bool earlier = start < best.start - 1e-9;
          const bool together = !earlier && start < best.start + 1e-9;
          if (earlier || (together && (t < best.turn || (t == best.turn && next > best.phase))))
            best = {lane, t, next, start, start + phase.length};
          if (next == 0 && t > 0 && !std::isfinite(start)) break; // later turns of this lane wait too
        }
      free_at[static_cast<std::size_t>(turn[static_cast<std::size_t>(best.phase)].pipe)] = best.end;
      end[static_cast<std::size_t>(best.lane)][static_cast<std::size_t>(best.turn)]
         [static_cast<std::size_t>(best.phase)] = best.end;
      out.slots.push_back(best);
    }
    // The middle half of the turns.
    const int from = turns / 4, to = 3 * turns / 4;
    double first = 0, last = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      first = std::max(first, end[static_cast<std::size_t>(lane)][static_cast<std::size_t>(from)].back());
      last = std::max(last, end[static_cast<std::size_t>(lane)][static_cast<std::size_t>(to)].back());
    }
    out.interval = (last - first) / (to - from);
    out.busy.assign(static_cast<std::size_t>(pipes), 0);
    for (const Phase& p : turn) out.busy[static_cast<std::size_t>(p.pipe)] += p.length * lanes / out.interval;
    return out;
  }
};

} // namespace

Timeline pipelined(const std::vector<Phase>& turn, int lanes, int early, int turns) {
  return Scheduler{turn, lanes, early, turns}.run();
}

double between_lanes(double t1, double t2, double s) { return std::max(t1 + t2, s); }
double inside_a_lane(double t1, double t2, double s) { return std::max(t1, s) + t2; }

std::vector<Phase> phases_of(const Budget& b, std::vector<std::string>* pipes) {
  std::vector<std::string> names;
  auto pipe_of = [&](const std::string& name) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end()) return static_cast<int>(it - names.begin());
    names.push_back(name);
    return static_cast<int>(names.size()) - 1;
  };
  std::vector<Phase> out;
  // Between two contractions the pipes of row work run side by side: the slowest decides.
  std::map<UnitKind, double> rows;
  auto flush = [&] {
    auto slowest = rows.end();
    for (auto it = rows.begin(); it != rows.end(); ++it)
      if (slowest == rows.end() || it->second > slowest->second) slowest = it;
    if (slowest != rows.end() && slowest->second > 0) {
      out.push_back({"rows", pipe_of(std::string(name_of(slowest->first))), slowest->second});
    }
    rows.clear();
  };
  for (const Clock& line : b.lines) {
    if (line.pipe != UnitKind::tensor) {
      rows[line.pipe] += line.clocks;
      continue;
    }
    flush();
    out.push_back({line.what, pipe_of("tensor"), line.clocks});
  }
  flush();
  if (pipes) *pipes = names;
  return out;
}

} // namespace tilewright
