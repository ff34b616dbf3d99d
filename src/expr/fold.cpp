#include "expr/fold.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace tilewright {

namespace {

std::int64_t integer_of(const Scalar& s) {
  auto* i = std::get_if<std::int64_t>(&s.leaf);
  return i ? *i : static_cast<std::int64_t>(std::get<double>(s.leaf));
}

double real_of(const Scalar& s) {
  auto* f = std::get_if<double>(&s.leaf);
  return f ? *f : static_cast<double>(std::get<std::int64_t>(s.leaf));
}

template <class T> T value_as(const Scalar& s) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(real_of(s));
  else
    return static_cast<T>(integer_of(s));
}

template <class T> ScalarRef literal(T value, DType type) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value) ? nullptr : number(static_cast<double>(value), type);
  else
    return integer(static_cast<std::int64_t>(value), type);
}

template <class T> std::optional<bool> compare(Op op, T a, T b) {
  switch (op) {
  case Op::eq: return a == b;
  case Op::ne: return a != b;
  case Op::lt: return a < b;
  case Op::le: return a <= b;
  case Op::gt: return a > b;
  case Op::ge: return a >= b;
  default: return std::nullopt;
  }
}

template <class T> ScalarRef fold_float(Op op, DType type, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return nullptr;
  if (auto truth = compare(op, a, b)) return boolean(*truth);
  switch (op) {
  case Op::add: return literal(a + b, type);
  case Op::sub: return literal(a - b, type);
  case Op::mul: return literal(a * b, type);
  case Op::div: return b == 0 ? nullptr : literal(a / b, type);
  case Op::min: return a == b ? nullptr : literal(a < b ? a : b, type); // -0 and 0 are equal, and not the same
  case Op::max: return a == b ? nullptr : literal(a > b ? a : b, type);
  case Op::pow: return literal(real_power(a, b), type);
  default: return nullptr;
  }
}

template <class T> std::optional<T> power(T base, T exponent) {
  using U = std::make_unsigned_t<T>;
  if (exponent < 0) return std::nullopt;
  U result = 1, square = static_cast<U>(base);
  for (U e = static_cast<U>(exponent); e != 0; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return static_cast<T>(result);
}

template <class T> ScalarRef fold_integer(Op op, DType type, T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (auto truth = compare(op, a, b)) return boolean(*truth);
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  const bool undefined = b == 0 || (b == -1 && a == std::numeric_limits<T>::min()), shifts = y < sizeof(T) * 8;
  auto give = [&](U value) { return literal(static_cast<T>(value), type); };
  switch (op) {
  case Op::add: return give(x + y);
  case Op::sub: return give(x - y);
  case Op::mul: return give(x * y);
  case Op::div: return undefined ? nullptr : literal<T>(a / b, type);
  case Op::floor_div: return undefined ? nullptr : literal(static_cast<T>(floor_div_i64(a, b)), type);
  case Op::mod: return undefined ? nullptr : literal(static_cast<T>(floor_mod_i64(a, b)), type);
  case Op::min: return literal(a < b ? a : b, type);
  case Op::max: return literal(a > b ? a : b, type);
  case Op::pow:
    if (auto p = power(a, b)) return literal(*p, type);
    return nullptr;
  case Op::bit_and: return give(x & y);
  case Op::bit_or: return give(x | y);
  case Op::bit_xor: return give(x ^ y);
  case Op::shift_left: return shifts ? give(x << y) : nullptr;
  case Op::shift_right: return shifts ? literal(static_cast<T>(a >> b), type) : nullptr;
  default: return nullptr;
  }
}

template <class T> ScalarRef fold_float(Op op, DType type, T a) {
  if (op == Op::is_nan) return boolean(std::isnan(a));
  if (op == Op::is_inf) return boolean(std::isinf(a));
  if (std::isnan(a)) return nullptr;
  switch (op) {
  case Op::neg: return literal(-a, type);
  case Op::abs: return literal(std::abs(a), type);
  case Op::sign: return literal(a == 0 ? a : std::copysign(T(1), a), type);
  case Op::floor: return literal(std::floor(a), type);
  case Op::ceil: return literal(std::ceil(a), type);
  case Op::round: return literal(std::nearbyint(a), type);
  case Op::trunc: return literal(std::trunc(a), type);
  case Op::sqrt: return literal(std::sqrt(a), type);
  default:
    if (const RealFunction f = real_function(op)) return literal(static_cast<T>(f(static_cast<double>(a))), type);
    return nullptr;
  }
}

template <class T> ScalarRef fold_integer(Op op, DType type, T a) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
  case Op::neg: return literal(static_cast<T>(U(0) - static_cast<U>(a)), type);
  case Op::abs: return literal(static_cast<T>(a < 0 ? U(0) - static_cast<U>(a) : static_cast<U>(a)), type);
  case Op::sign: return literal<T>((a > 0) - (a < 0), type);
  case Op::bit_not: return literal<T>(~a, type);
  default: return nullptr;
  }
}

} // namespace

