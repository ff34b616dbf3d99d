// The order of a turn's statements: a map waits for the reduction that reads it, where nothing between needs it or changes what it
// reads, so that one pass makes both.
//
//   map E = exp(S - m);  map scale;  map Z = Z * scale;  reduce Z of E     ->     map scale;  map Z;  map E;  reduce Z
#pragma once
#include "loop/nest.h"

namespace tilewright::cpu {

Block brought_together(Block);

}  // namespace tilewright::cpu
