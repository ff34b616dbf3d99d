// Constructors of scalar nodes: types, constant folding, and the few identities that change no bit.
#include "expr/scalar.h"

#include <cmath>

#include "expr/fold.h"
#include "support/error.h"

namespace tilewright {

namespace {

using Leaf = decltype(Scalar::leaf);

ScalarRef node(Op op, DType type, std::vector<ScalarRef> args, Leaf leaf = {}) {
  return std::make_shared<const Scalar>(Scalar{op, type, std::move(args), std::move(leaf)});
}

[[noreturn]] void bad_type(Op op, DType type, const char* wanted) {
  throw Error(Code::type, "", std::string(name_of(op)) + " of " + std::string(name_of(type)),
              std::string("it takes ") + wanted);
}

bool holds(const ScalarRef& s, double value) {
  return s->op == Op::constant && literal_value(*s) == value && !(value == 0 && std::signbit(literal_value(*s)));
}

// The same value as a node of compute type `type`: literals are converted, other things of another type are cast.
ScalarRef coerced(const ScalarRef& s, DType type) {
  if (compute_type(s->dtype) == type) return s;
  if (s->op == Op::constant)
    if (ScalarRef converted = convert_literal(s, type)) return converted;
  return cast(s, type);
}

ScalarRef as_boolean(const ScalarRef& s) { return cast(s, DType::boolean); }

bool is_boolean(const ScalarRef& s) { return s->dtype == DType::boolean; }
bool is_bitwise(Op op) { return op >= Op::bit_and && op <= Op::shift_right; }

// Functions that have no meaning on integers but as floats.
bool is_float_function(Op op) { return (op >= Op::exp && op <= Op::erf) || (op >= Op::sin && op <= Op::atanh); }

// x op constant or constant op x, where the value is x or a constant, bit for bit. Null: no identity.
ScalarRef identity(Op op, DType type, const ScalarRef& a, const ScalarRef& b) {
  const bool whole = is_integer(type);
  auto same = [&](const ScalarRef& s) {
    return s->dtype == type ? s : nullptr;
  }; // a stored type would change the node's
  switch (op) {
  case Op::add:
    if (whole && holds(b, 0)) return same(a);
    return whole && holds(a, 0) ? same(b) : nullptr;
  case Op::sub: return holds(b, 0) ? same(a) : nullptr;
  case Op::mul:
    if (whole && (holds(a, 0) || holds(b, 0))) return integer(0, type);
    if (holds(b, 1)) return same(a);
    return holds(a, 1) ? same(b) : nullptr;
  case Op::div: return holds(b, 1) ? same(a) : nullptr;
  case Op::floor_div: return whole && holds(b, 1) ? same(a) : nullptr;
  case Op::mod: return whole && holds(b, 1) ? integer(0, type) : nullptr;
  case Op::pow: return holds(b, 1) ? same(a) : nullptr;
  default: return nullptr;
  }
}

ScalarRef logical(Op op, const ScalarRef& x, const ScalarRef& y) {
  const ScalarRef a = as_boolean(x), b = as_boolean(y);
  const bool neutral = op == Op::logical_and; // `and true` and `or false` change nothing
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)})
    if (one->op == Op::constant) return holds(one, neutral) ? other : one;
  return node(op, DType::boolean, {a, b});
}

ScalarRef bitwise(Op op, const ScalarRef& a, const ScalarRef& b) {
  if (is_boolean(a) && is_boolean(b) && op <= Op::bit_xor)
    return op == Op::bit_xor ? binary(Op::ne, a, b)
                             : logical(op == Op::bit_and ? Op::logical_and : Op::logical_or, a, b);
  for (const ScalarRef& s : {a, b})
    if (!is_integer(s->dtype)) bad_type(op, s->dtype, "integers");
  const DType type = compute_type(promote(a->dtype, b->dtype));
  const ScalarRef x = coerced(a, type), y = coerced(b, type);
  if (ScalarRef folded = fold_binary(op, type, x, y)) return folded;
  return node(op, type, {x, y});
}

} // namespace

// ---- types

