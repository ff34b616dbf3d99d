// Contractions: one sum over a product.
//
//   MatMul(A[b m k], B[k n])                    ->  Y[b m n] = sum[k] A[b m k] * B[k n]
//   Gemm(A, B, C, alpha, beta, transB)          ->  P[m n] = sum[k] A[m k] * B[n k];  Y = alpha * P + beta * C
//   Einsum("bhqd,bhkd->bhqk", Q, K)             ->  Y[b h q k] = sum[d] Q[b h q d] * K[b h k d]
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "onnx/contractions.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void same_types(Context& c) {
  for (int i = 1; i < c.inputs(); ++i) {
    if (c.dtype(c.input(i)) != c.dtype(c.input(0))) {
      c.fail(Code::type,
             fmt::format("inputs of {} and {}", name_of(c.dtype(c.input(0))), name_of(c.dtype(c.input(i)))));
    }
  }
}

void convert_matmul(Context& c) {
  same_types(c);
  const TensorId a = c.input(0), b = c.input(1);
  const MatrixProduct v = matrix_product_of(c, a, b);
  const ScalarRef body = binary(Op::mul, c.read(a, v.at_a), c.read(b, v.at_b));
  c.output(0, c.reduce(c.name(), c.dtype(a), v.axes, body, Reducer::sum, {v.inner}));
}

void convert_gemm(Context& c) {
  same_types(c);
  double alpha = c.real_attr("alpha", 1.0), beta = c.real_attr("beta", 1.0);
  bool flip_a = c.int_attr("transA", 0) != 0, flip_b = c.int_attr("transB", 0) != 0;
  TensorId a = c.input(0), b = c.input(1);
  std::vector<Size> left = c.dims(a), right = c.dims(b);
  if (left.size() != 2 || right.size() != 2 || left[flip_a ? 0 : 1] != right[flip_b ? 1 : 0]) {
    c.fail(Code::shape, fmt::format("{}{} times {}{}", text_of(left), flip_a ? " transposed" : "", text_of(right),
                                    flip_b ? " transposed" : ""));
  }
  DType d = c.dtype(a), wide = compute_type(d);
  Size m = left[flip_a ? 1 : 0], k = left[flip_a ? 0 : 1], n = right[flip_b ? 0 : 1];
  Index i = axis_index(0), j = axis_index(1), l = axis_index(2);
  std::vector<Index> at_a{flip_a ? l : i, flip_a ? i : l}, at_b{flip_b ? j : l, flip_b ? l : j};
  ScalarRef product = binary(Op::mul, c.read(a, at_a), c.read(b, at_b));
  bool plain = alpha == 1 && (!c.has(2) || beta == 0);
  TensorId sum =
      c.reduce(plain ? c.name() : c.name("product"), plain ? d : wide, {m, n, k}, product, Reducer::sum, {2});
  if (plain) return c.output(0, sum);
  auto scaled = [&](ScalarRef x, double by) {
    if (by == 1) return x;
    return is_float(d) ? binary(Op::mul, number(by, wide), x)
                       : cast(binary(Op::mul, number(by, DType::f64), cast(x, DType::f64)), wide);
  };
  ScalarRef y = scaled(c.read(sum, {i, j}), alpha);
  if (c.has(2) && beta != 0) {
    if (broadcast(c, c.dims(c.input(2)), {m, n}) != std::vector<Size>{m, n}) {
      c.fail(Code::shape,
             fmt::format("C of shape {} does not broadcast to {}", text_of(c.dims(c.input(2))), text_of({m, n})));
    }
    y = binary(Op::add, y, scaled(c.read_broadcast(c.input(2), {m, n}), beta));
  }
  c.output(0, c.map(c.name(), d, {m, n}, y));
}

// ---- Einsum

// One side of an equation: a label a dim; '.' stands for each dim of an ellipsis.
struct Labels {
  std::string text;
  bool ellipsis = false;
};

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char ch) { return std::isspace(ch); });
  return text;
}

Labels labels_of(Context& c, std::string term) {
  Labels result;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])))
      result.text += term[i];
    else if (term.substr(i, 3) == "..." && !result.ellipsis) {
      result.text += '.';
      result.ellipsis = true;
      i += 2;
    } else
      c.fail(Code::model, fmt::format("equation term '{}'", term));
  }
  return result;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (char ch : text) {
    if (ch == by)
      parts.emplace_back();
    else
      parts.back() += ch;
  }
  return parts;
}

// The axes of the statement: of an ellipsis first, then one a label, in the order of the output and then of appearance.
struct Equation {
  std::vector<Labels> in;
  Labels out;
  std::vector<Size> ellipsis; // broadcast extents
  std::map<char, Size> extents;
  std::map<char, AxisId> axis;
};

