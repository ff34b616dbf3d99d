// Choices of elements by their values.
//
//   TopK(X[n x], 2)  ->  i[n, 0] = argmax[x] X[n x];  i[n, 1] = argmax[x] X[n x] where index(x) != i[n, 0];  Y[n j] =
//   X[n, i[n j]]
//
// A larger k is opaque: a host function with typed inputs and outputs. Where k is known only at run time, its results
// have room for the whole axis, and k counts them (onnx/counted.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "onnx/arrays.h"
#include "onnx/ops_tables.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }
constexpr std::int64_t most_guarded = 8; // each winner scans the row again

// The r-th winner is an argmax over what the earlier ones leave; the winners are the pieces of one tensor.
TensorId guarded_winners(Context& c, TensorId x, int axis, std::int64_t k, bool largest,
                         const std::vector<Size>& dims) {
  int rank = c.rank(x);
  std::vector<Size> axes = c.dims(x);
  std::vector<Index> others = axis_indices(rank);
  others.erase(others.begin() + axis);
  std::vector<TensorId> winners;
  ScalarRef guard;
  for (std::int64_t r = 0; r < k; ++r) {
    winners.push_back(c.reduce(c.name(fmt::format("{}", r)), DType::i64, axes, c.read(x, axis_indices(rank)),
                               largest ? Reducer::argmax : Reducer::argmin, {axis}, guard));
    ScalarRef other = binary(Op::ne, axis_value(axis, DType::i64), c.read(winners.back(), others));
    guard = guard ? binary(Op::logical_and, guard, other) : other;
  }
  axes.erase(axes.begin() + axis);
  TensorId found = c.tensor(c.name(1), DType::i64, dims);
  for (std::int64_t r = 0; r < k; ++r) {
    std::vector<Index> to = axis_indices(rank - 1);
    to.insert(to.begin() + axis, constant_index(r));
    c.piece(found, to, axes, c.read(winners[at(static_cast<int>(r))], axis_indices(rank - 1)));
  }
  return found;
}

// in: x, and k where it is not the extent of the results; out: values, positions, and then k.
Reference top_k(int axis, bool largest, const std::string& label) {
  return [=](std::span<const Array> in, std::span<Array> out) {
    const Array& x = in[0];
    auto a = static_cast<std::size_t>(axis);
    std::int64_t n = x.dims[a], room = out[0].dims[a], k = room;
    if (in.size() > 1) {
      k = integer_at(in[1], 0);
      if (k < 0 || k > n) throw Error(Code::input, label, fmt::format("TopK: k = {} of {} elements", k, n));
      put_integer(out[2], 0, k);
      for (Array& o : out.first(2)) std::memset(o.data, 0, o.bytes());
    }
    if (x.count() == 0) return;
    std::int64_t inner = strides_of(x.dims)[a], outer = x.count() / (n * inner);
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t o = 0; o < outer * inner; ++o) {
      std::int64_t base = (o / inner) * n * inner + o % inner, to = (o / inner) * room * inner + o % inner;
      auto first = [&](std::int64_t p, std::int64_t q) { // NaN counts as the largest; equal ones stay in order
        if (!is_float(x.dtype)) {
          std::int64_t u = integer_at(x, base + p * inner), v = integer_at(x, base + q * inner);
          return u != v ? (largest ? u > v : u < v) : p < q;
        }
        double u = real_at(x, base + p * inner), v = real_at(x, base + q * inner);
        if (std::isnan(u) != std::isnan(v)) return largest ? std::isnan(u) : std::isnan(v);
        return u != v && !std::isnan(u) ? (largest ? u > v : u < v) : p < q;
      };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), first);
      for (std::int64_t r = 0; r < k; ++r) {
        std::int64_t from = order[static_cast<std::size_t>(r)];
        if (is_float(x.dtype))
          put_real(out[0], to + r * inner, real_at(x, base + from * inner));
        else
          put_integer(out[0], to + r * inner, integer_at(x, base + from * inner));
        put_integer(out[1], to + r * inner, from);
      }
    }
  };
}

void counted_top_k(Context& c, int axis, bool largest) {
  TensorId x = c.input(0), k = c.input(1);
  if (count_of(c.dims(k)) != Size(1)) c.fail(Code::shape, fmt::format("k of shape {}", text_of(c.dims(k))));
  std::vector<Size> dims = c.dims(x);
  dims[at(axis)] = room_for(dims[at(axis)]);
  TensorId values = c.tensor(c.name(0), c.dtype(x), dims), found = c.tensor(c.name(1), DType::i64, dims);
  TensorId count = c.count();
  c.opaque("TopK", {x, k}, {values, found, count}, top_k(axis, largest, c.label()));
  for (int i : {0, 1}) {
    TensorId out = i == 0 ? values : found;
    c.counted(out, axis, count);
    c.output(i, out);
  }
}

void convert_top_k(Context& c) {
  TensorId x = c.input(0);
  int rank = c.rank(x), axis = c.axis(c.int_attr("axis", -1), rank);
  bool largest = c.int_attr("largest", 1) != 0;
  c.ignore_attr("sorted"); // sorted is one of the orders that unsorted allows
  if (c.opset() >= 10 && !c.known(c.input(1))) return counted_top_k(c, axis, largest);
  Size k = c.opset() < 10 ? Size(c.int_attr("k")) : c.size(c.input(1));
  std::vector<Size> dims = c.dims(x);
  if (k.is_constant() && dims[at(axis)].is_constant() &&
      (k.constant() < 0 || k.constant() > dims[at(axis)].constant())) {
    c.fail(Code::shape, fmt::format("k = {} of axis {} of {}", k.text(), axis, text_of(dims)));
  }
  if (!c.assume_at_most(k, dims[at(axis)]))
    c.unsupported(fmt::format("k = {} of {} elements", k.text(), dims[at(axis)].text()),
                  fix_hint({k}, {dims[at(axis)]}));
  dims[at(axis)] = k;
  if (k.is_constant() && k.constant() >= 1 && k.constant() <= most_guarded) {
    TensorId found = guarded_winners(c, x, axis, k.constant(), largest, dims);
    std::vector<Index> index = axis_indices(rank);
    index[at(axis)] = c.element_index(found, axis_indices(rank));
    c.output(0, c.map(c.name(0), c.dtype(x), dims, c.read(x, index)));
    return c.output(1, found);
  }
  TensorId values = c.tensor(c.name(0), c.dtype(x), dims), found = c.tensor(c.name(1), DType::i64, dims);
  c.opaque("TopK", {x}, {values, found}, top_k(axis, largest, c.label()));
  c.output(0, values);
  c.output(1, found);
}

} // namespace

std::vector<Operator> select_operators() {
  return {
      {"", "TopK", 7, 0, convert_top_k, "float, int", "opaque where k exceeds 8, or is known only at run time",
       "T i64"},
  };
}

} // namespace tilewright::onnx
