#include "law/skip.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/text.h"

namespace tilewright {

namespace {

bool is_value(const ScalarRef& s, double v) {
  double x = 0;
  return is_literal(s, &x) && x == v;
}

ScalarRef literal(double v, DType t) {
  return is_float(t) ? number(v, t) : t == DType::boolean ? boolean(v != 0) : integer(static_cast<std::int64_t>(v), t);
}

// A body where operands are replaced by what they are on the skipped slices.
class Folder {
public:
  bool hides = false, refused = false;

  Folder(const Statement& s, AxisId axis, const Backgrounds& known, bool strict)
      : s_(s), axis_(axis), known_(known), strict_(strict) {}

  ScalarRef fold(const ScalarRef& n) {
    if (n->op == Op::read) return read(n);
    if (n->args.empty()) return n;
    std::vector<ScalarRef> a;
    for (const ScalarRef& x : n->args) a.push_back(fold(x));
    switch (n->op) {
    case Op::cast: return cast(a[0], n->dtype);
    case Op::select: return select(a[0], a[1], a[2]);
    default: return a.size() == 1 ? unary(n->op, a[0]) : binary_of(n->op, a[0], a[1]);
    }
  }

private:
  const Statement& s_;
  AxisId axis_;
  const Backgrounds& known_;
  bool strict_;

  // Only readings that have the axis lie in the slice.
  ScalarRef read(const ScalarRef& n) const {
    const Access& a = std::get<Access>(n->leaf);
    const auto known = known_.find(a.tensor);
    const bool here = std::any_of(a.at.begin(), a.at.end(), [&](const Index& i) { return plain_axis(i) == axis_; });
    return known == known_.end() || !here ? n : literal(known->second, compute_type(n->dtype));
  }

  // Whether what x hides may be ignored: a NaN or an infinity in it would have shown.
  bool ignored(const ScalarRef& x) {
    double v = 0;
    if (!is_float(compute_type(x->dtype)) || (is_literal(x, &v) && std::isfinite(v))) return true;
    (strict_ ? refused : hides) = true;
    return !strict_;
  }