DType promote(DType a, DType b) {
  if (a == b) return a;
  auto rank = [](DType t) { // bool < i8, u8 < i32 < i64 < narrow floats < f32 < f64
    switch (t) {
    case DType::boolean: return 0;
    case DType::i8:
    case DType::u8: return 1;
    case DType::i32: return 2;
    case DType::i64: return 3;
    case DType::f8e4m3:
    case DType::f8e5m2: return 4;
    case DType::f16:
    case DType::bf16: return 5;
    case DType::f32: return 6;
    case DType::f64: break;
    }
    return 7;
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b) ? a : b;
  return rank(a) == 1 ? DType::i32 : DType::f32; // two different types that hold neither the other
}

// ---- leaves

ScalarRef number(double value, DType type) {
  TW_ASSERT(type == DType::f32 || type == DType::f64);
  return node(Op::constant, type, {}, value);
}

ScalarRef integer(std::int64_t value, DType type) {
  if (is_float(type)) return number(static_cast<double>(value), type);
  if (type == DType::i32 && value != static_cast<std::int32_t>(value)) type = DType::i64;
  TW_ASSERT(type == DType::i32 || type == DType::i64);
  return node(Op::constant, type, {}, value);
}

ScalarRef boolean(bool value) { return node(Op::constant, DType::boolean, {}, static_cast<std::int64_t>(value)); }

ScalarRef axis_value(AxisId axis, DType type) { return node(Op::axis, type, {}, axis); }

ScalarRef size_value(Size size, DType type) {
  if (auto value = size.value()) return integer(*value, type);
  return node(Op::size, type, {}, std::move(size));
}

ScalarRef read(const Program& p, TensorId tensor, std::vector<Index> at, ScalarRef otherwise) {
  const Tensor& t = p.tensor(tensor);
  TW_ASSERT(at.size() == t.dims.size());
  if (otherwise) {
    const DType type = compute_type(t.dtype);
    if (compute_type(promote(type, otherwise->dtype)) != type && otherwise->op != Op::constant)
      throw Error(Code::type, "",
                  "the `else` value of " + t.name + " is " + std::string(name_of(otherwise->dtype)) +
                      ", its elements are " + std::string(name_of(t.dtype)),
                  "cast the value");
    otherwise = coerced(otherwise, type);
  }
  return node(Op::read, t.dtype, {}, Access{tensor, std::move(at), std::move(otherwise)});
}

// ---- operators

ScalarRef unary(Op op, ScalarRef a) {
  TW_ASSERT(arity(op) == 1 && op != Op::cast);
  DType type = compute_type(a->dtype);
  if (op == Op::logical_not) {
    a = as_boolean(a);
    if (a->op == Op::constant) return boolean(holds(a, 0));
    return a->op == op ? a->args[0] : node(op, DType::boolean, {a});
  }
  if (op == Op::bit_not && is_boolean(a)) return unary(Op::logical_not, a);
  if (op == Op::bit_not && is_float(type)) bad_type(op, type, "integers");
  if (op == Op::is_nan || op == Op::is_inf) {
    if (!is_float(type)) return boolean(false);
    ScalarRef folded = fold_unary(op, type, a);
    return folded ? folded : node(op, DType::boolean, {a});
  }
  if (is_float_function(op) && !is_float(type)) a = coerced(a, type = DType::f32);
  if (op >= Op::floor && op <= Op::trunc && !is_float(type)) return a;
  if (op == Op::neg && a->op == Op::neg && a->args[0]->dtype == type) return a->args[0];
  if (ScalarRef folded = fold_unary(op, type, a)) return folded;
  return node(op, type, {a});
}

ScalarRef binary(Op op, ScalarRef a, ScalarRef b) {
  TW_ASSERT(arity(op) == 2);
  if (op == Op::logical_and || op == Op::logical_or) return logical(op, a, b);
  if (is_bitwise(op)) return bitwise(op, a, b);
  const DType type = compute_type(promote(a->dtype, b->dtype));
  a = coerced(a, type);
  b = coerced(b, type);
  if (ScalarRef folded = fold_binary(op, type, a, b)) return folded;
  if (ScalarRef simple = identity(op, type, a, b)) return simple;
  return node(op, is_comparison(op) ? DType::boolean : type, {a, b});
}

