// Resizing: one dim at a time, each output a weighted sum of a few inputs whose places and weights are tables made
// here.
//
//   Resize nearest, factor 2     ->  Y[n c y x] = X[n, c, y // 2, x // 2]
//   linear, 14 -> 20             ->  H[n c y x] = sum[t] X[n, c, at[y t], x] * w[y t];  Y = the same along x
//   nearest, h -> k, both free   ->  Y[n c y x] = X[n, c, (2*h*y + h - 1) // (2*k), x]
//
// A table has an entry an output, so a free size has none: there a place must be a quotient of sizes. Nearest
// neighbours have one, rounded down or to the nearer one, and so have the two elements that `linear` mixes, whose
// shares are its remainder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "expr/sizes.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

constexpr std::int64_t longest = 1 << 20; // of a dim resized: its tables have an entry an output

struct Mode {
  std::string kind, coordinate, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};

// The fraction with the smallest numbers that is this f32: 0.7f is 7/10. So that 10 elements become 7, as they do in
// f32, and no tie is decided by a rounding.
struct Fraction {
  std::int64_t over = 1, under = 1;
};

Fraction fraction(double scale) {
  const auto wanted = static_cast<float>(scale);
  std::int64_t over = 1, under = 0, over_before = 0, under_before = 1;
  double rest = scale;
  for (int step = 0; step < 24; ++step) {
    const auto whole = static_cast<std::int64_t>(std::floor(rest));
    over_before = std::exchange(over, whole * over + over_before);
    under_before = std::exchange(under, whole * under + under_before);
    if (static_cast<float>(static_cast<double>(over) / static_cast<double>(under)) == wanted) break;
    rest = 1 / (rest - std::floor(rest));
  }
  return {over, under};
}

struct Dim {
  int axis = 0;
  std::int64_t in = 1, out = 1;
  double scale = 1, roi_begin = 0, roi_end = 1;
  Fraction ratio; // of scale
};

// How `out` elements lie among `in`, of which `under` make `over`; whole: out is in * over / under.
struct Ratio {
  Size in, out, over, under;
  bool whole = false;
};

// (step * x + offset) / over: where element x lies.
struct Line {
  Size step, offset, over;

  Index numerator(AxisId x) const { return step * axis_index(x) + constant_index(offset); }
  // The same whole numbers, from smaller ones: (4*x + 1) // 8 is x // 2.
  Line reduced() const {
    std::int64_t by = 2;
    if (step.is_constant() && over.is_constant()) by = std::gcd(step.constant(), over.constant());
    Line r;
    if (by < 2 || !divides(by, step, &r.step) || !divides(by, over, &r.over)) return *this;
    r.offset = floor_div(offset, by);
    return r;
  }
};

// Nothing where the mode has no such line. A size that may be 0 divides as 1: then there is no element.
std::optional<Line> line_of(const Context& c, const Mode& m, const Ratio& r) {
  const bool several = c.range(r.out).low > 1;
  Line l;
  if (m.coordinate == "asymmetric")
    l = {r.under, 0, r.over};
  else if (m.coordinate == "half_pixel" || (m.coordinate == "half_pixel_symmetric" && r.whole) ||
           (m.coordinate == "pytorch_half_pixel" && several))
    l = {2 * r.under, r.under - r.over, 2 * r.over}; // (x + 1/2) * under / over - 1/2
  else if (m.coordinate == "align_corners" && r.whole && several)
    l = {r.in - 1, 0, r.out - 1};
  else
    return {};
  if (c.range(l.over).low < 1) l.over = max(l.over, 1);
  return l;
}

// The nearest neighbour of x, where it never leaves the input: rounded down from the edge of an element, or to the
// nearer one from its middle.
std::optional<Line> neighbour(const Context& c, const Mode& m, const Ratio& r) {
  const auto l = m.kind == "nearest" ? line_of(c, m, r) : std::nullopt;
  const bool corners = m.coordinate == "align_corners", edge = m.coordinate == "asymmetric" || corners;
  if (l && m.nearest == "floor" && edge) return l->reduced();
  if (!l || (edge && !corners)) return {};
  if (m.nearest == "round_prefer_floor") return Line{2 * l->step, 2 * l->offset + l->over - 1, 2 * l->over}.reduced();
  if (m.nearest == "round_prefer_ceil") return Line{2 * l->step, 2 * l->offset + l->over, 2 * l->over}.reduced();
  return {};
}

