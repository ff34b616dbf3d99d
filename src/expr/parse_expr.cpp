// Expressions by precedence: or, and, not, comparison, sum, product, unary minus, power.
#include "expr/parse_tokens.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tilewright {

namespace {

constexpr int max_depth = 400;

AstRef leaf(Ast::Kind kind, const Token& token) {
  auto node = std::make_unique<Ast>();
  node->kind = kind;
  node->at = token.at;
  node->text = token.text;
  node->value = token.value;
  node->whole = token.whole;
  return node;
}

// Trees are walked by recursion later, so a long chain of operators is as deep as nested parentheses.
void adopt(Cursor& in, Ast& parent, AstRef child) {
  parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > max_depth)
    in.fail(child->at, "an expression nested deeper than " + std::to_string(max_depth),
            "name a part of it in a statement of its own");
  parent.args.push_back(std::move(child));
}

AstRef operation(Cursor& in, const Token& op, Ast::Kind kind, AstRef a, AstRef b = nullptr) {
  AstRef node = leaf(kind, op);
  adopt(in, *node, std::move(a));
  if (b) adopt(in, *node, std::move(b));
  return node;
}

class Expressions {
public:
  explicit Expressions(Cursor& in) : in_(in) {}

  AstRef logical(bool is_or) {
    AstRef a = is_or ? logical(false) : negation();
    while (in_.is(is_or ? "or" : "and")) {
      const Token op = in_.take();
      a = operation(in_, op, Ast::binary, std::move(a), is_or ? logical(false) : negation());
    }
    return a;
  }

  AstRef index_sum() { return sum(true); }

private:
  Cursor& in_;
  int nesting_ = 0;

  struct Nest {
    explicit Nest(Expressions& e) : of(e) {
      if (++of.nesting_ > max_depth)
        of.in_.fail(of.in_.mark(), "an expression nested deeper than " + std::to_string(max_depth),
                    "name a part of it in a statement of its own");
    }
    ~Nest() { --of.nesting_; }
    Expressions& of;
  };

  AstRef negation() {
    if (!in_.is("not")) return comparison();
    Nest nest(*this);
    const Token op = in_.take();
    return operation(in_, op, Ast::unary, negation());
  }

