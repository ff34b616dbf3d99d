// Operators that choose elements, and so many as their values say: opaque, and counted (onnx/counted.h).
//
//   NonZero(X[h w])          ->  opaque Y[r n] : i64, Y.count : i64 = NonZero(X)               r = 2, n = h*w
//   Compress(X[h w], c[h])   ->  opaque I[n] : i64, I.count : i64 = Compress(c)                Y[i j] = X[I[i], j]
//   where i < I.count Unique(X[n])             ->  opaque F[n], inverse[n], counts[n], F.count = Unique(X)       Y[i] =
//   X[F[i]] where i < F.count
//
// What is chosen is read by an ordinary statement, so that the host function sees as little as it must.
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

bool is_nonzero(const Array& a, std::int64_t i) {
  return is_float(a.dtype) ? real_at(a, i) != 0 : integer_at(a, i) != 0;
}

bool is_constant(const Elements& elements) {
  return std::all_of(elements.begin(), elements.end(), [](const Element& e) { return e.is_constant(); });
}

void clear(std::span<Array> arrays) {
  for (Array& a : arrays) std::memset(a.data, 0, a.bytes());
}

// ---- NonZero

void non_zero(std::span<const Array> in, std::span<Array> out) {
  clear(out);
  const std::int64_t room = out[0].dims[1];
  std::int64_t found = 0;
  for_each_position(in[0].dims, [&](const std::vector<std::int64_t>& position, std::int64_t linear) {
    if (!is_nonzero(in[0], linear)) return;
    for (std::size_t d = 0; d < position.size(); ++d)
      put_integer(out[0], static_cast<std::int64_t>(d) * room + found, position[d]);
    ++found;
  });
  put_integer(out[1], 0, found);
}

// Of elements that are known the positions are, too: ConstantOfShape -> NonZero is how some exporters write a range.
bool known_non_zero(Context& c, const std::vector<Size>& dims) {
  const Elements* elements = c.known(c.input(0));
  if (!elements || !is_constant(*elements)) return false;
  std::vector<std::int64_t> extents;
  for (const Size& s : dims) extents.push_back(s.constant());
  std::vector<Elements> positions(dims.size());
  for_each_position(extents, [&](const std::vector<std::int64_t>& position, std::int64_t linear) {
    const Element& e = (*elements)[static_cast<std::size_t>(linear)];
    if (e.real ? *e.real == 0 : e.size == Size(0)) return;
    for (std::size_t d = 0; d < position.size(); ++d) positions[d].push_back(Element::of(Size(position[d])));
  });
  Elements all;
  for (const Elements& row : positions) all.insert(all.end(), row.begin(), row.end());
  const auto count = static_cast<std::int64_t>(positions[0].size());
  c.output(0, c.constant(c.name(), DType::i64, {static_cast<std::int64_t>(dims.size()), count}, std::move(all)));
  return true;
}

void convert_non_zero(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> dims = c.dims(x);
  if (dims.empty()) c.unsupported("an input without dims");
  if (known_non_zero(c, dims)) return;
  TensorId y = c.tensor(c.name(), DType::i64, {c.rank(x), room_for(count_of(dims))}), count = c.count();
  c.opaque("NonZero", {x}, {y, count}, non_zero);
  c.counted(y, 1, count);
  c.output(0, y);
}

// ---- Compress

void positions(std::span<const Array> in, std::span<Array> out) {
  clear(out);
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < in[0].count(); ++i)
    if (is_nonzero(in[0], i)) put_integer(out[0], found++, i);
  put_integer(out[1], 0, found);
}

// out[.. i ..] = x[.. index[i] ..] along `axis`.
void output_chosen(Context& c, TensorId x, int axis, TensorId index) {
  std::vector<Size> dims = c.dims(x);
  dims[at(axis)] = c.dims(index)[0];
  std::vector<Index> from = axis_indices(c.rank(x));
  from[at(axis)] = c.element_index(index, {axis_index(axis)});
  c.output(0, c.view(c.name(), x, dims, from));
}