// A dim whose extent is free, before or after. Nearest: element `at` is read; else what lies between two is mixed.
struct FreeDim {
  int axis = 0;
  Size out;
  Line at;
};

// Where output x lies among the inputs.
double source(const Mode& m, const Dim& d, std::int64_t x) {
  const auto in = static_cast<double>(d.in), out = static_cast<double>(d.out), at = static_cast<double>(x);
  // The length that corners are aligned to is scale * in, which need not be whole.
  if (m.coordinate == "align_corners") return d.scale * in == 1 ? 0 : at * (in - 1) / (d.scale * in - 1);
  if (m.coordinate == "asymmetric") return at / d.scale;
  if (m.coordinate == "pytorch_half_pixel") return d.out > 1 ? (at + 0.5) / d.scale - 0.5 : 0;
  if (m.coordinate == "half_pixel_symmetric") {
    const double adjustment = out / (d.scale * in), centre = in / 2;
    return centre * (1 - adjustment) + (at + 0.5) / d.scale - 0.5;
  }
  if (m.coordinate == "tf_crop_and_resize") {
    if (d.out == 1) return 0.5 * (d.roi_begin + d.roi_end) * (in - 1);
    return d.roi_begin * (in - 1) + at * (d.roi_end - d.roi_begin) * (in - 1) / (out - 1);
  }
  return (at + 0.5) / d.scale - 0.5;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights of the inputs around a place, r beyond `base`, 0 < r <= 1: they belong to inputs base + 1 - n / 2 and on.
std::vector<double> weights(const Mode& m, double r, double scale) {
  if (m.kind == "nearest") {
    bool upper = r == 1 || m.nearest == "ceil" || (m.nearest == "round_prefer_floor" && r > 0.5) ||
                 (m.nearest == "round_prefer_ceil" && r >= 0.5);
    return {upper ? 0.0 : 1.0, upper ? 1.0 : 0.0};
  }
  const bool line = m.kind == "linear";
  const double s = m.antialias ? std::min(scale, 1.0) : 1.0;
  const auto start = static_cast<int>(std::floor((line ? -1.0 : -2.0) / s) + 1);
  std::vector<double> w;
  double total = 0;
  for (int i = start; i < 2 - start; ++i) {
    const double x = (i - r) * s;
    w.push_back(line ? std::clamp(1 - std::abs(x), 0.0, 1.0) : cubic(m.cubic, x));
    total += w.back();
  }
  if (m.antialias)
    for (double& v : w) v /= total;
  return w;
}

struct Tables {
  std::int64_t taps = 1;
  std::vector<std::int64_t> at; // [out][taps]
  std::vector<float> w;
  std::vector<bool> outside; // of the input: the extrapolation value stands there
  bool single = true;        // one input an output, with weight 1
};

// Of nearest neighbours whose places are quotients, which no rounding moves.
Tables exact_table(const Dim& d, const Line& l) {
  Tables t;
  for (std::int64_t x = 0; x < d.out; ++x)
    t.at.push_back(std::clamp<std::int64_t>(
        floor_div_i64(l.step.constant() * x + l.offset.constant(), l.over.constant()), 0, d.in - 1));
  t.outside.resize(t.at.size());
  return t;
}

Tables tables(Context& c, const Mode& m, const Dim& d) {
  const bool whole = d.in * d.ratio.over == d.out * d.ratio.under;
  if (auto l = neighbour(c, m, {d.in, d.out, d.ratio.over, d.ratio.under, whole})) return exact_table(d, *l);
  Tables t;
  std::vector<std::vector<double>> w;
  std::vector<std::int64_t> first;
  for (std::int64_t x = 0; x < d.out; ++x) {
    const double place = source(m, d, x);
    const double base = std::ceil(place) - 1;
    auto list = weights(m, place - base, d.scale);
    first.push_back(static_cast<std::int64_t>(base) + 1 - static_cast<std::int64_t>(list.size()) / 2);
    if (m.exclude_outside) {
      double total = 0;
      for (std::size_t k = 0; k < list.size(); ++k) {
        const std::int64_t i = first.back() + static_cast<std::int64_t>(k);
        if (i < 0 || i >= d.in) list[k] = 0;
        total += list[k];
      }
      for (double& v : list) v /= total;
    }
    t.taps = std::max<std::int64_t>(t.taps, static_cast<std::int64_t>(list.size()));
    t.outside.push_back(m.coordinate == "tf_crop_and_resize" && (place < 0 || place > static_cast<double>(d.in - 1)));
    t.single = t.single && std::count(list.begin(), list.end(), 0.0) == static_cast<std::ptrdiff_t>(list.size()) - 1;
    w.push_back(std::move(list));
  }
  for (std::size_t x = 0; x < w.size(); ++x)
    for (std::int64_t k = 0; k < t.taps; ++k) {
      const auto n = static_cast<std::size_t>(k);
      const double v = n < w[x].size() ? w[x][n] : 0;
      if (t.single && v == 0 && n < w[x].size()) continue;
      if (t.single && n >= w[x].size()) continue;
      t.at.push_back(std::clamp<std::int64_t>(first[x] + k, 0, d.in - 1));
      t.w.push_back(static_cast<float>(v));
    }
  if (t.single) t.taps = 1;
  return t;
}

template <class T>
TensorId table(Context& c, const std::string& hint, DType type, std::vector<std::int64_t> dims,
               const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return c.builder().weight(c.name(hint), type, std::move(dims), std::move(bytes));
}

// The tables as an index: x // s where they say that, else a table.
Index place(Context& c, const Dim& d, const Tables& t, AxisId x) {
  const std::int64_t factor = d.out / d.in;
  bool even = d.out % d.in == 0;
  for (std::int64_t i = 0; even && i < d.out; ++i) even = t.at[static_cast<std::size_t>(i)] == i / factor;
  if (even) return floor_div(axis_index(x), factor);
  const TensorId at = table(c, fmt::format("at.{}", d.axis), DType::i64, {d.out}, t.at);
  c.program().tensor(at).index_of = Size(d.in);
  return c.element_index(at, {axis_index(x)});
}

TensorId resize_dim(Context& c, TensorId x, const Dim& d, const Tables& t, DType stored, const std::string& hint) {
  auto dims = c.dims(x);
  const int rank = static_cast<int>(dims.size());
  dims[static_cast<std::size_t>(d.axis)] = d.out;
  auto at = axis_indices(rank);
  if (t.single) {
    at[static_cast<std::size_t>(d.axis)] = place(c, d, t, d.axis);
    return c.map(hint, stored, dims, c.read(x, at));
  }
  const TensorId places = table(c, fmt::format("at.{}", d.axis), DType::i64, {d.out, t.taps}, t.at);
  const TensorId w = table(c, fmt::format("weight.{}", d.axis), DType::f32, {d.out, t.taps}, t.w);
  c.program().tensor(places).index_of = Size(d.in);
  const std::vector<Index> tap{axis_index(d.axis), axis_index(rank)};
  at[static_cast<std::size_t>(d.axis)] = c.element_index(places, tap);
  dims.push_back(t.taps);
  const DType wide = compute_type(c.dtype(x));
  const ScalarRef product = binary(Op::mul, cast(c.read(x, at), wide), cast(c.read(w, tap), wide));
  return c.reduce(hint, stored, dims, product, Reducer::sum, {rank});
}

// The bounds of a nearest neighbour are proved where that is easy; where not, it is given a value outside that nobody
// will see. Of two elements that are mixed each may leave the input by one, on its side, and then stands for the last
// one there.
TensorId resize_free(Context& c, const Mode& m, TensorId x, const FreeDim& d, DType stored, const std::string& hint) {
  auto dims = c.dims(x);
  const auto axis = static_cast<std::size_t>(d.axis);
  const Size in = dims[axis];
  dims[axis] = d.out;
  auto element = [&](const Index& at, ScalarRef otherwise) {
    auto all = axis_indices(c.rank(x));
    all[axis] = at;
    return c.read(x, all, std::move(otherwise));
  };
  const Index at = floor_div(d.at.numerator(d.axis), d.at.over);
  if (m.kind == "nearest") {
    const bool inside = in_bounds(at, in, dims, ranges_of(c.program()));
    return c.map(hint, stored, dims, element(at, inside ? nullptr : zero_of(c.dtype(x))));
  }
  const DType wide = compute_type(c.dtype(x));
  const ScalarRef low = cast(element(at, element(constant_index(0), nullptr)), wide);
  const ScalarRef high = cast(element(at + constant_index(1), element(constant_index(in - 1), nullptr)), wide);
  // Another whole element changes no share, and leaves no size below 0.
  const Index numerator = d.at.numerator(d.axis) + constant_index(d.at.offset == Size(0) ? Size(0) : d.at.over);
  const ScalarRef rest = index_value(c.program(), floor_mod(numerator, d.at.over));
  const ScalarRef share = binary(Op::div, cast(rest, wide), cast(size_value(d.at.over, DType::i64), wide));
  return c.map(
      hint, stored, dims,
      binary(Op::add, binary(Op::mul, low, binary(Op::sub, number(1, wide), share)), binary(Op::mul, high, share)));
}

void resize(Context& c, const Mode& m, std::vector<Dim> dims, const std::vector<FreeDim>& free) {
  TensorId x = c.input(0);
  const DType d = c.dtype(x);
  if (m.kind != "nearest" && !is_float(d)) c.unsupported(fmt::format("mode {} of {}", m.kind, name_of(d)));
  std::erase_if(dims, [&](const Dim& dim) {
    return dim.in == dim.out && dim.scale == 1 && m.coordinate != "tf_crop_and_resize";
  });
  for (std::size_t i = 0; i < free.size(); ++i) {
    const bool last = dims.empty() && i + 1 == free.size();
    x = resize_free(c, m, x, free[i], last || m.kind == "nearest" ? d : compute_type(d),
                    last ? c.name() : c.name(fmt::format("dim{}", free[i].axis)));
    if (last) return c.output(0, x);
  }
  std::vector<std::pair<int, std::vector<bool>>> outside;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Tables t = tables(c, m, dims[i]);
    if (std::count(t.outside.begin(), t.outside.end(), true)) outside.emplace_back(dims[i].axis, t.outside);
    const bool last = i + 1 == dims.size() && outside.empty();
    x = resize_dim(c, x, dims[i], t, last || m.kind == "nearest" ? d : compute_type(d),
                   last ? c.name() : c.name(fmt::format("dim{}", dims[i].axis)));
  }
  if (dims.empty()) x = c.map(c.name(), d, c.dims(x), c.read(x, axis_indices(c.rank(x))));
  if (!outside.empty()) {
    ScalarRef any;
    for (const auto& [axis, flags] : outside) {
      const std::vector<std::uint8_t> bytes(flags.begin(), flags.end());
      const TensorId t =
          table(c, fmt::format("outside.{}", axis), DType::boolean, {static_cast<std::int64_t>(bytes.size())}, bytes);
      const ScalarRef flag = c.read(t, {axis_index(axis)});
      any = any ? binary(Op::logical_or, any, flag) : flag;
    }
    const DType wide = compute_type(d);
    const ScalarRef value = cast(c.read(x, axis_indices(c.rank(x))), wide);
    x = c.map(c.name(), d, c.dims(x),
              select(any,
                     is_float(wide) ? number(m.extrapolation, wide)
                                    : integer(static_cast<std::int64_t>(m.extrapolation), wide),
                     value));
  }
  c.output(0, x);
}

