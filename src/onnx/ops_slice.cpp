// Parts of tensors and tensors of parts: Slice, Split, Concat, Pad, Trilu, ReverseSequence, CumSum.
//
//   Slice(X[n 8], axes 1, -1 : -9 : -2)  ->  Y[n i] = X[n, 7 - 2*i]
//   Concat(A[n 3], B[n 5])               ->  Y[n, c] = A[n c],  Y[n, c + 3] = B[n c]           two pieces
//   Pad(X[n x], 0 1 0 2, value 0)        ->  Y[n x] = X[n, x - 1 else 0]
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// ---- Slice

struct Cut {
  Size start, extent;
  std::int64_t step = 1;
};

// ONNX clamps both ends into the dim. With free sizes an end inside the dim is taken at its word and written into the
// size's range: x[:, :seq] of 512 columns bounds seq by 512, x[-1:] asks for one row at least. Only what no such range
// says is clamped by min and max.
Cut cut_of(Context& c, const Size& dim, Size start, Size end, std::int64_t step) {
  auto from_end = [&](const Size& v) { return v.range().high < 0 ? v + dim : v; };
  bool whole_start = start.is_constant() && (start.constant() >= INT32_MAX || start.constant() <= INT32_MIN);
  bool whole_end = end.is_constant() && (end.constant() >= INT32_MAX || end.constant() <= INT32_MIN);
  Size low = step > 0 ? Size(0) : Size(-1), high = step > 0 ? dim : dim - 1;
  auto clamp = [&](const Size& v) {
    if (v.is_constant() && dim.is_constant())
      return Size(std::clamp(v.constant(), low.constant(), std::max(low.constant(), high.constant())));
    Size r = c.assume_at_most(low, v) ? v : max(low, v);
    bool free_dim = v.is_constant() && v.constant() > 0; // x[:100] of n rows may well have fewer
    return !free_dim && c.assume_at_most(r, high) ? r : min(r, high);
  };
  if (whole_start)
    start = (start.constant() > 0) == (step > 0) ? high : (step > 0 ? Size(0) : high);
  else
    start = from_end(start);
  if (whole_end)
    end = end.constant() > 0 ? high : low;
  else
    end = from_end(end);
  if (!whole_start) {
    bool inside =
        start.is_constant() && start.constant() >= 0 && step > 0 && !dim.is_constant() && c.assume_at_most(start, dim);
    start = inside ? start : clamp(start);
  }
  if (!whole_end) end = clamp(end);
  Size extent = step > 0 ? ceil_div(end - start, step) : ceil_div(start - end, -step);
  if (extent.is_constant() && extent.constant() < 0) extent = 0;
  return {start, extent, step};
}

void convert_slice(Context& c) {
  TensorId x = c.input(0);
  bool attributes = c.opset() < 10;
  auto list = [&](const char* name, int input) -> std::optional<std::vector<Size>> {
    if (!attributes) return c.has(input) ? std::optional(c.sizes(c.input(input))) : std::nullopt;
    if (!c.has_attr(name)) return {};
    std::vector<std::int64_t> v = c.ints_attr(name);
    return std::vector<Size>(v.begin(), v.end());
  };
  auto starts = list("starts", 1), ends = list("ends", 2), axes = list("axes", 3),
       steps = attributes ? std::nullopt : list("steps", 4);
  if (!starts || !ends) c.fail(Code::model, "starts or ends are missing");
  std::size_t n = starts->size();
  if (ends->size() != n || (axes && axes->size() != n) || (steps && steps->size() != n)) {
    c.fail(Code::shape, "starts, ends, axes and steps differ in length");
  }
  std::vector<Size> dims = c.dims(x);
  std::vector<Index> index = axis_indices(c.rank(x));
  std::vector<std::int64_t> along;
  for (std::size_t i = 0; i < n; ++i) {
    Size given = axes ? (*axes)[i] : Size(static_cast<std::int64_t>(i));
    if (!given.is_constant()) c.unsupported("an axis that depends on a size", fix_hint({given}));
    along.push_back(given.constant());
  }
  std::vector<int> cut_axes = c.axes(along, c.rank(x));
  for (std::size_t i = 0; i < n; ++i) {
    Size step = steps ? (*steps)[i] : Size(1);
    if (!step.is_constant()) c.unsupported("a step that depends on a size", fix_hint({step}));
    if (step == Size(0)) c.fail(Code::shape, "step 0");
    int a = cut_axes[i];
    Cut cut = cut_of(c, dims[at(a)], (*starts)[i], (*ends)[i], step.constant());
    dims[at(a)] = cut.extent;
    index[at(a)] = Size(cut.step) * axis_index(a) + constant_index(cut.start);
  }
  if (dims == c.dims(x) &&
      std::all_of(index.begin(), index.end(), [](const Index& i) { return plain_axis(i).has_value(); })) {
    return c.output(0, x);
  }
  c.output(0, c.view(c.name(), x, dims, index));
}

