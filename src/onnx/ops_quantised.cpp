// Numbers in eight bits: q stands for (q - zero) * scale.
//
//   DequantizeLinear       ->  Y = float(q - zero) * scale
//   QuantizeLinear         ->  q = sat(rint(X / scale) + zero), half to even
//   ConvInteger            ->  Y[n f y x] = sum[c i j] (X[... else zx] - zx) * (W[f c i j] - zw[f]), in i32
//   QLinearConv            ->  the same, and sat(rint(float(Y + B[f]) * (sx * sw[f] / sy)) + zy)
//
// Zero points stay in the products here; normal/ moves them.
#include <fmt/format.h>

#include <algorithm>

#include "expr/define.h"
#include "onnx/contractions.h"
#include "onnx/elementwise.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::vector<Index> origin(std::size_t rank) { return std::vector<Index>(rank, constant_index(0)); }

bool one_element(Context& c, TensorId t) { return count_of(c.dims(t)) == Size(1); }

[[noreturn]] void bad_shape(Context& c, const char* what, TensorId t, const std::vector<Size>& of) {
  c.fail(Code::shape, fmt::format("a {} of shape {} for a tensor of shape {}", what, text_of(c.dims(t)), text_of(of)));
}

// ---- QuantizeLinear and DequantizeLinear

// A scale or zero point where element (axis 0, axis 1, ...) of x wants it: one for all, one along an axis, or one a
// block of elements along it.
ScalarRef parameter(Context& c, const char* what, TensorId t, const std::vector<Size>& dims) {
  const std::int64_t given = c.int_attr("axis", 1), block = c.int_attr("block_size", 0);
  const auto own = c.dims(t);
  if (block < 0) c.fail(Code::model, fmt::format("block_size {}", block));
  if (block == 0 && own.size() <= 1 && one_element(c, t)) return c.read(t, origin(own.size()));
  const int axis = c.axis(given, static_cast<int>(dims.size()));
  const auto a = static_cast<std::size_t>(axis);
  if (block == 0) {
    if (own != std::vector<Size>{dims[a]}) bad_shape(c, what, t, dims);
    return c.read(t, {axis_index(axis)});
  }
  std::vector<Size> wanted = dims;
  wanted[a] = ceil_div(dims[a], block);
  if (own != wanted) bad_shape(c, what, t, dims);
  std::vector<Index> at = axis_indices(static_cast<int>(dims.size()));
  at[a] = floor_div(at[a], block);
  return c.read(t, at);
}

void same_shape(Context& c) {
  if (!c.has(2) || (one_element(c, c.input(1)) && one_element(c, c.input(2)))) return;
  if (c.dims(c.input(1)) != c.dims(c.input(2)))
    c.fail(Code::shape, fmt::format("a scale of shape {} and a zero point of shape {}", text_of(c.dims(c.input(1))),
                                    text_of(c.dims(c.input(2)))));
}

DType attribute_dtype(Context& c, const char* name, DType otherwise) {
  const auto element = static_cast<int>(c.int_attr(name, element::undefined));
  if (element == element::undefined) return otherwise;
  const auto d = dtype_of_element(element);
  if (!d) c.unsupported(fmt::format("{} {}", name, element_name(element)));
  return *d;
}

// The elements of a constant stay eight bits wide: they are no weights in floats yet.
void convert_dequantize(Context& c) {
  same_shape(c);
  const TensorId x = c.input(0), scale = c.input(1);
  const auto dims = c.dims(x);
  const DType stored = attribute_dtype(c, "output_dtype", c.dtype(scale));
  if (!is_float(stored)) c.unsupported(fmt::format("output_dtype {}", name_of(stored)));
  const ScalarRef zero = c.has(2) ? parameter(c, "zero point", c.input(2), dims) : nullptr;
  const ScalarRef q = c.read(x, axis_indices(static_cast<int>(dims.size())));
  const ScalarRef body = define::dequantise(q, parameter(c, "scale", scale, dims), zero);
  const bool few = count_of(dims) == Size(1);
  c.output(0, few ? c.map(c.name(), stored, dims, body)
                  : c.builder().statement(c.name(), stored, dims, body, Reducer::none, {}, nullptr,
                                          std::string(c.node().op_type)));
}

