// The inside of a Size, for the files that implement it: atoms, the order of terms, and building from parts.
//
//   (h + 1)//2 * w + 3      offset 3, one term {1, [ (h+1)//2 , w ]}; the first atom is {div, h + 1, 2}
#pragma once
#include <string>
#include <vector>

#include "support/size.h"

namespace tilewright {

struct Size::Atom {
  enum class Op : std::uint8_t { symbol, div, mod, min, max } op = Op::symbol;
  using enum Op;
  std::string text; // the name of a symbol (quoted where it must be), else the canonical text; two atoms are equal iff
                    // their texts are
  std::string name; // of a symbol
  Size a, b;        // operands of the others
};

struct SizeForm {
  using Atom = Size::Atom;
  using AtomRef = Size::AtomRef;
  using Monomial = Size::Monomial;
  static Size from_atom(AtomRef atom);
  static Size from_monomial(Monomial monomial);
  static Size from_parts(std::int64_t offset, std::vector<Monomial> sorted);
  static Size operation(Atom::Op op, const Size& a, const Size& b); // a new atom; no simplification
};

// Graded order: higher degree first, then by the texts of the atoms. It respects multiplication, so long division
// terminates.
int compare(const std::vector<Size::AtomRef>&, const std::vector<Size::AtomRef>&);
bool same_atom(const Size::AtomRef&, const Size::AtomRef&);
// value / divisor as multisets of atoms; false if it does not divide.
bool divide_atoms(const std::vector<Size::AtomRef>& value, const std::vector<Size::AtomRef>& divisor,
                  std::vector<Size::AtomRef>& quotient);

// Rebuilds a size with each atom replaced by f(atom).
Size replace_atoms(const Size&, const std::function<Size(const Size::AtomRef&)>& f);
// Bounds where a symbol absent from the ranges lies in `absent`.
Interval range_of(const Size&, const Ranges&, Interval absent);
bool provably_at_least(const Size& a, const Size& b, const Ranges&, Interval absent);
constexpr Interval any_size{0, INT64_MAX};

} // namespace tilewright
