// Tokens of the text language. Lines are joined here: a newline token stands only where the next line begins in its first
// column, so the grammar never sees a continuation, a comment or an empty line.
//
//   S[q x] = sum[d]     # a comment        name [ name name ] = name [ name ] name [ ... ] newline
//     Q[q d] * K[x d]
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace tilewright {

struct Mark {
  int line = 0, column = 0;
};

struct Token {
  enum Kind : std::uint8_t { name, quoted, integer, number, symbol, newline, end } kind = end;
  Mark at;
  std::string text;          // a name without its quotes; a symbol; a number as written
  std::int64_t whole = 0;    // of an integer
  double value = 0;          // of an integer or a number
};

// Error(syntax) on characters, numbers or files that cannot be part of a program. The last token is `end`.
std::vector<Token> tokens_of(std::string_view text, std::string_view file);

std::string place_of(std::string_view file, Mark);     // "file:line:column"
std::string found(const Token&);                       // "'x'", "a new line", ... for messages

bool is_reserved(std::string_view);                    // keywords, dtypes and reducers: only quoted are they names
bool is_identifier(std::string_view);
std::string spelled(const std::string& name);          // the name as it must be written: in quotes where needed

}  // namespace tilewright