// ---- Split and Concat

std::vector<Size> parts_of(Context& c, const Size& dim) {
  std::optional<std::vector<Size>> given;
  if (c.opset() >= 13 && c.has(1)) given = c.sizes(c.input(1));
  if (c.opset() < 13 && c.has_attr("split")) {
    std::vector<std::int64_t> v = c.ints_attr("split");
    given = std::vector<Size>(v.begin(), v.end());
  }
  std::int64_t n = c.outputs();
  if (c.opset() >= 18) n = c.int_attr("num_outputs", n);
  if (given) return *given;
  if (n < 1 || n > 65536) c.fail(Code::model, fmt::format("{} parts", n));
  Size chunk = c.opset() >= 18 ? ceil_div(dim, n) : floor_div(dim, n);
  if (c.opset() < 18 && !divides(n, dim))
    c.fail(Code::shape, fmt::format("{} does not divide into {} equal parts", dim.text(), n));
  std::vector<Size> parts(static_cast<std::size_t>(n), chunk);
  parts.back() = dim - Size(n - 1) * chunk;
  if (parts.back().is_constant() && parts.back().constant() < 0)
    c.fail(Code::shape, fmt::format("{} does not divide into {} parts", dim.text(), n));
  if (c.range(parts.back()).low < 0)
    c.unsupported(fmt::format("{} elements in {} parts, the last one shorter", dim.text(), n), fix_hint({dim}));
  return parts;
}

void convert_split(Context& c) {
  TensorId x = c.input(0);
  int axis = c.axis(c.int_attr("axis", 0), c.rank(x));
  std::vector<Size> dims = c.dims(x), parts = parts_of(c, dims[at(axis)]);
  Size sum = std::accumulate(parts.begin(), parts.end(), Size(0), [](const Size& a, const Size& b) { return a + b; });
  if (static_cast<int>(parts.size()) < c.outputs() || sum != dims[at(axis)]) {
    c.fail(Code::shape, fmt::format("parts {} of dim {} of {}", text_of(parts), axis, text_of(dims)));
  }
  Size start = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (c.wants(static_cast<int>(k))) {
      std::vector<Index> index = axis_indices(c.rank(x));
      index[at(axis)] = index[at(axis)] + constant_index(start);
      std::vector<Size> out = dims;
      out[at(axis)] = parts[k];
      c.output(static_cast<int>(k), c.view(c.name(static_cast<int>(k)), x, out, index));
    }
    start = start + parts[k];
  }
}

