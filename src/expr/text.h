// The text language (.tw): parser, printer, verifier. parse(print(p)) == p for every program that verifies.
#pragma once
#include <string_view>

#include "expr/program.h"

namespace tilewright {

// Every program of a file; errors are Error(syntax|name|type|shape|bounds, "file:line:column").
std::vector<Program> parse_all(std::string_view text, std::string_view file);
Program parse(std::string_view text, std::string_view file, std::string_view program = {});   // the first, or the named one
std::string print(const Program&);
std::string print(const Program&, const ScalarRef&, const std::vector<std::string>& axis_names);
std::string print(const Program&, const Index&, const std::vector<std::string>& axis_names);
std::string print(const Program&, const Statement&);

// The executable specification of the form: throws Error with the statement's place. Bounds of accesses without `else` are
// proved for all sizes in range, where they cannot be decided symbolically for the declared defaults, else refused.
void verify(const Program&);
bool same(const Program&, const Program&);        // equal up to places and labels
Program fix_sizes(const Program&, const Binding&);   // sizes bound (and derived ones computed): every extent becomes a constant

}  // namespace tilewright
