// Functions by name: the operators that have no sign of their own, casts, and scalar definitions.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

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

// Functions that are written out. Those with a keyword have it in `keyword`.
constexpr std::array<std::string_view, 16> definitions{
    "relu",      "relu6",    "leaky_relu", "elu",  "sigmoid",      "silu",       "swish", "gelu",
    "gelu_tanh", "softplus", "softsign",   "mish", "hard_sigmoid", "hard_swish", "clip",  "rsqrt"};

Value literal(double value) { return {number(value), true, {}}; }
Value operator+(Value a, Value b) { return make_binary(Op::add, std::move(a), std::move(b)); }
Value operator-(Value a, Value b) { return make_binary(Op::sub, std::move(a), std::move(b)); }
Value operator*(Value a, Value b) { return make_binary(Op::mul, std::move(a), std::move(b)); }
Value operator/(Value a, Value b) { return make_binary(Op::div, std::move(a), std::move(b)); }
Value larger(Value a, Value b) { return make_binary(Op::max, std::move(a), std::move(b)); }
Value smaller(Value a, Value b) { return make_binary(Op::min, std::move(a), std::move(b)); }
Value sigmoid(const Value& x) { return literal(1) / (literal(1) + make_unary(Op::exp, make_unary(Op::neg, x))); }
Value softplus(const Value& x) {
  const Value small = make_unary(Op::exp, make_unary(Op::neg, make_unary(Op::abs, x)));
  return larger(x, literal(0)) + make_unary(Op::log, literal(1) + small);
}

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
    if (auto value = defined()) return *value;
    unknown();
  }

private:
  const Scope& scope_;
  const Ast& ast_;

  [[noreturn]] void unknown() const {
    std::vector<std::string> known(definitions.begin(), definitions.end());
    for (const Function& f : functions) known.emplace_back(f.name);
    const std::string near = nearest(ast_.text, known);
    scope_.fail(Code::name, ast_.at, "unknown function " + ast_.text, near.empty() ? "" : "did you mean " + near + "?");
  }

  void arguments(std::size_t count) const {
    if (!ast_.keywords.empty())
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

  double keyword(std::string_view name, double otherwise) const {
    for (const auto& [key, value] : ast_.keywords) {
      if (key.text == name) return value;
      if (key.text != "alpha" && key.text != "beta")
        scope_.fail(Code::name, key.at, ast_.text + " takes no " + key.text,
                    "it takes alpha" + std::string(ast_.text == "hard_sigmoid" ? " and beta" : ""));
    }
    return otherwise;
  }

  // Zero as the type of x has it, so that relu of integers stays integer.
  static Value zero() { return {integer(0), true, {}}; }

  std::optional<Value> defined() const {
    const std::string& f = ast_.text;
    if (std::find(definitions.begin(), definitions.end(), f) == definitions.end()) return std::nullopt;
    const bool with_keywords = f == "leaky_relu" || f == "elu" || f == "hard_sigmoid";
    const bool fits = ast_.args.size() == (f == "clip" ? 3U : 1U) && (with_keywords || ast_.keywords.empty());
    if (!fits) arguments(f == "clip" ? 3 : 1);
    const Value x = argument(0);
    if (f == "clip") return smaller(larger(x, argument(1)), argument(2));
    if (f == "relu") return larger(x, zero());
    if (f == "relu6") return smaller(larger(x, zero()), {integer(6), true, {}});
    if (f == "leaky_relu")
      return make_select(make_binary(Op::lt, x, literal(0)), x * literal(keyword("alpha", 0.01)), x);
    if (f == "elu")
      return make_select(make_binary(Op::gt, x, literal(0)), x,
                         literal(keyword("alpha", 1)) * (make_unary(Op::exp, x) - literal(1)));
    if (f == "sigmoid") return sigmoid(x);
    if (f == "silu" || f == "swish") return x * sigmoid(x);
    if (f == "gelu") return literal(0.5) * x * (literal(1) + make_unary(Op::erf, x * literal(std::numbers::sqrt2 / 2)));
    if (f == "gelu_tanh")
      return literal(0.5) * x *
             (literal(1) +
              make_unary(Op::tanh, literal(std::sqrt(2 / std::numbers::pi)) * (x + literal(0.044715) * (x * x * x))));
    if (f == "softplus") return softplus(x);
    if (f == "softsign") return x / (literal(1) + make_unary(Op::abs, x));
    if (f == "mish") return x * make_unary(Op::tanh, softplus(x));
    if (f == "rsqrt") return literal(1) / make_unary(Op::sqrt, x);
    const double alpha = f == "hard_sigmoid" ? keyword("alpha", 0.2) : 1.0 / 6,
                 beta = f == "hard_sigmoid" ? keyword("beta", 0.5) : 0.5;
    const Value hard = smaller(larger(x * literal(alpha) + literal(beta), literal(0)), literal(1));
    return f == "hard_swish" ? x * hard : hard;
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
