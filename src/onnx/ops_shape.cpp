// Shapes, views that keep every element, and constants.
//
//   Reshape(X[n 12 64], [0, 768])  ->  Y[n c] = X[n, c // 64, c % 64]
//   Shape(X[n 3])                  ->  known elements n, 3; a tensor only where somebody reads one
//   Expand(X[1 c], [n, c])         ->  Y[n c] = X[0, c]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Elements elements_of(const std::vector<Size>& sizes) {
  Elements result;
  for (const Size& s : sizes) result.push_back(Element::of(s));
  return result;
}

// Axes as an attribute (before `as_input`) or as input 1; nothing where they are not given.
std::optional<std::vector<std::int64_t>> axes_of(Context& c, int as_input) {
  if (c.opset() >= as_input) return c.has(1) ? std::optional(c.integers(c.input(1))) : std::nullopt;
  return c.has_attr("axes") ? std::optional(c.ints_attr("axes")) : std::nullopt;
}

// ---- sizes as values

ScalarRef extent_of(Context& c, const std::vector<Size>& dims, const std::vector<TensorId>& counts, int d) {
  return counts[at(d)] >= 0 ? c.read(counts[at(d)], {}) : size_value(dims[at(d)], DType::i64);
}

void convert_shape(Context& c) {
  std::vector<Size> dims = c.dims(c.input(0));
  auto rank = static_cast<std::int64_t>(dims.size());
  auto clamp = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank); };
  std::int64_t start = clamp(c.int_attr("start", 0)), end = clamp(c.int_attr("end", rank));
  end = std::max(start, end);
  std::vector<Size> part(dims.begin() + start, dims.begin() + end);
  std::vector<TensorId> counts = c.counts(c.input(0));
  auto counted = [](TensorId t) { return t >= 0; };
  if (std::none_of(counts.begin() + start, counts.begin() + end, counted))
    return c.output(0, c.constant(c.name(), DType::i64, {end - start}, elements_of(part)));
  TensorId shape = c.tensor(c.name(), DType::i64, {end - start}); // values, and no size expressions
  for (std::int64_t d = start; d < end; ++d)
    c.piece(shape, {constant_index(d - start)}, {}, extent_of(c, dims, counts, static_cast<int>(d)));
  c.output(0, shape);
}

void convert_size(Context& c) {
  std::vector<Size> dims = c.dims(c.input(0));
  std::vector<TensorId> counts = c.counts(c.input(0));
  if (std::all_of(counts.begin(), counts.end(), [](TensorId t) { return t < 0; }))
    return c.output(0, c.constant(c.name(), DType::i64, {}, {Element::of(count_of(dims))}));
  ScalarRef product = integer(1, DType::i64);
  for (int d = 0; d < c.rank(c.input(0)); ++d) product = binary(Op::mul, product, extent_of(c, dims, counts, d));
  c.output(0, c.map(c.name(), DType::i64, {}, product));
}

// ---- views

Size inferred_extent(Context& c, const std::vector<Size>& in, const Size& others) {
  Size total = count_of(in), result;
  if (divides(others, total, &result)) return result;
  if (others == Size(0)) c.fail(Code::shape, "-1 beside an extent of 0");
  if (total.is_constant() && others.is_constant()) {
    c.fail(Code::shape, fmt::format("{} elements do not divide by {}", total.text(), others.text()));
  }
  return floor_div(total, others);
}

// A number cannot be the extent of a dim whose rows are counted: such a dim is copied by a 0, or is what -1 stands for.
void keeps_counts(Context& c, TensorId x, const std::vector<Size>& out, std::optional<std::size_t> open) {
  const std::vector<TensorId> counts = c.counts(x);
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] < 0) continue;
    const Size extent = c.dims(x)[d];
    const Elements& shape = *c.known(c.input(1));
    if ((open && out[*open] == extent) || (d < shape.size() && shape[d].size == Size(0))) continue;
    c.unsupported(fmt::format("dim {} of '{}', whose extent is known only when the model has run, is to be {}", d,
                              c.program().tensor(x).name, text_of(out)));
  }
}

