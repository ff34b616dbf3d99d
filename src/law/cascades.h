// Cascades: reductions that read each other's results over the same elements, with the maps between them, what makes their elements
// without being made again, and what is left to do with their results. Each is one stream, and a candidate for one kernel.
//
//   S = sum[d] Q*K;  m = max[x] S;  E = exp(S - m);  Z = sum[x] E;  O_1 = sum[x] E*V;  O = O_1 / Z        all of them, along x
//
// K is not made in it: a kernel that has tiles of queries would make it again in each.
#pragma once
#include "law/stream.h"

namespace tilewright {

struct Cascade {
  std::vector<StatementId> statements;      // ascending; of the program
  Region region;
  RegionAxis axis = -1;
  bool running = false;                     // some sum follows an extreme
};
// Along what a region has to be a stream, if it can be one; by its signature, as layers repeat.
struct StreamedAlong { RegionAxis axis = -1; bool running = false; };
using KnownStreams = std::map<std::string, StreamedAlong>;
// Of a program in the forms of stream_forms.h: those that a stream can be derived for. What was found before, perhaps of another
// program, is not derived again.
std::vector<Cascade> cascades(const Program&, KnownStreams* known = nullptr);

}  // namespace tilewright
