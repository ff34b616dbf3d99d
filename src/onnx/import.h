// ONNX model -> tensor program.
//
//   Conv, BatchNormalization, Relu   ->   a sum over (c i j), a map with four reads, a map max(y, 0)
//   Shape -> Gather -> Mul -> Reshape  ->   one map statement whose access divides and takes remainders; sizes are
//   symbols
//
// Names: a tensor has the name of its ONNX value; a free dimension is a size with the name of its `dim_param`, or
// `INPUT.AXIS` where it has none. Operators expand to statements, so that later passes know no operator; each
// statement's place is its node. Everything that is not supported is told at once, in one Error(unsupported), with node
// names and the operator set.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/program.h"
#include "onnx/model.h"

namespace tilewright::onnx {

class Context;

struct ImportOptions {
  Binding sizes;                          // free dimensions to fix, by name; one that the model lacks is Error(option)
  std::map<std::string, Array> constants; // inputs whose values are known now: they become weights and leave the inputs
};

Program import_onnx(const Model&, const ImportOptions& = {});

// A row of the operator table: this function converts nodes of this type, from one operator-set version on.
struct Operator {
  std::string_view domain; // "" is ai.onnx
  std::string_view type;
  int since = 7; // the version of the domain from which `convert` holds ...
  int until = 0; // ... and the last one; 0: the newest known
  void (*convert)(Context&) = nullptr;
  std::string_view dtypes = "all"; // of its inputs T: words as in docs/onnx_operators.md; after a ";" for people only
  std::string_view notes = {};     // what is refused, or done as an opaque operation
  // A word an input, the last one for all that follow where it ends in `*`. A capital letter: inputs of one letter have
  // one dtype, after a `:` follows which. Else which dtypes are taken: any, number, float, index (i32, i64), or one.
  std::string_view inputs = "T*";
};

constexpr int oldest_opset = 7, newest_opset = 28;
const std::vector<Operator>& operators(); // every row, sorted by domain, type, since
const Operator* find_operator(std::string_view domain, std::string_view type, int opset);
// Throws where the operator does not take these dtypes (of the inputs, nothing where one is left out):
// Error(unsupported) for a dtype that is not claimed, Error(type) where the inputs do not go together.
void check_dtypes(const Operator&, const std::vector<std::optional<DType>>& inputs);
std::string reason_not_supported(std::string_view type);
std::string operator_table(); // docs/onnx_operators.md

} // namespace tilewright::onnx
