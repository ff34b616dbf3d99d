// Elements known while a model is imported: what Shape/Gather/Concat/Div/... chains compute with.
//
//   Shape(x)[0] * 2            ->  Element{2*n}
//   Floor(Cast(Shape(x)) / 4)  ->  Element{n, over 4} under floor  ->  Element{n // 4}
//   Sqrt(64.0)                 ->  Element::of(8.0)
//
// An element is a size (integers, and booleans as 0 and 1), a quotient of sizes (floats made from sizes), or a plain
// float. Folding is exact or it does not happen: floats are rounded to their compute type after each operation, as the
// evaluator does, and only operations that IEEE 754 rounds correctly are folded.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "expr/program.h"

namespace tilewright::onnx {

struct Element {
  Size size = 0, over = 1;    // the value is size / over; over is 1 for integers and booleans
  std::optional<double> real; // a float constant; size and over are then unused

  static Element of(double value) { return {0, 1, value}; }
  static Element of(Size value) { return {std::move(value), 1, {}}; }
  bool is_constant() const { return real || (size.is_constant() && over.is_constant()); }
};

using Elements = std::vector<Element>; // row-major
using KnownTensors = std::unordered_map<TensorId, Elements>;

// At most so many elements are followed; longer constants stay tensors.
constexpr std::int64_t known_limit = 4096;
constexpr std::int64_t known_floats =
    64; // of a float constant: enough for scales and scalars; the rest is not folded here

// The value of a body at one point: `at` holds the axes' values. Nothing where the body reads a tensor that is not in
// `known`, or where the value is no size expression (a comparison that no range of the symbols decides, exp of a size,
// ...).
std::optional<Element> fold(const Program&, const KnownTensors&, const ScalarRef& body,
                            const std::vector<std::int64_t>& at);
std::optional<std::int64_t> fold(const Program&, const KnownTensors&, const Index&,
                                 const std::vector<std::int64_t>& at);
// All elements of a statement's box, row-major over its parallel axes (reductions included), or nothing.
std::optional<Elements> fold(const Program&, const KnownTensors&, const Statement&);

Elements decode(DType, std::span<const std::byte> bytes, std::int64_t count); // the elements of a constant
std::vector<std::byte> encode(DType, const Elements&);                        // all constant
ScalarRef literal(const Element&, DType stored); // as a leaf (or a quotient of leaves) of a body

} // namespace tilewright::onnx
