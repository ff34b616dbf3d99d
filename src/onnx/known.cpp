#include "onnx/known.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

using Maybe = std::optional<Element>;

double round_to(double v, DType d) {
  switch (d) {
  case DType::f64: return v;
  case DType::f16: return static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(v))));
  case DType::bf16: return static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(v))));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(f32_to_f8(static_cast<float>(v), d), d));
  default: return static_cast<double>(static_cast<float>(v));
  }
}

// The value as a quotient of sizes: a float constant qualifies where it is a dyadic fraction of moderate size.
Maybe as_quotient(const Element& e) {
  if (!e.real) return e;
  if (!std::isfinite(*e.real) || std::abs(*e.real) > 1e9) return {};
  for (int shift = 0; shift <= 20; ++shift) {
    double scaled = std::ldexp(*e.real, shift);
    if (scaled == std::floor(scaled)) {
      return Element{Size(static_cast<std::int64_t>(scaled)), Size(std::int64_t{1} << shift), {}};
    }
  }
  return {};
}

std::optional<double> as_real(const Element& e) {
  if (e.real) return e.real;
  if (!e.is_constant() || e.over.constant() == 0) return {};
  return static_cast<double>(e.size.constant()) / static_cast<double>(e.over.constant());
}

// A float in its dtype, an integer that its type can hold; symbolic sizes are kept in lowest terms.
Maybe settled(Element e, DType d) {
  if (is_float(d)) {
    if (auto v = as_real(e)) return Element::of(round_to(*v, d));
    Size quotient;
    if (divides(e.over, e.size, &quotient)) return Element{quotient, 1, {}};
    return e;
  }
  if (e.real || e.over != Size(1)) return {};
  auto v = e.size.value();
  if (!v) return e;
  bool fits = d == DType::i64 || (d == DType::boolean && (*v == 0 || *v == 1)) ||
              (d == DType::u8 && *v >= 0 && *v <= 255) || (d == DType::i8 && *v >= -128 && *v <= 127) ||
              (d == DType::i32 && *v >= INT32_MIN && *v <= INT32_MAX);
  return fits ? Maybe(e) : Maybe();
}

bool non_negative(const Element& e) { return e.size.range().low >= 0 && e.over.range().low >= 0; }

Maybe floor_of(const Element& e, bool up) {
  if (e.real) return Element::of(up ? std::ceil(*e.real) : std::floor(*e.real));
  if (e.over.range().low < 0) return {};
  return Element::of(up ? -floor_div(-e.size, e.over) : floor_div(e.size, e.over));
}

Maybe unary_of(Op op, const Element& a) {
  switch (op) {
  case Op::neg: return a.real ? Element::of(-*a.real) : Element{-a.size, a.over, {}};
  case Op::floor: return floor_of(a, false);
  case Op::ceil: return floor_of(a, true);
  case Op::trunc:
    if (a.real) return Element::of(std::trunc(*a.real));
    return non_negative(a) ? floor_of(a, false) : Maybe();
  case Op::round: return a.real ? Element::of(std::nearbyint(*a.real)) : (a.over == Size(1) ? Maybe(a) : Maybe());
  case Op::sqrt: return a.real ? Maybe(Element::of(std::sqrt(*a.real))) : Maybe();
  case Op::abs:
    if (a.real) return Element::of(std::abs(*a.real));
    if (a.is_constant()) return Element{Size(std::abs(a.size.constant())), a.over, {}};
    return non_negative(a) ? Maybe(a) : Maybe();
  case Op::logical_not: return a.is_constant() ? Maybe(Element::of(Size(a.size == Size(0) ? 1 : 0))) : Maybe();
  case Op::is_nan: return Element::of(Size(a.real && std::isnan(*a.real) ? 1 : 0));
  case Op::is_inf: return Element::of(Size(a.real && std::isinf(*a.real) ? 1 : 0));
  default: return {};
  }
}