  ScalarRef binary_of(Op op, const ScalarRef& x, const ScalarRef& y) {
    const ScalarRef plain = binary(op, x, y);
    if (is_literal(plain)) return plain;
    const double infinity = INFINITY;
    const DType t = plain->dtype;
    switch (op) {
    case Op::mul:
      if (is_value(x, 0) && ignored(y)) return literal(0, t);
      if (is_value(y, 0) && ignored(x)) return literal(0, t);
      break;
    case Op::div:
      if (is_value(x, 0) && ignored(y)) return literal(0, t);
      break;
    case Op::add:
      for (const auto& [a, b] : {std::pair(x, y), std::pair(y, x)}) {
        if (is_value(a, 0)) return cast(b, t);
        if ((is_value(a, infinity) || is_value(a, -infinity)) && ignored(b)) return a;
      }
      break;
    case Op::sub:
      if (is_value(y, 0)) return cast(x, t);
      if (is_value(x, 0)) return unary(Op::neg, cast(y, t));
      if ((is_value(x, infinity) || is_value(x, -infinity)) && ignored(y)) return x;
      break;
    case Op::max:
    case Op::min:
      for (const auto& [a, b] : {std::pair(x, y), std::pair(y, x)})
        if (is_value(a, op == Op::max ? -infinity : infinity)) return cast(b, t);
      if (double v = 0; is_literal(x, &v) && is_value(y, v)) return literal(v, t); // 0 and -0 are equal
      break;
    default: break;
    }
    return plain;
  }
};

std::string where_text(const Program& p, const Backgrounds& known) {
  std::string text;
  for (const auto& [t, v] : known) text += fmt::format("{}{} is {}", text.empty() ? "" : " and ", p.tensor(t).name, v);
  return text;
}

bool reads_here(const Statement& s, AxisId axis, const Backgrounds& known) {
  bool found = false;
  for_each_access(s.body, [&](const Access& a) {
    found |= known.count(a.tensor) &&
             std::any_of(a.at.begin(), a.at.end(), [&](const Index& i) { return plain_axis(i) == axis; });
  });
  return found;
}

// A reduction whose terms are all the same number.
std::optional<double> reduced_constant(Reducer r, double term) {
  if (term == identity_of(r)) return term;
  const bool same = r == Reducer::max || r == Reducer::min || r == Reducer::any || r == Reducer::all;
  return same ? std::optional(term) : std::nullopt;
}

} // namespace

Or<Skipped> skipped(const Program& p, const Statement& s, AxisId axis, const Backgrounds& known, bool strict) {
  const std::string& name = s.names[static_cast<std::size_t>(axis)];
  if (!reads_here(s, axis, known))
    return Refused{fmt::format("{} reads nothing along {} that may be skipped", p.tensor(s.out).name, name)};
  Folder folder(s, axis, known, strict);
  const ScalarRef body = folder.fold(s.body);
  if (folder.refused) return Refused{"another operand may be infinite or no number, and 0 * inf is no number (strict)"};
  Skipped out{body, {}, folder.hides};
  double v = 0;
  const bool constant = is_literal(body, &v);
  const auto text = [&] { return print(p, body, s.names); };
  if (std::find(s.reduced.begin(), s.reduced.end(), axis) != s.reduced.end()) {
    if (s.reducer == Reducer::argmax || s.reducer == Reducer::argmin)
      return Refused{fmt::format("{} counts every term", name_of(s.reducer))};
    if (!constant || v != identity_of(s.reducer))
      return Refused{fmt::format("where {} a term is {}, and {} leaves out only {}", where_text(p, known), text(),
                                 name_of(s.reducer), identity_of(s.reducer))};
    out.value = nullptr;
    return out;
  }
  if (s.reducer == Reducer::argmax || s.reducer == Reducer::argmin)
    return Refused{fmt::format("{} has no identity", name_of(s.reducer))};
  if (s.reducer != Reducer::none) {
    const auto all = constant ? reduced_constant(s.reducer, v) : std::nullopt;
    if (!all)
      return Refused{fmt::format("where {} the {} is over terms {}", where_text(p, known), name_of(s.reducer), text())};
    out.constant = *all, out.value = literal(*all, compute_type(body->dtype));
  } else if (constant) {
    out.constant = v;
  }
  // A map is 0 where its guard fails. A maximum of equal terms is that of nothing where no point is live.
  const double elsewhere = s.reducer == Reducer::none ? 0 : identity_of(s.reducer);
  if (s.guard && out.constant && *out.constant != elsewhere)
    return Refused{fmt::format("{} has a guard and is {} where it holds", p.tensor(s.out).name, *out.constant)};
  return out;
}

std::vector<SkippedUse> skipped_uses(const Program& p, TensorId tensor, std::size_t dim, double background,
                                     bool strict) {
  std::map<TensorId, std::pair<std::size_t, double>> spread{{tensor, {dim, background}}}; // dim, value
  std::vector<SkippedUse> uses;
  for (StatementId id = 0; id < static_cast<StatementId>(p.nodes.size()); ++id) {
    const Statement* s = p.statement(id);
    if (!s) continue;
    for (AxisId axis = 0; axis < static_cast<AxisId>(s->axes.size()); ++axis) {
      Backgrounds here;
      for_each_access(s->body, [&](const Access& a) {
        const auto known = spread.find(a.tensor);
        if (known != spread.end() && plain_axis(a.at[known->second.first]) == axis)
          here[a.tensor] = known->second.second;
      });
      if (here.empty()) continue;
      uses.push_back({id, axis, skipped(p, *s, axis, here, strict)});
      const Or<Skipped>& law = uses.back().law;
      if (!law || !law->constant) continue;
      for (std::size_t d = 0; d < s->at.size(); ++d)
        if (plain_axis(s->at[d]) == axis) spread.emplace(s->out, std::pair(d, *law->constant));
    }
  }
  return uses;
}

bool needs(const Program& p, const Statement& s, AxisId axis, const Backgrounds& known, TensorId operand) {
  (void)p;
  Folder folder(s, axis, known, false);
  bool found = false;
  for_each_access(folder.fold(s.body), [&](const Access& a) { found |= a.tensor == operand; });
  return found;
}

} // namespace tilewright