void convert_quantize(Context& c) {
  same_shape(c);
  const TensorId x = c.input(0), scale = c.input(1);
  const auto dims = c.dims(x);
  const DType wanted = attribute_dtype(c, "output_dtype", c.has(2) ? c.dtype(c.input(2)) : DType::u8);
  const bool narrow = is_float(wanted) && bytes_of(wanted) == 1;
  if (c.has(2) && c.dtype(c.input(2)) != wanted)
    c.fail(Code::type,
           fmt::format("a zero point of {} and output_dtype {}", name_of(c.dtype(c.input(2))), name_of(wanted)));
  if (wanted != DType::i8 && wanted != DType::u8 && !narrow)
    c.fail(Code::type, fmt::format("a result of {}", name_of(wanted)));
  const DType precision = attribute_dtype(c, "precision", DType::f32);
  if (!is_float(precision)) c.unsupported(fmt::format("precision {}", name_of(precision)));
  const bool saturate = c.int_attr("saturate", 1) != 0;
  const ScalarRef zero = c.has(2) ? parameter(c, "zero point", c.input(2), dims) : nullptr;
  const ScalarRef v = c.read(x, axis_indices(static_cast<int>(dims.size())));
  const ScalarRef s = parameter(c, "scale", scale, dims);
  ScalarRef body;
  if (narrow) {
    body = binary(Op::div, cast(v, DType::f32), cast(s, DType::f32));
    if (zero) body = binary(Op::add, body, zero);
    body = cast(saturate ? saturated(body, wanted) : body, wanted);
  } else {
    body = define::quantise(v, s, zero, wanted);
  }
  c.output(0, c.map(c.name(), wanted, dims, body));
}

// The range of the data and 0, in 255 steps; data that is 0 everywhere has the scale 1.
void convert_dynamic_quantize(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const ScalarRef v = c.read(x, axis_indices(static_cast<int>(dims.size())));
  auto extreme = [&](const char* name, Reducer r) {
    std::vector<AxisId> all;
    for (std::size_t a = 0; a < dims.size(); ++a) all.push_back(static_cast<AxisId>(a));
    const TensorId t = c.reduce(c.name(name), DType::f32, dims, v, all.empty() ? Reducer::none : r, all);
    return binary(r == Reducer::max ? Op::max : Op::min, c.read(t, {}), number(0));
  };
  const ScalarRef most = extreme("max", Reducer::max), least = extreme("min", Reducer::min);
  const ScalarRef range = binary(Op::sub, most, least);
  const ScalarRef step = select(binary(Op::eq, range, number(0)), number(1), binary(Op::div, range, number(255)));
  const TensorId scale = c.map(c.name(1), DType::f32, {}, step);
  const ScalarRef s = c.read(scale, {});
  const ScalarRef exact = binary(Op::sub, number(0), binary(Op::div, least, s));
  const TensorId zero = c.map(c.name(2), DType::u8, {}, cast(unary(Op::round, exact), DType::u8));
  c.output(0, c.map(c.name(), DType::u8, dims, define::quantise(v, s, c.read(zero, {}), DType::u8)));
  c.output(1, scale);
  c.output(2, zero);
}

// ---- convolutions

// One for all filters, or one a filter.
ScalarRef of_filter(Context& c, const char* what, int input, const Index& filter, const Size& filters) {
  const TensorId t = c.input(input);
  const auto dims = c.dims(t);
  if (dims.size() <= 1 && one_element(c, t)) return c.read(t, origin(dims.size()));
  if (dims != std::vector<Size>{filters})
    c.fail(Code::shape, fmt::format("a {} of shape {} for {} filters", what, text_of(dims), filters.text()));
  return c.read(t, {filter});
}