RealFunction real_function(Op op) {
  switch (op) {
  case Op::exp: return std::exp;
  case Op::log: return std::log;
  case Op::tanh: return std::tanh;
  case Op::erf: return std::erf;
  case Op::sin: return std::sin;
  case Op::cos: return std::cos;
  case Op::tan: return std::tan;
  case Op::asin: return std::asin;
  case Op::acos: return std::acos;
  case Op::atan: return std::atan;
  case Op::sinh: return std::sinh;
  case Op::cosh: return std::cosh;
  case Op::asinh: return std::asinh;
  case Op::acosh: return std::acosh;
  case Op::atanh: return std::atanh;
  default: return nullptr;
  }
}

double literal_value(const Scalar& s) {
  return s.dtype == DType::f32 ? static_cast<double>(static_cast<float>(real_of(s))) : real_of(s);
}

ScalarRef fold_unary(Op op, DType type, const ScalarRef& a) {
  if (a->op != Op::constant) return nullptr;
  switch (type) {
  case DType::f32: return fold_float(op, type, value_as<float>(*a));
  case DType::f64: return fold_float(op, type, value_as<double>(*a));
  case DType::i32: return fold_integer(op, type, value_as<std::int32_t>(*a));
  case DType::i64: return fold_integer(op, type, value_as<std::int64_t>(*a));
  default: return nullptr;
  }
}

ScalarRef fold_binary(Op op, DType type, const ScalarRef& a, const ScalarRef& b) {
  if (a->op != Op::constant || b->op != Op::constant) return nullptr;
  switch (type) {
  case DType::f32: return fold_float(op, type, value_as<float>(*a), value_as<float>(*b));
  case DType::f64: return fold_float(op, type, value_as<double>(*a), value_as<double>(*b));
  case DType::i32: return fold_integer(op, type, value_as<std::int32_t>(*a), value_as<std::int32_t>(*b));
  case DType::i64: return fold_integer(op, type, value_as<std::int64_t>(*a), value_as<std::int64_t>(*b));
  default: return nullptr;
  }
}

ScalarRef convert_literal(const ScalarRef& s, DType to) {
  const bool from_float = std::holds_alternative<double>(s->leaf);
  switch (to) {
  case DType::f64: return from_float ? number(real_of(*s), to) : number(static_cast<double>(integer_of(*s)), to);
  case DType::f32:
    return from_float ? number(real_of(*s), to) : number(static_cast<double>(static_cast<float>(integer_of(*s))), to);
  case DType::boolean: {
    const double value = literal_value(*s);
    return std::isnan(value) ? nullptr : boolean(value != 0);
  }
  case DType::i32:
  case DType::i64: {
    if (!from_float) return integer(to == DType::i32 ? static_cast<std::int32_t>(integer_of(*s)) : integer_of(*s), to);
    const double value = std::trunc(literal_value(*s)), limit = to == DType::i32 ? 0x1p31 : 0x1p63;
    return value >= -limit && value < limit ? integer(static_cast<std::int64_t>(value), to) : nullptr;
  }
  default: return nullptr;
  }
}

} // namespace tilewright