// -1, 0, 1 where the order of a and b is the same for all sizes in range.
std::optional<int> sign_of_difference(const Element& a, const Element& b) {
  if (a.real || b.real) {
    auto x = as_real(a), y = as_real(b);
    if (x && y && !std::isnan(*x) && !std::isnan(*y)) return *x < *y ? -1 : *x > *y ? 1 : 0;
    if (x && y) return {};
  }
  auto p = as_quotient(a), q = as_quotient(b);
  if (!p || !q || p->over.range().low < 0 || q->over.range().low < 0) return {};
  Interval d = (p->size * q->over - q->size * p->over).range();
  if (d.low == 0 && d.high == 0) return 0;
  if (d.low > 0) return 1;
  if (d.high < 0) return -1;
  return {};
}

Maybe compare(Op op, const Element& a, const Element& b) {
  auto truth = [](bool v) { return Element::of(Size(v ? 1 : 0)); };
  if ((a.real && std::isnan(*a.real)) || (b.real && std::isnan(*b.real))) return truth(op == Op::ne);
  if (auto s = sign_of_difference(a, b)) {
    switch (op) {
    case Op::eq: return truth(*s == 0);
    case Op::ne: return truth(*s != 0);
    case Op::lt: return truth(*s < 0);
    case Op::le: return truth(*s <= 0);
    case Op::gt: return truth(*s > 0);
    default: return truth(*s >= 0);
    }
  }
  // An order that is not strict may be decided where equality is not: n >= 0.
  auto p = as_quotient(a), q = as_quotient(b);
  if (!p || !q || p->over.range().low < 0 || q->over.range().low < 0) return {};
  Interval d = (p->size * q->over - q->size * p->over).range();
  if (d.low >= 0 && (op == Op::ge || op == Op::lt)) return truth(op == Op::ge);
  if (d.high <= 0 && (op == Op::le || op == Op::gt)) return truth(op == Op::le);
  return {};
}

Maybe arithmetic(Op op, const Element& a, const Element& b) {
  if (auto x = as_real(a), y = as_real(b); (a.real || b.real) && x && y) {
    switch (op) {
    case Op::add: return Element::of(*x + *y);
    case Op::sub: return Element::of(*x - *y);
    case Op::mul: return Element::of(*x * *y);
    case Op::div: return Element::of(*x / *y);
    case Op::min: return std::isnan(*x) || std::isnan(*y) ? Maybe() : Element::of(std::min(*x, *y));
    case Op::max: return std::isnan(*x) || std::isnan(*y) ? Maybe() : Element::of(std::max(*x, *y));
    default: return {};
    }
  }
  auto p = as_quotient(a), q = as_quotient(b);
  if (!p || !q) return {};
  bool same = p->over == q->over;
  Size common = same ? p->over : p->over * q->over;
  Size left = same ? p->size : p->size * q->over, right = same ? q->size : q->size * p->over;
  switch (op) {
  case Op::add: return Element{left + right, common, {}};
  case Op::sub: return Element{left - right, common, {}};
  case Op::mul: return Element{p->size * q->size, p->over * q->over, {}};
  case Op::div:
    return q->size.range().low >= 0 && q->size != Size(0) ? Maybe({p->size * q->over, p->over * q->size, {}}) : Maybe();
  case Op::min: return same && common.range().low >= 0 ? Maybe({min(left, right), common, {}}) : Maybe();
  case Op::max: return same && common.range().low >= 0 ? Maybe({max(left, right), common, {}}) : Maybe();
  default: return {};
  }
}

