// Derivations as pictures: time runs to the right, a band for each value that is alive, its axes as wires.
//
//   above      what happens in a column: load (teal), a statement (white), save (magenta); loops and grids as frames
//   around columns between    values: black where they lie in memory, orange in scratch, green in registers; an axis
//   that is cut carries the name of
//              its piece where it begins (g_q, s_x), one that is tiled an overline
//   beneath    the cost table: what the column moves (H) and what is held behind it (M), in values
//
// Every file shows a move: the picture before, and the picture after, which are equal programs.
#pragma once
#include "report/derivation.h"
#include "report/drawing.h"

namespace tilewright {

Drawing picture(const Move&);
struct DrawnFile {
  std::string name;
  Drawing drawing;
  std::string title;
};
// "1-start.svg", ..., and "pipeline-O.svg" for each kernel with a pipeline.
std::vector<DrawnFile> diagrams(const DerivationReport&);

} // namespace tilewright