Equation parse_equation(Context& c) {
  Equation e;
  std::string text = without_blanks(c.text_attr("equation"));
  auto arrow = text.find("->");
  for (const std::string& term : split(text.substr(0, arrow), ',')) e.in.push_back(labels_of(c, term));
  if (static_cast<int>(e.in.size()) != c.inputs()) {
    c.fail(Code::model, fmt::format("{} terms for {} inputs", e.in.size(), c.inputs()));
  }
  for (int i = 0; i < c.inputs(); ++i) {
    std::vector<Size> dims = c.dims(c.input(i));
    const Labels& l = e.in[at(i)];
    std::size_t named = l.text.size() - (l.ellipsis ? 1 : 0);
    if (l.ellipsis ? named > dims.size() : named != dims.size()) {
      c.fail(Code::shape, fmt::format("term '{}' for an input of shape {}", l.text, text_of(dims)));
    }
    std::size_t dim = 0;
    for (char ch : l.text) {
      if (ch == '.') {
        std::size_t n = dims.size() - named;
        e.ellipsis = broadcast(
            c, e.ellipsis,
            {dims.begin() + static_cast<std::ptrdiff_t>(dim), dims.begin() + static_cast<std::ptrdiff_t>(dim + n)});
        dim += n;
        continue;
      }
      auto [found, fresh] = e.extents.emplace(ch, dims[dim]);
      if (!fresh && found->second != dims[dim] && found->second != Size(1) && dims[dim] != Size(1)) {
        c.fail(Code::shape, fmt::format("label {} is {} and {}", ch, found->second.text(), dims[dim].text()));
      }
      if (found->second == Size(1)) found->second = dims[dim];
      ++dim;
    }
  }
  if (arrow != std::string::npos)
    e.out = labels_of(c, text.substr(arrow + 2));
  else {
    e.out.ellipsis = std::any_of(e.in.begin(), e.in.end(), [](const Labels& l) { return l.ellipsis; });
    if (e.out.ellipsis) e.out.text = ".";
    for (const auto& [ch, extent] : e.extents) { // sorted: labels that occur once
      std::ptrdiff_t times = 0;
      for (const Labels& l : e.in) times += std::count(l.text.begin(), l.text.end(), ch);
      if (times == 1) e.out.text += ch;
    }
  }
  return e;
}

void convert_einsum(Context& c) {
  Equation e = parse_equation(c);
  std::vector<Size> axes;
  std::vector<AxisId> reduced;
  AxisId ellipsis = 0;
  auto add = [&](char ch) {
    e.axis[ch] = static_cast<AxisId>(axes.size());
    axes.push_back(e.extents.at(ch));
  };
  for (char ch : e.out.text) {
    if (ch == '.') {
      ellipsis = static_cast<AxisId>(axes.size());
      axes.insert(axes.end(), e.ellipsis.begin(), e.ellipsis.end());
    } else {
      if (!e.extents.contains(ch) || e.axis.contains(ch))
        c.fail(Code::model, fmt::format("label {} of the output", ch));
      add(ch);
    }
  }
  if (!e.out.ellipsis && !e.ellipsis.empty()) c.fail(Code::model, "the output lacks the ellipsis");
  for (const Labels& l : e.in) {
    for (char ch : l.text) {
      if (ch == '.' || e.axis.contains(ch)) continue;
      reduced.push_back(static_cast<AxisId>(axes.size()));
      add(ch);
    }
  }
  ScalarRef body;
  for (int i = 0; i < c.inputs(); ++i) {
    std::vector<Size> dims = c.dims(c.input(i));
    std::vector<Index> index;
    std::size_t named = e.in[at(i)].text.size() - (e.in[at(i)].ellipsis ? 1 : 0);
    for (char ch : e.in[at(i)].text) {
      if (ch == '.') {
        std::size_t n = dims.size() - named, skip = e.ellipsis.size() - n;
        for (std::size_t k = 0; k < n; ++k) {
          bool one = dims[index.size()] == Size(1);
          index.push_back(one ? constant_index(0) : axis_index(ellipsis + static_cast<AxisId>(skip + k)));
        }
      } else {
        index.push_back(dims[index.size()] == Size(1) ? constant_index(0) : axis_index(e.axis.at(ch)));
      }
    }
    ScalarRef factor = c.read(c.input(i), index);
    body = body ? binary(Op::mul, body, factor) : factor;
  }
  Reducer r = reduced.empty() ? Reducer::none : Reducer::sum;
  c.output(0, c.reduce(c.name(), c.dtype(c.input(0)), axes, body, r, reduced));
}

} // namespace

// Vectors count as a row on the left and a column on the right; that dim is left out of the result.
MatrixProduct matrix_product_of(Context& c, TensorId a, TensorId b) {
  const std::vector<Size> left = c.dims(a), right = c.dims(b);
  if (left.empty() || right.empty()) c.fail(Code::shape, fmt::format("{} times {}", text_of(left), text_of(right)));
  const bool row = left.size() == 1, column = right.size() == 1;
  const Size k = left.back();
  if (k != (column ? right[0] : right[right.size() - 2]))
    c.fail(Code::shape, fmt::format("{} times {}: the inner extents differ", text_of(left), text_of(right)));
  const std::vector<Size> left_batch(left.begin(), left.end() - (row ? 1 : 2)),
      right_batch(right.begin(), right.end() - (column ? 1 : 2));
  MatrixProduct v;
  v.axes = broadcast(c, left_batch, right_batch);
  const std::vector<Index> batch_axes = axis_indices(static_cast<int>(v.axes.size()));
  v.at_a = broadcast_index(left_batch, v.axes, batch_axes);
  v.at_b = broadcast_index(right_batch, v.axes, batch_axes);
  auto add = [&](const Size& extent) {
    v.axes.push_back(extent);
    return static_cast<AxisId>(v.axes.size()) - 1;
  };
  if (!row) v.at_a.push_back(axis_index(v.row = add(left[left.size() - 2])));
  if (!column) v.column = add(right.back());
  v.inner = add(k);
  v.at_a.push_back(axis_index(v.inner));
  v.at_b.push_back(axis_index(v.inner));
  if (!column) v.at_b.push_back(axis_index(v.column));
  return v;
}

std::vector<Operator> matmul_operators() {
  return {
      {"", "Einsum", 12, 0, convert_einsum, "float, int"},
      {"", "Gemm", 7, 0, convert_gemm, "float, i32, i64"},
      {"", "MatMul", 7, 0, convert_matmul, "float, i32, i64"},
  };
}

} // namespace tilewright::onnx
