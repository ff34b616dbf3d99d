#include "support/size.h"

#include <algorithm>
#include <cctype>

#include "support/error.h"
#include "support/size_form.h"

namespace tilewright {

namespace {

constexpr std::size_t max_terms = 4096, max_text = 1 << 16;

[[noreturn]] void overflow() { throw Error(Code::size, "", "a size leaves 64 bits", "make the sizes smaller"); }

using AtomRef = Size::AtomRef;
using Monomial = Size::Monomial;
using Atom = Size::Atom;
using Spell = std::function<std::string(const std::string&)>;

bool is_identifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

std::string quoted(const std::string& name) { return is_identifier(name) ? name : "'" + name + "'"; }

std::string render(const Size&, const Spell*);

// An operand of // and %: in parentheses unless it is a number, a name or a call.
std::string render_operand(const Size& s, const Spell* spell) {
  const bool bare = s.is_constant() ? s.offset() >= 0
                                    : s.offset() == 0 && s.terms().size() == 1 && s.terms()[0].coefficient == 1 &&
                                          s.terms()[0].atoms.size() == 1 && s.terms()[0].atoms[0]->op != Atom::div &&
                                          s.terms()[0].atoms[0]->op != Atom::mod;
  return bare ? render(s, spell) : "(" + render(s, spell) + ")";
}

std::string render_atom(const Atom& atom, const Spell* spell) {
  switch (atom.op) {
  case Atom::symbol: return spell ? (*spell)(atom.name) : quoted(atom.name);
  case Atom::div: return render_operand(atom.a, spell) + "//" + render_operand(atom.b, spell);
  case Atom::mod: return render_operand(atom.a, spell) + "%" + render_operand(atom.b, spell);
  case Atom::min: return "min(" + render(atom.a, spell) + ", " + render(atom.b, spell) + ")";
  case Atom::max: return "max(" + render(atom.a, spell) + ", " + render(atom.b, spell) + ")";
  }
  return {};
}

// The product without its sign. A lone quotient stands bare only after a binary sign: -(a//b) is not -a//b.
std::string render_product(const Monomial& term, const Spell* spell, bool bare) {
  const std::uint64_t size = term.coefficient < 0 ? 0 - static_cast<std::uint64_t>(term.coefficient)
                                                  : static_cast<std::uint64_t>(term.coefficient);
  std::string text = size == 1 ? "" : std::to_string(size);
  const bool alone = bare && size == 1 && term.atoms.size() == 1;
  for (const AtomRef& atom : term.atoms) {
    if (!text.empty()) text += '*';
    const std::string one = render_atom(*atom, spell);
    text += !alone && (atom->op == Atom::div || atom->op == Atom::mod) ? "(" + one + ")" : one;
  }
  return text;
}

// Positive parts first, so that a leading sign is rare: 3-n, not -n+3.
std::string render(const Size& s, const Spell* spell) {
  std::string text;
  for (const Monomial& term : s.terms())
    if (term.coefficient > 0) text += (text.empty() ? "" : "+") + render_product(term, spell, true);
  if (s.offset() > 0) text += (text.empty() ? "" : "+") + std::to_string(s.offset());
  for (const Monomial& term : s.terms())
    if (term.coefficient < 0) text += "-" + render_product(term, spell, !text.empty());
  if (s.offset() < 0) text += std::to_string(s.offset());
  return text.empty() ? "0" : text;
}

// Sums equal neighbours of a sorted list and drops zeros.
std::vector<Monomial> merged(std::vector<Monomial> terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Monomial& a, const Monomial& b) { return compare(a.atoms, b.atoms) < 0; });
  std::vector<Monomial> result;
  for (Monomial& term : terms) {
    if (!result.empty() && compare(result.back().atoms, term.atoms) == 0) {
      result.back().coefficient = checked_add(result.back().coefficient, term.coefficient);
    } else {
      if (!result.empty() && result.back().coefficient == 0) result.pop_back();
      result.push_back(std::move(term));
    }
  }
  if (!result.empty() && result.back().coefficient == 0) result.pop_back();
  if (result.size() > max_terms) throw Error(Code::size, "", "a size expression has more than 4096 terms");
  return result;
}

