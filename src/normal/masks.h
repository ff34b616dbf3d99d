// Masks, as they are written with values, read as conditions on points.
#pragma once
#include "normal/passes.h"

namespace tilewright {

// A constant table of two values, one where a comparison of indices holds (a band i + low <= j <= i + high of two dims, or a range of
// one dim) and another elsewhere, checked on every element. `where` is over the table's dims as axes.
struct Table { ScalarRef where; double yes, no; };
std::optional<Table> two_valued(const Program&, TensorId);

// A constant tensor of integers whose elements are a sum of a constant and a multiple of each index (a Range, its rows and columns),
// checked on every element: over its dims as axes.
std::optional<Index> progression(const Program&, TensorId);

// A body that is `rest` where `live` holds and a constant (or, `added`, the rest and that constant) elsewhere.
//   select(c, e, -inf)     e + M[q x], M known, 0 or -1e9     (e + M[q x]) / 8
struct Masked { ScalarRef live, rest; double value; bool added; };
std::optional<Masked> masked(const Program&, const ScalarRef& body);

// Whether for every point of the parallel axes some point of the reduced ones fulfils the condition: tried out, so only conditions
// on indices alone are ever proved, over at most 2^24 points; more where comparisons bound one reduced axis by the others.
bool always_some(const Program&, const Statement&, const ScalarRef& condition);

}  // namespace tilewright
