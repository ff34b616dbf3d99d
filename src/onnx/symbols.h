// The free dimensions of a model's inputs, as sizes.
//
//   x[batch, 3, ?, "past + 1"]  with --size batch=8   ->   [8, 3, x.2, past + 1], sizes x.2 and past
//
// A `dim_param` is a size of its name, or an expression over such names (+ - * // and brackets), as exporters write
// them; other text is a name as it stands. A dimension without one, or with `?`, is INPUT.AXIS.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "expr/program.h"
#include "onnx/model.h"

namespace tilewright::onnx {

class Symbols {
public:
  Symbols(const Graph&, const Binding& bound);
  std::vector<Size> dims(const ValueInfo&);   // Error(size) for an extent that is negative
  void finish() const;                        // Error(option) where a bound name is none of the model's
  std::vector<SizeDecl> declarations() const; // of the free ones, in order of appearance

private:
  Size symbol(const std::string& name);
  const Binding& bound_;
  std::set<std::string, std::less<>> taken_; // names of inputs and outputs, which keep theirs
  std::set<std::string> seen_;
  std::vector<std::string> free_;
};

} // namespace tilewright::onnx