void convert_reshape(Context& c) {
  bool allow_zero = c.int_attr("allowzero", 0) != 0;
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x), out = c.sizes(c.input(1));
  Size others = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == Size(0) && !allow_zero) {
      if (i >= in.size()) c.fail(Code::shape, fmt::format("0 at position {} for an input of shape {}", i, text_of(in)));
      out[i] = in[i];
    }
    if (out[i] == Size(-1)) {
      if (open) c.fail(Code::shape, "-1 twice");
      open = i;
    } else {
      others = others * out[i];
    }
  }
  if (open) out[*open] = inferred_extent(c, in, others);
  keeps_counts(c, x, out, open);
  c.output(0, c.reshape(c.name(), x, out));
}

void convert_flatten(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x);
  auto rank = static_cast<std::int64_t>(in.size());
  std::int64_t axis = c.int_attr("axis", 1);
  if (axis < -rank || axis > rank) c.fail(Code::shape, fmt::format("axis {} of {}", axis, text_of(in)));
  if (axis < 0) axis += rank;
  c.output(
      0, c.reshape(c.name(), x, {count_of({in.begin(), in.begin() + axis}), count_of({in.begin() + axis, in.end()})}));
}

void convert_squeeze(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x), out;
  std::vector<bool> drop(in.size());
  if (auto axes = axes_of(c, 13)) {
    for (std::int64_t a : *axes) drop[at(c.axis(a, c.rank(x)))] = true;
  } else {
    for (TensorId count : c.counts(x))
      if (count >= 0) c.unsupported("which dims are 1 is known only when the model has run");
    for (std::size_t i = 0; i < in.size(); ++i) drop[i] = in[i] == Size(1);
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (drop[i] && in[i] != Size(1)) c.fail(Code::shape, fmt::format("dim {} of {} is not 1", i, text_of(in)));
    if (!drop[i]) out.push_back(in[i]);
  }
  c.output(0, c.reshape(c.name(), x, out));
}

void convert_unsqueeze(Context& c) {
  TensorId x = c.input(0);
  auto axes = axes_of(c, 13);
  if (!axes) c.fail(Code::model, "axes are missing");
  std::vector<Size> in = c.dims(x);
  int rank = c.rank(x) + static_cast<int>(axes->size());
  std::vector<bool> added(at(rank));
  for (std::int64_t a : *axes) {
    if (added[at(c.axis(a, rank))]) c.fail(Code::shape, fmt::format("axis {} twice", a));
    added[at(c.axis(a, rank))] = true;
  }
  std::vector<Size> out;
  for (int i = 0, k = 0; i < rank; ++i) out.push_back(added[at(i)] ? Size(1) : in[at(k++)]);
  c.output(0, c.reshape(c.name(), x, out));
}

void convert_transpose(Context& c) {
  TensorId x = c.input(0);
  int rank = c.rank(x);
  std::vector<std::int64_t> reversed(at(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int> perm;
  std::vector<bool> seen(at(rank));
  for (std::int64_t p : c.ints_attr("perm", reversed)) {
    perm.push_back(c.axis(p, rank));
    seen[at(perm.back())] = true;
  }
  if (static_cast<int>(perm.size()) != rank || std::count(seen.begin(), seen.end(), true) != rank) {
    c.fail(Code::shape, fmt::format("perm is no permutation of the {} dims", rank));
  }
  c.output(0, c.transpose(c.name(), x, perm));
}

void convert_expand(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> out = broadcast(c, c.dims(x), c.sizes(c.input(1)));
  if (out == c.dims(x)) return c.output(0, x);
  c.output(0, c.view(c.name(), x, out, broadcast_index(c.dims(x), out, axis_indices(static_cast<int>(out.size())))));
}

void convert_tile(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x), repeats = c.sizes(c.input(1)), out;
  if (repeats.size() != in.size()) {
    c.fail(Code::shape, fmt::format("{} repeats for an input of shape {}", repeats.size(), text_of(in)));
  }
  std::vector<Index> index;
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.push_back(in[i] * repeats[i]);
    Index axis = axis_index(static_cast<AxisId>(i));
    index.push_back(in[i] == Size(1) ? constant_index(0) : repeats[i] == Size(1) ? axis : floor_mod(axis, in[i]));
  }
  c.output(0, c.view(c.name(), x, out, index));
}

