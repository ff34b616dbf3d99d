// Normalisations: statistics as reductions, then a map.
//
//   BatchNormalization     ->  a[c] = scale / sqrt(var + eps);  b[c] = bias - mean * a;  Y = X * a[c] + b[c]
//   LayerNormalization     ->  M = sum X / n;  D = sum (X - M)^2 / n;  Y = (X - M) / sqrt(D + eps) * scale + bias
//   GroupNormalization     ->  the same over the channels of a group and all spatial dims
#include <fmt/format.h>

#include <algorithm>

#include "expr/define.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

void convert_batch_normalization(Context& c) {
  if (c.int_attr("training_mode", 0) != 0) c.unsupported("training_mode 1");
  if (c.int_attr("spatial", 1) != 1) c.unsupported("spatial 0");
  c.ignore_attr("momentum");
  for (int k = 1; k < c.outputs(); ++k)
    if (c.wants(k)) c.unsupported("outputs of training");
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  if (dims.size() < 2) c.fail(Code::shape, fmt::format("an input of shape {}", text_of(dims)));
  for (int i = 1; i < 5; ++i)
    if (c.dims(c.input(i)) != std::vector<Size>{dims[1]})
      c.fail(Code::shape, fmt::format("input {} has shape {}, one element a channel of {} is wanted", i,
                                      text_of(c.dims(c.input(i))), text_of(dims)));
  const DType d = c.dtype(x), wide = compute_type(d);
  auto of = [&](int i) { return cast(c.read(c.input(i), {axis_index(0)}), wide); };
  const ScalarRef root = unary(Op::sqrt, binary(Op::add, of(4), number(c.real_attr("epsilon", 1e-5), wide)));
  const TensorId a = c.map(c.name("scale"), wide, {dims[1]}, binary(Op::div, of(1), root));
  const TensorId b = c.map(c.name("shift"), wide, {dims[1]},
                           binary(Op::sub, of(2), binary(Op::mul, of(3), c.read(a, {axis_index(0)}))));
  const ScalarRef v = cast(c.read(x, axis_indices(static_cast<int>(dims.size()))), wide);
  const ScalarRef y = binary(Op::add, binary(Op::mul, v, c.read(a, {axis_index(1)})), c.read(b, {axis_index(1)}));
  c.output(0, c.map(c.name(), d, dims, y));
}

// Mean and variance over some dims of x, seen through `at` (an index a dim of x, over `axes`).
struct Statistics {
  TensorId mean, variance;
};

Statistics statistics(Context& c, TensorId x, const std::vector<Size>& axes, const std::vector<Index>& at,
                      const std::vector<AxisId>& reduced, DType wide) {
  Size count = 1;
  std::vector<Index> kept;
  std::vector<Size> kept_dims;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (std::count(reduced.begin(), reduced.end(), static_cast<AxisId>(a)))
      count = count * axes[a];
    else
      kept.push_back(axis_index(static_cast<AxisId>(a))), kept_dims.push_back(axes[a]);
  }
  const ScalarRef v = cast(c.read(x, at), wide);
  const ScalarRef n = literal(Element::of(count), wide);
  const TensorId sum = c.reduce(c.name("sum"), wide, axes, v, Reducer::sum, reduced);
  const int rank = static_cast<int>(kept_dims.size());
  const TensorId mean = c.map(c.name("mean"), wide, kept_dims, binary(Op::div, c.read(sum, axis_indices(rank)), n));
  const ScalarRef centred = binary(Op::sub, v, c.read(mean, kept));
  const TensorId squares = c.reduce(c.name("squares"), wide, axes, define::square(centred), Reducer::sum, reduced);
  return {mean, c.map(c.name("variance"), wide, kept_dims, binary(Op::div, c.read(squares, axis_indices(rank)), n))};
}

ScalarRef normalised(const ScalarRef& v, const ScalarRef& mean, const ScalarRef& variance, double epsilon) {
  return binary(Op::div, binary(Op::sub, v, mean),
                unary(Op::sqrt, binary(Op::add, variance, number(epsilon, v->dtype))));
}