// Integers and booleans: sizes, exact; anything bitwise only on constants.
Maybe integral(Op op, const Element& a, const Element& b) {
  const Size &x = a.size, &y = b.size;
  bool zero = y == Size(0);
  switch (op) {
  case Op::add: return Element::of(x + y);
  case Op::sub: return Element::of(x - y);
  case Op::mul: return Element::of(x * y);
  case Op::min: return Element::of(min(x, y));
  case Op::max: return Element::of(max(x, y));
  case Op::div:
    if (zero) return {};
    if (x.is_constant() && y.is_constant()) {
      if (y.constant() == -1) return Element::of(-x);
      return Element::of(Size(x.constant() / y.constant()));
    }
    return x.range().low >= 0 && y.range().low >= 0 ? Maybe(Element::of(floor_div(x, y))) : Maybe();
  case Op::floor_div: return zero ? Maybe() : Maybe(Element::of(floor_div(x, y)));
  case Op::mod: return zero ? Maybe() : Maybe(Element::of(floor_mod(x, y)));
  default: break;
  }
  if (!x.is_constant() || !y.is_constant()) return {};
  std::int64_t u = x.constant(), v = y.constant();
  switch (op) {
  case Op::logical_and: return Element::of(Size(u && v ? 1 : 0));
  case Op::logical_or: return Element::of(Size(u || v ? 1 : 0));
  case Op::bit_and: return Element::of(Size(u & v));
  case Op::bit_or: return Element::of(Size(u | v));
  case Op::bit_xor: return Element::of(Size(u ^ v));
  default: return {};
  }
}

Maybe convert(const Element& e, DType from, DType to) {
  if (is_float(to)) return settled(e, to);
  if (to == DType::boolean) {
    auto c = compare(Op::ne, e, is_float(from) ? Element::of(0.0) : Element::of(Size(0)));
    return c ? settled(*c, to) : c;
  }
  if (!is_float(from)) return settled(e, to);
  if (e.real && !(std::abs(*e.real) < 9e18)) return {};
  auto whole = unary_of(Op::trunc, e);
  if (!whole) return {};
  if (whole->real) whole = Element::of(Size(static_cast<std::int64_t>(*whole->real)));
  return settled(*whole, to);
}

struct Folder {
  const Program& program;
  const KnownTensors& known;
  const std::vector<std::int64_t>& at;

  Maybe of(const ScalarRef& s) const {
    switch (s->op) {
    case Op::constant:
      if (auto v = std::get_if<double>(&s->leaf)) return is_float(s->dtype) ? Maybe(Element::of(*v)) : Maybe();
      return settled(Element::of(Size(std::get<std::int64_t>(s->leaf))), s->dtype);
    case Op::axis: return settled(Element::of(Size(at[static_cast<std::size_t>(std::get<AxisId>(s->leaf))])), s->dtype);
    case Op::size: return settled(Element::of(std::get<Size>(s->leaf)), s->dtype);
    case Op::read: return element(std::get<Access>(s->leaf));
    case Op::cast: {
      auto a = of(s->args[0]);
      return a ? convert(*a, s->args[0]->dtype, s->dtype) : a;
    }
    case Op::select: return chosen(s);
    default: return computed(s);
    }
  }

  Maybe chosen(const ScalarRef& s) const {
    auto condition = of(s->args[0]);
    if (!condition || !condition->is_constant()) return {};
    const ScalarRef& arm = s->args[condition->size == Size(0) ? 2 : 1];
    auto value = of(arm);
    return value ? convert(*value, arm->dtype, s->dtype) : value;
  }

  Maybe computed(const ScalarRef& s) const {
    auto a = of(s->args[0]);
    if (!a) return {};
    if (s->args.size() == 1) {
      auto r = unary_of(s->op, *a);
      return r ? settled(*r, s->dtype) : r;
    }
    auto b = of(s->args[1]);
    if (!b) return {};
    DType common = promote(s->args[0]->dtype, s->args[1]->dtype);
    auto x = convert(*a, s->args[0]->dtype, common), y = convert(*b, s->args[1]->dtype, common);
    if (!x || !y) return {};
    if (is_comparison(s->op)) return compare(s->op, *x, *y);
    auto r = is_float(common) ? arithmetic(s->op, *x, *y) : integral(s->op, *x, *y);
    return r ? settled(*r, s->dtype) : r;
  }

