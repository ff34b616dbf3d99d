// Types of scalar bodies: what each operator takes and gives. The arguments of an arithmetic node have one compute
// type.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "expr/scalar.h"
#include "expr/verify.h"
#include "support/error.h"

namespace tilewright {

namespace {

bool is_float_function(Op op) { return (op >= Op::floor && op <= Op::erf) || (op >= Op::sin && op <= Op::atanh); }
bool is_bitwise(Op op) { return op >= Op::bit_and && op <= Op::shift_right; }

class Types {
public:
  Types(const Program& p, const Statement& s, std::vector<std::string>& symbols) : p_(p), s_(s), symbols_(symbols) {}

  void scalar(const ScalarRef& s) {
    if (!s) fail("a missing part of a body");
    if (!done_.insert(s.get()).second) return;
    if (s->args.size() != static_cast<std::size_t>(arity(s->op)))
      fail(text_of(*s) + " with " + std::to_string(s->args.size()) + " arguments");
    for (const ScalarRef& arg : s->args) scalar(arg);
    if (s->args.empty())
      leaf(*s);
    else
      operation(*s);
  }

  void access(const Access& a) {
    if (a.tensor < 0 || static_cast<std::size_t>(a.tensor) >= p_.tensors.size()) fail("an access to no tensor");
    const Tensor& t = p_.tensor(a.tensor);
    if (a.at.size() != t.dims.size())
      throw Error(Code::shape, place_of(p_, s_),
                  t.name + " is read with " + std::to_string(a.at.size()) + " indices and has " +
                      std::to_string(t.dims.size()) + " dims");
    for (const Index& index : a.at) this->index(index);
    if (!a.otherwise) return;
    scalar(a.otherwise);
    if (compute_type(a.otherwise->dtype) != compute_type(t.dtype))
      fail("the `else` value of " + t.name + " is " + std::string(name_of(a.otherwise->dtype)) + ", its elements are " +
           std::string(name_of(t.dtype)));
  }

  void index(const Index& i) {
    for (const Index::Term& term : i.terms) {
      if (auto* axis = std::get_if<AxisId>(&term.of); axis && !is_axis(*axis)) fail("an index over no axis");
      if (auto* nested = std::get_if<std::shared_ptr<const Index>>(&term.of)) index(**nested);
      auto* gather = std::get_if<std::shared_ptr<const Access>>(&term.of);
      if (!gather) continue;
      access(**gather);
      const Tensor& t = p_.tensor((*gather)->tensor);
      if (!is_integer(t.dtype))
        fail("an index by " + t.name + ", whose elements are " + std::string(name_of(t.dtype)),
             "index with an integer tensor");
    }
  }

private:
  const Program& p_;
  const Statement& s_;
  std::vector<std::string>& symbols_;
  std::unordered_set<const Scalar*> done_;

  [[noreturn]] void fail(std::string message, std::string hint = {}) const {
    throw Error(Code::type, place_of(p_, s_), std::move(message), std::move(hint));
  }

  bool is_axis(AxisId a) const { return a >= 0 && static_cast<std::size_t>(a) < s_.axes.size(); }
  static std::string text_of(const Scalar& s) { return std::string(name_of(s.op)); }

  void leaf(const Scalar& s) {
    switch (s.op) {
    case Op::constant: {
      const bool whole = std::holds_alternative<std::int64_t>(s.leaf), real = std::holds_alternative<double>(s.leaf);
      if (s.dtype == DType::f32 || s.dtype == DType::f64 ? !real : !whole) fail("a constant without its value");
      if (compute_type(s.dtype) != s.dtype && s.dtype != DType::boolean)
        fail("a constant of type " + std::string(name_of(s.dtype)));
      if (s.dtype == DType::i32 &&
          std::get<std::int64_t>(s.leaf) != static_cast<std::int32_t>(std::get<std::int64_t>(s.leaf)))
        fail("a constant of type i32 outside its range");
      return;
    }
    case Op::axis:
      if (!std::holds_alternative<AxisId>(s.leaf) || !is_axis(std::get<AxisId>(s.leaf))) fail("the value of no axis");
      return whole_leaf(s);
    case Op::size:
      if (!std::holds_alternative<Size>(s.leaf)) fail("a size without its value");
      std::get<Size>(s.leaf).collect_symbols(symbols_);
      return whole_leaf(s);
    default:
      if (!std::holds_alternative<Access>(s.leaf)) fail("a read without its access");
      access(std::get<Access>(s.leaf));
      if (s.dtype != p_.tensor(std::get<Access>(s.leaf).tensor).dtype) fail("a read with another type than its tensor");
    }
  }

