// Puts the nodes of a graph into an order in which each one follows what it reads.
//
//   nodes  y = Relu(t), t = Conv(x, w)     ->     t = Conv(x, w), y = Relu(t)
//
// Nodes that are in such an order already stay as they are; else the earliest node in the file that can go next goes
// next. A node reads its inputs, and what its subgraphs take from around them. What makes an order impossible or
// meaningless is an error: Error(cycle) with the nodes of one cycle; Error(model) for names that nothing produces, and
// for names that two produce (an input that is also an initializer is a default, and fine).
#pragma once
#include <string>

#include "onnx/model.h"

namespace tilewright::onnx {

void sort_nodes(Graph&, const std::string& file);

} // namespace tilewright::onnx