std::int64_t value_of(const Atom& atom, const Binding& binding) {
  if (atom.op == Atom::symbol) {
    auto found = binding.find(atom.name);
    if (found == binding.end())
      throw Error(Code::size, "", "size " + atom.text + " has no value", "give it with --size " + atom.name + "=N");
    return found->second;
  }
  const std::int64_t a = atom.a.at(binding), b = atom.b.at(binding);
  if (atom.op == Atom::min) return std::min(a, b);
  if (atom.op == Atom::max) return std::max(a, b);
  if (b == 0) throw Error(Code::size, "", "division by zero in " + atom.text);
  if (b == -1) return atom.op == Atom::div ? checked_mul(a, -1) : 0;
  return atom.op == Atom::div ? floor_div_i64(a, b) : floor_mod_i64(a, b);
}

void collect(const Size& s, std::vector<std::string>& names) {
  for (const Monomial& term : s.terms())
    for (const AtomRef& atom : term.atoms) {
      if (atom->op != Atom::symbol) {
        collect(atom->a, names);
        collect(atom->b, names);
      } else if (std::find(names.begin(), names.end(), atom->name) == names.end()) {
        names.push_back(atom->name);
      }
    }
}

} // namespace

// ---- plain numbers

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow();
  return result;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow();
  return result;
}

// ---- the form

bool same_atom(const AtomRef& a, const AtomRef& b) { return a == b || a->text == b->text; }

int compare(const std::vector<AtomRef>& a, const std::vector<AtomRef>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      if (int order = a[i]->text.compare(b[i]->text); order != 0) return order < 0 ? -1 : 1;
  return 0;
}

bool divide_atoms(const std::vector<AtomRef>& value, const std::vector<AtomRef>& divisor,
                  std::vector<AtomRef>& quotient) {
  quotient.clear();
  std::size_t used = 0;
  for (const AtomRef& atom : value) {
    if (used < divisor.size() && same_atom(atom, divisor[used]))
      ++used;
    else
      quotient.push_back(atom);
  }
  return used == divisor.size();
}

Size SizeForm::from_monomial(Monomial monomial) {
  if (monomial.coefficient == 0) return 0;
  if (monomial.atoms.empty()) return monomial.coefficient;
  Size s;
  s.terms_.push_back(std::move(monomial));
  return s;
}

Size SizeForm::from_atom(AtomRef atom) { return from_monomial({1, {std::move(atom)}}); }

Size SizeForm::from_parts(std::int64_t offset, std::vector<Monomial> sorted) {
  Size s(offset);
  s.terms_ = std::move(sorted);
  return s;
}

Size SizeForm::operation(Atom::Op op, const Size& a, const Size& b) {
  auto atom = std::make_shared<Atom>();
  atom->op = op;
  atom->a = a;
  atom->b = b;
  atom->text = render_atom(*atom, nullptr);
  if (atom->text.size() > max_text) throw Error(Code::size, "", "a size expression is longer than 65536 characters");
  return from_atom(std::move(atom));
}

Size replace_atoms(const Size& s, const std::function<Size(const AtomRef&)>& f) {
  Size sum = s.offset();
  for (const Monomial& term : s.terms()) {
    Size product = term.coefficient;
    for (const AtomRef& atom : term.atoms) product = product * f(atom);
    sum = sum + product;
  }
  return sum;
}

Size Size::symbol(const std::string& name) {
  auto atom = std::make_shared<Atom>();
  atom->name = name;
  atom->text = quoted(name);
  return SizeForm::from_atom(std::move(atom));
}

// ---- sums and products

Size operator+(const Size& a, const Size& b) {
  if (b.terms_.empty() || a.terms_.empty()) {
    Size s = a.terms_.empty() ? b : a;
    s.offset_ = checked_add(a.offset_, b.offset_);
    return s;
  }
  std::vector<Monomial> terms = a.terms_;
  terms.insert(terms.end(), b.terms_.begin(), b.terms_.end());
  return SizeForm::from_parts(checked_add(a.offset_, b.offset_), merged(std::move(terms)));
}

