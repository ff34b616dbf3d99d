// Writes at positions that are known only at run time: opaque, with a reference that the host runs.
//
//   ScatterND(data[n d], indices[k 1], updates[k d])  ->  opaque Y[n d] = ScatterND(data, indices, updates)
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "onnx/arrays.h"
#include "onnx/ops_tables.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

enum class Into { replace, add, mul, max, min };

Into into_of(Context& c, int since) {
  std::string r = c.opset() >= since ? c.text_attr("reduction", "none") : "none";
  if (r == "none") return Into::replace;
  if (r == "add") return Into::add;
  if (r == "mul") return Into::mul;
  if (r == "max") return Into::max;
  if (r == "min") return Into::min;
  c.fail(Code::model, fmt::format("reduction '{}'", r));
}

template <class T> T merged(Into into, T old, T value) {
  switch (into) {
  case Into::add: return static_cast<T>(old + value);
  case Into::mul: return static_cast<T>(old * value);
  case Into::max: return std::max(old, value);
  case Into::min: return std::min(old, value);
  default: return value;
  }
}

// to[i] = from[j], merged; floats in double, integers in 64 bits.
void write(Into into, Array& to, std::int64_t i, const Array& from, std::int64_t j) {
  if (into == Into::replace) {
    std::size_t size = bytes_of(to.dtype);
    std::memcpy(to.data + static_cast<std::size_t>(i) * size, from.data + static_cast<std::size_t>(j) * size, size);
  } else if (is_float(to.dtype)) {
    put_real(to, i, merged(into, real_at(to, i), real_at(from, j)));
  } else {
    put_integer(to, i, merged(into, integer_at(to, i), integer_at(from, j)));
  }
}

std::int64_t checked_index(std::int64_t i, std::int64_t extent, const std::string& label) {
  if (i < -extent || i >= extent) throw Error(Code::bounds, label, fmt::format("index {} into {} elements", i, extent));
  return i < 0 ? i + extent : i;
}

Reference scatter_elements(Into into, int axis, const std::string& label) {
  return [=](std::span<const Array> in, std::span<Array> out) {
    const Array &data = in[0], &indices = in[1], &updates = in[2];
    std::memcpy(out[0].data, data.data, data.bytes());
    std::vector<std::int64_t> strides = strides_of(data.dims);
    auto a = static_cast<std::size_t>(axis);
    for_each_position(indices.dims, [&](const std::vector<std::int64_t>& at, std::int64_t j) {
      std::int64_t to = checked_index(integer_at(indices, j), data.dims[a], label) * strides[a];
      for (std::size_t k = 0; k < at.size(); ++k) to += k == a ? 0 : at[k] * strides[k];
      write(into, out[0], to, updates, j);
    });
  };
}

Reference scatter_nd(Into into, const std::string& label) {
  return [=](std::span<const Array> in, std::span<Array> out) {
    const Array &data = in[0], &indices = in[1], &updates = in[2];
    std::memcpy(out[0].data, data.data, data.bytes());
    std::vector<std::int64_t> strides = strides_of(data.dims);
    auto tuple = static_cast<std::size_t>(indices.dims.back());
    std::int64_t slices = indices.dims.back() == 0 ? 0 : indices.count() / indices.dims.back();
    std::int64_t slice = std::accumulate(data.dims.begin() + static_cast<std::ptrdiff_t>(tuple), data.dims.end(),
                                         std::int64_t{1}, std::multiplies<>());
    for (std::int64_t s = 0; s < slices; ++s) {
      std::int64_t to = 0;
      for (std::size_t k = 0; k < tuple; ++k) {
        to += checked_index(integer_at(indices, s * indices.dims.back() + static_cast<std::int64_t>(k)), data.dims[k],
                            label) *
              strides[k];
      }
      for (std::int64_t i = 0; i < slice; ++i) write(into, out[0], to + i, updates, s * slice + i);
    }
  };
}

