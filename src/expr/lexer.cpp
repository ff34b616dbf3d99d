#include "expr/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "support/dtype.h"

namespace tilewright {

namespace {

constexpr std::size_t max_bytes = std::size_t{16} << 20;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class Lexer {
public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    if (!tokens_.empty()) push(Token::newline, here(), "");
    push(Token::end, here(), "");
    return std::move(tokens_);
  }

private:
  std::string_view text_, file_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;

  Mark here() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail(Mark mark, std::string message, std::string hint = {}) const {
    throw Error(Code::syntax, place_of(file_, mark), std::move(message), std::move(hint));
  }

  Token& push(Token::Kind kind, Mark mark, std::string text) {
    tokens_.push_back({kind, mark, std::move(text), 0, 0});
    return tokens_.back();
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      ++line_;
      line_start_ = at_;
      return;
    }
    if (is_blank(c)) {
      ++at_;
      return;
    }
    if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
      return;
    }
    if (at_ == line_start_ && !tokens_.empty()) push(Token::newline, here(), "");
    token(c);
  }

  void token(char c) {
    if (is_letter(c)) return word();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return numeral();
    if (c == '\'') return quotation();
    static constexpr std::array two{"//", "<=", ">=", "==", "!=", ".."};
    for (std::string_view s : two)
      if (text_.substr(at_, 2) == s) {
        push(Token::symbol, here(), std::string(s));
        at_ += 2;
        return;
      }
    if (std::string_view("()[],:=+-*/%^<>").find(c) == std::string_view::npos) stray(c);
    push(Token::symbol, here(), std::string(1, c));
    ++at_;
  }

  [[noreturn]] void stray(char c) const {
    std::string shown =
        c >= 32 && c < 127 ? "'" + std::string(1, c) + "'" : "byte " + std::to_string(static_cast<unsigned char>(c));
    if (c == '!') fail(here(), "unexpected '!'", "write `not a`, or `a != b`");
    if (c == '"') fail(here(), "unexpected '\"'", "names with other characters stand in single quotes");
    if (c == '&' || c == '|')
      fail(here(), "unexpected " + shown, "write `and` and `or`; bits are bitand(a, b), bitor(a, b)");
    fail(here(), "unexpected " + shown);
  }

  void word() {
    const Mark mark = here();
    const std::size_t from = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    push(Token::name, mark, std::string(text_.substr(from, at_ - from)));
  }

  // A quote inside a quoted name is written twice.
  void quotation() {
    const Mark mark = here();
    std::string name;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) fail(mark, "a quoted name without its closing quote");
      if (peek() == '\'' && peek(1) != '\'') break;
      if (peek() == '\'') ++at_;
      name += peek();
      if (peek() == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
    ++at_;
    if (name.empty()) fail(mark, "an empty name");
    push(Token::quoted, mark, std::move(name));
  }

  // 12, 1.5, .5, 1e-5; the dots of 1..8 are not part of a number.
  void numeral() {
    const Mark mark = here();
    const std::size_t from = at_;
    bool whole = true;
    while (is_digit(peek())) ++at_;
    if (peek() == '.' && peek(1) != '.') {
      whole = false;
      for (++at_; is_digit(peek());) ++at_;
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      whole = false;
      for (at_ += 1 + sign; is_digit(peek());) ++at_;
    }
    const std::string_view digits = text_.substr(from, at_ - from);
    if (is_letter(peek()))
      fail(mark, "a number runs into a letter: " + std::string(text_.substr(from, at_ - from + 1)));
    Token& token = push(whole ? Token::integer : Token::number, mark, std::string(digits));
    const char* end = digits.data() + digits.size();
    if (whole && std::from_chars(digits.data(), end, token.whole).ec != std::errc())
      fail(mark, "integer " + std::string(digits.substr(0, 40)) + " does not fit 64 bits");
    if (std::from_chars(digits.data(), end, token.value).ec != std::errc() || !std::isfinite(token.value))
      fail(mark, "number " + std::string(digits.substr(0, 40)) + " is outside the range of f64",
           "write inf for infinity");
  }
};

} // namespace

std::vector<Token> tokens_of(std::string_view text, std::string_view file) {
  if (text.size() > max_bytes)
    throw Error(Code::syntax, std::string(file), "a program text of " + std::to_string(text.size()) + " bytes",
                "at most " + std::to_string(max_bytes) + " are read");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return Lexer(text, file).run();
}

std::string place_of(std::string_view file, Mark mark) {
  return std::string(file) + ":" + std::to_string(mark.line) + ":" + std::to_string(mark.column);
}

std::string found(const Token& token) {
  if (token.kind == Token::newline) return "the end of the line";
  if (token.kind == Token::end) return "the end of the file";
  return "'" + token.text.substr(0, 60) + "'";
}

bool is_identifier(std::string_view name) {
  return !name.empty() && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_reserved(std::string_view name) {
  static constexpr std::array words{"program", "input",     "weight",  "output",  "opaque",      "sparse",    "where",
                                    "else",    "in",        "and",     "or",      "not",         "index",     "size",
                                    "inf",     "true",      "false",   "min",     "max",         "sum",       "prod",
                                    "any",     "all",       "mean",    "softmax", "log_softmax", "logsumexp", "argmax",
                                    "argmin",  "layernorm", "rmsnorm", "l2norm"};
  return std::find(words.begin(), words.end(), name) != words.end() || dtype_named(name).has_value();
}

std::string spelled(const std::string& name) {
  if (is_identifier(name) && !is_reserved(name)) return name;
  std::string text = "'";
  for (char c : name) text += c == '\'' ? "''" : std::string(1, c);
  return text + "'";
}

} // namespace tilewright
