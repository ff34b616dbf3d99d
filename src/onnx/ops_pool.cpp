// Pools: reductions over windows.
//
//   MaxPool 3x3 s2 p1     ->  Y[n c y x] = max[i j] X[n, c, 2*y+i-1, 2*x+j-1 else -inf]
//   AveragePool           ->  S = sum[i j] X[... else 0];  Y = S / taps, or by the number of taps inside at each point
//   GlobalAveragePool     ->  S[n c] = sum[y x] X;  Y[n c 1 1] = S / (y * x)
#include <fmt/format.h>

#include <limits>

#include "onnx/ops_tables.h"
#include "onnx/window.h"

namespace tilewright::onnx {
namespace {

struct Pool {
  std::vector<WindowDim> dims;
  std::vector<Size> out, axes; // n c spatial; and taps
  std::vector<Index> at;       // of x
  std::vector<AxisId> taps;
  bool inside = true;
};

Pool pool_of(Context& c) {
  const auto x = c.dims(c.input(0));
  if (x.size() < 3) c.fail(Code::shape, fmt::format("a pool over {}", text_of(x)));
  Pool p;
  const std::vector<Size> spatial(x.begin() + 2, x.end());
  const bool ceil = c.int_attr("ceil_mode", 0) != 0;
  p.dims = window_dims(c, spatial, c.ints_attr("kernel_shape"), ceil);
  p.out = {x[0], x[1]};
  for (const WindowDim& w : p.dims) p.out.push_back(w.out);
  p.axes = p.out;
  p.at = axis_indices(2);
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    p.taps.push_back(static_cast<AxisId>(p.axes.size()));
    p.axes.push_back(p.dims[d].kernel);
    p.at.push_back(p.dims[d].at(static_cast<AxisId>(2 + d), p.taps.back()));
    p.inside &= p.dims[d].inside;
  }
  return p;
}

ScalarRef lowest_of(DType stored) {
  const DType t = compute_type(stored);
  if (is_float(t)) return number(-std::numeric_limits<double>::infinity(), t);
  if (stored == DType::i8) return integer(-128, t);
  if (stored == DType::u8) return integer(0, t);
  return integer(t == DType::i64 ? INT64_MIN : INT32_MIN, t);
}

// The flat index of the winner: the window's taps as one axis k, so that an argmax names the tap, then the tap's place.
TensorId winner(Context& c, const Pool& p, TensorId x) {
  const bool column_major = c.int_attr("storage_order", 0) != 0;
  std::vector<Size> axes = p.out;
  const auto k = static_cast<AxisId>(axes.size());
  std::int64_t taps = 1;
  for (const WindowDim& w : p.dims) taps *= w.kernel;
  axes.push_back(taps);
  std::vector<Index> at = axis_indices(2);
  std::int64_t inner = taps;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    inner /= p.dims[d].kernel;
    const Index tap = floor_mod(floor_div(axis_index(k), inner), p.dims[d].kernel);
    at.push_back(Size(p.dims[d].stride) * axis_index(static_cast<AxisId>(2 + d)) + Size(p.dims[d].dilation) * tap -
                 constant_index(p.dims[d].begin));
  }
  const TensorId best = c.reduce(c.name("tap"), DType::i64, axes,
                                 c.read(x, at, p.inside ? nullptr : lowest_of(c.dtype(x))), Reducer::argmax, {k});
  const DType i = DType::i64;
  auto axis = [&](std::size_t a) { return axis_value(static_cast<AxisId>(a), i); };
  auto size = [&](const Size& s) { return size_value(s, i); };
  const auto dims = c.dims(x);
  const ScalarRef tap = c.read(best, axis_indices(static_cast<int>(p.out.size())));
  ScalarRef flat = binary(Op::add, binary(Op::mul, axis(0), size(dims[1])), axis(1)), place;
  inner = taps;
  std::vector<ScalarRef> position;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    inner /= p.dims[d].kernel;
    const ScalarRef t = binary(Op::mod, binary(Op::floor_div, tap, integer(inner, i)), integer(p.dims[d].kernel, i));
    position.push_back(binary(Op::sub,
                              binary(Op::add, binary(Op::mul, axis(2 + d), integer(p.dims[d].stride, i)),
                                     binary(Op::mul, t, integer(p.dims[d].dilation, i))),
                              size(p.dims[d].begin)));
  }
  // Row-major over the spatial dims, or the last two exchanged.
  Size count = 1;
  for (std::size_t d = 0; d < p.dims.size(); ++d) count = count * dims[2 + d];
  for (std::size_t n = 0; n < position.size(); ++n) {
    const std::size_t d = column_major ? position.size() - 1 - n : n;
    place = place ? binary(Op::add, binary(Op::mul, place, size(dims[2 + d])), position[d]) : position[d];
  }
  return c.map(c.name(1), i, p.out, binary(Op::add, binary(Op::mul, flat, size(count)), place));
}

