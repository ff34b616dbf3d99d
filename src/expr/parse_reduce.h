// The words before the brackets of a reduction: plain reducers, and definitions that expand to several statements.
//
//   P[h q x] = softmax[x] S[h q x]      ->   'P.max'[h q] = max[x] S[h q x]   ...   P[h q x] = ... / ...
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "expr/lexer.h"
#include "expr/program.h"

namespace tilewright {

struct Definition {
  enum Kind { map, reducer, expanded } kind = map;
  Reducer reducer_of = Reducer::none;
  std::string name;
  bool keeps_axes = false;             // softmax and norms: the axes stay in the result
};

Definition definition_named(std::string_view op);
bool takes_keyword(const Definition&, std::string_view keyword);

// Adds the statements that a definition stands for before the last, which it turns `s` into. `axes`: what it runs over.
void expand(Program&, Statement& s, const Definition&, const std::vector<AxisId>& axes,
            const std::vector<std::pair<Token, double>>& keywords);

}  // namespace tilewright
