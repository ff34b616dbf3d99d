// The sizes of a program: which are free, in which range, and binding them.
//
//   program p(h, i=3, y=(h+1)//2, c == 64)     h, i are free (i has a default), y is derived, c is fixed
//
// Derived and fixed sizes are only names: extents, dims and indices are written in the free ones.
#pragma once
#include "expr/program.h"

namespace tilewright {

inline bool is_fixed(const SizeDecl& s) { return s.range.low == s.range.high; }
inline bool is_derived(const SizeDecl& s) { return !is_fixed(s) && s.value && !s.value->is_constant(); }
inline bool is_free(const SizeDecl& s) { return !is_fixed(s) && !is_derived(s); }

Ranges ranges_of(const Program&);            // of the free sizes
Binding defaults_of(const Program&);         // the free sizes that have a default
// Each declared size in the free ones: h is h, y is (h+1)//2, c is 64.
std::vector<Size> values_of(const Program&);

Statement with_sizes(const Statement&, const Binding&);
ScalarRef with_sizes(const ScalarRef&, const Binding&);
Index with_sizes(const Index&, const Binding&);

}  // namespace tilewright