void convert_max_pool(Context& c) {
  const Pool p = pool_of(c);
  const TensorId x = c.input(0);
  if (c.outputs() < 2 || !c.wants(1))
    c.ignore_attr("storage_order");
  else
    c.output(1, winner(c, p, x));
  const ScalarRef body = c.read(x, p.at, p.inside ? nullptr : lowest_of(c.dtype(x)));
  c.output(0, c.reduce(c.name(), c.dtype(x), p.axes, body, Reducer::max, p.taps));
}

// How many taps of a window lie before `limit` and, unless pads count, inside the input; a scalar at output axis y.
ScalarRef taps_inside(const WindowDim& w, AxisId y, bool pads_count) {
  const DType i = DType::i64;
  auto add = [&](ScalarRef a, ScalarRef b) { return binary(Op::add, std::move(a), std::move(b)); };
  const ScalarRef start =
      binary(Op::sub, binary(Op::mul, axis_value(y, i), integer(w.stride, i)), size_value(w.begin, i));
  const Size limit = pads_count ? w.in + w.end : w.in;
  const ScalarRef room = binary(Op::sub, size_value(limit - 1, i), start);
  ScalarRef last = binary(Op::min, integer(w.kernel - 1, i), binary(Op::floor_div, room, integer(w.dilation, i)));
  if (pads_count) return add(last, integer(1, i));
  const ScalarRef before =
      binary(Op::floor_div, add(unary(Op::neg, start), integer(w.dilation - 1, i)), integer(w.dilation, i));
  return add(binary(Op::sub, last, binary(Op::max, integer(0, i), before)), integer(1, i));
}

void convert_average_pool(Context& c) {
  const Pool p = pool_of(c);
  const TensorId x = c.input(0);
  const bool pads_count = c.int_attr("count_include_pad", 0) != 0;
  const DType d = c.dtype(x), wide = compute_type(d);
  const ScalarRef body = c.read(x, p.at, p.inside ? nullptr : zero_of(d));
  const TensorId sum = c.reduce(c.name("sum"), wide, p.axes, body, Reducer::sum, p.taps);
  ScalarRef count;
  for (std::size_t i = 0; i < p.dims.size(); ++i) {
    const WindowDim& w = p.dims[i];
    const bool whole =
        w.inside ||
        (pads_count && w.in.is_constant() && w.out.is_constant() && w.end.is_constant() && w.begin.is_constant() &&
         (w.out.constant() - 1) * w.stride + w.reach() <= w.in.constant() + w.begin.constant() + w.end.constant());
    const ScalarRef n = whole ? number(static_cast<double>(w.kernel), wide)
                              : cast(taps_inside(w, static_cast<AxisId>(2 + i), pads_count), wide);
    count = count ? binary(Op::mul, count, n) : n;
  }
  c.output(
      0, c.map(c.name(), d, p.out, binary(Op::div, c.read(sum, axis_indices(static_cast<int>(p.out.size()))), count)));
}