std::int64_t fixed(Context& c, const Size& s) { return c.fixed(s, "the extent of a resized dim"); }

// Nothing where both extents are known, or where the mode needs to know them.
std::optional<FreeDim> free_dim(Context& c, const Mode& m, int axis, const Ratio& r) {
  if (r.in.is_constant() && r.out.is_constant()) return {};
  const auto l = m.kind == "linear" && !m.antialias ? line_of(c, m, r) : neighbour(c, m, r);
  return l ? std::optional(FreeDim{axis, r.out, *l}) : std::nullopt;
}

// Of so many elements scaled.
Ratio scaled_ratio(const Size& in, const Fraction& f) {
  const Size out = floor_div(f.over * in, f.under);
  return {in, out, f.over, f.under, f.under == 1 || f.over * in == f.under * out};
}

Fraction ratio_of(Context& c, const Size& extent, double scale) {
  if (!(scale * longest >= 1 && scale < longest))
    c.fail(Code::size, fmt::format("{} resized by {}", extent.text(), scale));
  return fraction(scale);
}

// What its ratio makes of a dim, or of the part of it that is asked for.
void scale(Context& c, Dim& d) {
  d.scale = static_cast<double>(d.ratio.over) / static_cast<double>(d.ratio.under);
  const double span = d.roi_end - d.roi_begin;
  const bool whole = span == 1 && d.in <= longest;
  const double out = whole ? static_cast<double>(floor_div_i64(checked_mul(d.in, d.ratio.over), d.ratio.under))
                           : std::floor(static_cast<double>(d.in) * span * d.scale);
  if (!(out >= 0) || out > longest || d.in > longest)
    c.fail(Code::size, fmt::format("{} resized by {}", d.in, d.scale));
  d.out = static_cast<std::int64_t>(out);
}

