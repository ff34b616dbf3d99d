// Views and shape helpers of a converter: statements whose body is one access.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "onnx/context.h"

namespace tilewright::onnx {

TensorId Context::view(const std::string& hint, TensorId t, std::vector<Size> dims, std::vector<Index> at,
                       ScalarRef otherwise) {
  for (Index& index : at) index = simplify(index, dims);
  if (count_of(dims) == Size(0)) return map(hint, dtype(t), dims, zero_of(dtype(t)));
  return map(hint, dtype(t), dims, read(t, std::move(at), std::move(otherwise)));
}

TensorId Context::transpose(const std::string& hint, TensorId t, const std::vector<int>& perm) {
  std::vector<Size> in = dims(t), out;
  std::vector<Index> at(in.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    out.push_back(in[static_cast<std::size_t>(perm[i])]);
    at[static_cast<std::size_t>(perm[i])] = axis_index(static_cast<AxisId>(i));
  }
  return view(hint, t, out, at);
}

// Dims are matched in groups of equal products, so that only dims that really mix are linearised:
// [n 12 64] -> [n 768] reads [n, c // 64, c % 64].
TensorId Context::reshape(const std::string& hint, TensorId t, const std::vector<Size>& out) {
  std::vector<Size> in = dims(t);
  if (in == out) return t;
  if (count_of(in) != count_of(out)) {
    fail(Code::shape, fmt::format("{} has another number of elements than {}", text_of(in), text_of(out)),
         fix_hint({count_of(in)}, {count_of(out)}));
  }
  std::vector<Index> at(in.size(), constant_index(0));
  if (count_of(in) == Size(0)) return view(hint, t, out, at);
  std::size_t i = 0, j = 0;
  while (i < in.size() || j < out.size()) {
    std::size_t i0 = i, j0 = j;
    Size a = 1, b = 1;
    auto take_in = [&] { a = a * in[i++]; };
    auto take_out = [&] { b = b * out[j++]; };
    if (i < in.size())
      take_in();
    else
      take_out();
    while (a != b) {
      if (j < out.size() && (i == in.size() || divides(b, a)))
        take_out();
      else if (i < in.size())
        take_in();
      else
        take_out();
    }
    std::vector<Index> axes = axis_indices(static_cast<int>(j - j0), static_cast<int>(j0));
    Index linear = linear_index(
        axes, {out.begin() + static_cast<std::ptrdiff_t>(j0), out.begin() + static_cast<std::ptrdiff_t>(j)});
    std::vector<Index> part =
        unravel(linear, {in.begin() + static_cast<std::ptrdiff_t>(i0), in.begin() + static_cast<std::ptrdiff_t>(i)});
    std::copy(part.begin(), part.end(), at.begin() + static_cast<std::ptrdiff_t>(i0));
  }
  return view(hint, t, out, at);
}

TensorId Context::cast_to(const std::string& hint, TensorId t, DType d) {
  if (dtype(t) == d) return t;
  std::vector<Size> extents = dims(t);
  return map(hint, d, extents, cast(read(t, axis_indices(rank(t))), d));
}

// ---- shapes

ScalarRef zero_of(DType d) {
  if (d == DType::boolean) return boolean(false);
  return is_float(d) ? number(0, compute_type(d)) : integer(0, compute_type(d));
}

std::vector<Index> axis_indices(int count, int first) {
  std::vector<Index> result;
  for (int i = 0; i < count; ++i) result.push_back(axis_index(first + i));
  return result;
}

Size room_for(const Size& rows) { return rows.is_constant() ? Size(std::max<std::int64_t>(rows.constant(), 2)) : rows; }

Size count_of(const std::vector<Size>& dims) {
  return std::accumulate(dims.begin(), dims.end(), Size(1), [](const Size& a, const Size& b) { return a * b; });
}

std::string text_of(const std::vector<Size>& dims) {
  std::vector<std::string> words;
  for (const Size& s : dims) words.push_back(s.text());
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::string fix_hint(const std::vector<Size>& a, const std::vector<Size>& b) {
  auto symbols = [](const std::vector<Size>& sizes) {
    std::vector<std::string> names;
    for (const Size& s : sizes) s.collect_symbols(names);
    return std::set<std::string>(names.begin(), names.end());
  };
  std::set<std::string> left = symbols(a), right = symbols(b), names;
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(),
                                std::inserter(names, names.end()));
  if (names.empty())
    std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::inserter(names, names.end()));
  if (names.empty()) return {};
  return fmt::format("{}: --size {}=N", names.size() == 1 ? "give the size a value" : "give these sizes values",
                     fmt::join(names, "=N --size "));
}

std::vector<Size> broadcast(const Context& c, const std::vector<Size>& a, const std::vector<Size>& b) {
  std::size_t n = std::max(a.size(), b.size());
  std::vector<Size> result(n, Size(1));
  for (std::size_t i = 0; i < n; ++i) {
    Size x = i + a.size() >= n ? a[i + a.size() - n] : Size(1), y = i + b.size() >= n ? b[i + b.size() - n] : Size(1);
    if (x != y && x != Size(1) && y != Size(1)) {
      c.fail(Code::shape,
             fmt::format("{} and {} do not broadcast: {} is not known to equal {}", text_of(a), text_of(b), x.text(),
                         y.text()),
             fix_hint({x}, {y}));
    }
    result[i] = x == Size(1) ? y : x;
  }
  return result;
}

std::vector<Index> broadcast_index(const std::vector<Size>& dims, const std::vector<Size>& out,
                                   const std::vector<Index>& axes) {
  std::vector<Index> at;
  std::size_t skip = out.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    bool repeated = dims[i] == Size(1) && out[i + skip] != Size(1);
    at.push_back(repeated || dims[i] == Size(1) ? constant_index(0) : axes[i + skip]);
  }
  return at;
}

Index linear_index(const std::vector<Index>& at, const std::vector<Size>& dims) {
  Index linear = constant_index(0);
  Size stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != Size(1)) linear = linear + stride * at[i];
    stride = stride * dims[i];
  }
  return linear;
}

std::vector<Index> unravel(const Index& linear, const std::vector<Size>& dims) {
  std::vector<Index> at(dims.size());
  Size inner = 1;
  std::size_t first = 0; // the outermost dim that is not 1 needs no remainder
  while (first < dims.size() && dims[first] == Size(1)) ++first;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == Size(1)) {
      at[i] = constant_index(0);
      continue;
    }
    Index q = inner == Size(1) ? linear : floor_div(linear, inner);
    at[i] = i == first ? q : floor_mod(q, dims[i]);
    inner = inner * dims[i];
  }
  return at;
}

} // namespace tilewright::onnx