void convert_concat(Context& c) {
  if (c.inputs() == 0) c.fail(Code::model, "no inputs");
  TensorId first = c.input(0);
  int rank = c.rank(first), axis = c.axis(c.int_attr("axis"), rank);
  std::vector<Size> dims = c.dims(first);
  if (c.inputs() == 1) return c.output(0, first);
  Size total = 0;
  for (int i = 0; i < c.inputs(); ++i) {
    std::vector<Size> part = c.dims(c.input(i));
    bool fits = part.size() == dims.size();
    for (int a = 0; fits && a < rank; ++a) fits = a == axis || part[at(a)] == dims[at(a)];
    if (!fits)
      c.fail(Code::shape, fmt::format("{} and {} do not join along axis {}", text_of(dims), text_of(part), axis));
    total = total + part[at(axis)];
  }
  dims[at(axis)] = total;
  if (count_of(dims) == Size(0)) return c.output(0, c.map(c.name(), c.dtype(first), dims, zero_of(c.dtype(first))));
  TensorId out = c.tensor(c.name(), c.dtype(first), dims);
  Size start = 0;
  for (int i = 0; i < c.inputs(); ++i) {
    TensorId part = c.input(i);
    if (c.dims(part)[at(axis)] == Size(0)) continue;
    std::vector<Index> to = axis_indices(rank);
    to[at(axis)] = to[at(axis)] + constant_index(start);
    c.piece(out, to, c.dims(part), c.read(part, axis_indices(rank)));
    start = start + c.dims(part)[at(axis)];
  }
  c.output(0, out);
}

// ---- Pad

struct Padding {
  std::vector<Size> before, after; // one a dim
};

