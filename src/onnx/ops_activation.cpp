// Activation functions: maps. Those that the text language has too are its definitions (expr/define.h).
#include <fmt/format.h>

#include "expr/define.h"
#include "onnx/elementwise.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

using Args = const std::vector<ScalarRef>&;

ScalarRef operator+(ScalarRef a, ScalarRef b) { return binary(Op::add, std::move(a), std::move(b)); }
ScalarRef operator-(ScalarRef a, ScalarRef b) { return binary(Op::sub, std::move(a), std::move(b)); }
ScalarRef operator*(ScalarRef a, ScalarRef b) { return binary(Op::mul, std::move(a), std::move(b)); }

// A definition of expr/define.h under the name of an operator; its parameters are the attributes of their names, with
// defaults that an attribute could hold.
void convert_named(Context& c, std::string_view name) {
  const define::Function* f = define::function_named(name);
  std::vector<double> parameters;
  for (const define::Parameter& p : f->parameters)
    parameters.push_back(c.real_attr(p.name, static_cast<double>(static_cast<float>(p.value))));
  elementwise(c, 1, [&](Args a) { return f->build(a[0], parameters.data()); });
}

void convert_prelu(Context& c) {
  DType d = c.dtype(c.input(0));
  if (broadcast(c, c.dims(c.input(0)), c.dims(c.input(1))) != c.dims(c.input(0))) {
    c.fail(Code::shape,
           fmt::format("slope {} does not broadcast to {}", text_of(c.dims(c.input(1))), text_of(c.dims(c.input(0)))));
  }
  elementwise(c, 2, [&](Args a) { return select(binary(Op::lt, a[0], zero_of(d)), a[0] * a[1], a[0]); });
}

void convert_gelu(Context& c) {
  std::string approximate = c.text_attr("approximate", "none");
  if (approximate != "none" && approximate != "tanh") c.fail(Code::model, fmt::format("approximate '{}'", approximate));
  convert_named(c, approximate == "none" ? "gelu" : "gelu_tanh");
}

void convert_swiglu(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  if (c.dims(c.input(0)) != c.dims(c.input(1))) {
    c.fail(Code::shape, fmt::format("gate {} and value {}", text_of(c.dims(c.input(0))), text_of(c.dims(c.input(1)))));
  }
  elementwise(c, 2, [&](Args a) { return define::silu(a[0], alpha) * a[1]; });
}

void convert_thresholded_relu(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  elementwise(c, 1, [&](Args a) { return select(binary(Op::gt, a[0], number(alpha)), a[0], number(0)); });
}

void convert_shrink(Context& c) {
  double bias = c.real_attr("bias", 0.0), lambd = c.real_attr("lambd", 0.5);
  DType d = c.dtype(c.input(0));
  elementwise(c, 1, [&](Args a) {
    ScalarRef x = is_float(d) ? a[0] : cast(a[0], DType::f32);
    ScalarRef high = select(binary(Op::gt, x, number(lambd)), x - number(bias), number(0));
    ScalarRef y = select(binary(Op::lt, x, number(-lambd)), x + number(bias), high);
    return is_float(d) ? y : cast(y, d);
  });
}

} // namespace

std::vector<Operator> activation_operators() {
  return {
      {"", "Celu", 12, 0, [](Context& c) { convert_named(c, "celu"); }, "float"},
      {"", "Elu", 7, 0, [](Context& c) { convert_named(c, "elu"); }, "float"},
      {"", "Gelu", 20, 0, convert_gelu, "float"},
      {"", "HardSigmoid", 7, 0, [](Context& c) { convert_named(c, "hard_sigmoid"); }, "float"},
      {"", "HardSwish", 14, 0, [](Context& c) { convert_named(c, "hard_swish"); }, "float"},
      {"", "LeakyRelu", 7, 0, [](Context& c) { convert_named(c, "leaky_relu"); }, "float"},
      {"", "Mish", 18, 0, [](Context& c) { convert_named(c, "mish"); }, "float"},
      {"", "PRelu", 7, 0, convert_prelu, "float, i32, i64"},
      {"", "Relu", 7, 0, [](Context& c) { convert_named(c, "relu"); }, "float, i8, i32, i64"},
      {"", "Selu", 7, 0, [](Context& c) { convert_named(c, "selu"); }, "float"},
      {"", "Shrink", 9, 0, convert_shrink, "float, int"},
      {"", "Sigmoid", 7, 0, [](Context& c) { convert_named(c, "sigmoid"); }, "float"},
      {"", "Softplus", 7, 0, [](Context& c) { convert_named(c, "softplus"); }, "float"},
      {"", "Softsign", 7, 0, [](Context& c) { convert_named(c, "softsign"); }, "float"},
      {"", "SwiGLU", 28, 0, convert_swiglu, "float"},
      {"", "Swish", 24, 0, [](Context& c) { convert_named(c, "silu"); }, "float"},
      {"", "ThresholdedRelu", 10, 0, convert_thresholded_relu, "float"},
  };
}

} // namespace tilewright::onnx