// ---- blocks of pixels to channels and back

std::int64_t block_of(Context& c) {
  std::int64_t b = c.int_attr("blocksize");
  if (b < 1) c.fail(Code::model, fmt::format("blocksize {}", b));
  if (c.rank(c.input(0)) != 4)
    c.fail(Code::shape, fmt::format("input of shape {}, rank 4 is needed", text_of(c.dims(c.input(0)))));
  return b;
}

Size divided(Context& c, const Size& value, const Size& by) {
  Size result;
  if (!divides(by, value, &result))
    c.fail(Code::shape, fmt::format("{} does not divide by {}", value.text(), by.text()));
  return result;
}

void convert_depth_to_space(Context& c) {
  Size b = block_of(c);
  std::string mode = c.text_attr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail(Code::model, fmt::format("mode '{}'", mode));
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x);
  Size channels = divided(c, in[1], b * b);
  Index ch = axis_index(1), y = axis_index(2), w = axis_index(3);
  Index block = b * floor_mod(y, b) + floor_mod(w, b);
  Index from = mode == "DCR" ? channels * block + ch : (b * b) * ch + block;
  c.output(0, c.view(c.name(), x, {in[0], channels, in[2] * b, in[3] * b},
                     {axis_index(0), from, floor_div(y, b), floor_div(w, b)}));
}

void convert_space_to_depth(Context& c) {
  Size b = block_of(c);
  std::string mode = c.text_attr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail(Code::model, fmt::format("mode '{}'", mode));
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x);
  Index ch = axis_index(1);
  Index block = mode == "DCR" ? floor_div(ch, in[1]) : floor_mod(ch, b * b);
  Index from = mode == "DCR" ? floor_mod(ch, in[1]) : floor_div(ch, b * b);
  Index y = b * axis_index(2) + floor_div(block, b), w = b * axis_index(3) + floor_mod(block, b);
  c.output(0, c.view(c.name(), x, {in[0], in[1] * b * b, divided(c, in[2], b), divided(c, in[3], b)},
                     {axis_index(0), from, y, w}));
}

// ---- constants

void convert_constant(Context& c) {
  if (const Tensor* t = c.tensor_attr("value")) return c.output(0, c.weight(*t, c.name()));
  Elements elements;
  DType d = DType::f32;
  bool list = c.has_attr("value_ints") || c.has_attr("value_floats");
  if (c.has_attr("value_int")) elements.push_back(Element::of(Size(c.int_attr("value_int"))));
  for (std::int64_t v : c.ints_attr("value_ints", std::vector<std::int64_t>{}))
    elements.push_back(Element::of(Size(v)));
  if (c.has_attr("value_int") || c.has_attr("value_ints")) d = DType::i64;
  if (c.has_attr("value_float")) elements.push_back(Element::of(c.real_attr("value_float")));
  for (double v : c.reals_attr("value_floats", std::vector<double>{})) elements.push_back(Element::of(v));
  if (!c.unread_attributes().empty()) c.unsupported("a constant of strings, or a sparse one");
  auto count = static_cast<std::int64_t>(elements.size());
  if (!list && count != 1) c.fail(Code::model, "a value is missing");
  c.output(0, c.constant(c.name(), d, list ? std::vector<Size>{count} : std::vector<Size>{}, elements));
}

void convert_constant_of_shape(Context& c) {
  ScalarRef value = number(0);
  DType d = DType::f32;
  if (const Tensor* t = c.tensor_attr("value")) {
    if (!t->dtype || t->count != 1) c.unsupported(fmt::format("a value of {} {}", t->count, element_name(t->element)));
    d = *t->dtype;
    value = literal(decode(d, t->bytes, 1).front(), d);
  }
  std::vector<Size> dims;
  if (!c.dims(c.input(0)).empty() && c.dims(c.input(0))[0] != Size(0)) dims = c.sizes(c.input(0));
  c.output(0, c.map(c.name(), d, dims, value));
}