  bool at_comparison() const {
    static constexpr std::array ops{"<", "<=", "==", "!=", ">", ">="};
    return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return in_.is(op); });
  }

  AstRef comparison() {
    AstRef a = sum(false);
    if (!at_comparison()) return a;
    const Token op = in_.take();
    a = operation(in_, op, Ast::binary, std::move(a), sum(false));
    if (at_comparison()) in_.fail(in_.mark(), "comparisons do not chain", "write `a < b and b < c`");
    return a;
  }

  AstRef sum(bool index) {
    AstRef a = product(index);
    while (in_.is("+") || in_.is("-")) {
      const Token op = in_.take();
      a = operation(in_, op, Ast::binary, std::move(a), product(index));
    }
    return a;
  }

  AstRef product(bool index) {
    AstRef a = unary(index);
    while (in_.is("*") || in_.is("//") || in_.is("%") || in_.is("/")) {
      const Token op = in_.take();
      if (index && op.text == "/") in_.fail(op.at, "'/' in an index", "indices are integers: // rounds down");
      a = operation(in_, op, Ast::binary, std::move(a), unary(index));
    }
    return a;
  }

  AstRef unary(bool index) {
    Nest nest(*this);
    if (in_.is("-")) {
      const Token op = in_.take();
      const bool literal = in_.is_number() && !in_.is_at(1, "^");
      AstRef a = unary(index);
      if (!literal && !(a->kind == Ast::infinity && !a->parenthesised))
        return operation(in_, op, Ast::unary, std::move(a));
      a->value = -a->value; // -3 is a number, -(3) an operation
      a->whole = -a->whole;
      a->at = op.at;
      return a;
    }
    AstRef a = index ? index_atom() : atom();
    if (in_.is("^")) {
      const Token op = in_.take();
      if (index) in_.fail(op.at, "'^' in an index", "write a product");
      return operation(in_, op, Ast::binary, std::move(a), unary(index));
    }
    return a;
  }

  // What both grammars know.
  AstRef common_atom() {
    const Token& token = in_.peek();
    if (token.kind == Token::integer) return leaf(Ast::integer, in_.take());
    if ((in_.is("size") || in_.is("index")) && in_.is_at(1, "(")) {
      const Token keyword = in_.take();
      in_.take();
      const NameAst name = in_.expect_name("the name of an axis");
      in_.expect(")", keyword.text + "(" + name.name, keyword.text + "() takes one axis name");
      AstRef node = leaf(keyword.text == "size" ? Ast::size : Ast::index, keyword);
      node->text = name.name;
      node->at = name.at;
      return node;
    }
    if (in_.is_name() && in_.is_at(1, "[")) return access();
    return nullptr;
  }

  AstRef access() {
    AstRef node = leaf(Ast::access, in_.take());
    in_.take();
    for (AstRef& index : parse_indices()) adopt(in_, *node, std::move(index));
    if (in_.accept("else")) {
      node->otherwise = logical(true);
      node->depth = std::max(node->depth, node->otherwise->depth + 1);
    }
    in_.expect("]", "the indices of " + node->text);
    return node;
  }

  AstRef index_atom() {
    if (AstRef a = common_atom()) return a;
    if (in_.accept("(")) {
      AstRef a = sum(true);
      in_.expect(")", "an index in parentheses");
      a->parenthesised = true;
      return a;
    }
    if ((in_.is("min") || in_.is("max")) && in_.is_at(1, "(")) {
      const Token op = in_.take();
      in_.take();
      AstRef a = sum(true);
      in_.expect(",", "the first argument of " + op.text);
      AstRef b = sum(true);
      in_.expect(")", "the second argument of " + op.text);
      return operation(in_, op, Ast::call, std::move(a), std::move(b));
    }
    if (in_.is_name() && !in_.is_at(1, "(")) return leaf(Ast::name, in_.take());
    if (in_.peek().kind == Token::number) in_.fail(in_.mark(), "index " + in_.peek().text + " is not an integer");
    if (in_.is_name())
      in_.fail(in_.mark(), "a function call in an index: " + in_.peek().text,
               "indices know + - * // % min max; write other functions to an integer tensor and index with it");
    in_.expected("an index");
  }

  AstRef atom() {
    if (AstRef a = common_atom()) return a;
    const Token& token = in_.peek();
    if (token.kind == Token::number) return leaf(Ast::number, in_.take());
    if (in_.is("inf")) {
      AstRef a = leaf(Ast::infinity, in_.take());
      a->value = std::numeric_limits<double>::infinity();
      return a;
    }
    if (in_.is("true") || in_.is("false")) {
      AstRef a = leaf(Ast::boolean, in_.take());
      a->whole = a->text == "true";
      return a;
    }
    if (in_.accept("(")) {
      AstRef a = logical(true);
      in_.expect(")", "an expression in parentheses");
      a->parenthesised = true;
      return a;
    }
    const bool callable =
        in_.is_name() || in_.is("min") || in_.is("max") || (token.kind == Token::name && dtype_named(token.text));
    if (callable && in_.is_at(1, "(")) return call();
    if (in_.is_name()) return leaf(Ast::name, in_.take());
    if (is_reserved(token.text) && in_.is_at(1, "["))
      in_.fail(token.at, "a reduction inside an expression: " + token.text,
               "a reduction takes the whole right side; give it a statement of its own");
    in_.expected("an expression",
                 token.kind == Token::name ? "'" + token.text + "' is reserved; quote it to use it as a name" : "");
  }

  AstRef call() {
    AstRef node = leaf(Ast::call, in_.take());
    in_.take();
    while (!in_.is(")")) {
      if (in_.is_name() && in_.is_at(1, "=")) {
        for (auto& keyword : parse_keywords(in_)) node->keywords.push_back(std::move(keyword));
        break;
      }
      adopt(in_, *node, logical(true));
      if (!in_.accept(",")) break;
    }
    in_.expect(")", "the arguments of " + node->text);
    return node;
  }

  // iexpr {"," iexpr}, or bare names parted by blanks.
  std::vector<AstRef> parse_indices() {
    std::vector<AstRef> list;
    if (in_.is("]") || in_.is("else")) return list;
    if (in_.is_name() && in_.is_name(1)) {
      while (in_.is_name()) list.push_back(leaf(Ast::name, in_.take()));
      if (!in_.is("]") && !in_.is("else"))
        in_.expected("an axis name or ']'", "indices parted by blanks are bare names only; part them all with commas");
      return list;
    }
    do list.push_back(sum(true));
    while (in_.accept(","));
    if (in_.is_name() || in_.is_number())
      in_.expected("',' or ']' after an index",
                   "indices parted by blanks are bare names only; part them all with commas");
    return list;
  }

  friend std::vector<AstRef> tilewright::parse_ilist(Cursor&);
};

} // namespace

AstRef parse_expr(Cursor& in) { return Expressions(in).logical(true); }
AstRef parse_iexpr(Cursor& in) { return Expressions(in).index_sum(); }
std::vector<AstRef> parse_ilist(Cursor& in) { return Expressions(in).parse_indices(); }

std::vector<std::pair<Token, double>> parse_keywords(Cursor& in) {
  std::vector<std::pair<Token, double>> list;
  do {
    if (!in.is_name() || !in.is_at(1, "=")) in.expected("NAME = number");
    Token name = in.take();
    in.take();
    const bool minus = in.accept("-");
    double value = std::numeric_limits<double>::infinity();
    if (in.is_number())
      value = in.take().value;
    else if (!in.accept("inf"))
      in.expected("a number for " + name.text);
    list.emplace_back(std::move(name), minus ? -value : value);
  } while (in.accept(","));
  return list;
}

} // namespace tilewright
