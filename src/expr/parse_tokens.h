// The cursor that the grammar files share: it looks at the next token, takes it, or says what was expected in its place.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "expr/lexer.h"
#include "expr/parse_ast.h"

namespace tilewright {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view file) : tokens_(tokens_of(text, file)), file_(file) {}

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Mark mark() const { return peek().at; }
  const Token& take();
  bool is(std::string_view text) const { return is_at(0, text); }         // a symbol or a keyword, not a quoted name
  bool is_at(std::size_t ahead, std::string_view text) const;
  bool is_name(std::size_t ahead = 0) const;                             // a name that is not reserved, or a quoted one
  bool is_number(std::size_t ahead = 0) const;
  bool ends() const { return peek().kind == Token::newline || peek().kind == Token::end; }
  bool accept(std::string_view text);
  void expect(std::string_view text, std::string_view where, std::string hint = {});
  NameAst expect_name(std::string_view what);
  std::int64_t expect_integer(std::string_view what);
  void expect_line_end(std::string_view after);
  [[noreturn]] void fail(Mark, std::string message, std::string hint = {}) const;
  [[noreturn]] void expected(const std::string& what, std::string hint = {}) const;   // "expected WHAT, found 'x'"

 private:
  std::vector<Token> tokens_;
  std::string_view file_;
  std::size_t at_ = 0;
};

// The two expression grammars (parse_expr.cpp). Both stop before the first token that cannot continue them.
AstRef parse_expr(Cursor&);
AstRef parse_iexpr(Cursor&);
std::vector<AstRef> parse_ilist(Cursor&);                                 // after '[': indices up to `else` or ']'
std::vector<std::pair<Token, double>> parse_keywords(Cursor&);            // { "," NAME "=" number }

}  // namespace tilewright
