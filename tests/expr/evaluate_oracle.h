// The evaluator's oracle: one point at a time, one node at a time, straight from the words of expr/evaluate.h. It
// shares no code with the evaluator but the conversions of support/dtype.h, evaluates lazily, and throws Fault where
// the evaluator must throw.
#pragma once
#include "expr/evaluate.h"
#include "expr/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tilewright::oracle {

struct Fault {
  const char* what;
};

// A number: floats in `real` (an f32 exactly, as a double), integers and booleans in `whole`.
struct Number {
  DType type;
  double real = 0;
  std::int64_t whole = 0;
  bool floating() const { return is_float(type); }
};

inline std::int64_t wrapped(std::uint64_t v, DType type) {
  switch (type) {
  case DType::i8: return static_cast<std::int8_t>(v);
  case DType::u8: return static_cast<std::uint8_t>(v);
  case DType::i32: return static_cast<std::int32_t>(v);
  default: return static_cast<std::int64_t>(v);
  }
}

inline double rounded(double v, DType type) {
  float f = static_cast<float>(v);
  switch (type) {
  case DType::f32: return static_cast<double>(f);
  case DType::f16: return static_cast<double>(f16_to_f32(f32_to_f16(f)));
  case DType::bf16: return static_cast<double>(bf16_to_f32(f32_to_bf16(f)));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(f32_to_f8(f, type), type));
  default: return v;
  }
}

inline std::int64_t truncated(double v, DType type) {
  if (std::isnan(v)) return 0;
  int bits = type == DType::i64 ? 63 : type == DType::i32 ? 31 : type == DType::u8 ? 8 : 7;
  double high = std::ldexp(1.0, bits), low = type == DType::u8 ? 0 : -high;
  v = std::trunc(v);
  if (v >= high) return bits == 63 ? INT64_MAX : (std::int64_t(1) << bits) - 1;
  if (v < low) return bits == 63 ? INT64_MIN : static_cast<std::int64_t>(low);
  return static_cast<std::int64_t>(v);
}

