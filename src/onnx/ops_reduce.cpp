// Reductions over axes, and the operators made of them: softmax and its kin, argmax.
//
//   ReduceMean(X[n c h w], axes 2 3)  ->  S[n c] = sum[h w] X[n c h w];  Y[n c 0 0] = S[n c] / (h*w)
//   Softmax(X[n x])                   ->  m = max[x] X;  e = exp(X - m);  s = sum[x] e;  Y = e / s
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "expr/define.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Axes {
  std::vector<AxisId> reduced;
  bool keep = true;
  bool nothing = false; // noop_with_empty_axes: nothing is reduced, what is done before and after is
};

Axes axes_of(Context& c, int rank, int as_input) {
  Axes result;
  result.keep = c.int_attr("keepdims", 1) != 0;
  std::optional<std::vector<std::int64_t>> given;
  if (c.opset() >= as_input) {
    if (c.has(1)) given = c.integers(c.input(1));
    if (given && given->empty()) given.reset();
    result.nothing = c.int_attr("noop_with_empty_axes", 0) != 0 && !given;
  } else if (c.has_attr("axes")) {
    given = c.ints_attr("axes");
  }
  for (int a = 0; !given && a < rank; ++a) result.reduced.push_back(a);
  if (given) {
    for (std::int64_t a : *given) result.reduced.push_back(c.axis(a, rank));
  }
  std::sort(result.reduced.begin(), result.reduced.end());
  result.reduced.erase(std::unique(result.reduced.begin(), result.reduced.end()), result.reduced.end());
  if (result.nothing) result.reduced.clear();
  return result;
}

bool contains(const std::vector<AxisId>& axes, int a) { return std::find(axes.begin(), axes.end(), a) != axes.end(); }

// The dims that stay, or with the reduced ones as 1.
std::vector<Size> kept_dims(const std::vector<Size>& in, const std::vector<AxisId>& reduced, bool keep) {
  std::vector<Size> dims;
  for (int a = 0; a < static_cast<int>(in.size()); ++a) {
    if (!contains(reduced, a))
      dims.push_back(in[at(a)]);
    else if (keep)
      dims.emplace_back(1);
  }
  return dims;
}

// A reduction of body over axes 0..rank-1; the result has the reduced dims as 1 where `keep`.
TensorId reduced(Context& c, const std::string& hint, DType d, const std::vector<Size>& in, ScalarRef body, Reducer r,
                 const Axes& axes) {
  if (axes.reduced.empty()) return c.map(hint, d, in, std::move(body));
  if (!axes.keep) return c.reduce(hint, d, in, std::move(body), r, axes.reduced);
  TensorId out = c.tensor(hint, d, kept_dims(in, axes.reduced, true));
  std::vector<Index> to;
  for (int a = 0; a < static_cast<int>(in.size()); ++a)
    to.push_back(contains(axes.reduced, a) ? constant_index(0) : axis_index(a));
  c.piece(out, to, in, std::move(body), r, axes.reduced);
  return out;
}

using Map = ScalarRef (*)(const ScalarRef&);
ScalarRef same(const ScalarRef& x) { return x; }
ScalarRef magnitude(const ScalarRef& x) { return unary(Op::abs, x); }
ScalarRef logarithm(const ScalarRef& x) { return unary(Op::log, x); }
ScalarRef root(const ScalarRef& x) { return unary(Op::sqrt, x); }

// before, a reduction, after. With `after` the reduction keeps its compute type until the result is made.
template <Reducer reducer, Map before, Map after, int as_input> void convert_reduce(Context& c) {
  TensorId x = c.input(0);
  DType d = c.dtype(x);
  std::vector<Size> in = c.dims(x);
  Axes axes = axes_of(c, c.rank(x), as_input);
  ScalarRef body = c.read(x, axis_indices(c.rank(x)));
  Reducer r = reducer;
  if (d == DType::boolean)
    r = reducer == Reducer::max ? Reducer::any : reducer == Reducer::min ? Reducer::all : reducer;
  if constexpr (after == same) {
    c.output(0, reduced(c, c.name(), d, in, before(body), r, axes));
  } else {
    DType wide = is_float(d) ? compute_type(d) : DType::f64;
    TensorId sum = reduced(c, c.name("sum"), wide, in, before(is_float(d) ? body : cast(body, wide)), r, axes);
    std::vector<Size> dims = c.dims(sum);
    ScalarRef y = after(c.read(sum, axis_indices(static_cast<int>(dims.size()))));
    c.output(0, c.map(c.name(), d, dims, is_float(d) ? y : cast(y, d)));
  }
}