Padding padding_of(Context& c, int rank) {
  std::vector<Size> pads;
  std::vector<std::int64_t> axes(at(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.opset() < 11) {
    std::vector<std::int64_t> v = c.ints_attr("pads");
    pads.assign(v.begin(), v.end());
  } else {
    pads = c.sizes(c.input(1));
    if (c.opset() >= 18 && c.has(3)) axes = c.integers(c.input(3));
  }
  if (pads.size() != 2 * axes.size()) c.fail(Code::shape, fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  Padding p{std::vector<Size>(at(rank), 0), std::vector<Size>(at(rank), 0)};
  std::vector<int> padded = c.axes(axes, rank);
  for (std::size_t i = 0; i < padded.size(); ++i) {
    int a = padded[i];
    p.before[at(a)] = pads[i];
    p.after[at(a)] = pads[i + axes.size()];
  }
  return p;
}

// Where position i of a padded dim of extent n comes from.
std::int64_t source_of(std::int64_t i, std::int64_t n, const std::string& mode) {
  if (mode == "edge") return std::clamp<std::int64_t>(i, 0, n - 1);
  if (mode == "wrap") return floor_mod_i64(i, n);
  if (n == 1) return 0;
  std::int64_t period = 2 * (n - 1), r = floor_mod_i64(i, period);
  return r < n ? r : period - r;
}

// A dim padded from itself: through a table of indices where it is fixed.
constexpr std::int64_t longest_table = 1 << 16;
TensorId pad_by_table(Context& c, TensorId x, int axis, const Size& before, const Size& out, const std::string& mode) {
  std::vector<Size> dims = c.dims(x);
  std::int64_t n = dims[at(axis)].constant();
  Elements table;
  for (std::int64_t i = 0; i < out.constant(); ++i)
    table.push_back(Element::of(Size(source_of(i - before.constant(), n, mode))));
  TensorId t = c.constant(c.name("index"), DType::i64, {out}, table);
  dims[at(axis)] = out;
  std::vector<Index> index = axis_indices(c.rank(x));
  index[at(axis)] = c.element_index(t, {axis_index(axis)});
  return c.view(c.name("padded"), x, dims, index);
}

// A dim of free size: the parts before, inside and after it are pieces.
TensorId pad_by_pieces(Context& c, TensorId x, int axis, const Size& before, const Size& after,
                       const std::string& mode) {
  std::vector<Size> dims = c.dims(x), out = dims;
  Size n = dims[at(axis)];
  out[at(axis)] = n + before + after;
  TensorId y = c.tensor(c.name("padded"), c.dtype(x), out);
  Index i = axis_index(axis);
  auto piece = [&](const Size& extent, const Size& start, const Index& from) {
    if (extent == Size(0)) return;
    std::vector<Size> axes = dims;
    axes[at(axis)] = extent;
    std::vector<Index> to = axis_indices(c.rank(x)), index = to;
    to[at(axis)] = i + constant_index(start);
    index[at(axis)] = from;
    c.piece(y, to, axes, c.read(x, index));
  };
  bool edge = mode == "edge";
  Size least = edge ? Size(1) : max(before, after) + 1; // reflection needs so many elements
  if (!c.assume_at_most(least, n))
    c.unsupported(fmt::format("padding a dim of {} elements by reflection", n.text()), fix_hint({n}));
  piece(before, 0, edge ? constant_index(0) : constant_index(before) - i);
  piece(n, before, i);
  piece(after, before + n, edge ? constant_index(n - 1) : constant_index(n - 2) - i);
  return y;
}

void convert_pad(Context& c) {
  TensorId x = c.input(0);
  int rank = c.rank(x);
  std::string mode = c.text_attr("mode", "constant");
  Padding p = padding_of(c, rank);
  std::vector<Size> in = c.dims(x), out;
  for (std::size_t i = 0; i < in.size(); ++i) out.push_back(in[i] + p.before[i] + p.after[i]);
  if (mode == "constant") {
    ScalarRef value = zero_of(c.dtype(x));
    if (c.opset() < 11)
      value = number(c.real_attr("value", 0.0), compute_type(c.dtype(x)));
    else if (c.has(2))
      value = c.read(c.input(2), std::vector<Index>(at(c.rank(c.input(2))), constant_index(0)));
    std::vector<Index> index;
    for (int a = 0; a < rank; ++a) index.push_back(axis_index(a) - constant_index(p.before[at(a)]));
    return c.output(0, c.map(c.name(), c.dtype(x), out, count_of(in) == Size(0) ? value : c.read(x, index, value)));
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") c.fail(Code::model, fmt::format("mode '{}'", mode));
  for (int a = 0; a < rank; ++a) {
    const Size &before = p.before[at(a)], &after = p.after[at(a)];
    if (before == Size(0) && after == Size(0)) continue;
    if (in[at(a)] == Size(0)) c.fail(Code::shape, fmt::format("{} has nothing to pad with", text_of(in)));
    if (mode == "wrap") {
      std::vector<Size> dims = c.dims(x);
      dims[at(a)] = out[at(a)];
      std::vector<Index> index = axis_indices(rank);
      index[at(a)] = floor_mod(axis_index(a) - constant_index(before), in[at(a)]);
      x = c.view(c.name("padded"), x, dims, index);
    } else if (in[at(a)].is_constant() && out[at(a)].is_constant() && before.is_constant() &&
               out[at(a)].constant() <= longest_table) {
      x = pad_by_table(c, x, a, before, out[at(a)], mode);
    } else {
      x = pad_by_pieces(c, x, a, before, after, mode);
    }
  }
  c.output(0, x);
}

// The middle of each dim, or the dim in the middle of zeros.
void convert_center_crop_pad(Context& c) {
  TensorId x = c.input(0);
  std::vector<Size> in = c.dims(x), out = in, wanted = c.sizes(c.input(1));
  std::vector<std::int64_t> axes(in.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.ints_attr("axes", axes);
  if (wanted.size() != axes.size())
    c.fail(Code::shape, fmt::format("{} extents for {} axes", wanted.size(), axes.size()));
  std::vector<Index> index = axis_indices(c.rank(x));
  std::vector<int> changed = c.axes(axes, c.rank(x));
  for (std::size_t i = 0; i < changed.size(); ++i) {
    int a = changed[i];
    const Size &have = in[at(a)], &want = wanted[i];
    out[at(a)] = want;
    bool crops = c.range(have - want).low >= 0, pads = c.range(want - have).low >= 0;
    if (!crops && !pads)
      c.unsupported(fmt::format("{} elements from {}", want.text(), have.text()), fix_hint({want}, {have}));
    index[at(a)] = index[at(a)] + constant_index(crops ? floor_div(have - want, 2) : -floor_div(want - have, 2));
  }
  c.output(0, c.view(c.name(), x, out, index, zero_of(c.dtype(x))));
}

// ---- triangles, prefixes, reversed prefixes

void convert_trilu(Context& c) {
  TensorId x = c.input(0);
  bool upper = c.int_attr("upper", 1) != 0;
  int rank = c.rank(x);
  if (rank < 2) c.fail(Code::shape, fmt::format("input of shape {}, rank 2 at least is needed", text_of(c.dims(x))));
  ScalarRef k = c.has(1) ? c.read(c.input(1), std::vector<Index>(at(c.rank(c.input(1))), constant_index(0)))
                         : integer(0, DType::i64);
  ScalarRef row = axis_value(rank - 2, DType::i64), column = axis_value(rank - 1, DType::i64);
  ScalarRef guard = binary(upper ? Op::ge : Op::le, column, binary(Op::add, row, k));
  std::vector<Size> dims = c.dims(x);
  c.output(0, c.map(c.name(), c.dtype(x), dims, c.read(x, axis_indices(rank)), guard));
}

// out[.. i ..] = reducer over j <= i (or >=, <, >) of x[.. j ..].
template <Reducer reducer> void convert_cumulative(Context& c) {
  TensorId x = c.input(0);
  bool exclusive = c.int_attr("exclusive", 0) != 0, reverse = c.int_attr("reverse", 0) != 0;
  int rank = c.rank(x), axis = c.axis(c.integer_of(c.input(1)), rank);
  std::vector<Size> axes = c.dims(x);
  axes.push_back(axes[at(axis)]);
  std::vector<Index> index = axis_indices(rank);
  index[at(axis)] = axis_index(rank);
  Op op = reverse ? (exclusive ? Op::gt : Op::ge) : (exclusive ? Op::lt : Op::le);
  ScalarRef guard = binary(op, axis_value(rank, DType::i64), axis_value(axis, DType::i64));
  c.output(0, c.reduce(c.name(), c.dtype(x), axes, c.read(x, index), reducer, {rank}, guard));
}

void convert_reverse_sequence(Context& c) {
  TensorId x = c.input(0), lengths = c.input(1);
  int time = c.axis(c.int_attr("time_axis", 0), c.rank(x)), batch = c.axis(c.int_attr("batch_axis", 1), c.rank(x));
  if (time == batch) c.fail(Code::shape, "time_axis and batch_axis are the same");
  if (c.dims(lengths) != std::vector<Size>{c.dims(x)[at(batch)]}) {
    c.fail(Code::shape,
           fmt::format("lengths {} for axis {} of {}", text_of(c.dims(lengths)), batch, text_of(c.dims(x))));
  }
  std::vector<Index> index = axis_indices(c.rank(x)), plain = index;
  index[at(time)] = c.element_index(lengths, {axis_index(batch)}) - axis_index(time) - constant_index(1);
  ScalarRef inside = binary(Op::lt, axis_value(time, DType::i64), c.read(lengths, {axis_index(batch)}));
  ScalarRef body = select(inside, c.read(x, index, zero_of(c.dtype(x))), c.read(x, plain));
  std::vector<Size> dims = c.dims(x);
  c.output(0, c.map(c.name(), c.dtype(x), dims, body));
}

} // namespace

std::vector<Operator> slice_operators() {
  return {
      {"", "CenterCropPad", 18, 0, convert_center_crop_pad, "all", "the shape must be size expressions", "T index"},
      {"", "Concat", 7, 0, convert_concat, "all"},
      {"", "CumProd", 26, 0, convert_cumulative<Reducer::prod>, "float, i32, i64", "the axis must be constant",
       "T index"},
      {"", "CumSum", 11, 0, convert_cumulative<Reducer::sum>, "float, i32, i64", "the axis must be constant",
       "T index"},
      {"", "Pad", 7, 10, convert_pad, "float"},
      {"", "Pad", 11, 0, convert_pad, "all, f8", "pads must be size expressions", "T i64 T index"},
      {"", "ReverseSequence", 10, 0, convert_reverse_sequence, "all", "", "T i64"},
      {"", "Slice", 7, 0, convert_slice, "all", "starts and ends must be size expressions, axes and steps constant",
       "T index*"},
      {"", "Split", 7, 0, convert_split, "all", "the parts must be size expressions", "T i64"},
      {"", "Trilu", 14, 0, convert_trilu, "all", "", "T i64"},
  };
}

} // namespace tilewright::onnx