ScalarRef of_tensor(Context& c, const char* what, int input) {
  const TensorId t = c.input(input);
  if (c.rank(t) > 1 || !one_element(c, t))
    c.unsupported(fmt::format("a {} of shape {}: one value is wanted", what, text_of(c.dims(t))));
  return c.read(t, origin(static_cast<std::size_t>(c.rank(t))));
}

ScalarRef shifted(const ScalarRef& value, const ScalarRef& zero) { return zero ? binary(Op::sub, value, zero) : value; }

// The sum in i32. Inputs by position, -1: there is none. What lies outside of the input is its zero point.
TensorId convolve(Context& c, const std::string& hint, const Convolution& v, int x, int w, int x_zero, int w_zero) {
  const auto given = [&](int i) { return i >= 0 && c.has(i); };
  const ScalarRef zx = given(x_zero) ? of_tensor(c, "zero point of the input", x_zero) : nullptr;
  const ScalarRef zw = given(w_zero) ? of_filter(c, "zero point of the weights", w_zero, v.filter, v.dims[1]) : nullptr;
  const TensorId data = c.input(x);
  const ScalarRef outside = v.inside ? nullptr : zx ? zx : zero_of(c.dtype(data));
  const ScalarRef body =
      binary(Op::mul, shifted(c.read(data, v.at_x, outside), zx), shifted(c.read(c.input(w), v.at_w), zw));
  const TensorId sum = c.tensor(hint, DType::i32, v.dims);
  c.piece(sum, v.at, v.axes, body, Reducer::sum, v.reduced);
  return sum;
}

void convert_conv_integer(Context& c) {
  const Convolution v = convolution_of(c, 0, 1);
  c.output(0, convolve(c, c.name(), v, 0, 1, 2, 3));
}

void convert_qlinear_conv(Context& c) {
  const Convolution v = convolution_of(c, 0, 3);
  const TensorId sum = convolve(c, c.name("sum"), v, 0, 3, 2, 5);
  const ScalarRef sw = of_filter(c, "scale of the weights", 4, axis_index(1), v.dims[1]);
  const ScalarRef sx = of_tensor(c, "scale of the input", 1), sy = of_tensor(c, "scale of the result", 6);
  ScalarRef total = c.read(sum, axis_indices(static_cast<int>(v.dims.size())));
  if (c.has(8)) total = binary(Op::add, total, of_filter(c, "bias", 8, axis_index(1), v.dims[1]));
  const ScalarRef ratio = binary(Op::div, binary(Op::mul, sx, sw), sy);
  const ScalarRef zy = of_tensor(c, "zero point of the result", 7);
  const DType d = c.dtype(c.input(7));
  c.output(0, c.map(c.name(), d, v.dims, define::requantise(total, ratio, zy, d)));
}

// ---- matrix products

// One for all, or one a row (axis: of the sum, -1 where there is none) of the operand that is read `at`: [m], or the
// operand's own dims with 1 instead of the inner one.
ScalarRef of_rows(Context& c, const char* what, TensorId t, const std::vector<Size>& axes, AxisId axis,
                  const std::vector<Index>& at, AxisId inner) {
  const auto dims = c.dims(t);
  if (one_element(c, t)) return c.read(t, origin(dims.size()));
  if (dims.size() == 1 && axis >= 0 && dims[0] == axes[static_cast<std::size_t>(axis)])
    return c.read(t, {axis_index(axis)});
  bool fits = dims.size() == at.size();
  std::vector<Index> where;
  for (std::size_t d = 0; fits && d < dims.size(); ++d) {
    const auto plain = plain_axis(at[d]);
    const bool one = dims[d] == Size(1);
    fits = one || (plain && *plain != inner && axes[static_cast<std::size_t>(*plain)] == dims[d]);
    where.push_back(one ? constant_index(0) : at[d]);
  }
  if (!fits) c.fail(Code::shape, fmt::format("a {} of shape {} does not go with the operands", what, text_of(dims)));
  return c.read(t, where);
}

