// Convolutions.
//
//   Conv(X[n c h w], W[f c i j], b)     ->  P[n f y x] = sum[c i j] X[n, c, s*y+i-p, s*x+j-p else 0] * W[f c i j];  Y =
//   P + b[f] groups                              ->  f = F*g + o, c = C*g + k; with one channel a group (depthwise) k
//   goes ConvTranspose, stride s             ->  s*s pieces: output s*q + r sums the taps i that are congruent to it
#include <fmt/format.h>

#include <numeric>

#include "onnx/contractions.h"
#include "onnx/ops_tables.h"
#include "onnx/window.h"

namespace tilewright::onnx {
namespace {

struct Shapes {
  std::vector<Size> x, spatial;
  std::vector<std::int64_t> kernel;
  Size batch;
  std::int64_t channels = 0, filters = 0, groups = 1, depth = 0;
};

// X[n, C, spatial], W[F, C / groups, kernel] (transposed: W[C, F / groups, kernel]).
Shapes shapes_of(Context& c, bool transposed, int x_input = 0, int w_input = 1) {
  Shapes s;
  s.x = c.dims(c.input(x_input));
  const auto w = c.dims(c.input(w_input));
  if (s.x.size() < 3 || w.size() != s.x.size())
    c.fail(Code::shape, fmt::format("input {} and weights {}", text_of(s.x), text_of(w)));
  s.spatial.assign(s.x.begin() + 2, s.x.end());
  s.batch = s.x[0];
  s.groups = c.int_attr("group", 1);
  s.channels = c.fixed(s.x[1], "the number of channels");
  if (s.groups < 1 || s.groups > std::max<std::int64_t>(s.channels, 1))
    c.fail(Code::shape, fmt::format("{} groups of {} channels", s.groups, s.channels));
  const std::int64_t w0 = c.fixed(w[0], "the first dim of the weights"),
                     w1 = c.fixed(w[1], "the second dim of the weights");
  s.depth = transposed ? w0 / s.groups : w1;
  s.filters = transposed ? w1 * s.groups : w0;
  if (s.channels % s.groups != 0 || s.filters % s.groups != 0 || s.channels != s.depth * s.groups)
    c.fail(Code::shape,
           fmt::format("{} channels in {} groups do not go with weights {}", s.channels, s.groups, text_of(w)));
  if (s.filters == 0) c.fail(Code::shape, fmt::format("weights {} without filters", text_of(w)));
  for (std::size_t d = 2; d < w.size(); ++d) s.kernel.push_back(c.fixed(w[d], "a kernel extent"));
  if (c.ints_attr("kernel_shape", s.kernel) != s.kernel)
    c.fail(Code::shape, fmt::format("kernel_shape is not that of the weights {}", text_of(w)));
  return s;
}

// Y = P + b[f]; P itself where there is no bias.
void finish(Context& c, TensorId sum, int rank) {
  if (!c.has(2)) return c.output(0, sum);
  const auto dims = c.dims(sum);
  if (c.dims(c.input(2)) != std::vector<Size>{dims[1]})
    c.fail(Code::shape, fmt::format("a bias of shape {} for {} filters", text_of(c.dims(c.input(2))), dims[1].text()));
  const ScalarRef body = binary(Op::add, c.read(sum, axis_indices(rank)), c.read(c.input(2), {axis_index(1)}));
  c.output(0, c.map(c.name(), c.dtype(c.input(0)), dims, body));
}

void convert_conv(Context& c) {
  if (c.dtype(c.input(0)) != c.dtype(c.input(1))) c.fail(Code::type, "input and weights have different dtypes");
  const Convolution v = convolution_of(c, 0, 1);
  const TensorId x = c.input(0), w = c.input(1);
  const DType d = c.dtype(x);
  const ScalarRef body = binary(Op::mul, c.read(x, v.at_x, v.inside ? nullptr : zero_of(d)), c.read(w, v.at_w));
  const TensorId sum = c.tensor(c.has(2) ? c.name("sum") : c.name(), c.has(2) ? compute_type(d) : d, v.dims);
  c.piece(sum, v.at, v.axes, body, Reducer::sum, v.reduced);
  finish(c, sum, static_cast<int>(v.dims.size()));
}

// Along one dim, output y = s*q + r receives x * w where y = s*h + D*i - p: for residue r these are the taps i = i0 +
// step*t, and then h = q + (r + p - D*i) / s.
struct Residue {
  std::int64_t r = 0, first = 0, step = 1, count = 0, shift = 0, back = 0;
  Size outputs;
};

std::vector<Residue> residues(const WindowDim& w, const Size& out, std::int64_t begin) {
  std::vector<Residue> list;
  const std::int64_t g = std::gcd(w.dilation, w.stride);
  for (std::int64_t r = 0; r < w.stride; ++r) {
    Residue res;
    res.r = r, res.step = w.stride / g;
    res.outputs = floor_div(out - r + w.stride - 1, w.stride);
    if (res.outputs.is_constant() && res.outputs.constant() <= 0) continue;
    for (res.first = 0; res.first < res.step && floor_mod_i64(r + begin - w.dilation * res.first, w.stride) != 0;)
      ++res.first;
    if (res.first < res.step && res.first < w.kernel) {
      res.count = ceil_div_i64(w.kernel - res.first, res.step);
      res.shift = (r + begin - w.dilation * res.first) / w.stride;
      res.back = w.dilation / g;
    }
    list.push_back(res);
  }
  return list;
}

constexpr std::int64_t most_pieces = 1024;

void convert_conv_transpose(Context& c) {
  if (c.dtype(c.input(0)) != c.dtype(c.input(1))) c.fail(Code::type, "input and weights have different dtypes");
  const Shapes s = shapes_of(c, true);
  const std::size_t n = s.spatial.size();
  const auto strides = c.ints_attr("strides", std::vector<std::int64_t>(n, 1)),
             dilations = c.ints_attr("dilations", std::vector<std::int64_t>(n, 1));
  const auto pads = c.ints_attr("pads", std::vector<std::int64_t>(2 * n, 0));
  const auto extra = c.ints_attr("output_padding", std::vector<std::int64_t>(n, 0));
  const auto wanted = c.ints_attr("output_shape", std::vector<std::int64_t>{});
  const std::string mode = c.text_attr("auto_pad", "NOTSET");
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n || extra.size() != n)
    c.fail(Code::model, "an attribute has the wrong number of values");
  if (!wanted.empty() && wanted.size() != n && wanted.size() != n + 2)
    c.fail(Code::model, fmt::format("output_shape has {} values", wanted.size()));
  for (const auto* list : {&pads, &extra})
    for (std::int64_t v : *list)
      if (v < 0 || v > INT32_MAX) c.fail(Code::model, fmt::format("a pad of {}", v));
  std::vector<Size> out_dims{s.batch, s.filters};
  std::vector<std::vector<Residue>> parts;
  std::int64_t pieces = 1;
  for (std::size_t d = 0; d < n; ++d) {
    WindowDim w;
    w.in = s.spatial[d], w.kernel = s.kernel[d], w.stride = strides[d], w.dilation = dilations[d];
    if (w.stride < 1 || w.dilation < 1 || w.kernel < 1 || w.stride > 4096 || w.dilation > 4096)
      c.fail(Code::model, "strides and dilations must lie in 1..4096");
    const Size full = (w.in - 1) * w.stride + extra[d] + w.reach();
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    Size out = full - pads[d] - pads[d + n];
    std::int64_t begin = pads[d];
    if (!wanted.empty() || same) {
      out = wanted.empty() ? w.in * w.stride : Size(wanted.size() == n ? wanted[d] : wanted[d + 2]);
      const Size total = full - out;
      const std::int64_t t = std::max<std::int64_t>(c.fixed(total, "the pads of a dim"), 0);
      begin = mode == "SAME_UPPER" ? t / 2 : t - t / 2;
    }
    if (out.range().high < 0) c.fail(Code::shape, fmt::format("an output of extent {}", out.text()));
    out_dims.push_back(out);
    parts.push_back(residues(w, out, begin));
    pieces *= static_cast<std::int64_t>(parts.back().size());
    if (pieces > most_pieces) c.unsupported(fmt::format("strides that make more than {} pieces", most_pieces));
  }
  if (pieces == 0) return c.output(0, c.map(c.name(), c.dtype(c.input(0)), out_dims, zero_of(c.dtype(c.input(0)))));
  const TensorId x = c.input(0), w = c.input(1);
  const DType type = c.dtype(x);
  const TensorId sum = c.tensor(c.has(2) ? c.name("sum") : c.name(), c.has(2) ? compute_type(type) : type, out_dims);
  // Every combination of residues is a piece.
  std::vector<std::size_t> pick(n, 0);
  for (bool more = true; more;) {
    std::vector<Size> axes{s.batch, s.groups, s.filters / s.groups};
    const Index filter = Size(s.filters / s.groups) * axis_index(1) + axis_index(2);
    std::vector<Index> at{axis_index(0), filter}, at_x{axis_index(0)}, at_w;
    std::vector<AxisId> q, reduced;
    bool empty = false;
    for (std::size_t d = 0; d < n; ++d) {
      const Residue& r = parts[d][pick[d]];
      q.push_back(static_cast<AxisId>(axes.size()));
      axes.push_back(r.outputs);
      at.push_back(Size(strides[d]) * axis_index(q.back()) + constant_index(r.r));
      empty |= r.count == 0;
    }
    if (empty) {
      c.piece(sum, at, axes, zero_of(type));
    } else {
      const auto k = static_cast<AxisId>(axes.size());
      axes.push_back(s.depth);
      reduced.push_back(k);
      const Index channel = Size(s.depth) * axis_index(1) + axis_index(k);
      at_x.push_back(channel);
      at_w = {channel, axis_index(2)};
      for (std::size_t d = 0; d < n; ++d) {
        const Residue& r = parts[d][pick[d]];
        const auto t = static_cast<AxisId>(axes.size());
        axes.push_back(r.count);
        reduced.push_back(t);
        at_w.push_back(Size(r.step) * axis_index(t) + constant_index(r.first));
        at_x.push_back(axis_index(q[d]) - Size(r.back) * axis_index(t) + constant_index(r.shift));
      }
      c.piece(sum, at, axes, binary(Op::mul, c.read(x, at_x, zero_of(type)), c.read(w, at_w)), Reducer::sum, reduced);
    }
    more = false;
    for (std::size_t d = n; d-- > 0 && !more;) {
      if (++pick[d] < parts[d].size())
        more = true;
      else
        pick[d] = 0;
    }
  }
  finish(c, sum, static_cast<int>(out_dims.size()));
}

} // namespace

