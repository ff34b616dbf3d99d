// Scalar expressions: what each name, operator and literal of a body means.
#include <array>
#include <limits>

#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

struct Operator {
  std::string_view text;
  Op op;
};

constexpr std::array binary_operators{Operator{"+", Op::add},        Operator{"-", Op::sub},
                                      Operator{"*", Op::mul},        Operator{"/", Op::div},
                                      Operator{"//", Op::floor_div}, Operator{"%", Op::mod},
                                      Operator{"^", Op::pow},        Operator{"<", Op::lt},
                                      Operator{"<=", Op::le},        Operator{"==", Op::eq},
                                      Operator{"!=", Op::ne},        Operator{">", Op::gt},
                                      Operator{">=", Op::ge},        Operator{"and", Op::logical_and},
                                      Operator{"or", Op::logical_or}};

class Bodies {
public:
  explicit Bodies(const Scope& scope) : scope_(scope) {}

  // Types that do not go together are told at the innermost operator.
  Value of(const Ast& ast) {
    try {
      return value(ast);
    } catch (const Error& error) {
      throw error.at(place_of(scope_.file, ast.at));
    }
  }

private:
  const Scope& scope_;

  Value value(const Ast& ast) {
    switch (ast.kind) {
    case Ast::integer: return {integer(ast.whole), true, {}};
    case Ast::number:
    case Ast::infinity: return {number(ast.value), true, {}};
    case Ast::boolean: return {boolean(ast.whole != 0), false, DType::boolean};
    case Ast::name: return name(ast);
    case Ast::size: return extent(size(ast));
    case Ast::index: return {axis_value(axis(ast)), false, {}};
    case Ast::access: return read(ast);
    case Ast::call: return lower_call(scope_, ast);
    case Ast::unary: return make_unary(ast.text == "not" ? Op::logical_not : Op::neg, of(*ast.args[0]));
    case Ast::binary: return binary(ast);
    }
    return {};
  }

  Value binary(const Ast& ast) {
    Op op = Op::add;
    for (const Operator& known : binary_operators)
      if (known.text == ast.text) op = known.op;
    if (is_comparison(op)) check_condition(ast);
    Value a = of(*ast.args[0]), b = of(*ast.args[1]);
    // A quotient of integers is a fraction; // and tdiv are the quotients that stay integers.
    if (op == Op::div && !is_float(a.scalar->dtype) && !is_float(b.scalar->dtype)) {
      a.scalar = as_type(a, DType::f32);
      b.scalar = as_type(b, DType::f32);
    }
    return make_binary(op, std::move(a), std::move(b));
  }

  // What makes a condition one about points: index(), an element; size() says that the extent is meant.
  bool depends(const Ast& ast) const {
    if (ast.kind == Ast::index || ast.kind == Ast::access || ast.kind == Ast::size) return true;
    if (ast.kind == Ast::name && !scope_.sizes.contains(ast.text)) return true;
    for (const AstRef& arg : ast.args)
      if (depends(*arg)) return true;
    return false;
  }

  const Ast* bare_name(const Ast& ast) const {
    if (ast.kind == Ast::name) return &ast;
    for (const AstRef& arg : ast.args)
      if (const Ast* found = bare_name(*arg)) return found;
    return nullptr;
  }

  void check_condition(const Ast& ast) const {
    const Ast* name = bare_name(ast);
    if (!name || depends(ast)) return;
    scope_.fail(Code::name, ast.at, "a condition on sizes alone: " + name->text + " is an extent here",
                "outside brackets a bare name is an extent; the index is index(" + name->text + ")");
  }

  Size size(const Ast& ast) const {
    auto found = scope_.sizes.find(ast.text);
    if (found == scope_.sizes.end()) scope_.unknown(ast.text, ast.at, "a size");
    return found->second;
  }

  AxisId axis(const Ast& ast) const {
    auto found = scope_.axes.find(ast.text);
    if (found != scope_.axes.end()) return found->second;
    if (!scope_.sizes.contains(ast.text)) scope_.unknown(ast.text, ast.at, "an axis");
    scope_.fail(Code::name, ast.at, "axis " + ast.text + " is neither on the left side nor reduced",
                "its extent is size(" + ast.text + ")");
  }

  // A fixed size is a number like one that is written.
  static Value extent(const Size& size) { return {size_value(size), size.is_constant(), {}}; }

  Value name(const Ast& ast) {
    if (auto found = scope_.sizes.find(ast.text); found != scope_.sizes.end()) return extent(found->second);
    const TensorId id = scope_.tensor(ast.text, ast.at);
    if (id < 0) scope_.unknown(ast.text, ast.at, "an extent or a tensor");
    const Tensor& t = scope_.program.tensor(id);
    if (!t.dims.empty())
      scope_.fail(Code::shape, ast.at,
                  t.name + " has " + counted(t.dims.size(), "dim", "dims") + " and is read without indices",
                  "write " + t.name + "[...] with one index a dim");
    return read(ast);
  }

  Value read(const Ast& ast) {
    Access access = lower_access(scope_, ast);
    const DType type = scope_.program.tensor(access.tensor).dtype;
    auto node = std::make_shared<const Scalar>(Scalar{Op::read, type, {}, std::move(access)});
    if (scope_.sources) scope_.sources->accesses[&std::get<Access>(node->leaf)] = place_of(scope_.file, ast.at);
    return {std::move(node), false, type};
  }
};

} // namespace

Value lower_scalar(const Scope& scope, const Ast& ast) { return Bodies(scope).of(ast); }

} // namespace tilewright