ScalarRef power(const ScalarRef& x, std::int64_t p) {
  const ScalarRef a = unary(Op::abs, x);
  return p == 1 ? a : p == 2 ? binary(Op::mul, a, a) : binary(Op::pow, a, number(static_cast<double>(p), a->dtype));
}

ScalarRef root(const ScalarRef& x, std::int64_t p) {
  return p == 1 ? x : p == 2 ? unary(Op::sqrt, x) : binary(Op::pow, x, number(1.0 / static_cast<double>(p), x->dtype));
}

void convert_lp_pool(Context& c) {
  const std::int64_t power_of = c.int_attr("p", 2);
  if (power_of < 1) c.unsupported(fmt::format("p = {}", power_of));
  const Pool p = pool_of(c);
  const DType d = c.dtype(c.input(0)), wide = compute_type(d);
  const ScalarRef body = power(cast(c.read(c.input(0), p.at, p.inside ? nullptr : zero_of(d)), wide), power_of);
  const TensorId sum = c.reduce(c.name("sum"), wide, p.axes, body, Reducer::sum, p.taps);
  c.output(0, c.map(c.name(), d, p.out, root(c.read(sum, axis_indices(static_cast<int>(p.out.size()))), power_of)));
}

// Over all spatial dims; the result keeps them with extent 1.
void global(Context& c, Reducer reducer, const std::function<ScalarRef(ScalarRef)>& before,
            const std::function<ScalarRef(ScalarRef, Size)>& after) {
  const TensorId x = c.input(0);
  const auto dims = c.dims(x);
  if (dims.size() < 3) c.fail(Code::shape, fmt::format("a global pool over {}", text_of(dims)));
  std::vector<AxisId> reduced;
  std::vector<Size> out{dims[0], dims[1]};
  Size count = 1;
  for (std::size_t d = 2; d < dims.size(); ++d) {
    reduced.push_back(static_cast<AxisId>(d));
    out.push_back(1);
    count = count * dims[d];
  }
  const DType d = c.dtype(x), wide = reducer == Reducer::max ? d : compute_type(d);
  const TensorId s = c.reduce(c.name("all"), wide, dims, before(c.read(x, axis_indices(static_cast<int>(dims.size())))),
                              reducer, reduced);
  c.output(0, c.map(c.name(), d, out, after(c.read(s, axis_indices(2)), count)));
}

void convert_global_average(Context& c) {
  const DType wide = compute_type(c.dtype(c.input(0)));
  global(
      c, Reducer::sum, [&](ScalarRef v) { return cast(v, wide); },
      [&](ScalarRef s, const Size& n) { return binary(Op::div, s, literal(Element::of(n), wide)); });
}

void convert_global_max(Context& c) {
  global(
      c, Reducer::max, [](ScalarRef v) { return v; }, [](ScalarRef s, const Size&) { return s; });
}

void convert_global_lp(Context& c) {
  const std::int64_t p = c.int_attr("p", 2);
  if (p < 1) c.unsupported(fmt::format("p = {}", p));
  const DType wide = compute_type(c.dtype(c.input(0)));
  global(
      c, Reducer::sum, [&](ScalarRef v) { return power(cast(v, wide), p); },
      [&](ScalarRef s, const Size&) { return root(s, p); });
}

} // namespace

std::vector<Operator> pool_operators() {
  return {{"", "MaxPool", 7, 0, convert_max_pool, "float, i8, u8"},
          {"", "AveragePool", 7, 0, convert_average_pool, "float"},
          {"", "LpPool", 7, 0, convert_lp_pool, "float"},
          {"", "GlobalAveragePool", 7, 0, convert_global_average, "float"},
          {"", "GlobalMaxPool", 7, 0, convert_global_max, "float"},
          {"", "GlobalLpPool", 7, 0, convert_global_lp, "float"}};
}

} // namespace tilewright::onnx