  void whole_leaf(const Scalar& s) {
    if (s.dtype != DType::i32 && s.dtype != DType::i64) fail("index() and size() are i32 or i64");
  }

  void wants(const Scalar& s, bool good, const char* wanted) const {
    if (good) return;
    std::string types;
    for (const ScalarRef& arg : s.args) types += (types.empty() ? "" : " and ") + std::string(name_of(arg->dtype));
    fail(text_of(s) + " of " + types, std::string("it takes ") + wanted);
  }

  void operation(const Scalar& s) {
    const DType first = s.args[0]->dtype, type = compute_type(first);
    const auto is_boolean = [](const ScalarRef& a) { return a->dtype == DType::boolean; };
    if (s.op == Op::cast) return;
    DType result = type;
    if (s.op == Op::select) {
      wants(s, is_boolean(s.args[0]), "a condition first");
      const DType a = s.args[1]->dtype, b = s.args[2]->dtype;
      wants(s, compute_type(a) == compute_type(b), "two values of one type");
      result = a == DType::boolean && b == DType::boolean ? a : compute_type(a);
    } else if (is_logical(s.op)) {
      wants(s, std::all_of(s.args.begin(), s.args.end(), is_boolean), "conditions");
      result = DType::boolean;
    } else {
      wants(s, s.args.size() == 1 || compute_type(s.args[1]->dtype) == type, "values of one type");
      if (is_float_function(s.op) || s.op == Op::is_nan || s.op == Op::is_inf) wants(s, is_float(type), "floats");
      if (is_bitwise(s.op)) wants(s, is_integer(type), "integers");
      if (is_comparison(s.op) || s.op == Op::is_nan || s.op == Op::is_inf) result = DType::boolean;
    }
    if (s.dtype != result)
      fail(text_of(s) + " gives " + std::string(name_of(result)) + ", not " + std::string(name_of(s.dtype)));
  }
};

// What a body of one type may be stored as: nothing is lost without being asked for, except by rounding a float to a
// narrower float, and an integer to the width that was declared.
bool may_store(DType body, DType out) { return is_float(out) || !is_float(body); }

} // namespace

std::vector<std::string> verify_types(const Program& p, const Statement& s) {
  auto fail = [&](std::string message, std::string hint = {}) {
    throw Error(Code::type, place_of(p, s), std::move(message), std::move(hint));
  };
  std::vector<std::string> symbols;
  Types types(p, s, symbols);
  types.scalar(s.body);
  const DType out = p.tensor(s.out).dtype, body = s.body->dtype;
  const auto named = [](DType t) { return std::string(name_of(t)); };
  if (s.guard) {
    types.scalar(s.guard);
    if (s.guard->dtype != DType::boolean)
      fail("`where` takes a condition, this is " + named(s.guard->dtype), "compare it: `where m[x] != 0`");
  }
  if (s.reducer == Reducer::any || s.reducer == Reducer::all) {
    if (body != DType::boolean)
      fail(std::string(name_of(s.reducer)) + " of " + named(body), "it takes conditions: x != 0");
  } else if (s.reducer == Reducer::argmax || s.reducer == Reducer::argmin) {
    if (!is_integer(out))
      fail(std::string(name_of(s.reducer)) + " gives an index, " + p.tensor(s.out).name + " is " + named(out),
           "declare it index(axis) or i64");
  } else if (!may_store(body, out)) {
    fail("a value of type " + named(body) + " cannot be stored as " + named(out) + " in " + p.tensor(s.out).name,
         out == DType::boolean ? "compare it: x != 0" : "cast it: " + named(out) + "(round(...))");
  }
  return symbols;
}

} // namespace tilewright
