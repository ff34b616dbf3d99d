// Windows of signal processing: maps over one axis.
//
//   HannWindow(n)  ->  Y[i] = 0.5 - 0.5 * cos(2 * pi * index(i) / n)
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

// a - b * cos(angle) + c * cos(2 * angle)
void window(Context& c, double a, double b, double d) {
  bool periodic = c.int_attr("periodic", 1) != 0;
  auto type = static_cast<int>(c.int_attr("output_datatype", 1));
  if (!dtype_of_element(type)) c.unsupported(fmt::format("a result of {}", element_name(type)));
  DType stored = *dtype_of_element(type);
  Size n = c.size(c.input(0));
  ScalarRef length = cast(literal(Element::of(periodic ? n : n - 1), DType::i64), DType::f32);
  ScalarRef i = cast(axis_value(0, DType::i64), DType::f32);
  auto cosine = [&](double times) {
    return unary(Op::cos, binary(Op::div, binary(Op::mul, number(2 * std::numbers::pi * times), i), length));
  };
  ScalarRef body = binary(Op::sub, number(a), binary(Op::mul, number(b), cosine(1)));
  if (d != 0) body = binary(Op::add, body, binary(Op::mul, number(d), cosine(2)));
  c.output(0, c.map(c.name(), stored, {n}, cast(body, stored)));
}

void convert_hann(Context& c) { window(c, 0.5, 0.5, 0); }
void convert_hamming(Context& c) { window(c, 25.0 / 46, 21.0 / 46, 0); }
void convert_blackman(Context& c) { window(c, 0.42, 0.5, 0.08); }

} // namespace

std::vector<Operator> window_operators() {
  return {
      {"", "BlackmanWindow", 17, 0, convert_blackman, "float", "", "index"},
      {"", "HammingWindow", 17, 0, convert_hamming, "float", "", "index"},
      {"", "HannWindow", 17, 0, convert_hann, "float", "", "index"},
  };
}

} // namespace tilewright::onnx
