#include <algorithm>
#include <cmath>
#include <numbers>

#include "expr/define.h"

namespace tilewright::define {

namespace {

ScalarRef operator+(const ScalarRef& a, const ScalarRef& b) { return binary(Op::add, a, b); }
ScalarRef operator-(const ScalarRef& a, const ScalarRef& b) { return binary(Op::sub, a, b); }
ScalarRef operator*(const ScalarRef& a, const ScalarRef& b) { return binary(Op::mul, a, b); }
ScalarRef operator/(const ScalarRef& a, const ScalarRef& b) { return binary(Op::div, a, b); }
ScalarRef larger(const ScalarRef& a, const ScalarRef& b) { return binary(Op::max, a, b); }
ScalarRef smaller(const ScalarRef& a, const ScalarRef& b) { return binary(Op::min, a, b); }
ScalarRef exp(const ScalarRef& x) { return unary(Op::exp, x); }
ScalarRef negative(const ScalarRef& x) { return unary(Op::neg, x); }
ScalarRef scaled(double factor, const ScalarRef& x) { return factor == 1 ? x : number(factor) * x; }

} // namespace

ScalarRef square(const ScalarRef& x) { return x * x; }
ScalarRef reciprocal(const ScalarRef& x) { return number(1) / x; }
ScalarRef rsqrt(const ScalarRef& x) { return number(1) / unary(Op::sqrt, x); }
ScalarRef log1p(const ScalarRef& x) { return unary(Op::log, number(1) + x); }
ScalarRef expm1(const ScalarRef& x) { return exp(x) - number(1); }
ScalarRef clip(const ScalarRef& x, const ScalarRef& low, const ScalarRef& high) {
  return smaller(larger(x, low), high);
}
ScalarRef relu(const ScalarRef& x) { return larger(x, integer(0)); }
ScalarRef relu6(const ScalarRef& x) { return clip(x, integer(0), integer(6)); }

ScalarRef leaky_relu(const ScalarRef& x, double alpha) {
  return select(binary(Op::lt, x, number(0)), x * number(alpha), x);
}

// The branch not taken may be infinite; nothing is multiplied with it.
ScalarRef elu(const ScalarRef& x, double alpha) {
  return select(binary(Op::gt, x, number(0)), x, scaled(alpha, expm1(x)));
}

ScalarRef selu(const ScalarRef& x, double alpha, double gamma) { return scaled(gamma, elu(x, alpha)); }

ScalarRef celu(const ScalarRef& x, double alpha) {
  const ScalarRef inner = alpha == 1 ? x : x / number(alpha);
  return larger(x, number(0)) + smaller(number(0), scaled(alpha, expm1(inner)));
}

// exp(-x) may be infinite: then this is 0.
ScalarRef sigmoid(const ScalarRef& x) { return number(1) / (number(1) + exp(negative(x))); }
ScalarRef silu(const ScalarRef& x, double alpha) { return x * sigmoid(scaled(alpha, x)); }

ScalarRef gelu(const ScalarRef& x) {
  return number(0.5) * x * (number(1) + unary(Op::erf, x * number(std::numbers::sqrt2 / 2)));
}

ScalarRef gelu_tanh(const ScalarRef& x) {
  const ScalarRef inner = number(std::sqrt(2 / std::numbers::pi)) * (x + number(0.044715) * (x * x * x));
  return number(0.5) * x * (number(1) + unary(Op::tanh, inner));
}

// log(1 + exp(x)) without overflow: exp is taken of what is not positive.
ScalarRef softplus(const ScalarRef& x) { return larger(x, number(0)) + log1p(exp(negative(unary(Op::abs, x)))); }
ScalarRef softsign(const ScalarRef& x) { return x / (number(1) + unary(Op::abs, x)); }
ScalarRef mish(const ScalarRef& x) { return x * unary(Op::tanh, softplus(x)); }

ScalarRef hard_sigmoid(const ScalarRef& x, double alpha, double beta) {
  return clip(x * number(alpha) + number(beta), number(0), number(1));
}

ScalarRef hard_swish(const ScalarRef& x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }

namespace {

ScalarRef rounded(const ScalarRef& x, const ScalarRef& zero, DType to) {
  const ScalarRef whole = unary(Op::round, x);
  return cast(zero ? whole + cast(zero, DType::f32) : whole, to);
}

} // namespace

ScalarRef quantise(const ScalarRef& x, const ScalarRef& scale, const ScalarRef& zero, DType to) {
  return rounded(cast(x, DType::f32) / cast(scale, DType::f32), zero, to);
}

ScalarRef dequantise(const ScalarRef& q, const ScalarRef& scale, const ScalarRef& zero) {
  return cast(zero ? q - zero : q, DType::f32) * cast(scale, DType::f32);
}

ScalarRef requantise(const ScalarRef& sum, const ScalarRef& ratio, const ScalarRef& zero, DType to) {
  return rounded(cast(sum, DType::f32) * ratio, zero, to);
}

const std::vector<Function>& functions() {
  using X = const ScalarRef&;
  using P = const double*;
  static const std::vector<Function> all = {
      {"square", {}, [](X x, P) { return square(x); }},
      {"reciprocal", {}, [](X x, P) { return reciprocal(x); }},
      {"rsqrt", {}, [](X x, P) { return rsqrt(x); }},
      {"log1p", {}, [](X x, P) { return log1p(x); }},
      {"expm1", {}, [](X x, P) { return expm1(x); }},
      {"relu", {}, [](X x, P) { return relu(x); }},
      {"relu6", {}, [](X x, P) { return relu6(x); }},
      {"leaky_relu", {{"alpha", 0.01}}, [](X x, P p) { return leaky_relu(x, p[0]); }},
      {"elu", {{"alpha", 1}}, [](X x, P p) { return elu(x, p[0]); }},
      {"selu",
       {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
       [](X x, P p) { return selu(x, p[0], p[1]); }},
      {"celu", {{"alpha", 1}}, [](X x, P p) { return celu(x, p[0]); }},
      {"sigmoid", {}, [](X x, P) { return sigmoid(x); }},
      {"silu", {{"alpha", 1}}, [](X x, P p) { return silu(x, p[0]); }},
      {"swish", {{"alpha", 1}}, [](X x, P p) { return silu(x, p[0]); }},
      {"gelu", {}, [](X x, P) { return gelu(x); }},
      {"gelu_tanh", {}, [](X x, P) { return gelu_tanh(x); }},
      {"softplus", {}, [](X x, P) { return softplus(x); }},
      {"softsign", {}, [](X x, P) { return softsign(x); }},
      {"mish", {}, [](X x, P) { return mish(x); }},
      {"hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}, [](X x, P p) { return hard_sigmoid(x, p[0], p[1]); }},
      {"hard_swish", {}, [](X x, P) { return hard_swish(x); }},
  };
  return all;
}

const Function* function_named(std::string_view name) {
  const auto& all = functions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Function& f) { return f.name == name; });
  return found == all.end() ? nullptr : &*found;
}

} // namespace tilewright::define
