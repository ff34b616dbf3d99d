// The parts of the verifier. Each throws Error; `Sources` lets the parser say where things stand in a file.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "expr/program.h"

namespace tilewright {

struct Sources {
  std::map<const Access*, std::string> accesses;     // "file:line:column" of an access, by address
  std::map<TensorId, std::string> tensors;           // of a declaration
};

void verify(const Program&, const Sources&);

// verify_scalar.cpp: node by node, the dtype that a node must have, and what its arguments may be. Returns the sizes whose
// values the bodies use.
std::vector<std::string> verify_types(const Program&, const Statement&);
// verify_bounds.cpp: every access of the statement that has no `else` stays inside its tensor.
void verify_bounds(const Program&, const Statement&, const Ranges&, const Binding& defaults, const Sources&);
// verify_pieces.cpp: the statements that write a tensor are disjoint and cover it.
void verify_pieces(const Program&, TensorId, const std::vector<const Statement*>& pieces, const Ranges&, const Binding& defaults);

std::string place_of(const Program&, const Statement&);    // "file:line:column", or the name of the node or tensor

}  // namespace tilewright
