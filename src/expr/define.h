// Definitions: names of deep learning that stand for statements and scalar expressions of the one form. Front ends expand them;
// nothing later knows them, and only a statement's label remembers.
//
//   softmax over x of S[q x], where g     ->   P_max[q]   = max[x] S[q x]                 where g
//                                              P_exp[q x] = exp(S[q x] - P_max[q])        where g
//                                              P_sum[q]   = sum[x] P_exp[q x]             where g
//                                              P[q x]     = P_exp[q x] / P_sum[q]         where g
//
// What lies between is stored in the compute type. Points that fail the guard are left out: softmax and the norms are 0 there,
// log_softmax is -inf; the mean of none is 0, logsumexp of none -inf. A body that is not a plain access is first stored as a
// statement of its own, so that it is computed once.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/scalar.h"

namespace tilewright::define {

// ---- statements

enum class Reduction { mean, logsumexp, softmax, log_softmax, layernorm, rmsnorm, l2norm };
std::optional<Reduction> reduction_named(std::string_view);
std::string_view name_of(Reduction);
bool keeps_axes(Reduction);                    // softmax and norms: the result has all axes; mean and logsumexp: those not run over
bool takes_eps(Reduction);
double default_eps(Reduction);                 // 1e-5; l2norm: 1e-12

// A body over axes, as a statement would have it; `over`: the axes that the definition runs over.
struct Form {
  std::vector<Size> axes;
  std::vector<std::string> names;              // of the axes; empty: the builder's
  std::vector<AxisId> over;
  ScalarRef body, guard;
  std::string hint;                            // the name of the result
};

// The last statement, a map: over all axes of the form, or (renumbered, in order) over those that are kept.
struct Map {
  std::vector<Size> axes;
  std::vector<std::string> names;
  ScalarRef body, guard;
};

Map prepare(Builder&, Reduction, const Form&, std::optional<double> eps = {});            // adds all statements but the last
TensorId expand(Builder&, Reduction, const Form&, DType, std::optional<double> eps = {}); // adds all; the result

// ---- scalars. None turns a finite or infinite argument with a finite result into a NaN, but for x * 0 at x = -inf.

ScalarRef square(const ScalarRef&);
ScalarRef reciprocal(const ScalarRef&);
ScalarRef rsqrt(const ScalarRef&);
ScalarRef log1p(const ScalarRef&);             // log(1 + x)
ScalarRef expm1(const ScalarRef&);             // exp(x) - 1
ScalarRef clip(const ScalarRef& x, const ScalarRef& low, const ScalarRef& high);
ScalarRef relu(const ScalarRef&);              // of integers too
ScalarRef relu6(const ScalarRef&);
ScalarRef leaky_relu(const ScalarRef& x, double alpha = 0.01);
ScalarRef elu(const ScalarRef& x, double alpha = 1);
ScalarRef selu(const ScalarRef& x, double alpha = 1.67326319217681884765625, double gamma = 1.05070102214813232421875);
ScalarRef celu(const ScalarRef& x, double alpha = 1);
ScalarRef sigmoid(const ScalarRef&);
ScalarRef silu(const ScalarRef& x, double alpha = 1);          // x * sigmoid(alpha * x)
ScalarRef gelu(const ScalarRef&);                              // by erf
ScalarRef gelu_tanh(const ScalarRef&);
ScalarRef softplus(const ScalarRef&);
ScalarRef softsign(const ScalarRef&);
ScalarRef mish(const ScalarRef&);
ScalarRef hard_sigmoid(const ScalarRef& x, double alpha = 0.2, double beta = 0.5);
ScalarRef hard_swish(const ScalarRef&);

// ---- numbers in eight bits: q stands for (q - zero) * scale. Rounding is half to even; the cast from a float to an integer
// saturates. zero: an integer, or null for 0.

ScalarRef quantise(const ScalarRef& x, const ScalarRef& scale, const ScalarRef& zero, DType);      // sat(rint(x / scale) + zero)
ScalarRef dequantise(const ScalarRef& q, const ScalarRef& scale, const ScalarRef& zero);           // float(q - zero) * scale
ScalarRef requantise(const ScalarRef& sum, const ScalarRef& ratio, const ScalarRef& zero, DType);  // sat(rint(float(sum) * ratio) + zero)

// The definitions of one argument by name, with the names and defaults of their parameters.
struct Parameter { std::string_view name; double value; };
struct Function {
  std::string_view name;
  std::vector<Parameter> parameters;
  ScalarRef (*build)(const ScalarRef& x, const double* parameters);
};
const std::vector<Function>& functions();
const Function* function_named(std::string_view);

}  // namespace tilewright::define