inline std::int64_t floored(std::int64_t a, std::int64_t b) {
  std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

class Point {
public:
  Point(const Program& p, const Binding& binding, Evaluation mode, const Values& values)
      : p_(p), binding_(binding), mode_(mode), values_(values) {}

  std::vector<std::int64_t> axes; // where this point is

  DType target(DType t) const { return mode_ == Evaluation::fp64 && is_float(t) ? DType::f64 : t; }
  // The type a value of this dtype is computed in; booleans stay apart.
  DType computed(DType t) const { return t == DType::boolean ? t : compute_type(target(t)); }

  Number cast(const Number& n, DType dtype) const {
    DType to = target(dtype);
    if (to == DType::boolean) return {to, 0, n.floating() ? !(n.real == 0) : n.whole != 0};
    if (is_float(to)) {
      double v = n.real;
      if (!n.floating())
        v = to == DType::f64 ? static_cast<double>(n.whole) : static_cast<double>(static_cast<float>(n.whole));
      return {computed(to), rounded(v, to), 0};
    }
    if (n.floating()) return {computed(to), 0, truncated(n.real, to)};
    return {computed(to), 0, wrapped(static_cast<std::uint64_t>(n.whole), to)};
  }

  Number value(const ScalarRef& s) const {
    switch (s->op) {
    case Op::constant:
      if (auto* real = std::get_if<double>(&s->leaf)) return cast({DType::f64, *real, 0}, s->dtype);
      return cast({DType::i64, 0, std::get<std::int64_t>(s->leaf)}, s->dtype);
    case Op::axis: return cast({DType::i64, 0, axes[static_cast<std::size_t>(std::get<AxisId>(s->leaf))]}, s->dtype);
    case Op::size: return cast({DType::i64, 0, std::get<Size>(s->leaf).at(binding_)}, s->dtype);
    case Op::read: return cast(read(std::get<Access>(s->leaf)), s->dtype);
    case Op::cast: return cast(value(s->args[0]), s->dtype);
    case Op::select: return cast(value(s->args[truth(s->args[0]) ? 1 : 2]), computed(s->dtype));
    case Op::logical_and: return boolean(truth(s->args[0]) && truth(s->args[1]));
    case Op::logical_or: return boolean(truth(s->args[0]) || truth(s->args[1]));
    case Op::logical_not: return boolean(!truth(s->args[0]));
    case Op::is_nan: return boolean(std::isnan(value(s->args[0]).real));
    case Op::is_inf: return boolean(std::isinf(value(s->args[0]).real));
    default: break;
    }
    if (is_comparison(s->op)) return compare(s->op, value(s->args[0]), value(s->args[1]));
    DType type = computed(s->dtype);
    Number a = cast(value(s->args[0]), type);
    if (arity(s->op) == 1)
      return is_float(type) ? real(type, unary(s->op, a.real)) : whole(type, unary(s->op, a.whole));
    Number b = cast(value(s->args[1]), type);
    if (is_float(type)) return real(type, binary(s->op, a.real, b.real, type));
    return whole(type, binary(s->op, a.whole, b.whole, type));
  }

  bool truth(const ScalarRef& s) const { return cast(value(s), DType::boolean).whole != 0; }

  std::int64_t index(const Index& i) const {
    std::uint64_t wide = static_cast<std::uint64_t>(i.offset.at(binding_)); // wraps: elements may be anything
    for (const Index::Term& term : i.terms) {
      std::int64_t v = 0;
      if (auto* axis = std::get_if<AxisId>(&term.of))
        v = axes[static_cast<std::size_t>(*axis)];
      else if (auto* element = std::get_if<std::shared_ptr<const Access>>(&term.of))
        v = cast(read(**element), DType::i64).whole;
      else
        v = index(*std::get<2>(term.of));
      wide += static_cast<std::uint64_t>(term.coefficient.at(binding_)) * static_cast<std::uint64_t>(v);
    }
    std::int64_t sum = floor_div_i64(static_cast<std::int64_t>(wide), i.div.at(binding_));
    std::int64_t mod = i.mod.at(binding_);
    return mod == 0 ? sum : floored(sum, mod);
  }

  Number read(const Access& access) const {
    const Array& a = values_.at(access.tensor);
    std::int64_t at = 0;
    bool inside = true;
    for (std::size_t d = 0; d < a.dims.size(); ++d) {
      std::int64_t i = index(access.at[d]);
      inside = inside && i >= 0 && i < a.dims[d];
      at = inside ? at * a.dims[d] + i : 0;
    }
    if (inside) return element(a, at);
    if (!access.otherwise) throw Fault{"bounds"};
    return cast(value(access.otherwise), a.dtype);
  }

  static Number element(const Array& a, std::int64_t at) {
    const std::byte* p = a.data + static_cast<std::size_t>(at) * bytes_of(a.dtype);
    auto get = [p](auto v) {
      std::memcpy(&v, p, sizeof v);
      return v;
    };
    switch (a.dtype) {
    case DType::f64: return {DType::f64, get(double()), 0};
    case DType::f32: return {DType::f32, static_cast<double>(get(float())), 0};
    case DType::f16: return {DType::f32, static_cast<double>(f16_to_f32(get(std::uint16_t()))), 0};
    case DType::bf16: return {DType::f32, static_cast<double>(bf16_to_f32(get(std::uint16_t()))), 0};
    case DType::f8e4m3:
    case DType::f8e5m2: return {DType::f32, static_cast<double>(f8_to_f32(get(std::uint8_t()), a.dtype)), 0};
    case DType::i8: return {DType::i32, 0, get(std::int8_t())};
    case DType::u8: return {DType::i32, 0, get(std::uint8_t())};
    case DType::boolean: return {DType::boolean, 0, get(std::uint8_t()) != 0};
    case DType::i32: return {DType::i32, 0, get(std::int32_t())};
    case DType::i64: break;
    }
    return {DType::i64, 0, get(std::int64_t())};
  }

  void put(Array& a, std::int64_t at, const Number& n) const {
    Number v = cast(n, a.dtype);
    std::byte* p = a.data + static_cast<std::size_t>(at) * bytes_of(a.dtype);
    auto set = [p](auto x) { std::memcpy(p, &x, sizeof x); };
    float f = static_cast<float>(v.real);
    switch (a.dtype) {
    case DType::f64: return set(v.real);
    case DType::f32: return set(f);
    case DType::f16: return set(f32_to_f16(f));
    case DType::bf16: return set(f32_to_bf16(f));
    case DType::f8e4m3:
    case DType::f8e5m2: return set(f32_to_f8(f, a.dtype));
    case DType::i8: return set(static_cast<std::int8_t>(v.whole));
    case DType::u8:
    case DType::boolean: return set(static_cast<std::uint8_t>(v.whole));
    case DType::i32: return set(static_cast<std::int32_t>(v.whole));
    case DType::i64: return set(v.whole);
    }
  }

  static Number boolean(bool v) { return {DType::boolean, 0, v}; }
  Number real(DType type, double v) const { return {type, rounded(v, type), 0}; }
  Number whole(DType type, std::int64_t v) const { return cast({DType::i64, 0, v}, type); }

  Number compare(Op op, Number a, Number b) const {
    DType common = compute_type(promote(a.type, b.type));
    a = cast(a, common), b = cast(b, common);
    auto holds = [op](auto x, auto y) {
      switch (op) {
      case Op::eq: return x == y;
      case Op::ne: return x != y;
      case Op::lt: return x < y;
      case Op::le: return x <= y;
      case Op::gt: return x > y;
      default: return x >= y;
      }
    };
    return boolean(is_float(common) ? holds(a.real, b.real) : holds(a.whole, b.whole));
  }

  static double unary(Op op, double x) {
    switch (op) {
    case Op::neg: return -x;
    case Op::abs: return std::fabs(x);
    case Op::sign: return x > 0 ? 1 : x < 0 ? -1 : x;
    case Op::floor: return std::floor(x);
    case Op::ceil: return std::ceil(x);
    case Op::round: return std::rint(x);
    case Op::trunc: return std::trunc(x);
    case Op::exp: return std::exp(x);
    case Op::log: return std::log(x);
    case Op::sqrt: return std::sqrt(x);
    case Op::tanh: return std::tanh(x);
    case Op::erf: return std::erf(x);
    case Op::sin: return std::sin(x);
    case Op::cos: return std::cos(x);
    case Op::tan: return std::tan(x);
    case Op::asin: return std::asin(x);
    case Op::acos: return std::acos(x);
    case Op::atan: return std::atan(x);
    case Op::sinh: return std::sinh(x);
    case Op::cosh: return std::cosh(x);
    case Op::asinh: return std::asinh(x);
    case Op::acosh: return std::acosh(x);
    case Op::atanh: return std::atanh(x);
    default: throw Fault{"not a function of a float"};
    }
  }

  static std::int64_t unary(Op op, std::int64_t x) {
    switch (op) {
    case Op::neg: return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
    case Op::abs: return x < 0 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x;
    case Op::sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc: return x;
    case Op::bit_not: return ~x;
    default: throw Fault{"not a function of an integer"};
    }
  }

  static double remainder(double a, double b, DType type) {
    double r = std::fmod(a, b);
    if (r == 0) return std::copysign(0.0, b);
    return (r < 0) != (b < 0) ? rounded(r + b, type) : r;
  }

  static double binary(Op op, double a, double b, DType type) {
    switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::floor_div: return std::floor(rounded(a / b, type));
    case Op::mod: return remainder(a, b, type);
    case Op::min: return std::isnan(a) || std::isnan(b) ? a + b : b < a ? b : a;
    case Op::max: return std::isnan(a) || std::isnan(b) ? a + b : a < b ? b : a;
    case Op::pow: return b == 2 ? a * a : std::pow(a, b);
    default: throw Fault{"not an operator of floats"};
    }
  }

  static std::int64_t power(std::int64_t a, std::int64_t b) {
    if (b < 0 && a == 0) throw Fault{"zero to a negative power"};
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    std::uint64_t r = 1, base = static_cast<std::uint64_t>(a);
    for (; b > 0; b /= 2, base *= base)
      if (b % 2) r *= base;
    return static_cast<std::int64_t>(r);
  }

  static std::int64_t binary(Op op, std::int64_t a, std::int64_t b, DType type) {
    auto u = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
    auto s = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };
    int width = type == DType::i64 ? 64 : 32;
    bool divides = op == Op::div || op == Op::floor_div || op == Op::mod;
    if (divides && b == 0) throw Fault{"a zero divisor"};
    if (divides && b == -1) return op == Op::mod ? 0 : s(0 - u(a));
    switch (op) {
    case Op::add: return s(u(a) + u(b));
    case Op::sub: return s(u(a) - u(b));
    case Op::mul: return s(u(a) * u(b));
    case Op::div: return a / b;
    case Op::floor_div: return floor_div_i64(a, b);
    case Op::mod: return floored(a, b);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::pow: return power(a, b);
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    case Op::shift_left: return b < 0 || b >= width ? 0 : s(u(a) << b);
    case Op::shift_right: return b < 0 || b >= width ? (a < 0 ? -1 : 0) : a >> b;
    default: throw Fault{"not an operator of integers"};
    }
  }

