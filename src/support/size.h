// Sizes: integer expressions over named symbols, kept in a canonical form so that equal sizes compare equal.
//
//   Size n = Size::symbol("n");
//   floor_div(2 * n + 6, Size(2))    ->  n + 3          (exact: every coefficient divides)
//   floor_div(n * h * w, h * w)      ->  n              (division by a monomial)
//   (n + 1) * 4 - 4 * n              ->  4
//
// A size is a polynomial with integer coefficients over atoms; an atom is a symbol, or a floor division, remainder,
// minimum or maximum that does not simplify. Symbols are positive or zero unless a range says otherwise; a divisor is taken
// to be different from zero (n * h // h is n), and evaluating a division by zero that is left is an error. Arithmetic is
// checked: a value that leaves 64 bits, or an expression of absurd length, is Error(Code::size).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

using Binding = std::map<std::string, std::int64_t>;                           // the value of each symbol
struct Interval { std::int64_t low = 0, high = INT64_MAX; };                    // inclusive; saturates at the ends of i64
Interval operator+(Interval, Interval);
Interval operator*(Interval, Interval);
Interval floor_div(Interval, Interval);                                          // by a divisor that is not zero
Interval floor_mod(Interval, Interval);
using Ranges = std::map<std::string, Interval>;                                 // a symbol that is absent: 0..2^31

class Size {
 public:
  struct Atom;                                                                   // symbol, or op over sizes; interned text
  using AtomRef = std::shared_ptr<const Atom>;
  struct Monomial { std::int64_t coefficient; std::vector<AtomRef> atoms; };     // sorted by text, repeated for powers

  Size(std::int64_t value = 0) : offset_(value) {}                               // NOLINT: implicit on purpose
  static Size symbol(const std::string& name);

  bool is_constant() const { return terms_.empty(); }
  std::optional<std::int64_t> value() const { return terms_.empty() ? std::optional(offset_) : std::nullopt; }
  std::int64_t constant() const;                                                 // asserts is_constant()
  std::int64_t at(const Binding&) const;                                         // Error(size): unbound symbol, overflow, division by 0
  Size with(const Binding&) const;                                               // the bound symbols replaced, the others kept
  Interval range(const Ranges& = {}) const;                                      // sound bounds, not always tight
  std::string text() const;                                                      // as the text language writes it; parses back
  std::string text(const std::function<std::string(const std::string&)>& spell) const;  // with symbols spelled by `spell`
  std::size_t hash() const;                                                      // equal sizes have equal hashes
  void collect_symbols(std::vector<std::string>&) const;                         // each once, in order of appearance

  const std::vector<Monomial>& terms() const { return terms_; }
  std::int64_t offset() const { return offset_; }

  friend Size operator+(const Size&, const Size&);
  friend Size operator-(const Size&, const Size&);
  friend Size operator*(const Size&, const Size&);
  friend Size operator-(const Size& a) { return Size(-1) * a; }
  friend Size floor_div(const Size&, const Size&);                               // rounds towards minus infinity
  friend Size floor_mod(const Size&, const Size&);                               // result has the sign of the divisor
  friend Size min(const Size&, const Size&);
  friend Size max(const Size&, const Size&);
  friend bool operator==(const Size&, const Size&);
  friend bool operator!=(const Size& a, const Size& b) { return !(a == b); }

 private:
  std::int64_t offset_ = 0;
  std::vector<Monomial> terms_;                                                  // highest degree first, then by text; no zero coefficients
  friend struct SizeForm;
};

inline Size ceil_div(const Size& a, const Size& b) { return floor_div(a + b - 1, b); }
bool divides(const Size& divisor, const Size& value, Size* quotient = nullptr);   // true only if provable

void split_terms(const Size& value, const Size& divisor, Size& quotient, Size& rest);  // value == divisor*quotient + rest, term by term
bool at_least(const Size& a, const Size& b, const Ranges& = {});                  // true only if a >= b is provable for all sizes in range

// Plain 64-bit helpers with the same rounding, for evaluated values. Nothing in between overflows; lowest / -1 has no answer.
constexpr std::int64_t floor_div_i64(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
constexpr std::int64_t floor_mod_i64(std::int64_t a, std::int64_t b) {
  const std::int64_t r = b == -1 ? 0 : a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
constexpr std::int64_t ceil_div_i64(std::int64_t a, std::int64_t b) { return a / b + ((a % b != 0) && ((a < 0) == (b < 0))); }
std::int64_t checked_add(std::int64_t, std::int64_t);                            // Error(size) on overflow
std::int64_t checked_mul(std::int64_t, std::int64_t);

}  // namespace tilewright