  std::optional<std::int64_t> position(const Index& index) const {
    Size sum = index.offset;
    for (const auto& term : index.terms) {
      std::optional<std::int64_t> v;
      if (auto axis = std::get_if<AxisId>(&term.of))
        v = at[static_cast<std::size_t>(*axis)];
      else if (auto inner = std::get_if<std::shared_ptr<const Index>>(&term.of))
        v = position(**inner);
      else if (auto e = element(*std::get<std::shared_ptr<const Access>>(term.of)))
        v = e->real ? std::nullopt : e->size.value();
      if (!v) return {};
      sum = sum + term.coefficient * Size(*v);
    }
    sum = floor_div(sum, index.div);
    if (index.mod != Size(0)) sum = floor_mod(sum, index.mod);
    return sum.value();
  }

  Maybe element(const Access& access) const {
    auto found = known.find(access.tensor);
    if (found == known.end()) return {};
    const auto& dims = program.tensor(access.tensor).dims;
    std::int64_t linear = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      auto p = position(access.at[i]);
      auto extent = dims[i].value();
      if (!p || !extent) return {};
      if (*p < 0 || *p >= *extent) return access.otherwise ? of(access.otherwise) : Maybe();
      linear = linear * *extent + *p;
    }
    return found->second[static_cast<std::size_t>(linear)];
  }
};

Maybe merge(Reducer r, const Element& state, const Element& value, DType d) {
  Op op = r == Reducer::sum    ? Op::add
          : r == Reducer::prod ? Op::mul
          : r == Reducer::max  ? Op::max
          : r == Reducer::min  ? Op::min
          : r == Reducer::any  ? Op::logical_or
                               : Op::logical_and;
  auto m = is_float(d) ? arithmetic(op, state, value) : integral(op, state, value);
  return m ? settled(*m, d) : m;
}

// One point of the result: the reduction over `reduced` in order, at[] holding the parallel axes.
Maybe reduced_point(const Folder& folder, const Statement& s, std::vector<std::int64_t>& at, std::int64_t count) {
  DType d = compute_type(s.body->dtype);
  Maybe state;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t k = s.reduced.size(); k-- > 0;) {
      auto a = static_cast<std::size_t>(s.reduced[k]);
      std::int64_t extent = s.axes[a].constant();
      at[a] = rest % extent;
      rest /= extent;
    }
    auto v = folder.of(s.body), exists = s.guard ? folder.of(s.guard) : Element::of(Size(1));
    if (!v || !exists || !exists->is_constant()) return {};
    if (exists->size == Size(0)) continue;
    state = state ? merge(s.reducer, *state, *v, d) : settled(*v, d);
    if (!state) return {};
  }
  if (state) return state;
  if (s.reducer == Reducer::sum) return is_float(d) ? Element::of(0.0) : Element::of(Size(0));
  if (s.reducer == Reducer::prod) return is_float(d) ? Element::of(1.0) : Element::of(Size(1));
  return {};
}

} // namespace

std::optional<Element> fold(const Program& p, const KnownTensors& known, const ScalarRef& body,
                            const std::vector<std::int64_t>& at) {
  try {
    return Folder{p, known, at}.of(body);
  } catch (const Error&) {
    return {};
  } // a size that leaves 64 bits: the statement stays, and says so when it runs
}

std::optional<std::int64_t> fold(const Program& p, const KnownTensors& known, const Index& index,
                                 const std::vector<std::int64_t>& at) {
  try {
    return Folder{p, known, at}.position(index);
  } catch (const Error&) {
    return {};
  }
}

std::optional<Elements> fold(const Program& p, const KnownTensors& known, const Statement& s) {
  if ((s.guard && s.reducer == Reducer::none) || s.reducer == Reducer::argmax || s.reducer == Reducer::argmin)
    return {};
  std::vector<std::size_t> parallel;
  std::int64_t points = 1, reductions = 1;
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    auto extent = s.axes[a].value();
    if (!extent || *extent > known_limit) return {};
    bool reduces = std::find(s.reduced.begin(), s.reduced.end(), static_cast<AxisId>(a)) != s.reduced.end();
    if (!reduces) parallel.push_back(a);
    (reduces ? reductions : points) *= *extent;
    if (points > known_limit || reductions > known_limit || points * reductions > 16 * known_limit) return {};
  }
  Elements result;
  std::vector<std::int64_t> at(s.axes.size(), 0);
  try {
    Folder folder{p, known, at};
    for (std::int64_t i = 0; i < points; ++i) {
      std::int64_t rest = i;
      for (std::size_t k = parallel.size(); k-- > 0;) {
        std::int64_t extent = s.axes[parallel[k]].constant();
        at[parallel[k]] = rest % extent;
        rest /= extent;
      }
      auto v = s.reducer == Reducer::none ? folder.of(s.body) : reduced_point(folder, s, at, reductions);
      if (v) v = convert(*v, compute_type(s.body->dtype), p.tensor(s.out).dtype);
      if (!v) return {};
      result.push_back(*v);
    }
  } catch (const Error&) {
    return {};
  }
  return result;
}

