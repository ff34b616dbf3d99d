// Elementwise operators with broadcasting: one map statement each.
//
//   Add(X[n c h w], B[c 1 1])  ->  Y[n c h w] = X[n c h w] + B[c, 0, 0]
//   Mul(X, 0.5)                ->  Y[..] = X[..] * 0.5                         constants of one element are literals
#include <fmt/format.h>

#include "expr/define.h"
#include "onnx/elementwise.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

using Args = const std::vector<ScalarRef>&;

// ---- one argument

template <Op op> void convert_unary(Context& c) {
  elementwise(c, 1, [](Args a) { return unary(op, a[0]); });
}

template <Op op> void convert_predicate(Context& c) {
  elementwise(
      c, 1, [](Args a) { return unary(op, a[0]); }, DType::boolean);
}

void convert_reciprocal(Context& c) {
  elementwise(c, 1, [](Args a) { return define::reciprocal(a[0]); });
}

void convert_is_inf(Context& c) {
  bool positive = c.int_attr("detect_positive", 1) != 0, negative = c.int_attr("detect_negative", 1) != 0;
  auto body = [&](Args a) {
    ScalarRef inf = unary(Op::is_inf, a[0]);
    if (positive && negative) return inf;
    if (!positive && !negative) return boolean(false);
    return binary(Op::logical_and, inf, binary(positive ? Op::gt : Op::lt, a[0], number(0)));
  };
  elementwise(c, 1, body, DType::boolean);
}

// ---- two arguments

template <Op op> void convert_binary(Context& c) {
  elementwise(c, 2, [](Args a) { return binary(op, a[0], a[1]); });
}

template <Op op> void convert_comparison(Context& c) {
  elementwise(
      c, 2, [](Args a) { return binary(op, a[0], a[1]); }, DType::boolean);
}

// The result has the type of the base. Integers go through f64, which holds them exactly to 2^53.
void convert_pow(Context& c) {
  DType base = c.dtype(c.input(0));
  bool square = c.known(c.input(1)) && c.known(c.input(1))->size() == 1 && c.reals(c.input(1))[0] == 2;
  auto body = [&](Args a) {
    if (square) return binary(Op::mul, a[0], a[0]);
    if (is_float(base)) return binary(Op::pow, a[0], cast(a[1], compute_type(base)));
    return cast(binary(Op::pow, cast(a[0], DType::f64), cast(a[1], DType::f64)), base);
  };
  elementwise(c, 2, body);
}

// fmod = 0: the sign of the divisor. fmod = 1: C's fmod, the sign of the dividend.
void convert_mod(Context& c) {
  bool fmod = c.int_attr("fmod", 0) != 0;
  DType d = c.dtype(c.input(0));
  auto body = [&](Args a) {
    if (!fmod) return binary(Op::mod, a[0], a[1]);
    ScalarRef r = binary(Op::mod, unary(Op::abs, a[0]), unary(Op::abs, a[1]));
    return select(binary(Op::lt, a[0], zero_of(d)), unary(Op::neg, r), r);
  };
  elementwise(c, 2, body);
}

void convert_bit_shift(Context& c) {
  std::string direction = c.text_attr("direction");
  if (direction != "LEFT" && direction != "RIGHT") c.fail(Code::model, fmt::format("direction '{}'", direction));
  Op op = direction == "LEFT" ? Op::shift_left : Op::shift_right;
  elementwise(c, 2, [&](Args a) { return binary(op, a[0], a[1]); });
}

// ---- any number of arguments

template <Op op> void convert_variadic(Context& c) {
  auto body = [](Args a) {
    ScalarRef r = a[0];
    for (std::size_t i = 1; i < a.size(); ++i) r = binary(op, r, a[i]);
    return r;
  };
  elementwise(c, any_number, body);
}

void convert_mean(Context& c) {
  auto body = [](Args a) {
    ScalarRef r = a[0];
    for (std::size_t i = 1; i < a.size(); ++i) r = binary(Op::add, r, a[i]);
    return a.size() == 1 ? r : binary(Op::div, r, number(static_cast<double>(a.size())));
  };
  elementwise(c, any_number, body);
}

// ---- choices