void convert_compress(Context& c) {
  TensorId x = c.input(0), condition = c.input(1);
  if (c.rank(condition) != 1) c.fail(Code::shape, fmt::format("a condition of shape {}", text_of(c.dims(condition))));
  int axis = 0;
  if (c.has_attr("axis"))
    axis = c.axis(c.int_attr("axis"), c.rank(x));
  else
    x = c.reshape(c.name("flat"), x, {count_of(c.dims(x))});
  const Size length = c.dims(condition)[0], rows = min(length, c.dims(x)[at(axis)]);
  if (rows != length) condition = c.view(c.name("condition"), condition, {rows}, {axis_index(0)});
  if (const Elements* known = c.known(condition); known && is_constant(*known)) {
    Elements chosen;
    for (std::size_t i = 0; i < known->size(); ++i)
      if ((*known)[i].size != Size(0)) chosen.push_back(Element::of(Size(static_cast<std::int64_t>(i))));
    const auto count = static_cast<std::int64_t>(chosen.size());
    return output_chosen(c, x, axis, c.constant(c.name("index"), DType::i64, {count}, std::move(chosen)));
  }
  TensorId index = c.tensor(c.name("index"), DType::i64, {room_for(rows)}), count = c.count();
  c.opaque("Compress", {condition}, {index, count}, positions);
  c.counted(index, 0, count);
  output_chosen(c, x, axis, index);
}

// ---- Unique

// Rows of x[n m] are compared as wholes, NaN behind all numbers. out: first[n], inverse[n], counts[n], count.
struct Rows {
  const Array& x;
  std::int64_t width;

  int compare(std::int64_t a, std::int64_t b) const {
    for (std::int64_t j = 0; j < width; ++j) {
      const int c = is_float(x.dtype) ? reals(real_at(x, a * width + j), real_at(x, b * width + j))
                                      : ordered(integer_at(x, a * width + j), integer_at(x, b * width + j));
      if (c != 0) return c;
    }
    return 0;
  }
  template <class T> static int ordered(T a, T b) { return a < b ? -1 : a > b ? 1 : 0; }
  static int reals(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return ordered<int>(std::isnan(a), std::isnan(b));
    return ordered(a, b);
  }
};

void unique(std::span<const Array> in, std::span<Array> out, bool sorted) {
  clear(out);
  const std::int64_t n = in[0].dims[0];
  const Rows rows{in[0], in[0].dims[1]};
  std::vector<std::int64_t> order(static_cast<std::size_t>(n)), first(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return rows.compare(a, b) < 0; });
  std::vector<std::int64_t> firsts; // of each value where it stands first, in the order of the values
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || rows.compare(order[i - 1], order[i]) != 0) firsts.push_back(order[i]);
    first[static_cast<std::size_t>(order[i])] = firsts.back();
  }
  if (!sorted) std::sort(firsts.begin(), firsts.end());
  std::vector<std::int64_t> place(order.size());
  for (std::size_t k = 0; k < firsts.size(); ++k) {
    place[static_cast<std::size_t>(firsts[k])] = static_cast<std::int64_t>(k);
    put_integer(out[0], static_cast<std::int64_t>(k), firsts[k]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t k = place[static_cast<std::size_t>(first[static_cast<std::size_t>(i)])];
    put_integer(out[1], i, k);
    put_integer(out[2], k, integer_at(out[2], k) + 1);
  }
  put_integer(out[3], 0, static_cast<std::int64_t>(firsts.size()));
}

void convert_unique(Context& c) {
  TensorId x = c.input(0);
  const bool sorted = c.int_attr("sorted", 1) != 0;
  int axis = 0;
  if (c.has_attr("axis"))
    axis = c.axis(c.int_attr("axis"), c.rank(x));
  else
    x = c.reshape(c.name("flat"), x, {count_of(c.dims(x))});
  const Size n = c.dims(x)[at(axis)];
  std::vector<int> perm{axis};
  std::vector<Size> others = c.dims(x);
  others.erase(others.begin() + axis);
  for (int d = 0; d < c.rank(x); ++d)
    if (d != axis) perm.push_back(d);
  TensorId rows = c.reshape(c.name("rows"), c.transpose(c.name("turned"), x, perm), {n, count_of(others)});
  TensorId first = c.tensor(c.name("first"), DType::i64, {room_for(n)}), inverse = c.tensor(c.name(2), DType::i64, {n}),
           counts = c.tensor(c.name(3), DType::i64, {room_for(n)}), count = c.count();
  c.opaque("Unique", {rows}, {first, inverse, counts, count},
           [sorted](std::span<const Array> in, std::span<Array> out) { unique(in, out, sorted); });
  c.counted(counts, 0, count);
  c.counted(first, 0, count);
  output_chosen(c, x, axis, first);
  c.output(1, first);
  c.output(2, inverse);
  c.output(3, counts);
}

} // namespace

std::vector<Operator> counted_operators() {
  return {
      {"", "Compress", 9, 0, convert_compress, "all", "opaque; its extent is known when it has run", "T bool"},
      {"", "NonZero", 9, 0, convert_non_zero, "all", "opaque; its extent is known when it has run"},
      {"", "Unique", 11, 0, convert_unique, "all", "opaque; its extents are known when it has run"},
  };
}

} // namespace tilewright::onnx
