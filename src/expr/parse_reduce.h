// The words before the brackets of a reduction: plain reducers, and definitions that stand for several statements.
//
//   P[q x] = softmax[x] S[q x]  ->  P_max[q] = max[x] S[q x]
//                                   P_exp[q x] = exp(S[q x] - P_max[q])
//                                   P_sum[q] = sum[x] P_exp[q x]
//                                   P[q x] = P_exp[q x] / P_sum[q]
//
// What lies between is computed and stored in the compute type. Points that fail `where` are left out: softmax and the norms
// give 0 there, log_softmax -inf; the mean of none is 0.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "expr/lexer.h"
#include "expr/program.h"
#include "expr/scalar.h"

namespace tilewright {

struct Definition {
  enum Kind { map, reducer, expanded } kind = map;
  Reducer reducer_of = Reducer::none;
  std::string name;
  bool keeps_axes = false;             // softmax and norms: the axes stay in the result
};

Definition definition_named(std::string_view op);
bool takes_keyword(const Definition&, std::string_view keyword);

// `s` is the statement as written: its body and guard, and the axes that the definition runs over. The statements before the
// last are added to the program; `s` becomes the last.
void expand(Builder&, Statement& s, const Definition&, const std::vector<AxisId>& over,
            const std::vector<std::pair<Token, double>>& keywords);

}  // namespace tilewright
