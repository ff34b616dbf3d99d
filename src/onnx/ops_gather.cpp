// Elements chosen by index tensors: accesses whose index is an element of another tensor.
//
//   Gather(W[v d], ids[n t], axis 0)  ->  Y[n t d] = W[ids[n t], d]
//   OneHot(ids[n], depth 10)          ->  Y[n k] = select(ids[n] == k, on, off)
#include <fmt/format.h>

#include <algorithm>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void need_integers(Context& c, TensorId indices) {
  if (!is_integer(c.dtype(indices))) c.fail(Code::type, fmt::format("indices of {}", name_of(c.dtype(indices))));
}

// A tensor without elements is never read, whatever its index would be.
TensorId chosen(Context& c, TensorId x, const std::vector<Size>& dims, std::vector<Index> index) {
  if (count_of(dims) == Size(0)) return c.map(c.name(), c.dtype(x), dims, zero_of(c.dtype(x)));
  return c.map(c.name(), c.dtype(x), dims, c.read(x, std::move(index)));
}

void convert_gather(Context& c) {
  TensorId x = c.input(0), indices = c.input(1);
  need_integers(c, indices);
  int rank = c.rank(x), axis = c.axis(c.int_attr("axis", 0), rank), many = c.rank(indices);
  std::vector<Size> in = c.dims(x), dims(in.begin(), in.begin() + axis), chosen_dims = c.dims(indices);
  dims.insert(dims.end(), chosen_dims.begin(), chosen_dims.end());
  dims.insert(dims.end(), in.begin() + axis + 1, in.end());
  std::vector<Index> index;
  for (int a = 0; a < rank; ++a) {
    if (a == axis)
      index.push_back(c.gather_index(indices, axis_indices(many, axis), in[at(axis)]));
    else
      index.push_back(axis_index(a < axis ? a : a + many - 1));
  }
  c.output(0, chosen(c, x, dims, index));
}

void convert_gather_elements(Context& c) {
  TensorId x = c.input(0), indices = c.input(1);
  need_integers(c, indices);
  int rank = c.rank(x), axis = c.axis(c.int_attr("axis", 0), rank);
  if (c.rank(indices) != rank) {
    c.fail(Code::shape, fmt::format("indices {} for data {}", text_of(c.dims(indices)), text_of(c.dims(x))));
  }
  for (int a = 0; a < rank; ++a) {
    if (a == axis || c.assume_at_most(c.dims(indices)[at(a)], c.dims(x)[at(a)])) continue;
    c.fail(Code::shape, fmt::format("indices {} are more than data {} along axis {}", text_of(c.dims(indices)),
                                    text_of(c.dims(x)), a));
  }
  std::vector<Index> index = axis_indices(rank);
  index[at(axis)] = c.gather_index(indices, axis_indices(rank), c.dims(x)[at(axis)]);
  c.output(0, chosen(c, x, c.dims(indices), index));
}

void convert_gather_nd(Context& c) {
  TensorId x = c.input(0), indices = c.input(1);
  need_integers(c, indices);
  int batch = static_cast<int>(c.int_attr("batch_dims", 0)), rank = c.rank(x), many = c.rank(indices);
  std::vector<Size> in = c.dims(x), given = c.dims(indices);
  if (many < 1 || batch < 0 || batch >= std::min(rank, many)) {
    c.fail(Code::shape, fmt::format("batch_dims {} of data {} and indices {}", batch, text_of(in), text_of(given)));
  }
  for (int a = 0; a < batch; ++a) {
    if (in[at(a)] != given[at(a)])
      c.fail(Code::shape, fmt::format("batch dim {} of data {} and indices {}", a, text_of(in), text_of(given)));
  }
  if (!given.back().is_constant()) c.unsupported("index tuples of free length", fix_hint({given.back()}));
  auto tuple = given.back().constant();
  if (tuple < 1 || tuple > rank - batch) {
    c.fail(Code::shape, fmt::format("index tuples of {} elements for data {}", tuple, text_of(in)));
  }
  std::vector<Size> dims(given.begin(), given.end() - 1);
  std::vector<Index> index = axis_indices(batch);
  for (int k = 0; k < static_cast<int>(tuple); ++k) {
    std::vector<Index> from = axis_indices(many - 1);
    from.push_back(constant_index(k));
    index.push_back(c.gather_index(indices, from, in[at(batch + k)]));
  }
  for (int a = batch + static_cast<int>(tuple); a < rank; ++a) {
    index.push_back(axis_index(static_cast<AxisId>(dims.size())));
    dims.push_back(in[at(a)]);
  }
  c.output(0, chosen(c, x, dims, index));
}

// An index outside [-depth, depth) makes a row of off values.
void convert_one_hot(Context& c) {
  TensorId indices = c.input(0), values = c.input(2);
  int rank = c.rank(indices) + 1, axis = c.axis(c.int_attr("axis", -1), rank);
  Size depth =
      is_float(c.dtype(c.input(1))) ? Size(static_cast<std::int64_t>(c.real_of(c.input(1)))) : c.size(c.input(1));
  if (c.dims(values) != std::vector<Size>{2})
    c.fail(Code::shape, fmt::format("values of shape {}, two are wanted: off, on", text_of(c.dims(values))));
  std::vector<Size> dims = c.dims(indices);
  dims.insert(dims.begin() + axis, depth);
  std::vector<Index> from = axis_indices(rank);
  from.erase(from.begin() + axis);
  ScalarRef i = cast(c.read(indices, from), DType::i64), k = axis_value(axis, DType::i64);
  ScalarRef hit = binary(Op::logical_or, binary(Op::eq, i, k),
                         binary(Op::eq, binary(Op::add, i, literal(Element::of(depth), DType::i64)), k));
  ScalarRef body = select(hit, c.read(values, {constant_index(1)}), c.read(values, {constant_index(0)}));
  c.output(0, c.map(c.name(), c.dtype(values), dims, body));
}

} // namespace

std::vector<Operator> gather_operators() {
  return {
      {"", "Gather", 7, 0, convert_gather, "all", "", "T index"},
      {"", "GatherElements", 11, 0, convert_gather_elements, "all", "", "T index"},
      {"", "GatherND", 11, 0, convert_gather_nd, "all", "", "T i64"},
      {"", "OneHot", 9, 0, convert_one_hot, "all", "depth must be a size expression", "number number T"},
  };
}

} // namespace tilewright::onnx