void convert_layer_normalization(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const int rank = c.rank(x), first = c.axis(c.int_attr("axis", -1), rank);
  if (c.int_attr("stash_type", 1) != 1) c.unsupported("stash_type other than float");
  const double epsilon = c.real_attr("epsilon", 1e-5);
  const DType d = c.dtype(x), wide = compute_type(d);
  std::vector<AxisId> reduced;
  for (int a = first; a < rank; ++a) reduced.push_back(a);
  const auto at = axis_indices(rank);
  const Statistics s = statistics(c, x, dims, at, reduced, wide);
  const std::vector<Index> kept(at.begin(), at.begin() + first);
  ScalarRef y = normalised(cast(c.read(x, at), wide), c.read(s.mean, kept), c.read(s.variance, kept), epsilon);
  if (d != wide) y = cast(y, d);
  y = binary(Op::mul, y, c.read_broadcast(c.input(1), dims));
  if (c.has(2)) y = binary(Op::add, y, c.read_broadcast(c.input(2), dims));
  c.output(0, c.map(c.name(), d, dims, y));
  // The optional outputs keep the normalised dims with extent 1.
  std::vector<Size> flat(dims.begin(), dims.begin() + first);
  flat.resize(dims.size(), 1);
  if (c.outputs() > 1 && c.wants(1)) c.output(1, c.map(c.name(1), wide, flat, c.read(s.mean, kept)));
  if (c.outputs() > 2 && c.wants(2)) {
    const ScalarRef root = unary(Op::sqrt, binary(Op::add, c.read(s.variance, kept), number(epsilon, wide)));
    c.output(2, c.map(c.name(2), wide, flat, binary(Op::div, number(1, wide), root)));
  }
}

void convert_rms_normalization(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const int rank = c.rank(x), first = c.axis(c.int_attr("axis", -1), rank);
  if (c.int_attr("stash_type", 1) != 1) c.unsupported("stash_type other than float");
  const double epsilon = c.real_attr("epsilon", 1e-5);
  const DType d = c.dtype(x), wide = compute_type(d);
  std::vector<AxisId> reduced;
  Size count = 1;
  for (int a = first; a < rank; ++a) reduced.push_back(a), count = count * dims[static_cast<std::size_t>(a)];
  const auto at = axis_indices(rank);
  const ScalarRef v = cast(c.read(x, at), wide);
  const TensorId sum = c.reduce(c.name("squares"), wide, dims, define::square(v), Reducer::sum, reduced);
  const std::vector<Index> kept(at.begin(), at.begin() + first);
  const ScalarRef mean = binary(Op::div, c.read(sum, kept), literal(Element::of(count), wide));
  ScalarRef y = binary(Op::div, v, unary(Op::sqrt, binary(Op::add, mean, number(epsilon, wide))));
  if (d != wide) y = cast(y, d);
  c.output(0, c.map(c.name(), d, dims, binary(Op::mul, y, c.read_broadcast(c.input(1), dims))));
}

// Statistics of each image over groups of channels and all spatial dims; scale and bias a channel, or (before 21) a
// group.
void grouped(Context& c, std::int64_t groups, double epsilon, bool by_group) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  if (dims.size() < 3 || !dims[1].is_constant() || groups < 1 || dims[1].constant() % groups != 0)
    c.fail(Code::shape, fmt::format("{} groups of the channels of {}", groups, text_of(dims)));
  const Size parameters = by_group ? Size(groups) : dims[1];
  for (int i = 1; i <= 2; ++i)
    if (c.dims(c.input(i)) != std::vector<Size>{parameters})
      c.fail(Code::shape, fmt::format("input {} has shape {}, {} elements are wanted", i, text_of(c.dims(c.input(i))),
                                      parameters.text()));
  if (dims[1] == Size(0)) return c.output(0, c.map(c.name(), c.dtype(x), dims, zero_of(c.dtype(x))));
  const std::int64_t each = dims[1].constant() / groups;
  const DType d = c.dtype(x), wide = compute_type(d);
  std::vector<Size> axes{dims[0], groups, each};
  std::vector<Index> at{axis_index(0), Size(each) * axis_index(1) + axis_index(2)};
  std::vector<AxisId> reduced{2};
  for (std::size_t i = 2; i < dims.size(); ++i) {
    reduced.push_back(static_cast<AxisId>(axes.size()));
    at.push_back(axis_index(reduced.back()));
    axes.push_back(dims[i]);
  }
  const Statistics s = statistics(c, x, axes, at, reduced, wide);
  const Index group = floor_div(axis_index(1), each);
  const std::vector<Index> kept{axis_index(0), group};
  const Index of = by_group ? group : axis_index(1);
  ScalarRef y = normalised(cast(c.read(x, axis_indices(static_cast<int>(dims.size()))), wide), c.read(s.mean, kept),
                           c.read(s.variance, kept), epsilon);
  if (d != wide) y = cast(y, d);
  y = binary(Op::add, binary(Op::mul, y, c.read(c.input(1), {of})), c.read(c.input(2), {of}));
  c.output(0, c.map(c.name(), d, dims, y));
}

void convert_instance_normalization(Context& c) {
  const auto dims = c.dims(c.input(0));
  if (dims.size() < 3 || !dims[1].is_constant())
    c.fail(Code::shape, fmt::format("an input of shape {}", text_of(dims)));
  grouped(c, dims[1].constant(), c.real_attr("epsilon", 1e-5), false);
}