private:
  const Program& p_;
  const Binding& binding_;
  Evaluation mode_;
  const Values& values_;
};

// One result element: the reduction over all points with these parallel coordinates.
class Reduction {
public:
  Reduction(const Statement& s, const Point& point, DType declared)
      : s_(s), point_(point), declared_(point.target(declared)) {}

  void add(const Number& body, std::int64_t position) {
    Number v = body;
    if (s_.reducer == Reducer::any || s_.reducer == Reducer::all)
      v = point_.cast(v, DType::boolean);
    else if (!pair())
      v = point_.cast(v, accumulator(v.type));
    bool first = !seen_;
    seen_ = true;
    if (pair()) {
      bool nan = v.floating() && std::isnan(v.real), nan_already = best_.floating() && std::isnan(best_.real);
      bool largest = s_.reducer == Reducer::argmax;
      bool better = v.floating() ? (largest ? v.real > best_.real : v.real < best_.real)
                                 : (largest ? v.whole > best_.whole : v.whole < best_.whole);
      if (first || better || (nan && !nan_already)) best_ = v, position_ = position;
      return;
    }
    if (first) best_ = identity(v.type);
    best_ = v.floating() ? point_.real(v.type, Point::binary(op(), best_.real, v.real, v.type))
                         : point_.whole(v.type, Point::binary(op(), best_.whole, v.whole, v.type));
  }