Size operator*(const Size& a, const Size& b) {
  if (a.terms_.empty() && b.terms_.empty()) return checked_mul(a.offset_, b.offset_);
  if (!a.terms_.empty() && !b.terms_.empty() && a.terms_.size() * b.terms_.size() > 16 * max_terms)
    throw Error(Code::size, "", "a size expression has more than 4096 terms");
  std::vector<Monomial> terms;
  auto scale = [&](const std::vector<Monomial>& from, std::int64_t by) {
    if (by == 0) return;
    for (const Monomial& term : from) terms.push_back({checked_mul(term.coefficient, by), term.atoms});
  };
  scale(a.terms_, b.offset_);
  scale(b.terms_, a.offset_);
  for (const Monomial& x : a.terms_)
    for (const Monomial& y : b.terms_) {
      Monomial product{checked_mul(x.coefficient, y.coefficient), {}};
      product.atoms.reserve(x.atoms.size() + y.atoms.size());
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(product.atoms),
                 [](const AtomRef& p, const AtomRef& q) { return p->text < q->text; });
      terms.push_back(std::move(product));
    }
  return SizeForm::from_parts(checked_mul(a.offset_, b.offset_), merged(std::move(terms)));
}

Size operator-(const Size& a, const Size& b) {
  if (b.terms_.empty()) {
    std::int64_t offset;
    if (__builtin_sub_overflow(a.offset_, b.offset_, &offset)) overflow();
    Size s = a;
    s.offset_ = offset;
    return s;
  }
  return a + Size(-1) * b;
}

bool operator==(const Size& a, const Size& b) {
  if (a.offset_ != b.offset_ || a.terms_.size() != b.terms_.size()) return false;
  for (std::size_t i = 0; i < a.terms_.size(); ++i)
    if (a.terms_[i].coefficient != b.terms_[i].coefficient || compare(a.terms_[i].atoms, b.terms_[i].atoms) != 0)
      return false;
  return true;
}

// ---- values and texts

std::int64_t Size::constant() const {
  TW_ASSERT(is_constant());
  return offset_;
}

std::int64_t Size::at(const Binding& binding) const {
  std::int64_t sum = offset_;
  for (const Monomial& term : terms_) {
    std::int64_t product = term.coefficient;
    for (const AtomRef& atom : term.atoms) product = checked_mul(product, value_of(*atom, binding));
    sum = checked_add(sum, product);
  }
  return sum;
}

Size Size::with(const Binding& binding) const {
  if (terms_.empty()) return *this;
  return replace_atoms(*this, [&](const AtomRef& atom) -> Size {
    if (atom->op == Atom::symbol) {
      auto found = binding.find(atom->name);
      return found == binding.end() ? SizeForm::from_atom(atom) : Size(found->second);
    }
    const Size x = atom->a.with(binding), y = atom->b.with(binding);
    switch (atom->op) {
    case Atom::div: return floor_div(x, y);
    case Atom::mod: return floor_mod(x, y);
    case Atom::min: return min(x, y);
    default: return max(x, y);
    }
  });
}

Interval Size::range(const Ranges& ranges) const { return range_of(*this, ranges, {0, std::int64_t{1} << 31}); }

std::string Size::text() const { return render(*this, nullptr); }

std::string Size::text(const Spell& spell) const { return render(*this, &spell); }

std::size_t Size::hash() const {
  std::size_t h = std::hash<std::int64_t>{}(offset_);
  auto mix = [&h](std::size_t v) { h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2); };
  for (const Monomial& term : terms_) {
    mix(std::hash<std::int64_t>{}(term.coefficient));
    for (const AtomRef& atom : term.atoms) mix(std::hash<std::string>{}(atom->text));
  }
  return h;
}

void Size::collect_symbols(std::vector<std::string>& names) const { collect(*this, names); }

} // namespace tilewright
