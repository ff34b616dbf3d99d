// Activation functions: maps, written so that no exp overflows where the result is finite.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "onnx/elementwise.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

using Args = const std::vector<ScalarRef>&;

ScalarRef operator+(ScalarRef a, ScalarRef b) { return binary(Op::add, std::move(a), std::move(b)); }
ScalarRef operator-(ScalarRef a, ScalarRef b) { return binary(Op::sub, std::move(a), std::move(b)); }
ScalarRef operator*(ScalarRef a, ScalarRef b) { return binary(Op::mul, std::move(a), std::move(b)); }
ScalarRef operator/(ScalarRef a, ScalarRef b) { return binary(Op::div, std::move(a), std::move(b)); }
ScalarRef larger(ScalarRef a, ScalarRef b) { return binary(Op::max, std::move(a), std::move(b)); }
ScalarRef smaller(ScalarRef a, ScalarRef b) { return binary(Op::min, std::move(a), std::move(b)); }

ScalarRef positive(const ScalarRef& x) { return binary(Op::gt, x, number(0)); }
ScalarRef exp_minus_one(const ScalarRef& x) { return unary(Op::exp, x) - number(1); }
ScalarRef sigmoid(const ScalarRef& x) { return number(1) / (number(1) + unary(Op::exp, unary(Op::neg, x))); }
ScalarRef softplus(const ScalarRef& x) {
  return larger(x, number(0)) + unary(Op::log, number(1) + unary(Op::exp, unary(Op::neg, unary(Op::abs, x))));
}

void convert_relu(Context& c) {
  DType d = c.dtype(c.input(0));
  elementwise(c, 1, [&](Args a) { return larger(a[0], zero_of(d)); });
}

void convert_leaky_relu(Context& c) {
  double alpha = c.real_attr("alpha", 0.01f);
  elementwise(c, 1, [&](Args a) { return select(binary(Op::lt, a[0], number(0)), a[0] * number(alpha), a[0]); });
}

void convert_prelu(Context& c) {
  DType d = c.dtype(c.input(0));
  if (broadcast(c, c.dims(c.input(0)), c.dims(c.input(1))) != c.dims(c.input(0))) {
    c.fail(Code::shape,
           fmt::format("slope {} does not broadcast to {}", text_of(c.dims(c.input(1))), text_of(c.dims(c.input(0)))));
  }
  elementwise(c, 2, [&](Args a) { return select(binary(Op::lt, a[0], zero_of(d)), a[0] * a[1], a[0]); });
}

void convert_elu(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  elementwise(c, 1, [&](Args a) { return select(positive(a[0]), a[0], number(alpha) * exp_minus_one(a[0])); });
}

void convert_selu(Context& c) {
  double alpha = c.real_attr("alpha", 1.67326319217681884765625),
         gamma = c.real_attr("gamma", 1.05070102214813232421875);
  elementwise(
      c, 1, [&](Args a) { return number(gamma) * select(positive(a[0]), a[0], number(alpha) * exp_minus_one(a[0])); });
}

void convert_celu(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  elementwise(c, 1, [&](Args a) {
    return larger(a[0], number(0)) + smaller(number(0), number(alpha) * exp_minus_one(a[0] / number(alpha)));
  });
}

void convert_gelu(Context& c) {
  std::string approximate = c.text_attr("approximate", "none");
  if (approximate != "none" && approximate != "tanh") c.fail(Code::model, fmt::format("approximate '{}'", approximate));
  elementwise(c, 1, [&](Args a) {
    const ScalarRef& x = a[0];
    ScalarRef inner =
        approximate == "none"
            ? unary(Op::erf, x * number(std::numbers::sqrt2 / 2))
            : unary(Op::tanh, number(std::sqrt(2 / std::numbers::pi)) * (x + number(0.044715) * (x * x * x)));
    return number(0.5) * x * (number(1) + inner);
  });
}

void convert_sigmoid(Context& c) {
  elementwise(c, 1, [](Args a) { return sigmoid(a[0]); });
}

ScalarRef hard_sigmoid(const ScalarRef& x, double alpha, double beta) {
  return smaller(larger(x * number(alpha) + number(beta), number(0)), number(1));
}

void convert_hard_sigmoid(Context& c) {
  double alpha = c.real_attr("alpha", 0.2f), beta = c.real_attr("beta", 0.5);
  elementwise(c, 1, [&](Args a) { return hard_sigmoid(a[0], alpha, beta); });
}

void convert_hard_swish(Context& c) {
  elementwise(c, 1, [](Args a) { return a[0] * hard_sigmoid(a[0], 1.0 / 6, 0.5); });
}

void convert_mish(Context& c) {
  elementwise(c, 1, [](Args a) { return a[0] * unary(Op::tanh, softplus(a[0])); });
}

void convert_swish(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  elementwise(c, 1, [&](Args a) { return a[0] * sigmoid(alpha == 1 ? a[0] : number(alpha) * a[0]); });
}

void convert_swiglu(Context& c) {
  double alpha = c.real_attr("alpha", 1.0);
  if (c.dims(c.input(0)) != c.dims(c.input(1))) {
    c.fail(Code::shape, fmt::format("gate {} and value {}", text_of(c.dims(c.input(0))), text_of(c.dims(c.input(1)))));
  }
  elementwise(c, 2, [&](Args a) { return a[0] * sigmoid(alpha == 1 ? a[0] : number(alpha) * a[0]) * a[1]; });
}

void convert_softplus(Context& c) {
  elementwise(c, 1, [](Args a) { return softplus(a[0]); });
}

void convert_softsign(Context& c) {
  elementwise(c, 1, [](Args a) { return a[0] / (number(1) + unary(Op::abs, a[0])); });
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
      {"", "Celu", 12, 0, convert_celu, "float"},
      {"", "Elu", 7, 0, convert_elu, "float"},
      {"", "Gelu", 20, 0, convert_gelu, "float"},
      {"", "HardSigmoid", 7, 0, convert_hard_sigmoid, "float"},
      {"", "HardSwish", 14, 0, convert_hard_swish, "float"},
      {"", "LeakyRelu", 7, 0, convert_leaky_relu, "float"},
      {"", "Mish", 18, 0, convert_mish, "float"},
      {"", "PRelu", 7, 0, convert_prelu, "float, i32, i64"},
      {"", "Relu", 7, 0, convert_relu, "float, i8, i32, i64"},
      {"", "Selu", 7, 0, convert_selu, "float"},
      {"", "Shrink", 9, 0, convert_shrink, "float, int"},
      {"", "Sigmoid", 7, 0, convert_sigmoid, "float"},
      {"", "Softplus", 7, 0, convert_softplus, "float"},
      {"", "Softsign", 7, 0, convert_softsign, "float"},
      {"", "SwiGLU", 28, 0, convert_swiglu, "float"},
      {"", "Swish", 24, 0, convert_swish, "float"},
      {"", "ThresholdedRelu", 10, 0, convert_thresholded_relu, "float"},
  };
}

} // namespace tilewright::onnx