ScalarRef select(ScalarRef condition, ScalarRef a, ScalarRef b) {
  condition = as_boolean(condition);
  const bool truths = is_boolean(a) && is_boolean(b);
  const DType type = truths ? DType::boolean : compute_type(promote(a->dtype, b->dtype));
  if (!truths) {
    a = coerced(a, type);
    b = coerced(b, type);
  }
  const bool typed = a->dtype == type && b->dtype == type;
  if (typed && condition->op == Op::constant) return holds(condition, 0) ? b : a;
  if (typed && equal(a, b)) return a;
  return node(Op::select, type, {condition, a, b});
}

ScalarRef cast(ScalarRef a, DType type) {
  if (a->dtype == type) return a;
  if (a->op == Op::constant && (compute_type(type) == type || type == DType::boolean)) {
    ScalarRef rounded = a;
    if (a->dtype == DType::f32) rounded = number(literal_value(*a)); // what was written as 0.1 is now an f32
    if (ScalarRef converted = convert_literal(rounded, type))
      return type == DType::f32 ? number(literal_value(*converted)) : converted;
  }
  return node(Op::cast, type, {a});
}

ScalarRef index_value(const Program& p, const Index& i) {
  const DType type = DType::i64;
  ScalarRef sum = size_value(i.offset, type);
  for (const Index::Term& term : i.terms) {
    ScalarRef of;
    if (auto* axis = std::get_if<AxisId>(&term.of)) of = axis_value(*axis, type);
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) of = index_value(p, **inner);
    if (auto* access = std::get_if<std::shared_ptr<const Access>>(&term.of))
      of = cast(read(p, (*access)->tensor, (*access)->at, (*access)->otherwise), type);
    sum = binary(Op::add, sum, binary(Op::mul, size_value(term.coefficient, type), of));
  }
  if (i.div != Size(1)) sum = binary(Op::floor_div, sum, size_value(i.div, type));
  if (i.mod != Size(0)) sum = binary(Op::mod, sum, size_value(i.mod, type));
  return sum;
}

bool is_literal(const ScalarRef& s, double* value) {
  if (!s || s->op != Op::constant) return false;
  if (value) *value = literal_value(*s);
  return true;
}

bool zero_outside(const Access& a) {
  double v = 1;
  return !a.otherwise || (is_literal(a.otherwise, &v) && v == 0);
}

// ---- facts about operators

int arity(Op op) {
  if (op <= Op::read) return 0;
  if (op == Op::select) return 3;
  const bool one = (op >= Op::neg && op <= Op::atanh) || op == Op::logical_not || op == Op::bit_not ||
                   op == Op::is_nan || op == Op::is_inf || op == Op::cast;
  return one ? 1 : 2;
}

bool is_comparison(Op op) { return op >= Op::eq && op <= Op::ge; }
bool is_logical(Op op) { return op >= Op::logical_and && op <= Op::logical_not; }

std::string_view name_of(Op op) {
  static constexpr std::string_view names[] = {
      "constant",    "index", "size",  "read",   "+",     "-",       "*",      "/",       "//",      "%",
      "min",         "max",   "^",     "-",      "abs",   "sign",    "floor",  "ceil",    "round",   "trunc",
      "exp",         "log",   "sqrt",  "tanh",   "erf",   "sin",     "cos",    "tan",     "asin",    "acos",
      "atan",        "sinh",  "cosh",  "asinh",  "acosh", "atanh",   "==",     "!=",      "<",       "<=",
      ">",           ">=",    "and",   "or",     "not",   "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left",
      "shift_right", "isnan", "isinf", "select", "cast"};
  static_assert(std::size(names) == static_cast<std::size_t>(Op::cast) + 1);
  return names[static_cast<std::size_t>(op)];
}

std::string_view name_of(Reducer reducer) {
  static constexpr std::string_view names[] = {"", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
  return names[static_cast<std::size_t>(reducer)];
}

double identity_of(Reducer reducer) {
  switch (reducer) {
  case Reducer::sum:
  case Reducer::any: return 0;
  case Reducer::prod:
  case Reducer::all: return 1;
  case Reducer::max: return -INFINITY;
  case Reducer::min: return INFINITY;
  default: break;
  }
  TW_ASSERT(!"this reducer has no identity");
  return 0;
}

} // namespace tilewright
