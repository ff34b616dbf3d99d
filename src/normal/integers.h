// What the passes over numbers in eight bits share: bounds of integers, and constants made of known weights.
#pragma once
#include "normal/passes.h"

namespace tilewright {

// Between which integers a value lies: by the dtypes of what it reads, the elements of weights and the sizes of sums,
// as far as that is easily seen. In doubles, which hold every i32.
struct Bounds {
  double low, high;
};
class IntegerBounds {
public:
  explicit IntegerBounds(const Program&);
  std::optional<Bounds> of(const ScalarRef&) const;
  std::optional<Bounds> of_tensor(TensorId) const;

private:
  const Program& p_;
  std::vector<std::vector<StatementId>> writers_;
};

// The elements of a term of known weights over the axes that it mentions, in f64 or as the type says, row-major.
struct KnownTerm {
  std::vector<AxisId> axes;
  Array values;
};
KnownTerm known_term(const Program&, const ScalarRef&, const std::vector<Size>& axes);
// The same as a new weight, read as the term was.
ScalarRef as_weight(Program&, const std::string& hint, const KnownTerm&);

// A map's body where another statement reads its result: over the reader's axes. Nothing where the map has a guard or
// several pieces, or where the reader leaves the result's bounds.
std::optional<ScalarRef> read_through(const Program&, const Statement& map, const Access& read,
                                      const std::vector<Size>& axes);

} // namespace tilewright
