// Indices and scalar bodies as text. Names of sizes come from a HeaderNames where a whole program is printed; without one a
// size is written out, which is for people only.
#pragma once
#include <string>
#include <vector>

#include "expr/print_names.h"
#include "expr/program.h"

namespace tilewright {

class ExprPrinter {
 public:
  ExprPrinter(const Program& p, std::vector<std::string> axes, HeaderNames* names) : p_(p), axes_(std::move(axes)), names_(names) {}

  std::string index(const Index&) const;
  std::string access(const Access&) const;
  std::string scalar(const ScalarRef&) const;
  std::string indices(const std::vector<Index>&) const;      // "n h w c", or "n, 2*y + i - 1"

 private:
  // A literal takes the type of the other operand, so it is written without its type where that is the one it has.
  struct Context {
    int precedence = 0;
    const DType* sibling = nullptr;                          // compute type of an operand that is not a literal
  };
  const Program& p_;
  std::vector<std::string> axes_;
  HeaderNames* names_;

  std::string axis(AxisId) const;
  std::string size_in_index(const Size&) const;
  std::string term(const Index::Term&) const;
  std::string linear(const Index&) const;
  std::string node(const Scalar&, Context) const;
  std::string constant(const Scalar&, Context) const;
  std::string size_leaf(const Scalar&) const;
  std::string operation(const Scalar&, Context) const;
  std::string binary(const Scalar&, Context, std::string_view op, int precedence) const;
  std::string call(std::string_view name, const Scalar&) const;
};

}  // namespace tilewright