void convert_mean(Context& c) {
  TensorId x = c.input(0);
  DType d = c.dtype(x), wide = compute_type(d);
  std::vector<Size> in = c.dims(x);
  Axes axes = axes_of(c, c.rank(x), 18);
  if (axes.nothing) return c.output(0, x);
  TensorId sum = reduced(c, c.name("sum"), wide, in, c.read(x, axis_indices(c.rank(x))), Reducer::sum, axes);
  Size count = 1;
  for (AxisId a : axes.reduced) count = count * in[at(a)];
  std::vector<Size> dims = c.dims(sum);
  ScalarRef divisor =
      is_float(d) ? cast(literal(Element::of(count), DType::i64), wide) : literal(Element::of(count), wide);
  if (is_float(d) && count.is_constant()) divisor = number(static_cast<double>(count.constant()), wide);
  ScalarRef total = c.read(sum, axis_indices(static_cast<int>(dims.size())));
  c.output(0, c.map(c.name(), d, dims, binary(Op::div, total, divisor)));
}

void convert_log_sum_exp(Context& c) {
  TensorId x = c.input(0);
  DType d = c.dtype(x);
  std::vector<Size> in = c.dims(x);
  Axes axes = axes_of(c, c.rank(x), 18);
  if (axes.reduced.empty()) return c.output(0, x);
  ScalarRef value = c.read(x, axis_indices(c.rank(x)));
  define::Form form{in, {}, axes.reduced, is_float(d) ? value : cast(value, DType::f64), nullptr, c.name()};
  if (axes.keep || !is_float(d)) form.hint = c.name("kept");
  TensorId result = define::expand(c.builder(), define::Reduction::logsumexp, form, is_float(d) ? d : DType::f64);
  result = c.reshape(is_float(d) ? c.name() : c.name("shaped"), result, kept_dims(in, axes.reduced, axes.keep));
  c.output(0, c.cast_to(c.name(), result, d));
}

// ---- softmax and its kin

// Before opset 13 all dims from the axis on are one.
std::vector<AxisId> softmax_axes(Context& c, int rank) {
  bool flattens = c.opset() < 13;
  std::int64_t given = c.int_attr("axis", flattens ? 1 : -1);
  if (flattens && given == rank) return {};
  int axis = c.axis(given, rank);
  std::vector<AxisId> axes{axis};
  for (int a = axis + 1; flattens && a < rank; ++a) axes.push_back(a);
  return axes;
}

template <define::Reduction kind> void convert_softmax(Context& c) {
  TensorId x = c.input(0);
  int rank = c.rank(x);
  std::vector<AxisId> axes = softmax_axes(c, rank);
  ScalarRef value = c.read(x, axis_indices(rank));
  if (axes.empty()) { // each element by itself
    ScalarRef zero = binary(Op::sub, value, value);
    ScalarRef y = kind == define::Reduction::softmax ? unary(Op::exp, zero) : zero;
    return c.output(0, c.map(c.name(), c.dtype(x), c.dims(x), y));
  }
  define::Form form{c.dims(x), {}, axes, value, nullptr, c.name()};
  c.output(0, define::expand(c.builder(), kind, form, c.dtype(x)));
}

// ---- the index of the largest or smallest

// The first winner along one axis; the last one by reading backwards. The result lacks the axis.
TensorId winner(Context& c, const std::string& hint, TensorId x, int axis, Reducer r, bool last) {
  std::vector<Size> in = c.dims(x);
  std::vector<Index> index = axis_indices(c.rank(x));
  if (in[at(axis)] == Size(0)) c.fail(Code::shape, fmt::format("axis {} of {} has no elements", axis, text_of(in)));
  if (last) index[at(axis)] = constant_index(in[at(axis)] - 1) - axis_index(axis);
  TensorId first = c.reduce(last ? c.name("backward") : hint, DType::i64, in, c.read(x, index), r, {axis});
  if (!last) return first;
  std::vector<Size> dims = c.dims(first);
  ScalarRef end = literal(Element::of(in[at(axis)] - 1), DType::i64);
  return c.map(hint, DType::i64, dims,
               binary(Op::sub, end, c.read(first, axis_indices(static_cast<int>(dims.size())))));
}

