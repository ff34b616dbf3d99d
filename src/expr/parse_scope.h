// What an expression sees: the sizes, the tensors and the axes of its statement; and the lowering of trees to indices and
// scalars within it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "expr/parse_ast.h"
#include "expr/program.h"
#include "expr/verify.h"

namespace tilewright {

struct Scope {
  Program& program;
  std::string_view file;
  const std::map<std::string, Size>& sizes;                       // each name of the header in the free sizes
  std::function<TensorId(const std::string& name, Mark)> tensor;  // -1: no such tensor; Error(cycle) if it is written later
  // A piece may read an earlier piece of its own tensor: the access as one of that piece, or none.
  std::function<std::optional<Access>(TensorId, const std::vector<Index>&)> piece;
  std::map<std::string, AxisId> axes = {};                        // empty in a header
  TensorId open = -1;                                             // the tensor that the statement writes
  Sources* sources = nullptr;                                     // notes where accesses stand

  [[noreturn]] void fail(Code, Mark, std::string message, std::string hint = {}) const;
  [[noreturn]] void unknown(const std::string& name, Mark, const std::string& what) const;   // with the nearest known name
};

// A scalar with what the text alone knows of it.
struct Value {
  ScalarRef scalar;
  bool literal = false;                // an untyped number: it takes the type of the other operand
  std::optional<DType> stored;         // promoted type of the tensors that it is made of
};

Size lower_size(const Scope&, const Ast&);            // of a header; bare names are sizes
Index lower_index(const Scope&, const Ast&);          // bare names are axes
Value lower_scalar(const Scope&, const Ast&);         // bare names are extents, or tensors without dims
Access lower_access(const Scope&, const Ast&);

// parse_types.cpp: nodes from typed parts. Unlike the constructors of scalar.h these fold nothing, so that a printed program
// is read back as it was; mixed types get the same casts.
Value make_unary(Op, Value);
Value make_binary(Op, Value, Value);
Value make_select(Value condition, Value, Value);
Value make_cast(Value, DType);
Value make_leaf(Value, DType);                         // i64(2), f64(0.5), i64(index(x)): the leaf in that type, null if it has none
ScalarRef as_type(const Value&, DType compute);
DType default_type(const Value& body, Reducer);

// parse_calls.cpp: functions by name.
Value lower_call(const Scope&, const Ast&);

std::string counted(std::size_t, const std::string& one, const std::string& many);         // "1 dim", "2 dims"
std::string nearest(const std::string& name, const std::vector<std::string>& known);      // or empty

}  // namespace tilewright
