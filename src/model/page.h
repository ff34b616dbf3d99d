// Everything that the models say of one derived kernel on one machine, for reports.
#pragma once
#include "model/derivation.h"
#include "model/levels.h"
#include "model/live.h"
#include "model/pipeline.h"
#include "model/tiles.h"

namespace tilewright {

struct LevelLine {
  std::string name;
  double memory = 0, moved = 0, seconds = 0,
         joules = 0;  // bytes that one of its instances holds; bytes into all of them
  bool smooth = true; // from the closed form; else at the chosen sizes
};

struct KernelPage {
  Part part;
  Flow flow;
  std::vector<std::string> statements;
  Columns columns, late; // operands at the head of their loop; in front of their first reader
  Or<ClosedForm> values, bytes;
  double beta = 0; // of the slowest falling term, 0 without a closed form
  std::optional<Live> live;
  Divisors divisors;
  std::vector<LevelLine> levels;
  double compute_seconds = 0, compute_joules = 0;
  ClusterChoice cluster;           // of blocks that exchange what they load, where that is faster than loading it
  std::optional<Roofline> roofline; // from the innermost cache into scratch; at what a tile may hold
  Setup setup;
  Configuration configuration;
  Budget budget;
  std::vector<Phase> phases;
  std::vector<std::string> pipes;
  Timeline timeline;
  int lanes = 1;
  Or<std::vector<TileChoice>> tiles;
};
KernelPage page_of(const Program&, const Part&, const Machine&);

} // namespace tilewright