Elements decode(DType d, std::span<const std::byte> bytes, std::int64_t count) {
  Elements result;
  result.reserve(static_cast<std::size_t>(count));
  auto at = [&]<class T>(T, std::int64_t i) {
    T v;
    std::memcpy(&v, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return v;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    switch (d) {
    case DType::f64: result.push_back(Element::of(at(double{}, i))); break;
    case DType::f32: result.push_back(Element::of(static_cast<double>(at(float{}, i)))); break;
    case DType::f16: result.push_back(Element::of(static_cast<double>(f16_to_f32(at(std::uint16_t{}, i))))); break;
    case DType::bf16: result.push_back(Element::of(static_cast<double>(bf16_to_f32(at(std::uint16_t{}, i))))); break;
    case DType::f8e4m3:
    case DType::f8e5m2: result.push_back(Element::of(static_cast<double>(f8_to_f32(at(std::uint8_t{}, i), d)))); break;
    case DType::i8: result.push_back(Element::of(Size(at(std::int8_t{}, i)))); break;
    case DType::u8: result.push_back(Element::of(Size(at(std::uint8_t{}, i)))); break;
    case DType::boolean: result.push_back(Element::of(Size(at(std::uint8_t{}, i) != 0 ? 1 : 0))); break;
    case DType::i32: result.push_back(Element::of(Size(at(std::int32_t{}, i)))); break;
    case DType::i64: result.push_back(Element::of(Size(at(std::int64_t{}, i)))); break;
    }
  }
  return result;
}

std::vector<std::byte> encode(DType d, const Elements& elements) {
  std::vector<std::byte> bytes;
  auto put = [&]<class T>(T v) {
    auto p = reinterpret_cast<const std::byte*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof(T));
  };
  for (const Element& e : elements) {
    double real = e.real ? *e.real : 0;
    std::int64_t whole = e.real ? 0 : e.size.constant();
    switch (d) {
    case DType::f64: put(real); break;
    case DType::f32: put(static_cast<float>(real)); break;
    case DType::f16: put(f32_to_f16(static_cast<float>(real))); break;
    case DType::bf16: put(f32_to_bf16(static_cast<float>(real))); break;
    case DType::f8e4m3:
    case DType::f8e5m2: put(f32_to_f8(static_cast<float>(real), d)); break;
    case DType::i8: put(static_cast<std::int8_t>(whole)); break;
    case DType::u8: put(static_cast<std::uint8_t>(whole)); break;
    case DType::boolean: put(static_cast<std::uint8_t>(whole != 0)); break;
    case DType::i32: put(static_cast<std::int32_t>(whole)); break;
    case DType::i64: put(whole); break;
    }
  }
  return bytes;
}

ScalarRef literal(const Element& e, DType stored) {
  DType d = stored == DType::boolean ? stored : compute_type(stored);
  if (e.real) return number(*e.real, d);
  if (stored == DType::boolean) return boolean(e.size != Size(0));
  auto whole = [&](const Size& s) {
    return s.is_constant() ? integer(s.constant(), DType::i64) : size_value(s, DType::i64);
  };
  if (!is_float(stored)) return e.size.is_constant() ? integer(e.size.constant(), d) : size_value(e.size, d);
  ScalarRef value = cast(whole(e.size), d);
  return e.over == Size(1) ? value : binary(Op::div, value, cast(whole(e.over), d));
}

} // namespace tilewright::onnx