// The aspect ratio is kept: one scale for all.
void scale_alike(Context& c, std::vector<Dim>& dims, double common) {
  for (Dim& d : dims) {
    if (!(common * static_cast<double>(d.in) < longest))
      c.fail(Code::size, fmt::format("{} resized by {}", d.in, common));
    d.scale = common;
    d.ratio = fraction(common);
    d.out = static_cast<std::int64_t>(std::floor(common * static_cast<double>(d.in) + 0.5));
  }
}

Mode mode_of(Context& c) {
  Mode m;
  m.kind = c.text_attr("mode", "nearest");
  m.coordinate = c.text_attr("coordinate_transformation_mode", c.opset() < 11 ? "asymmetric" : "half_pixel");
  m.nearest = c.text_attr("nearest_mode", c.opset() < 11 ? "floor" : "round_prefer_floor");
  m.cubic = c.real_attr("cubic_coeff_a", -0.75);
  m.extrapolation = c.real_attr("extrapolation_value", 0);
  m.antialias = c.int_attr("antialias", 0) != 0;
  m.exclude_outside = c.int_attr("exclude_outside", 0) != 0;
  if (m.kind == "bilinear") m.kind = "linear";
  if (m.kind != "nearest" && m.kind != "linear" && m.kind != "cubic") c.unsupported(fmt::format("mode {}", m.kind));
  static const char* known[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                "align_corners", "asymmetric",           "tf_crop_and_resize"};
  if (std::find(std::begin(known), std::end(known), m.coordinate) == std::end(known))
    c.unsupported(fmt::format("coordinate_transformation_mode {}", m.coordinate));
  return m;
}

