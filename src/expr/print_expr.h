// Indices and scalar bodies as text. Names of sizes come from a HeaderNames where a whole program is printed; without one a
// size is written out, which is for people only.
#pragma once
#include <string>
#include <vector>

#include "expr/print_names.h"
#include "expr/program.h"

namespace tilewright {

// The axes of a statement as its text names them: those of the left side in order, then the reduced ones.
std::vector<AxisId> order_of(const Statement&);

class ExprPrinter {
 public:
  // order: the axes as a reader of the text meets them, which is how terms of an index are sorted; empty: by id.
  ExprPrinter(const Program& p, std::vector<std::string> axes, HeaderNames* names, const std::vector<AxisId>& order = {});

  std::string index(const Index&) const;
  std::string access(const Access&) const;
  std::string scalar(const ScalarRef&) const;
  std::string indices(const std::vector<Index>&) const;      // "n h w c", or "n, 2*y + i - 1"

 private:
  // A literal takes the type of the other operand, so it is written without its type where that is the one it has.
  struct Context {
    int precedence = 0;
    const DType* sibling = nullptr;                          // compute type of an operand that is not a literal
    bool converts = false;                                   // and a narrower type beside it is cast without saying so
  };
  const Program& p_;
  std::vector<std::string> axes_;
  HeaderNames* names_;
  std::vector<std::size_t> rank_;                            // of each axis in `order`
  mutable int nodes_ = 0;                                    // printed so far
  mutable bool explicit_sizes_ = false;                      // inside a condition on sizes alone: size(n), not n

  std::string axis(AxisId) const;
  std::string size_in_index(const Size&) const;
  std::string term(const Index::Term&) const;
  std::string linear(const Index&) const;
  std::string node(const Scalar&, Context) const;
  Context beside(const Scalar& other, DType& type, int precedence) const;
  std::string constant(const Scalar&, Context) const;
  std::string size_leaf(const Scalar&) const;
  std::string operation(const Scalar&, Context) const;
  std::string binary(const Scalar&, Context, std::string_view op, int precedence) const;
  std::string call(std::string_view name, const Scalar&) const;
};

}  // namespace tilewright
