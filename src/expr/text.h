// The text language (.tw): parser, printer, verifier. parse(print(p)) == p for every program that verifies.
//
//   program p(n, c == 64, k=3, y=(n+k-1)//2, m=8 in 1..16)
//   input X[n c] : f16, ...
//   Y[y c] : f16 = sum[k] X[2*y+k-1, c else 0] / sqrt(c) where index(k) <= index(y)
//
// Sizes: `n` is free, `k=3` free with a default, `m=8 in 1..16` with a range too; `c == 64` is always that; `y=...` is derived.
// Derived and fixed sizes are names: in a program every extent is written in the free sizes. An axis is at least 1 unless a
// range says otherwise. Every printed type is explicit; `i32 index(v)` is an index that is not stored as i64.
//
// What has no sign is a call: tdiv(a, b) (integers, rounds to zero), bitand, bitor, bitxor, bitnot, shl, shr, nan(), a type as
// a cast (f16(x)), the functions of scalar.h by name and those of define.h (gelu(x), elu(x, alpha=0.5), clip(x, lo, hi)).
// `/` of integers is a fraction; // rounds down. i64(2) and i64(index(x)) are leaves of that type, i64((2)) is a cast.
// layernorm[c, eps=1e-6] gives a definition its parameter. A piece may read an earlier piece of its own tensor.
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
// Equal up to places, labels, the names of axes and of derived and fixed sizes, the order of tensor and axis ids, the grouping
// of indices, and the bytes of a weight that only one has.
bool same(const Program&, const Program&);
Program fix_sizes(const Program&, const Binding&);   // sizes bound (and derived ones computed): every extent becomes a constant; verified

}  // namespace tilewright