template <Reducer reducer> void convert_arg(Context& c) {
  TensorId x = c.input(0);
  int axis = c.axis(c.int_attr("axis", 0), c.rank(x));
  bool keep = c.int_attr("keepdims", 1) != 0, last = c.int_attr("select_last_index", 0) != 0;
  TensorId found = winner(c, keep ? c.name("index") : c.name(), x, axis, reducer, last);
  c.output(0, keep ? c.reshape(c.name(), found, kept_dims(c.dims(x), {axis}, true)) : found);
}

// 1 at the first largest element, 0 elsewhere.
void convert_hardmax(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x);
  std::vector<AxisId> axes = softmax_axes(c, c.rank(x));
  if (axes.empty()) return c.output(0, c.map(c.name(), c.dtype(x), in, number(1, compute_type(c.dtype(x)))));
  int axis = axes.front();
  TensorId flat = x;
  if (axes.size() > 1) {
    std::vector<Size> dims(in.begin(), in.begin() + axis);
    dims.push_back(count_of({in.begin() + axis, in.end()}));
    flat = c.reshape(c.name("flat"), x, dims);
  }
  TensorId found = winner(c, c.name("index"), flat, axis, Reducer::argmax, false);
  std::vector<Size> dims = c.dims(flat);
  std::vector<Index> index = axis_indices(c.rank(flat));
  index.erase(index.begin() + axis);
  ScalarRef hit = binary(Op::eq, axis_value(axis, DType::i64), c.read(found, index));
  DType d = c.dtype(x);
  TensorId y =
      c.map(axes.size() > 1 ? c.name("flat") : c.name(), d, dims, select(hit, number(1, compute_type(d)), zero_of(d)));
  c.output(0, c.reshape(c.name(), y, in));
}

} // namespace

std::vector<Operator> reduce_operators() {
  return {
      {"", "ArgMax", 7, 0, convert_arg<Reducer::argmax>, "float, int"},
      {"", "ArgMin", 7, 0, convert_arg<Reducer::argmin>, "float, int"},
      {"", "Hardmax", 7, 0, convert_hardmax, "float"},
      {"", "LogSoftmax", 7, 0, convert_softmax<define::Reduction::log_softmax>, "float"},
      {"", "ReduceL1", 7, 0, convert_reduce<Reducer::sum, magnitude, same, 18>, "float, i32, i64", "constant axes",
       "T i64"},
      {"", "ReduceL2", 7, 0, convert_reduce<Reducer::sum, define::square, root, 18>, "float, i32, i64", "constant axes",
       "T i64"},
      {"", "ReduceLogSum", 7, 27, convert_reduce<Reducer::sum, same, logarithm, 18>, "float, i32, i64", "constant axes",
       "T i64"},
      {"", "ReduceLogSum", 28, 0, convert_reduce<Reducer::sum, same, logarithm, 18>, "float", "constant axes", "T i64"},
      {"", "ReduceLogSumExp", 7, 27, convert_log_sum_exp, "float, i32, i64", "constant axes", "T i64"},
      {"", "ReduceLogSumExp", 28, 0, convert_log_sum_exp, "float", "constant axes", "T i64"},
      {"", "ReduceMax", 7, 0, convert_reduce<Reducer::max, same, same, 18>, "all", "constant axes", "T i64"},
      {"", "ReduceMean", 7, 0, convert_mean, "float, i32, i64", "constant axes", "T i64"},
      {"", "ReduceMin", 7, 0, convert_reduce<Reducer::min, same, same, 18>, "all", "constant axes", "T i64"},
      {"", "ReduceProd", 7, 0, convert_reduce<Reducer::prod, same, same, 18>, "float, i32, i64", "constant axes",
       "T i64"},
      {"", "ReduceSum", 7, 0, convert_reduce<Reducer::sum, same, same, 13>, "float, i32, i64", "constant axes",
       "T i64"},
      {"", "ReduceSumSquare", 7, 0, convert_reduce<Reducer::sum, define::square, same, 18>, "float, i32, i64",
       "constant axes", "T i64"},
      {"", "Softmax", 7, 0, convert_softmax<define::Reduction::softmax>, "float"},
  };
}

} // namespace tilewright::onnx