void convert_where(Context& c) {
  elementwise(
      c, 3, [](Args a) { return select(a[0], a[1], a[2]); }, c.dtype(c.input(1)));
}

// min(max(x, low), high); a bound that is left out does nothing.
void convert_clip(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> dims = c.dims(x);
  ScalarRef body = c.read(x, axis_indices(c.rank(x)));
  auto bound = [&](int input, const char* name, Op op) {
    if (c.opset() < 11) {
      if (c.has_attr(name)) body = binary(op, body, number(c.real_attr(name), compute_type(c.dtype(x))));
    } else if (c.has(input)) {
      if (count_of(c.dims(c.input(input))) != Size(1)) c.fail(Code::shape, fmt::format("{} is no scalar", name));
      body = binary(op, body, c.read_broadcast(c.input(input), dims));
    }
  };
  bound(1, "min", Op::max);
  bound(2, "max", Op::min);
  c.output(0, c.map(c.name(), c.dtype(x), dims, body));
}

// ---- types

void convert_to(Context& c, DType to) {
  bool saturate = c.int_attr("saturate", 1) != 0;
  c.ignore_attr("round_mode"); // of float8e8m0, which is not supported
  TensorId x = c.input(0);
  if (c.dtype(x) == to) return c.output(0, x);
  std::vector<Size> dims = c.dims(x);
  ScalarRef body = c.read(x, axis_indices(c.rank(x)));
  bool narrow = to == DType::f8e4m3 || to == DType::f8e5m2;
  if (narrow && saturate) body = saturated(body, to);
  c.output(0, c.map(c.name(), to, dims, cast(body, to)));
}

void convert_cast(Context& c) {
  auto to = static_cast<int>(c.int_attr("to"));
  auto d = dtype_of_element(to);
  if (!d) c.unsupported(fmt::format("a cast to {}", element_name(to)));
  convert_to(c, *d);
}

void convert_cast_like(Context& c) { convert_to(c, c.dtype(c.input(1))); }

void convert_identity(Context& c) { c.output(0, c.input(0)); }

// Inference: the input itself. Training only where it changes nothing.
void convert_dropout(Context& c) {
  c.ignore_attr("seed");
  double ratio = c.opset() < 12 ? c.real_attr("ratio", 0.5) : 0.5;
  if (c.opset() >= 12 && c.has(1) && c.known(c.input(1))) ratio = c.real_of(c.input(1));
  bool training = c.opset() >= 12 && c.has(2) && c.integer_of(c.input(2)) != 0;
  if (training && ratio != 0) c.unsupported("training_mode");
  TensorId x = c.input(0);
  c.output(0, x);
  if (!c.wants(1)) return;
  bool typed = c.opset() < 10; // the mask once had the type of the data
  ScalarRef one = typed ? number(1, compute_type(c.dtype(x))) : boolean(true);
  std::vector<Size> dims = c.dims(x);
  c.output(1, c.map(c.name(1), typed ? c.dtype(x) : DType::boolean, dims, one));
}

} // namespace

// Narrow floats saturate where ONNX says so: the largest finite value instead of an infinity or NaN.
ScalarRef saturated(ScalarRef x, DType to) {
  double most = to == DType::f8e4m3 ? 448.0 : 57344.0;
  return binary(Op::min, binary(Op::max, cast(x, DType::f32), number(-most)), number(most));
}