  Number result() const {
    if (pair() && !seen_) throw Fault{"argmax of nothing"};
    if (pair()) return {DType::i64, 0, position_};
    return seen_ ? best_ : identity(declared_);
  }

private:
  bool pair() const { return s_.reducer == Reducer::argmax || s_.reducer == Reducer::argmin; }

  Op op() const {
    switch (s_.reducer) {
    case Reducer::sum: return Op::add;
    case Reducer::prod: return Op::mul;
    case Reducer::max:
    case Reducer::any: return Op::max;
    default: return Op::min;
    }
  }

  DType accumulator(DType body) const {
    DType own = compute_type(body), wide = compute_type(declared_);
    if (own == DType::f32 && wide == DType::f64) return wide;
    return own == DType::i32 && wide == DType::i64 ? wide : own;
  }

  Number identity(DType type) const {
    double inf = std::numeric_limits<double>::infinity();
    auto lowest = [&](bool low) -> Number {
      if (is_float(type)) return {type, low ? -inf : inf, 0};
      if (type == DType::boolean) return {type, 0, !low};
      return {type, 0, truncated(low ? -inf : inf, type)};
    };
    switch (s_.reducer) {
    case Reducer::prod:
    case Reducer::all: return {type, 1, 1};
    case Reducer::max: return lowest(true);
    case Reducer::min: return lowest(false);
    default: return {type, 0, 0};
    }
  }

  const Statement& s_;
  const Point& point_;
  DType declared_;
  bool seen_ = false;
  Number best_{DType::i32};
  std::int64_t position_ = 0;
};

// Calls f for every point of these axes in order, the first outermost.
inline void for_points(const std::vector<AxisId>& axes, const std::vector<std::int64_t>& extents,
                       std::vector<std::int64_t>& at, const std::function<void()>& f, std::size_t depth = 0) {
  if (depth == axes.size()) return f();
  std::size_t axis = static_cast<std::size_t>(axes[depth]);
  for (at[axis] = 0; at[axis] < extents[axis]; ++at[axis]) for_points(axes, extents, at, f, depth + 1);
}

inline void run(const Program& p, const Statement& s, const Binding& binding, Evaluation mode, Values& values) {
  Point point(p, binding, mode, values);
  std::vector<std::int64_t> extents;
  for (const Size& e : s.axes) extents.push_back(e.at(binding));
  point.axes.assign(extents.size(), 0);
  Array& out = values.at(s.out);
  for_points(parallel_axes(s), extents, point.axes, [&] {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < out.dims.size(); ++d) at = at * out.dims[d] + point.index(s.at[d]);
    if (s.reducer == Reducer::none) {
      bool live = !s.guard || point.truth(s.guard);
      return point.put(out, at, live ? point.value(s.body) : Number{DType::i32});
    }
    Reduction reduction(s, point, p.tensor(s.out).dtype);
    for_points(s.reduced, extents, point.axes, [&] {
      if (s.guard && !point.truth(s.guard)) return;
      std::int64_t position = s.reduced.empty() ? 0 : point.axes[static_cast<std::size_t>(s.reduced[0])];
      reduction.add(point.value(s.body), position);
    });
    point.put(out, at, reduction.result());
  });
}

// Every statement of a program with fixed sizes and without opaque nodes.
inline Values evaluate(const Program& p, const Values& inputs, const Binding& binding, Evaluation mode) {
  Values values;
  auto held = [&](DType t) { return mode == Evaluation::fp64 && is_float(t) ? DType::f64 : t; };
  Point any(p, binding, mode, values);
  for (TensorId id = 0; id < static_cast<TensorId>(p.tensors.size()); ++id) {
    const Tensor& t = p.tensor(id);
    std::vector<std::int64_t> dims;
    for (const Size& d : t.dims) dims.push_back(d.at(binding));
    Array array = Array::make(held(t.dtype), dims), given;
    if (inputs.count(id))
      given = inputs.at(id);
    else if (t.kind == Kind::weight)
      given = {t.dtype, dims, nullptr, const_cast<std::byte*>(t.data.data())};
    for (std::int64_t i = 0; given.data && i < array.count(); ++i) any.put(array, i, Point::element(given, i));
    values[id] = array;
  }
  for (const auto& node : p.nodes) run(p, std::get<Statement>(node), binding, mode, values);
  return values;
}

} // namespace tilewright::oracle