// Axes: n, [g], [o], spatial, [k], taps. Without groups o is the filter; with one filter a group o goes, with one channel k.
Convolution convolution_of(Context& c, int x, int w) {
  const Shapes s = shapes_of(c, false, x, w);
  const auto dims = window_dims(c, s.spatial, s.kernel, false);
  const bool grouped = s.groups > 1, deep = s.depth > 1 || !grouped, wide = s.filters > s.groups || !grouped;
  Convolution v;
  v.axes = {s.batch};
  auto add = [&](Size extent) {
    v.axes.push_back(std::move(extent));
    return static_cast<AxisId>(v.axes.size()) - 1;
  };
  const AxisId g = grouped ? add(s.groups) : -1;
  const AxisId o = wide ? add(s.filters / s.groups) : -1;
  std::vector<AxisId> y;
  v.dims = {s.batch, s.filters};
  for (const WindowDim& win : dims) {
    y.push_back(add(win.out));
    v.dims.push_back(win.out);
  }
  const AxisId k = deep ? add(s.depth) : -1;
  if (deep) v.reduced.push_back(k);
  const std::size_t first_tap = v.reduced.size();
  for (const WindowDim& win : dims) v.reduced.push_back(add(win.kernel));
  auto mixed = [](AxisId group, std::int64_t each, AxisId inner) {
    if (group < 0) return inner < 0 ? constant_index(0) : axis_index(inner);
    if (inner < 0) return axis_index(group);
    return Size(each) * axis_index(group) + axis_index(inner);
  };
  v.filter = mixed(g, s.filters / s.groups, o);
  v.at_x = {axis_index(0), mixed(g, s.depth, k)};
  v.at_w = {v.filter, k >= 0 ? axis_index(k) : constant_index(0)};
  v.at = {axis_index(0), v.filter};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    v.at_x.push_back(dims[i].at(y[i], v.reduced[first_tap + i]));
    v.at_w.push_back(axis_index(v.reduced[first_tap + i]));
    v.at.push_back(axis_index(y[i]));
    v.inside &= dims[i].inside;
  }
  return v;
}

std::vector<Operator> conv_operators() {
  return {{"", "Conv", 7, 0, convert_conv, "float"}, {"", "ConvTranspose", 7, 0, convert_conv_transpose, "float"}};
}

} // namespace tilewright::onnx
