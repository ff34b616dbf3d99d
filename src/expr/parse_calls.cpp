// Functions by name: the operators that have no sign of their own, casts, and scalar definitions.
#include <array>
#include <cmath>
#include <limits>

#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

struct Function {
  std::string_view name;
  Op op;
};

constexpr std::array functions{
    Function{"exp", Op::exp},        Function{"log", Op::log},         Function{"sqrt", Op::sqrt},
    Function{"tanh", Op::tanh},      Function{"erf", Op::erf},         Function{"sin", Op::sin},
    Function{"cos", Op::cos},        Function{"tan", Op::tan},         Function{"asin", Op::asin},
    Function{"acos", Op::acos},      Function{"atan", Op::atan},       Function{"sinh", Op::sinh},
    Function{"cosh", Op::cosh},      Function{"asinh", Op::asinh},     Function{"acosh", Op::acosh},
    Function{"atanh", Op::atanh},    Function{"abs", Op::abs},         Function{"sign", Op::sign},
    Function{"floor", Op::floor},    Function{"ceil", Op::ceil},       Function{"round", Op::round},
    Function{"trunc", Op::trunc},    Function{"isnan", Op::is_nan},    Function{"isinf", Op::is_inf},
    Function{"bitnot", Op::bit_not}, Function{"pow", Op::pow},         Function{"tdiv", Op::div},
    Function{"bitand", Op::bit_and}, Function{"bitor", Op::bit_or},    Function{"bitxor", Op::bit_xor},
    Function{"shl", Op::shift_left}, Function{"shr", Op::shift_right}, Function{"min", Op::min},
    Function{"max", Op::max},        Function{"select", Op::select}};

class Calls {
public:
  Calls(const Scope& scope, const Ast& ast) : scope_(scope), ast_(ast) {}

  Value call() {
    if (auto type = dtype_named(ast_.text)) return typed(*type);
    if (ast_.text == "nan") {
      arguments(0);
      return {number(std::numeric_limits<double>::quiet_NaN()), true, {}};
    }
    for (const Function& f : functions)
      if (f.name == ast_.text) return apply(f.op);
    unknown();
  }

private:
  const Scope& scope_;
  const Ast& ast_;

  [[noreturn]] void unknown() const {
    std::vector<std::string> known{"clip"};
    for (const Function& f : functions) known.emplace_back(f.name);
    const std::string near = nearest(ast_.text, known);
    scope_.fail(Code::name, ast_.at, "unknown function " + ast_.text, near.empty() ? "" : "did you mean " + near + "?");
  }

  void arguments(std::size_t count) const {
    if (!ast_.keywords.empty())
      scope_.fail(Code::name, ast_.keywords[0].first.at, ast_.text + " takes no " + ast_.keywords[0].first.text);
    if (ast_.args.size() != count)
      scope_.fail(Code::syntax, ast_.at,
                  ast_.text + " takes " + std::to_string(count) + (count == 1 ? " argument" : " arguments") + ", not " +
                      std::to_string(ast_.args.size()));
  }

  Value argument(std::size_t i) const { return lower_scalar(scope_, *ast_.args[i]); }

  // i64(2) and i64(index(x)) are leaves of that type; anything else, also in parentheses, is a cast.
  Value typed(DType type) const {
    arguments(1);
    Value v = argument(0);
    if (!ast_.args[0]->parenthesised)
      if (Value leaf = make_leaf(v, type); leaf.scalar) return leaf;
    return make_cast(std::move(v), type);
  }

  Value apply(Op op) const {
    if ((op == Op::min || op == Op::max) && ast_.args.size() > 2) {
      Value v = argument(0);
      for (std::size_t i = 1; i < ast_.args.size(); ++i) v = make_binary(op, std::move(v), argument(i));
      return v;
    }
    arguments(static_cast<std::size_t>(arity(op)));
    if (op == Op::select) return make_select(argument(0), argument(1), argument(2));
    if (arity(op) == 1) return make_unary(op, argument(0));
    return make_binary(op, argument(0), argument(1));
  }
};

} // namespace

Value lower_call(const Scope& scope, const Ast& ast) { return Calls(scope, ast).call(); }

} // namespace tilewright
