#include "expr/sizes.h"

#include <algorithm>
#include <map>

#include "expr/lexer.h"
#include "expr/scalar.h"
#include "expr/text.h"
#include "support/error.h"
#include "support/size_form.h"

namespace tilewright {

namespace {

// Binds every size of a tree. Nodes are made again by their constructors, so that constants fold.
class Binder {
public:
  explicit Binder(const Binding& binding) : binding_(binding) {}

  Index index(const Index& i) {
    Index sum = constant_index(i.offset.with(binding_));
    for (const Index::Term& term : i.terms) sum = sum + term.coefficient.with(binding_) * factor(term);
    const Size div = i.div.with(binding_), mod = i.mod.with(binding_);
    if (div != Size(1)) sum = floor_div(sum, div);
    return mod == Size(0) ? sum : floor_mod(sum, mod);
  }

  ScalarRef scalar(const ScalarRef& s) {
    if (!s) return s;
    return rewrite(s, [this](const ScalarRef& node) -> ScalarRef {
      if (node->op == Op::size) return size_value(std::get<Size>(node->leaf).with(binding_), node->dtype);
      if (node->op != Op::read) return node;
      Access bound = std::get<Access>(node->leaf); // its `else` value is bound already
      for (Index& i : bound.at) i = index(i);
      return std::make_shared<const Scalar>(Scalar{node->op, node->dtype, {}, std::move(bound)});
    });
  }

private:
  const Binding& binding_;

  Index factor(const Index::Term& term) {
    if (auto* nested = std::get_if<std::shared_ptr<const Index>>(&term.of)) return index(**nested);
    Index one;
    one.terms.push_back({1, term.of});
    auto* gather = std::get_if<std::shared_ptr<const Access>>(&term.of);
    if (!gather) return one;
    Access bound{(*gather)->tensor, {}, scalar((*gather)->otherwise)};
    for (const Index& i : (*gather)->at) bound.at.push_back(index(i));
    one.terms[0].of = std::make_shared<const Access>(std::move(bound));
    return one;
  }
};

std::string known_sizes(const Program& p) {
  std::string names;
  for (const SizeDecl& s : p.sizes)
    if (!is_derived(s)) names += (names.empty() ? "" : ", ") + s.name;
  return names.empty() ? "the program has no sizes" : "sizes that can be given: " + names;
}

void check_given(const Program& p, const Binding& binding) {
  for (const auto& [name, value] : binding) {
    const auto found = std::find_if(p.sizes.begin(), p.sizes.end(), [&](const SizeDecl& s) { return s.name == name; });
    if (found == p.sizes.end())
      throw Error(Code::name, "", "no size " + spelled(name) + " in program " + p.name, known_sizes(p));
    if (is_derived(*found))
      throw Error(Code::size, "",
                  "size " + spelled(name) + " is derived: " + found->value->text() + ", and cannot be given",
                  known_sizes(p));
  }
}

// The value of each size in order, checked against its range.
std::int64_t value_of(const SizeDecl& s, const Binding& given, const Binding& known) {
  std::int64_t value = 0;
  if (auto found = given.find(s.name); found != given.end())
    value = found->second;
  else if (s.value)
    value = s.value->at(known);
  else if (is_fixed(s))
    value = s.range.low;
  else
    throw Error(Code::size, "", "size " + spelled(s.name) + " has no value", "give it with --size " + s.name + "=N");
  if (value >= s.range.low && value <= s.range.high) return value;
  std::string from;
  if (is_derived(s)) from = " = " + s.value->text();
  throw Error(Code::size, "",
              "size " + spelled(s.name) + from + " is " + std::to_string(value) + ", outside " +
                  std::to_string(s.range.low) + ".." + std::to_string(s.range.high),
              is_derived(s) ? "the sizes that it is derived from do not go together" : "");
}

// Symbols replaced by what they stand for.
Size in_free_sizes(const Size& s, const std::map<std::string, Size>& known) {
  return replace_atoms(s, [&](const Size::AtomRef& atom) -> Size {
    if (atom->op == Size::Atom::symbol) {
      auto found = known.find(atom->name);
      return found == known.end() ? SizeForm::from_atom(atom) : found->second;
    }
    const Size a = in_free_sizes(atom->a, known), b = in_free_sizes(atom->b, known);
    switch (atom->op) {
    case Size::Atom::div: return floor_div(a, b);
    case Size::Atom::mod: return floor_mod(a, b);
    case Size::Atom::min: return min(a, b);
    default: return max(a, b);
    }
  });
}

Size bound_extent(const Size& extent, const Binding& known, const std::string& what) {
  const std::int64_t value = extent.at(known);
  if (value < 0)
    throw Error(Code::size, "", "the extent of " + what + " is " + extent.text() + " = " + std::to_string(value));
  return value;
}

} // namespace

Ranges ranges_of(const Program& p) {
  Ranges ranges;
  for (const SizeDecl& s : p.sizes)
    if (is_free(s)) ranges[s.name] = s.range;
  return ranges;
}

Binding defaults_of(const Program& p) {
  Binding defaults;
  for (const SizeDecl& s : p.sizes)
    if (is_free(s) && s.value) defaults[s.name] = s.value->constant();
  return defaults;
}

std::vector<Size> values_of(const Program& p) {
  std::map<std::string, Size> known;
  std::vector<Size> values;
  for (const SizeDecl& s : p.sizes) {
    values.push_back(is_fixed(s)     ? Size(s.range.low)
                     : is_derived(s) ? in_free_sizes(*s.value, known)
                                     : Size::symbol(s.name));
    known[s.name] = values.back();
  }
  return values;
}

Index with_sizes(const Index& index, const Binding& binding) { return Binder(binding).index(index); }
ScalarRef with_sizes(const ScalarRef& scalar, const Binding& binding) { return Binder(binding).scalar(scalar); }

Statement with_sizes(const Statement& s, const Binding& binding) {
  Binder bind(binding);
  Statement result = s;
  for (Index& index : result.at) index = bind.index(index);
  for (Size& extent : result.axes) extent = extent.with(binding);
  result.body = bind.scalar(s.body);
  result.guard = bind.scalar(s.guard);
  return result;
}

Program fix_sizes(const Program& p, const Binding& given) {
  check_given(p, given);
  Program fixed = p;
  Binding known;
  for (SizeDecl& s : fixed.sizes) {
    const std::int64_t value = value_of(s, given, known);
    known[s.name] = value;
    s.value = Size(value);
    s.range = {value, value};
    s.ranged = true;
  }
  for (Tensor& t : fixed.tensors) {
    for (Size& dim : t.dims) dim = bound_extent(dim, known, "a dim of " + t.name);
    if (t.index_of) t.index_of = t.index_of->at(known);
  }
  for (auto& node : fixed.nodes) {
    Statement* s = std::get_if<Statement>(&node);
    if (!s) continue;
    for (std::size_t a = 0; a < s->axes.size(); ++a)
      s->axes[a] = bound_extent(s->axes[a], known,
                                "axis " + (a < s->names.size() ? s->names[a] : std::to_string(a)) + " of " +
                                    p.tensor(s->out).name);
    *s = with_sizes(*s, known);
  }
  verify(fixed);
  return fixed;
}

} // namespace tilewright