std::vector<Operator> elementwise_operators() {
  return {
      {"", "Abs", 7, 0, convert_unary<Op::abs>, "float, int"},
      {"", "Acos", 7, 0, convert_unary<Op::acos>, "float"},
      {"", "Acosh", 9, 0, convert_unary<Op::acosh>, "float"},
      {"", "Add", 7, 0, convert_binary<Op::add>, "float, int"},
      {"", "And", 7, 0, convert_comparison<Op::logical_and>, "bool"},
      {"", "Asin", 7, 0, convert_unary<Op::asin>, "float"},
      {"", "Asinh", 9, 0, convert_unary<Op::asinh>, "float"},
      {"", "Atan", 7, 0, convert_unary<Op::atan>, "float"},
      {"", "Atanh", 9, 0, convert_unary<Op::atanh>, "float"},
      {"", "BitShift", 11, 27, convert_bit_shift, "u8"},
      {"", "BitShift", 28, 0, convert_bit_shift, "int"},
      {"", "BitwiseAnd", 18, 0, convert_binary<Op::bit_and>, "int"},
      {"", "BitwiseNot", 18, 0, convert_unary<Op::bit_not>, "int"},
      {"", "BitwiseOr", 18, 0, convert_binary<Op::bit_or>, "int"},
      {"", "BitwiseXor", 18, 0, convert_binary<Op::bit_xor>, "int"},
      {"", "Cast", 7, 0, convert_cast, "all, f8", "no strings, no 4-bit types"},
      {"", "CastLike", 15, 0, convert_cast_like, "all, f8", "no strings, no 4-bit types", "T V"},
      {"", "Ceil", 7, 0, convert_unary<Op::ceil>, "float"},
      {"", "Clip", 7, 11, convert_clip, "float"},
      {"", "Clip", 12, 0, convert_clip, "float, int"},
      {"", "Cos", 7, 0, convert_unary<Op::cos>, "float"},
      {"", "Cosh", 9, 0, convert_unary<Op::cosh>, "float"},
      {"", "Div", 7, 0, convert_binary<Op::div>, "float, int", "integers round towards zero"},
      {"", "Dropout", 7, 0, convert_dropout, "float", "inference; training_mode only with ratio 0", "T float bool"},
      {"", "Equal", 7, 0, convert_comparison<Op::eq>, "all"},
      {"", "Erf", 9, 0, convert_unary<Op::erf>, "float"},
      {"", "Exp", 7, 0, convert_unary<Op::exp>, "float"},
      {"", "Floor", 7, 0, convert_unary<Op::floor>, "float"},
      {"", "Greater", 7, 0, convert_comparison<Op::gt>, "float, int"},
      {"", "GreaterOrEqual", 12, 0, convert_comparison<Op::ge>, "float, int"},
      {"", "Identity", 7, 0, convert_identity, "all, f8"},
      {"", "IsInf", 10, 0, convert_is_inf, "float"},
      {"", "IsNaN", 9, 0, convert_predicate<Op::is_nan>, "float"},
      {"", "Less", 7, 0, convert_comparison<Op::lt>, "float, int"},
      {"", "LessOrEqual", 12, 0, convert_comparison<Op::le>, "float, int"},
      {"", "Log", 7, 0, convert_unary<Op::log>, "float"},
      {"", "Max", 7, 0, convert_variadic<Op::max>, "float, int"},
      {"", "Mean", 7, 0, convert_mean, "float"},
      {"", "Min", 7, 0, convert_variadic<Op::min>, "float, int"},
      {"", "Mod", 10, 0, convert_mod, "float, int"},
      {"", "Mul", 7, 0, convert_binary<Op::mul>, "float, int"},
      {"", "Neg", 7, 0, convert_unary<Op::neg>, "float, i8, i32, i64"},
      {"", "Not", 7, 0, convert_predicate<Op::logical_not>, "bool"},
      {"", "Or", 7, 0, convert_comparison<Op::logical_or>, "bool"},
      {"", "Pow", 7, 0, convert_pow, "float, i32, i64", "", "T number"},
      {"", "Reciprocal", 7, 0, convert_reciprocal, "float"},
      {"", "Round", 11, 0, convert_unary<Op::round>, "float", "half to even"},
      {"", "Sign", 9, 0, convert_unary<Op::sign>, "float, int"},
      {"", "Sin", 7, 0, convert_unary<Op::sin>, "float"},
      {"", "Sinh", 9, 0, convert_unary<Op::sinh>, "float"},
      {"", "Sqrt", 7, 0, convert_unary<Op::sqrt>, "float"},
      {"", "Sub", 7, 0, convert_binary<Op::sub>, "float, int"},
      {"", "Sum", 7, 0, convert_variadic<Op::add>, "float"},
      {"", "Tan", 7, 0, convert_unary<Op::tan>, "float"},
      {"", "Tanh", 7, 0, convert_unary<Op::tanh>, "float"},
      {"", "Where", 9, 0, convert_where, "all", "", "bool T T"},
      {"", "Xor", 7, 0, convert_comparison<Op::ne>, "bool"},
  };
}

} // namespace tilewright::onnx
