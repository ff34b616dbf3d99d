// Functions by name: the operators that have no sign of their own, casts, and scalar definitions.
#include <array>
#include <limits>

#include "expr/define.h"
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
    if (const define::Function* f = define::function_named(ast_.text)) return defined(*f);
    if (ast_.text == "clip") {
      arguments(3);
      return make_binary(Op::min, make_binary(Op::max, argument(0), argument(1)), argument(2));
    }
    unknown();
  }

private:
  const Scope& scope_;
  const Ast& ast_;

  [[noreturn]] void unknown() const {
    std::vector<std::string> known{"clip", "nan"};
    for (const define::Function& f : define::functions()) known.emplace_back(f.name);
    for (const Function& f : functions) known.emplace_back(f.name);
    const std::string near = nearest(ast_.text, known);
    scope_.fail(Code::name, ast_.at, "unknown function " + ast_.text, near.empty() ? "" : "did you mean " + near + "?");
  }

  void arguments(std::size_t count, bool keywords = false) const {
    if (!keywords && !ast_.keywords.empty())
      scope_.fail(Code::name, ast_.keywords[0].first.at, ast_.text + " takes no " + ast_.keywords[0].first.text);
    if (ast_.args.size() != count)
      scope_.fail(Code::syntax, ast_.at,
                  ast_.text + " takes " + counted(count, "argument", "arguments") + ", not " +
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

  // A function that is written out, with its parameters by name.
  Value defined(const define::Function& f) const {
    std::vector<double> parameters;
    for (const define::Parameter& p : f.parameters) parameters.push_back(p.value);
    for (const auto& [key, value] : ast_.keywords) {
      std::size_t i = 0;
      while (i < f.parameters.size() && f.parameters[i].name != key.text) ++i;
      if (i == f.parameters.size())
        scope_.fail(Code::name, key.at, ast_.text + " takes no " + key.text, known_parameters(f));
      parameters[i] = value;
    }
    arguments(1, true);
    const Value x = argument(0);
    return {f.build(x.scalar, parameters.data()), false, x.stored};
  }

  static std::string known_parameters(const define::Function& f) {
    std::string text;
    for (const define::Parameter& p : f.parameters)
      text += (text.empty() ? "it takes " : " and ") + std::string(p.name);
    return text;
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