// A range of sizes is an axis; one of floats has a count that is computed here.
void convert_range(Context& c) {
  DType d = c.dtype(c.input(0));
  ScalarRef start = c.read(c.input(0), {}), step = c.read(c.input(2), {});
  Size count;
  if (is_float(d)) {
    double low = c.real_of(c.input(0)), high = c.real_of(c.input(1)), delta = c.real_of(c.input(2));
    if (delta == 0) c.fail(Code::shape, "delta is 0");
    count = static_cast<std::int64_t>(std::max(0.0, std::ceil((high - low) / delta)));
  } else {
    Size low = c.size(c.input(0)), high = c.size(c.input(1));
    std::int64_t delta = c.integer_of(c.input(2));
    if (delta == 0) c.fail(Code::shape, "delta is 0");
    count = delta > 0 ? ceil_div(high - low, delta) : ceil_div(low - high, -delta);
    if (count.range().low < 0) count = max(0, count);
  }
  ScalarRef i = axis_value(0, is_float(d) ? DType::i64 : compute_type(d));
  if (is_float(d)) i = cast(i, compute_type(d));
  c.output(0, c.map(c.name(), d, {count}, binary(Op::add, start, binary(Op::mul, i, step))));
}

void convert_eye_like(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> dims = c.dims(x);
  if (dims.size() != 2) c.fail(Code::shape, fmt::format("input of shape {}, rank 2 is needed", text_of(dims)));
  DType d = c.dtype(x);
  if (c.has_attr("dtype")) {
    auto type = static_cast<int>(c.int_attr("dtype"));
    if (!dtype_of_element(type)) c.unsupported(fmt::format("a result of {}", element_name(type)));
    d = *dtype_of_element(type);
  }
  ScalarRef diagonal = binary(Op::add, axis_value(0, DType::i64), integer(c.int_attr("k", 0), DType::i64));
  ScalarRef one = d == DType::boolean ? boolean(true)
                  : is_float(d)       ? number(1, compute_type(d))
                                      : integer(1, compute_type(d));
  c.output(0, c.map(c.name(), d, dims, select(binary(Op::eq, axis_value(1, DType::i64), diagonal), one, zero_of(d))));
}

} // namespace

std::vector<Operator> shape_operators() {
  return {
      {"", "Constant", 7, 0, convert_constant, "all, f8", "no strings, no sparse tensors"},
      {"", "ConstantOfShape", 9, 0, convert_constant_of_shape, "all, f8", "", "i64"},
      {"", "DepthToSpace", 7, 0, convert_depth_to_space, "all"},
      {"", "Expand", 8, 0, convert_expand, "all", "", "T i64"},
      {"", "EyeLike", 9, 0, convert_eye_like, "all"},
      {"", "Flatten", 7, 0, convert_flatten, "all, f8"},
      {"", "Range", 11, 0, convert_range, "float, i32, i64", "its length must be a size expression"},
      {"", "Reshape", 7, 0, convert_reshape, "all, f8", "the shape must be a size expression", "T i64"},
      {"", "Shape", 7, 0, convert_shape, "all, f8"},
      {"", "Size", 7, 0, convert_size, "all, f8"},
      {"", "SpaceToDepth", 7, 0, convert_space_to_depth, "all"},
      {"", "Squeeze", 7, 0, convert_squeeze, "all, f8", "", "T i64"},
      {"", "Tile", 7, 0, convert_tile, "all", "repeats must be size expressions", "T i64"},
      {"", "Transpose", 7, 0, convert_transpose, "all, f8"},
      {"", "Unsqueeze", 7, 0, convert_unsqueeze, "all, f8", "", "T i64"},
  };
}

} // namespace tilewright::onnx