void convert_group_normalization(Context& c) {
  if (c.int_attr("stash_type", 1) != 1) c.unsupported("stash_type other than float");
  grouped(c, c.int_attr("num_groups"), c.real_attr("epsilon", 1e-5), c.opset() < 21);
}

// Y = X / (bias + alpha / size * sum of X^2 over nearby channels)^beta
void convert_lrn(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const std::int64_t size = c.int_attr("size");
  if (dims.size() < 2 || size < 1) c.fail(Code::shape, fmt::format("size {} over {}", size, text_of(dims)));
  const DType d = c.dtype(x), wide = compute_type(d);
  const int rank = static_cast<int>(dims.size());
  auto at = axis_indices(rank);
  at[1] = axis_index(1) + axis_index(rank) - constant_index((size - 1) / 2);
  auto axes = dims;
  axes.push_back(size);
  const TensorId sum = c.reduce(c.name("squares"), wide, axes, define::square(cast(c.read(x, at, zero_of(d)), wide)),
                                Reducer::sum, {rank});
  const ScalarRef scaled = binary(Op::mul, number(c.real_attr("alpha", 1e-4) / static_cast<double>(size), wide),
                                  c.read(sum, axis_indices(rank)));
  const ScalarRef base = binary(Op::add, number(c.real_attr("bias", 1.0), wide), scaled);
  const ScalarRef y =
      binary(Op::div, c.read(x, axis_indices(rank)), binary(Op::pow, base, number(c.real_attr("beta", 0.75), wide)));
  c.output(0, c.map(c.name(), d, dims, y));
}

void convert_lp_normalization(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const int rank = c.rank(x), axis = c.axis(c.int_attr("axis", -1), rank);
  const std::int64_t p = c.int_attr("p", 2);
  if (p != 1 && p != 2) c.unsupported(fmt::format("p = {}", p));
  const DType d = c.dtype(x), wide = compute_type(d);
  const auto at = axis_indices(rank);
  const ScalarRef v = cast(c.read(x, at), wide);
  const TensorId sum =
      c.reduce(c.name("norm"), wide, dims, p == 1 ? unary(Op::abs, v) : define::square(v), Reducer::sum, {axis});
  auto kept = at;
  kept.erase(kept.begin() + axis);
  const ScalarRef norm = p == 1 ? c.read(sum, kept) : unary(Op::sqrt, c.read(sum, kept));
  const ScalarRef zero = binary(Op::eq, norm, number(0, wide));
  c.output(0, c.map(c.name(), d, dims, select(zero, number(0, wide), binary(Op::div, v, norm))));
}

void convert_mean_variance_normalization(Context& c) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  const int rank = c.rank(x);
  std::vector<AxisId> reduced;
  for (std::int64_t a : c.ints_attr("axes", std::vector<std::int64_t>{0, 2, 3})) reduced.push_back(c.axis(a, rank));
  std::sort(reduced.begin(), reduced.end());
  if (reduced.empty() || std::adjacent_find(reduced.begin(), reduced.end()) != reduced.end())
    c.fail(Code::shape, fmt::format("axes [{}]", fmt::join(reduced, ", ")));
  const DType d = c.dtype(x), wide = compute_type(d);
  const auto at = axis_indices(rank);
  const Statistics s = statistics(c, x, dims, at, reduced, wide);
  std::vector<Index> kept;
  for (int a = 0; a < rank; ++a)
    if (!std::count(reduced.begin(), reduced.end(), a)) kept.push_back(at[static_cast<std::size_t>(a)]);
  const ScalarRef root = binary(Op::add, unary(Op::sqrt, c.read(s.variance, kept)), number(1e-9, wide));
  c.output(0, c.map(c.name(), d, dims,
                    binary(Op::div, binary(Op::sub, cast(c.read(x, at), wide), c.read(s.mean, kept)), root)));
}

} // namespace

std::vector<Operator> norm_operators() {
  return {{"", "BatchNormalization", 7, 0, convert_batch_normalization, "float", "not training_mode",
           "T V:float V W:float W"},
          {"", "GroupNormalization", 18, 0, convert_group_normalization, "float"},
          {"", "InstanceNormalization", 7, 0, convert_instance_normalization, "float"},
          {"", "LRN", 7, 0, convert_lrn, "float"},
          {"", "LayerNormalization", 17, 0, convert_layer_normalization, "float"},
          {"", "LpNormalization", 7, 0, convert_lp_normalization, "float", "p 1 or 2"},
          {"", "MeanVarianceNormalization", 9, 0, convert_mean_variance_normalization, "float"},
          {"", "RMSNormalization", 23, 0, convert_rms_normalization, "float", "", "T V:float"}};
}

} // namespace tilewright::onnx