TensorId multiply(Context& c, const std::string& hint, const MatrixProduct& v, TensorId a, TensorId b, int a_zero,
                  int b_zero) {
  const ScalarRef za =
      c.has(a_zero) ? of_rows(c, "zero point", c.input(a_zero), v.axes, v.row, v.at_a, v.inner) : nullptr;
  const ScalarRef zb =
      c.has(b_zero) ? of_rows(c, "zero point", c.input(b_zero), v.axes, v.column, v.at_b, v.inner) : nullptr;
  const ScalarRef body = binary(Op::mul, shifted(c.read(a, v.at_a), za), shifted(c.read(b, v.at_b), zb));
  return c.reduce(hint, DType::i32, v.axes, body, Reducer::sum, {v.inner});
}

void convert_matmul_integer(Context& c) {
  const TensorId a = c.input(0), b = c.input(1);
  c.output(0, multiply(c, c.name(), matrix_product_of(c, a, b), a, b, 2, 3));
}

void convert_qlinear_matmul(Context& c) {
  const TensorId a = c.input(0), b = c.input(3);
  const MatrixProduct v = matrix_product_of(c, a, b);
  const TensorId sum = multiply(c, c.name("sum"), v, a, b, 2, 5);
  const auto dims = c.dims(sum);
  const auto row = [&](const char* what, int i) {
    return cast(of_rows(c, what, c.input(i), v.axes, v.row, v.at_a, v.inner), DType::f32);
  };
  const ScalarRef sa = row("scale", 1), sy = row("scale", 6);
  const ScalarRef sb = cast(of_rows(c, "scale", c.input(4), v.axes, v.column, v.at_b, v.inner), DType::f32);
  const ScalarRef zy = of_rows(c, "zero point", c.input(7), v.axes, v.row, v.at_a, v.inner);
  const ScalarRef ratio = binary(Op::div, binary(Op::mul, sa, sb), sy);
  const DType d = c.dtype(c.input(7));
  c.output(0, c.map(c.name(), d, dims,
                    define::requantise(c.read(sum, axis_indices(static_cast<int>(dims.size()))), ratio, zy, d)));
}

} // namespace

std::vector<Operator> quantised_operators() {
  return {
      {"", "ConvInteger", 10, 0, convert_conv_integer, "i8, u8", "", "T W:byte T W"},
      {"", "DequantizeLinear", 10, 18, convert_dequantize, "i8, u8, i32", "", "T f32 T"},
      {"", "DequantizeLinear", 19, 0, convert_dequantize, "i8, u8, i32, f8", "no types of 16, 4 or 2 bits",
       "T S:float T"},
      {"", "DynamicQuantizeLinear", 11, 0, convert_dynamic_quantize, "f32", "data of zeros has the scale 1"},
      {"", "MatMulInteger", 10, 0, convert_matmul_integer, "i8, u8", "", "T W:byte T W"},
      {"", "QLinearConv", 10, 0, convert_qlinear_conv, "i8, u8", "", "T f32 T W:byte f32 W f32 Y:byte i32"},
      {"", "QLinearMatMul", 10, 20, convert_qlinear_matmul, "i8, u8", "", "T f32 T W:byte f32 W f32 Y:byte"},
      {"", "QLinearMatMul", 21, 0, convert_qlinear_matmul, "i8, u8", "", "T S:float T W:byte S W S Y:byte"},
      {"", "QuantizeLinear", 10, 18, convert_quantize, "f32, i32", "", "T f32 Z:byte"},
      {"", "QuantizeLinear", 19, 22, convert_quantize, "f32, f16, bf16, i32", "no types of 16, 4 or 2 bits", "T T Z"},
      {"", "QuantizeLinear", 23, 0, convert_quantize, "f32, f16, bf16, i32", "no types of 16, 4 or 2 bits",
       "T S:float Z"},
  };
}

} // namespace tilewright::onnx
