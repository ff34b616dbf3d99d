#include "expr/print_expr.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "expr/lexer.h"
#include "expr/scalar.h"
#include "support/size_form.h"

namespace tilewright {

namespace {

constexpr int p_or = 1, p_and = 2, p_not = 3, p_compare = 4, p_sum = 5, p_product = 6, p_unary = 7, p_power = 8;

std::string parens(const std::string& text, bool needed) { return needed ? "(" + text + ")" : text; }

// The shortest text that is read back as the same value of its type.
std::string text_of(double value, DType type) {
  if (type == DType::f32) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return "nan()";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  char *begin = buffer.data(), *end = begin + buffer.size();
  end = type == DType::f32 ? std::to_chars(begin, end, static_cast<float>(value)).ptr
                           : std::to_chars(begin, end, value).ptr;
  return std::string(begin, end);
}

// A size whose text binds as tightly as a name or a product of names.
bool is_product(const Size& s) {
  return s.offset() == 0 && s.terms().size() == 1 && s.terms()[0].coefficient > 0 &&
         std::all_of(s.terms()[0].atoms.begin(), s.terms()[0].atoms.end(), [](const Size::AtomRef& atom) {
           return atom->op != Size::Atom::div && atom->op != Size::Atom::mod;
         });
}

bool takes_floats(Op op) { return (op >= Op::exp && op <= Op::erf) || (op >= Op::sin && op <= Op::atanh); }

bool is_whole(const std::string& number) { return number.find_first_not_of("-0123456789") == std::string::npos; }

// The names of operators that are written as calls.
std::string_view call_name(Op op) {
  switch (op) {
  case Op::bit_and: return "bitand";
  case Op::bit_or: return "bitor";
  case Op::bit_xor: return "bitxor";
  case Op::bit_not: return "bitnot";
  case Op::shift_left: return "shl";
  case Op::shift_right: return "shr";
  default: return name_of(op);
  }
}

// Whether a condition is one about points: it mentions an index or an element.
bool depends(const Scalar& s, std::unordered_set<const Scalar*>& seen) {
  if (s.op == Op::axis || s.op == Op::read) return true;
  return seen.insert(&s).second &&
         std::any_of(s.args.begin(), s.args.end(), [&](const ScalarRef& a) { return depends(*a, seen); });
}

// A body is a graph; written out it can be too long for any reader.
constexpr int max_nodes = 50000;

} // namespace

std::vector<AxisId> order_of(const Statement& s) {
  std::vector<AxisId> order;
  for (const Index& index : s.at)
    for (const Index::Term& term : index.terms)
      if (auto* axis = std::get_if<AxisId>(&term.of)) order.push_back(*axis);
  order.insert(order.end(), s.reduced.begin(), s.reduced.end());
  return order;
}

ExprPrinter::ExprPrinter(const Program& p, std::vector<std::string> axes, HeaderNames* names,
                         const std::vector<AxisId>& order)
    : p_(p), axes_(std::move(axes)), names_(names), rank_(axes_.size()) {
  for (std::size_t i = 0; i < rank_.size(); ++i) rank_[i] = i;
  for (std::size_t i = 0; i < order.size(); ++i) rank_[static_cast<std::size_t>(order[i])] = i;
}

// ---- indices

std::string ExprPrinter::axis(AxisId a) const {
  const auto i = static_cast<std::size_t>(a);
  return a >= 0 && i < axes_.size() ? spelled(axes_[i]) : "axis" + std::to_string(a);
}

// Inside brackets a bare name is an index, so sizes are size(n). What the header derives is called by its name.
std::string ExprPrinter::size_in_index(const Size& s) const {
  auto name_of_size = [](const std::string& name) { return "size(" + spelled(name) + ")"; };
  if (s.is_constant() || !names_) return s.text(name_of_size);
  if (const std::string* name = names_->known(s)) return name_of_size(*name);
  std::string text;
  for (const Size::Monomial& m : s.terms()) {
    const Size positive = SizeForm::from_monomial({1, m.atoms});
    const std::string* name = names_->known(positive);
    std::string one = name ? name_of_size(*name) : positive.text(name_of_size);
    const std::uint64_t factor =
        m.coefficient < 0 ? 0 - static_cast<std::uint64_t>(m.coefficient) : static_cast<std::uint64_t>(m.coefficient);
    const bool alone = m.atoms.size() == 1 && (m.atoms[0]->op == Size::Atom::div || m.atoms[0]->op == Size::Atom::mod);
    if (factor != 1)
      one = std::to_string(factor) + "*" + parens(one, !name && alone);
    else if (text.empty() && m.coefficient < 0)
      one = parens(one, !name && alone);
    text += (m.coefficient < 0 ? "-" : text.empty() ? "" : "+") + one;
  }
  if (s.offset() != 0) text += (s.offset() > 0 ? "+" : "") + std::to_string(s.offset());
  return text;
}

// One term without its coefficient: an axis, an element, or an index in parentheses.
std::string ExprPrinter::term(const Index::Term& t) const {
  if (auto* a = std::get_if<AxisId>(&t.of)) return axis(*a);
  if (auto* gather = std::get_if<std::shared_ptr<const Access>>(&t.of)) return access(**gather);
  return "(" + index(*std::get<std::shared_ptr<const Index>>(t.of)) + ")";
}

std::string ExprPrinter::linear(const Index& i) const {
  std::string text;
  std::vector<Index::Term> terms = i.terms; // axes first, in their order
  auto place = [&](const Index::Term& t) {
    auto* a = std::get_if<AxisId>(&t.of);
    return a && static_cast<std::size_t>(*a) < rank_.size() ? rank_[static_cast<std::size_t>(*a)] : rank_.size();
  };
  std::stable_sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (const Index::Term& t : terms) {
    const auto number = t.coefficient.value();
    std::string sign = text.empty() ? "" : "+";
    if (number && *number < 0) sign = "-";
    std::string one = term(t);
    if (!number)
      one = parens(size_in_index(t.coefficient), !is_product(t.coefficient)) + "*" + one;
    else if (*number != 1 && *number != -1)
      one = (*number < 0 ? std::to_string(*number).substr(1) : std::to_string(*number)) + "*" + one;
    text += sign + one;
  }
  if (i.offset != Size(0) || text.empty()) {
    std::string offset = size_in_index(i.offset);
    if (!text.empty() && offset[0] != '-') text += "+";
    text += offset;
  }
  return text;
}

std::string ExprPrinter::index(const Index& i) const {
  std::string text = linear(i);
  const bool bare = i.offset == Size(0) && i.terms.size() == 1 && i.terms[0].coefficient == Size(1);
  auto divide = [&](const char* op, const Size& by) {
    const bool single = is_product(by) && by.terms()[0].coefficient == 1 && by.terms()[0].atoms.size() == 1;
    text += op + parens(size_in_index(by), !single && !(by.is_constant() && by.offset() > 0));
  };
  if (i.div != Size(1)) {
    text = parens(text, !bare);
    divide("//", i.div);
  }
  if (i.mod != Size(0)) {
    text = parens(text, !bare || i.div != Size(1));
    divide("%", i.mod);
  }
  return text;
}

std::string ExprPrinter::indices(const std::vector<Index>& list) const {
  const bool bare = std::all_of(list.begin(), list.end(), [](const Index& i) { return plain_axis(i).has_value(); });
  std::string text;
  for (const Index& i : list) text += (text.empty() ? "" : bare ? " " : ", ") + index(i);
  return text;
}

std::string ExprPrinter::access(const Access& a) const {
  std::string text = spelled(p_.tensor(a.tensor).name);
  if (a.at.empty() && !a.otherwise) return text;
  text += "[" + indices(a.at);
  if (a.otherwise) {
    const DType type = compute_type(p_.tensor(a.tensor).dtype);
    text += (a.at.empty() ? "else " : " else ") + node(*a.otherwise, {0, &type, true});
  }
  return text + "]";
}

// ---- scalars

std::string ExprPrinter::scalar(const ScalarRef& s) const {
  nodes_ = 0;
  return s ? node(*s, {}) : "";
}

std::string ExprPrinter::node(const Scalar& s, Context context) const {
  if (++nodes_ > max_nodes) return "...";
  switch (s.op) {
  case Op::constant: return constant(s, context);
  case Op::axis: {
    const std::string text = "index(" + axis(std::get<AxisId>(s.leaf)) + ")";
    return s.dtype == DType::i32 ? text : "i64(" + text + ")";
  }
  case Op::size: return size_leaf(s);
  case Op::read: return access(std::get<Access>(s.leaf));
  default: return operation(s, context);
  }
}

// 2, 2.0, or i64(2): the shortest that is read back as the same constant.
std::string ExprPrinter::constant(const Scalar& s, Context context) const {
  if (s.dtype == DType::boolean) return std::get<std::int64_t>(s.leaf) != 0 ? "true" : "false";
  const bool real = std::holds_alternative<double>(s.leaf);
  std::string text = real ? text_of(std::get<double>(s.leaf), s.dtype) : std::to_string(std::get<std::int64_t>(s.leaf));
  const bool adopted = context.sibling && *context.sibling == s.dtype;
  const DType natural = real ? DType::f32 : integer(std::get<std::int64_t>(s.leaf))->dtype;
  // A float literal beside an integer stays a float; what else the other side would change is written with its type.
  const bool kept = s.dtype == natural && (!context.sibling || (real && is_integer(*context.sibling)));
  if (real && is_whole(text) && (!adopted || text == "-0")) text += ".0";
  if (text == "nan()") return s.dtype == DType::f32 ? text : "f64(nan())";
  if (!adopted && !kept) return std::string(name_of(s.dtype)) + "(" + text + ")";
  return parens(text, text[0] == '-' && context.precedence > p_unary);
}

std::string ExprPrinter::size_leaf(const Scalar& s) const {
  const Size& size = std::get<Size>(s.leaf);
  std::string text = names_ ? spelled(names_->value(size))
                            : parens(size.text(spelled), size.terms().size() + (size.offset() != 0) > 1);
  if (names_ && explicit_sizes_) text = "size(" + text + ")";
  return s.dtype == DType::i32 ? text : "i64(" + text + ")";
}

// What an operand sees of the other one.
ExprPrinter::Context ExprPrinter::beside(const Scalar& other, DType& type, int precedence) const {
  type = compute_type(other.dtype);
  return {precedence, other.op == Op::constant ? nullptr : &type, other.op != Op::constant && other.op != Op::cast};
}

std::string ExprPrinter::call(std::string_view name, const Scalar& s) const {
  std::string text(name);
  text += "(";
  for (std::size_t i = 0; i < s.args.size(); ++i) {
    Context context;
    DType type = DType::f32;
    if (s.args.size() == 2) context = beside(*s.args[1 - i], type, 0);
    if (s.op == Op::select && i > 0) context = beside(*s.args[3 - i], type, 0);
    if (takes_floats(s.op)) context = {0, &type, s.args[0]->op != Op::constant};
    text += (i ? ", " : "") + node(*s.args[i], context);
  }
  return text + ")";
}

std::string ExprPrinter::binary(const Scalar& s, Context context, std::string_view op, int precedence) const {
  const Scalar &a = *s.args[0], &b = *s.args[1];
  DType type_a{}, type_b{};
  const bool power = precedence == p_power;
  const Context left = beside(b, type_b, power ? p_power + 1 : precedence + (precedence == p_compare));
  const Context right = beside(a, type_a, power ? p_unary : precedence + 1);
  const std::string text = node(a, left) + (power ? "" : " ") + std::string(op) + (power ? "" : " ") + node(b, right);
  return parens(text, context.precedence > precedence);
}

std::string ExprPrinter::operation(const Scalar& s, Context context) const {
  switch (s.op) {
  case Op::cast: {
    // i64(2) and i64(index(x)) are leaves of that type; a cast of them is written i64((2)).
    const Scalar& arg = *s.args[0];
    if (context.converts && s.dtype == *context.sibling && arg.op != Op::constant &&
        compute_type(arg.dtype) != s.dtype && compute_type(promote(arg.dtype, s.dtype)) == s.dtype)
      return node(arg, {context.precedence, nullptr, false});
    const bool whole = s.dtype == DType::i32 || s.dtype == DType::i64,
               real = s.dtype == DType::f32 || s.dtype == DType::f64;
    const bool leaf = arg.op == Op::constant ? (whole && is_integer(arg.dtype)) || (real && arg.dtype != DType::boolean)
                                             : whole && (arg.op == Op::axis || arg.op == Op::size);
    return std::string(name_of(s.dtype)) + parens(parens(node(arg, {}), leaf), true);
  }
  case Op::neg:
    return parens("-" + parens(node(*s.args[0], {p_unary, nullptr, false}), s.args[0]->op == Op::constant),
                  context.precedence > p_unary);
  case Op::logical_not: return parens("not " + node(*s.args[0], {p_not, nullptr, false}), context.precedence > p_not);
  case Op::logical_and: return binary(s, context, "and", p_and);
  case Op::logical_or: return binary(s, context, "or", p_or);
  case Op::add:
  case Op::sub: return binary(s, context, name_of(s.op), p_sum);
  case Op::div:
    if (is_integer(s.dtype)) return call("tdiv", s);
    [[fallthrough]];
  case Op::mul:
  case Op::floor_div:
  case Op::mod: return binary(s, context, name_of(s.op), p_product);
  case Op::pow: return binary(s, context, "^", p_power);
  default: break;
  }
  if (is_comparison(s.op)) {
    std::unordered_set<const Scalar*> seen;
    const bool outer = std::exchange(explicit_sizes_, !depends(s, seen));
    std::string text = binary(s, context, name_of(s.op), p_compare);
    explicit_sizes_ = outer;
    return text;
  }
  return call(call_name(s.op), s);
}

} // namespace tilewright
