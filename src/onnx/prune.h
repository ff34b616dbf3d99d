// Drops what no output needs, and gives known tensors their final form.
//
//   weights a, b (unused)   S = Shape(x): 2 pieces   V = S * 2: known to be [2*n, 6], read by Y   ->   V: 2 pieces, Y
//
// A constant that was computed at import becomes a weight. A few elements that are sizes become pieces that write them;
// the statements that computed them go where nothing else reads them. Inputs stay, read or not. Ids are renumbered.
#pragma once
#include "onnx/known.h"

namespace tilewright::onnx {

Program prune(Program, const KnownTensors&);

} // namespace tilewright::onnx