void emit(Context& c, Reference reference) {
  TensorId data = c.input(0), indices = c.input(1), updates = c.input(2);
  if (!is_integer(c.dtype(indices))) c.fail(Code::type, fmt::format("indices of {}", name_of(c.dtype(indices))));
  if (c.dtype(updates) != c.dtype(data)) c.fail(Code::type, "data and updates have different types");
  TensorId out = c.tensor(c.name(), c.dtype(data), c.dims(data));
  c.opaque(std::string(c.node().op_type), {data, indices, updates}, {out}, std::move(reference));
  c.output(0, out);
}

void convert_scatter_elements(Context& c) {
  TensorId data = c.input(0), indices = c.input(1), updates = c.input(2);
  int axis = c.axis(c.int_attr("axis", 0), c.rank(data));
  if (c.rank(indices) != c.rank(data) || c.dims(indices) != c.dims(updates)) {
    c.fail(Code::shape, fmt::format("data {}, indices {}, updates {}", text_of(c.dims(data)), text_of(c.dims(indices)),
                                    text_of(c.dims(updates))));
  }
  emit(c, scatter_elements(into_of(c, 16), axis, c.label()));
}

void convert_scatter_nd(Context& c) {
  std::vector<Size> data = c.dims(c.input(0)), indices = c.dims(c.input(1)), updates = c.dims(c.input(2));
  bool good = !indices.empty() && indices.back().is_constant() &&
              indices.back().constant() <= static_cast<std::int64_t>(data.size());
  if (good) {
    std::vector<Size> need(indices.begin(), indices.end() - 1);
    need.insert(need.end(), data.begin() + indices.back().constant(), data.end());
    good = need == updates;
  }
  if (!good) {
    c.fail(Code::shape,
           fmt::format("data {}, indices {}, updates {}", text_of(data), text_of(indices), text_of(updates)));
  }
  emit(c, scatter_nd(into_of(c, 16), c.label()));
}

// A cache that is written from a position on: its elements are read from the update where that has them.
void convert_tensor_scatter(Context& c) {
  TensorId past = c.input(0), update = c.input(1);
  std::string mode = c.text_attr("mode", "linear");
  if (mode != "linear" && mode != "circular") c.fail(Code::model, fmt::format("mode '{}'", mode));
  int rank = c.rank(past), axis = c.axis(c.int_attr("axis", -2), rank);
  std::vector<Size> dims = c.dims(past), given = c.dims(update);
  for (int a = 0; a < rank; ++a) {
    bool fits = c.rank(update) == rank && (a == axis || given[at(a)] == dims[at(a)]);
    if (!fits || axis == 0) {
      c.fail(Code::shape, fmt::format("update {} of cache {} along axis {}", text_of(given), text_of(dims), axis));
    }
  }
  if (c.has(2) && c.dims(c.input(2)) != std::vector<Size>{dims[0]}) {
    c.fail(Code::shape, fmt::format("write_indices {} for a batch of {}", text_of(c.dims(c.input(2))), dims[0].text()));
  }
  std::vector<Index> all = axis_indices(rank), from = all;
  if (c.has(2)) from[at(axis)] = from[at(axis)] - c.element_index(c.input(2), {axis_index(0)});
  if (mode == "circular") from[at(axis)] = floor_mod(from[at(axis)], dims[at(axis)]);
  c.output(0, c.map(c.name(), c.dtype(past), dims, c.read(update, from, c.read(past, all))));
}

} // namespace

std::vector<Operator> scatter_operators() {
  return {
      {"", "Scatter", 9, 10, convert_scatter_elements, "all", "opaque", "T index T"},
      {"", "ScatterElements", 11, 0, convert_scatter_elements, "all", "opaque", "T index T"},
      {"", "ScatterND", 11, 0, convert_scatter_nd, "all", "opaque", "T i64 T"},
      {"", "TensorScatter", 24, 0, convert_tensor_scatter, "all, f8", "", "T T i64"},
  };
}

} // namespace tilewright::onnx
