#include <cmath>

#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

using Leaf = decltype(Scalar::leaf);

ScalarRef node(Op op, DType type, std::vector<ScalarRef> args, Leaf leaf = {}) {
  return std::make_shared<const Scalar>(Scalar{op, type, std::move(args), std::move(leaf)});
}

std::optional<DType> joined(const std::optional<DType>& a, const std::optional<DType>& b) {
  return a && b ? promote(*a, *b) : a ? a : b;
}

bool is_boolean(const Value& v) { return v.scalar->dtype == DType::boolean; }
std::string named(const Value& v) { return std::string(name_of(v.scalar->dtype)); }

[[noreturn]] void bad(Op op, const std::string& types, std::string hint) {
  throw Error(Code::type, "", std::string(name_of(op)) + " of " + types, std::move(hint));
}

bool takes_floats(Op op) { return (op >= Op::exp && op <= Op::erf) || (op >= Op::sin && op <= Op::atanh); }

Value bitwise(Op op, const Value& a, const Value& b) {
  if (is_boolean(a) && is_boolean(b) && op <= Op::bit_xor) {
    const Op truth = op == Op::bit_and ? Op::logical_and : op == Op::bit_or ? Op::logical_or : Op::ne;
    return {node(truth, DType::boolean, {a.scalar, b.scalar}), false, DType::boolean};
  }
  if (!is_integer(a.scalar->dtype) || !is_integer(b.scalar->dtype))
    bad(op, named(a) + " and " + named(b), "it takes integers");
  const DType type = compute_type(promote(a.scalar->dtype, b.scalar->dtype));
  return {node(op, type, {as_type(a, type), as_type(b, type)}), false, joined(a.stored, b.stored)};
}

} // namespace

ScalarRef as_type(const Value& v, DType type) {
  const Scalar& s = *v.scalar;
  if (compute_type(s.dtype) == type) return v.scalar;
  if (v.literal && s.op == Op::constant && s.dtype != DType::boolean) {
    if (auto* whole = std::get_if<std::int64_t>(&s.leaf))
      return is_float(type) ? number(static_cast<double>(*whole), type) : integer(*whole, type);
    if (is_float(type)) return number(std::get<double>(s.leaf), type);
  }
  return node(Op::cast, type, {v.scalar});
}

Value make_unary(Op op, Value v) {
  const DType type = compute_type(v.scalar->dtype);
  if (op == Op::logical_not) {
    if (!is_boolean(v)) bad(op, named(v), "compare it: x != 0");
    return {node(op, DType::boolean, {v.scalar}), false, DType::boolean};
  }
  if (op == Op::bit_not && is_boolean(v)) return make_unary(Op::logical_not, std::move(v));
  if (op == Op::bit_not && is_float(type)) bad(op, named(v), "it takes integers");
  if (op == Op::is_nan || op == Op::is_inf)
    return {is_float(type) ? node(op, DType::boolean, {v.scalar}) : boolean(false), false, DType::boolean};
  if (op >= Op::floor && op <= Op::trunc && !is_float(type)) return v; // an integer is whole already
  if (takes_floats(op) && !is_float(type)) return {node(op, DType::f32, {as_type(v, DType::f32)}), false, v.stored};
  return {node(op, type, {v.scalar}), false, v.stored};
}

Value make_binary(Op op, Value a, Value b) {
  if (op == Op::logical_and || op == Op::logical_or) {
    if (!is_boolean(a) || !is_boolean(b)) bad(op, named(a) + " and " + named(b), "compare them: x != 0");
    return {node(op, DType::boolean, {a.scalar, b.scalar}), false, DType::boolean};
  }
  if (op >= Op::bit_and && op <= Op::shift_right) return bitwise(op, a, b);
  const DType type = compute_type(promote(a.scalar->dtype, b.scalar->dtype));
  const bool compares = is_comparison(op);
  return {node(op, compares ? DType::boolean : type, {as_type(a, type), as_type(b, type)}), false,
          compares ? std::optional(DType::boolean) : joined(a.stored, b.stored)};
}

Value make_select(Value condition, Value a, Value b) {
  if (!is_boolean(condition)) bad(Op::select, named(condition) + " as a condition", "compare it: x != 0");
  if (is_boolean(a) && is_boolean(b))
    return {node(Op::select, DType::boolean, {condition.scalar, a.scalar, b.scalar}), false, DType::boolean};
  const DType type = compute_type(promote(a.scalar->dtype, b.scalar->dtype));
  return {node(Op::select, type, {condition.scalar, as_type(a, type), as_type(b, type)}), false,
          joined(a.stored, b.stored)};
}

Value make_cast(Value v, DType type) { return {node(Op::cast, type, {v.scalar}), false, type}; }

Value make_leaf(Value v, DType type) {
  const Scalar& s = *v.scalar;
  const bool real = type == DType::f32 || type == DType::f64, whole = type == DType::i32 || type == DType::i64;
  if (v.literal && s.op == Op::constant && s.dtype != DType::boolean) {
    auto* i = std::get_if<std::int64_t>(&s.leaf);
    if (real) return {number(i ? static_cast<double>(*i) : std::get<double>(s.leaf), type), false, type};
    if (whole && i && (type == DType::i64 || *i == static_cast<std::int32_t>(*i)))
      return {integer(*i, type), false, type};
  }
  if (whole && s.op == Op::axis) return {axis_value(std::get<AxisId>(s.leaf), type), false, type};
  if (whole && s.op == Op::size) return {size_value(std::get<Size>(s.leaf), type), false, type};
  return {};
}

// The promoted type of the inputs, as far as it can hold the value: i32 for sums of i8, u8 and bool, a float for a
// quotient of integers.
DType default_type(const Value& body, Reducer reducer) {
  const DType computed = body.scalar->dtype;
  if (reducer == Reducer::any || reducer == Reducer::all) return DType::boolean;
  if (reducer == Reducer::argmax || reducer == Reducer::argmin) return DType::i64;
  DType type = body.stored.value_or(computed);
  if (is_float(computed) && !is_float(type)) type = computed;
  const bool narrow = type == DType::i8 || type == DType::u8 || type == DType::boolean;
  if (narrow && reducer != Reducer::none) return DType::i32;
  return type == DType::boolean && computed != DType::boolean ? DType::i32 : type;
}

} // namespace tilewright