// Scales, or the sizes that are wanted and what they mean when the aspect ratio is kept.
void convert_resize(Context& c) {
  const Mode m = mode_of(c);
  const std::string policy = c.text_attr("keep_aspect_ratio_policy", "stretch");
  const auto x = c.dims(c.input(0));
  const int rank = static_cast<int>(x.size()), scales_at = c.opset() < 11 ? 1 : 2;
  std::vector<std::int64_t> axes = c.ints_attr("axes", std::vector<std::int64_t>{});
  if (axes.empty())
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  const bool sized = c.has(3), scaled = c.has(scales_at) && c.dims(c.input(scales_at)) != std::vector<Size>{0};
  if (sized == scaled) c.fail(Code::model, "one of scales and sizes is wanted");
  const std::vector<double> scales = scaled ? c.reals(c.input(scales_at)) : std::vector<double>{};
  const std::vector<Size> sizes = sized ? c.sizes(c.input(3)) : std::vector<Size>{};
  std::vector<double> roi;
  if (m.coordinate == "tf_crop_and_resize") roi = c.reals(c.input(1));
  if (scales_at == 2) c.ignore_input(1); // the region only means something to tf_crop_and_resize
  if ((scaled ? scales.size() : sizes.size()) != axes.size() || (!roi.empty() && roi.size() != 2 * axes.size()))
    c.fail(Code::shape, fmt::format("{} dims are resized, {} scales or sizes are given", axes.size(),
                                    scaled ? scales.size() : sizes.size()));
  const std::vector<int> own = c.axes(axes, rank);
  std::vector<Dim> dims;
  std::vector<FreeDim> free;
  double common = policy == "not_larger" ? 1e30 : 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim d;
    d.axis = own[i];
    const Size& extent = x[static_cast<std::size_t>(d.axis)];
    if (roi.empty() && (scaled ? scales[i] == 1 : policy == "stretch" && sizes[i] == extent))
      continue; // a dim that stays may be free
    if (scaled) d.ratio = ratio_of(c, extent, scales[i]);
    if (roi.empty() && policy == "stretch") {
      const Ratio r = scaled ? scaled_ratio(extent, d.ratio) : Ratio{extent, sizes[i], sizes[i], extent, true};
      if (auto f = free_dim(c, m, d.axis, r)) {
        free.push_back(*f);
        continue;
      }
    }
    d.in = fixed(c, extent);
    if (!roi.empty()) d.roi_begin = roi[i], d.roi_end = roi[i + axes.size()];
    if (scaled) {
      scale(c, d);
    } else {
      d.out = c.fixed(sizes[i], "the size of a resized dim");
      d.scale = static_cast<double>(d.out) / static_cast<double>(d.in);
      d.ratio = {d.out, d.in};
      common = policy == "not_larger" ? std::min(common, d.scale) : std::max(common, d.scale);
    }
    if (d.in < 1 || d.in > longest || d.out < 1 || d.out > longest)
      c.fail(Code::size, fmt::format("{} resized to {}", d.in, d.out));
    dims.push_back(d);
  }
  if (sized && policy != "stretch") scale_alike(c, dims, common);
  resize(c, m, std::move(dims), free);
}

