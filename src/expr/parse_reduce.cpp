#include "expr/parse_reduce.h"

#include <array>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

Definition definition_named(std::string_view op) {
  for (int r = 1; r <= static_cast<int>(Reducer::argmin); ++r)
    if (name_of(static_cast<Reducer>(r)) == op)
      return {Definition::reducer, static_cast<Reducer>(r), std::string(op), false};
  return {Definition::expanded, Reducer::none, std::string(op), op != "mean" && op != "logsumexp"};
}

bool takes_keyword(const Definition& d, std::string_view keyword) {
  return keyword == "eps" && (d.name == "layernorm" || d.name == "rmsnorm" || d.name == "l2norm");
}

void expand(Program& p, Statement& s, const Definition& d, const std::vector<AxisId>&,
            const std::vector<std::pair<Token, double>>&) {
  throw Error(Code::unsupported, p.tensor(s.out).name, d.name + " is not expanded yet");
}

} // namespace tilewright