void convert_upsample(Context& c) {
  Mode m;
  m.kind = c.text_attr("mode", "nearest");
  m.coordinate = "asymmetric", m.nearest = "floor";
  if (m.kind == "bilinear") m.kind = "linear";
  if (m.kind != "nearest" && m.kind != "linear") c.unsupported(fmt::format("mode {}", m.kind));
  const auto x = c.dims(c.input(0));
  const std::vector<double> scales = c.opset() < 9 ? c.reals_attr("scales") : c.reals(c.input(1));
  if (scales.size() != x.size()) c.fail(Code::shape, fmt::format("{} scales for {}", scales.size(), text_of(x)));
  std::vector<Dim> dims;
  std::vector<FreeDim> free;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (scales[i] == 1) continue;
    Dim d;
    d.axis = static_cast<int>(i), d.ratio = ratio_of(c, x[i], scales[i]);
    if (auto f = free_dim(c, m, d.axis, scaled_ratio(x[i], d.ratio))) {
      free.push_back(*f);
      continue;
    }
    d.in = fixed(c, x[i]);
    scale(c, d);
    if (d.out < 1) c.fail(Code::size, fmt::format("{} resized by {}", d.in, d.scale));
    dims.push_back(d);
  }
  resize(c, m, std::move(dims), free);
}

} // namespace

std::vector<Operator> resize_operators() {
  return {{"", "Resize", 10, 10, convert_resize, "all; linear and cubic: floats",
           "of free sizes: nearest and linear only", "T f32"},
          {"", "Resize", 11, 0, convert_resize, "all; linear and cubic: floats",
           "of free sizes: nearest and linear only", "T float f32 i64"},
          {"", "Upsample", 7, 9, convert_upsample, "all; linear: floats", "", "T f32"}};
}

} // namespace tilewright::onnx
