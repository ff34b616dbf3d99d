#include "law/stream_forms.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "law/gathers.h"
#include "law/region.h"
#include "law/separate.h"
#include "normal/masks.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

bool is_extreme(Reducer r) { return r == Reducer::max || r == Reducer::min; }
bool is_pair(Reducer r) { return r == Reducer::argmax || r == Reducer::argmin; }

// A reduction under way: statements that take its place are collected in order.
struct Former {
  Program& p;
  Builder& build;
  const Lineage& lineage;
  const Statement& s; // of the program, which gets no new statements meanwhile
  ReadThrough seen{};
  std::vector<Statement> made{};
  std::string refused{};
  StreamForms wanted = StreamForms::all; // others stay

  Atoms atoms = atoms_of(s, {});
  Facts facts = facts_of(lineage, s);

  bool reduced(AxisId a) const { return std::find(s.reduced.begin(), s.reduced.end(), a) != s.reduced.end(); }
  DType held() const { return held_as(p, s); }
  const std::string& name() const { return p.tensor(s.out).name; }
  std::string axis_name(AxisId a) const {
    return s.names.empty() ? fmt::format("a{}", a) : s.names[static_cast<std::size_t>(a)];
  }

  // ---- statements over some of the reduction's axes

  struct Placed {
    Statement statement;
    ScalarRef value;
  }; // value: a read of it over the axes of the reduction

  // The axes of `s` that are mentioned, and all reduced ones where it reduces.
  Placed placed(const ScalarRef& body, const ScalarRef& guard, Reducer reducer, DType type, const std::string& hint) {
    Placed made_here;
    Statement& t = made_here.statement;
    std::vector<Index> with(s.axes.size(), constant_index(0)), read_at;
    std::vector<Size> dims;
    for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) {
      const bool sums = reducer != Reducer::none && reduced(a);
      if (!sums && !mentions_axis(body, a) && !(guard && mentions_axis(guard, a))) continue;
      const AxisId mine = static_cast<AxisId>(t.axes.size());
      with[static_cast<std::size_t>(a)] = axis_index(mine);
      t.axes.push_back(s.axes[static_cast<std::size_t>(a)]);
      t.names.push_back(axis_name(a));
      if (sums) continue;
      t.at.push_back(axis_index(mine));
      dims.push_back(s.axes[static_cast<std::size_t>(a)]);
      read_at.push_back(axis_index(a));
    }
    if (reducer != Reducer::none)
      for (AxisId r : s.reduced) t.reduced.push_back(*plain_axis(with[static_cast<std::size_t>(r)]));
    t.reducer = reducer, t.label = s.label, t.place = s.place;
    t.body = substitute(p, body, with);
    t.guard = guard ? substitute(p, guard, with) : nullptr;
    t.out = find(t, type);
    if (t.out < 0) {
      t.out = build.tensor(hint, type, dims);
      made.push_back(t);
    }
    made_here.value = read(p, t.out, read_at);
    return made_here;
  }

  // A statement of the program or of those just made that says the same.
  TensorId find(const Statement& t, DType type) const {
    auto says_it = [&](const Statement& o) {
      return o.axes == t.axes && o.reduced == t.reduced && o.reducer == t.reducer && equal(o.body, t.body) &&
             equal(o.guard, t.guard) && o.at == t.at && p.tensor(o.out).dtype == type;
    };
    for (const Statement& o : made)
      if (says_it(o)) return o.out;
    for (const auto& node : p.nodes) {
      const Statement* o = std::get_if<Statement>(&node);
      if (!o) continue;
      if (o->out == s.out) return -1; // what comes later is not there yet
      if (says_it(*o)) return o->out;
    }
    return -1;
  }

  // ---- sums

  struct Common {
    Factors factors;
    std::vector<Monomial> exponent;
    std::vector<AtomId> conditions;
    Form rest;
  };

  // What all terms share, and the sum that is left.
  Common common(const Form& f) const {
    Common c{f[0].factors, f[0].exponent, f[0].conditions, f};
    for (const FormTerm& t : f) {
      for (auto i = c.factors.begin(); i != c.factors.end();) {
        const auto at = t.factors.find(i->first);
        i = at == t.factors.end() || at->second != i->second ? c.factors.erase(i) : std::next(i);
      }
      if (!same_but_for_coefficient({1, {}, t.exponent, {}}, {1, {}, c.exponent, {}})) c.exponent.clear();
      if (t.conditions != c.conditions) c.conditions.clear();
    }
    for (FormTerm& t : c.rest) {
      for (const auto& [a, power] : c.factors) t.factors.erase(a);
      if (!c.exponent.empty()) t.exponent.clear();
      if (!c.conditions.empty()) t.conditions.clear();
    }
    return c;
  }

  bool is_operand(AtomId a, double power) const {
    const ScalarRef& v = atoms.value(a);
    return power == 1 && v->op == Op::read;
  }

  static bool within_axes(const ScalarRef& a, const std::vector<AxisId>& axes, std::size_t all) {
    for (AxisId x = 0; x < static_cast<AxisId>(all); ++x)
      if (mentions_axis(a, x) && std::find(axes.begin(), axes.end(), x) == axes.end()) return false;
    return true;
  }

  std::vector<AxisId> axes_in(const ScalarRef& a, const ScalarRef& b = nullptr) const {
    std::vector<AxisId> axes;
    for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()); ++x)
      if (mentions_axis(a, x) || (b && mentions_axis(b, x))) axes.push_back(x);
    return axes;
  }

  // A map of the program, read by the reduction, that is this form.
  ScalarRef existing(const Form& f) {
    for (const ReadThrough::Map& m : seen.maps) {
      const auto form = normal_form(m.value, atoms, facts);
      if (form && ratio(*form, f) == 1.0) return m.read;
    }
    return nullptr;
  }

  // The sum of a form: its computed part as a map of its own where it would be computed again along axes that it does
  // not have.
  ScalarRef sum_of(Form f, const std::vector<Monomial>& exponent, const std::string& hint) {
    for (FormTerm& t : f) t = product(Form{t}, Form{{1, {}, exponent, {}}})[0];
    const double lead = f[0].coefficient;
    if (f.size() == 1) f[0].coefficient = 1;
    Common c = common(f);
    Factors operands;
    for (const auto& [a, power] : c.factors)
      if (is_operand(a, power)) operands[a] = power;
    for (const auto& [a, power] : operands) c.factors.erase(a);
    Form computed = product(c.rest, Form{{1, c.factors, c.exponent, c.conditions}});
    const bool trivial = computed.size() == 1 && computed[0].factors.empty() && computed[0].exponent.empty() &&
                         computed[0].conditions.empty() && computed[0].coefficient == 1;
    ScalarRef body, guard = seen.guard;
    if (!trivial) {
      auto value_of = [&] { // what is common, times the rest
        if (c.rest.size() == 1) return scalar_of(without_conditions(computed, c.conditions), atoms, held());
        const ScalarRef rest = scalar_of(c.rest, atoms, held());
        return c.factors.empty() && c.exponent.empty()
                   ? rest
                   : binary(Op::mul, scalar_of(FormTerm{1, c.factors, c.exponent, {}}, atoms, held()), rest);
      };
      ScalarRef value = value_of(), when = condition_of(c.conditions, atoms);
      const std::vector<AxisId> axes = axes_in(value, when);
      for (auto i = operands.begin(); i != operands.end();) { // what runs along no further axis goes with it
        const bool merges = within_axes(atoms.value(i->first), axes, s.axes.size());
        if (merges) computed = product(computed, Form{{1, {*i}, {}, {}}}), c.factors.insert(*i);
        i = merges ? operands.erase(i) : std::next(i);
      }
      value = value_of();
      if (operands.empty()) {
        body = existing(computed);
        if (!body) body = value, guard = !when ? guard : guard ? binary(Op::logical_and, guard, when) : when;
      } else {
        body = existing(computed);
        if (!body) body = placed(value, when, Reducer::none, held(), hint + "_factor").value;
      }
    }
    if (!body && operands.size() > 2) body = paired(operands, hint);
    for (const auto& [a, power] : operands) body = body ? binary(Op::mul, body, atoms.value(a)) : atoms.value(a);
    if (!body) body = number(1, held());
    const ScalarRef value = placed(body, guard, Reducer::sum, held(), hint).value;
    return f.size() == 1 && lead != 1 ? binary(Op::mul, value, number(lead, held())) : value;
  }

  bool is_known(AtomId a) const { return p.tensor(std::get<Access>(atoms.value(a)->leaf).tensor).kind == Kind::weight; }
  // What the operands of a product are declared as, where that is one type: a factor of one rounds the other no further.
  DType operand_type() const {
    const auto c = contraction(p, s);
    return c && p.tensor(c->a->tensor).dtype == p.tensor(c->b->tensor).dtype ? p.tensor(c->a->tensor).dtype : held();
  }
  // A sum of products that stays one, of operands as they lie.
  bool stays_product(const std::vector<Group>& groups) const {
    if (groups.size() != 1 || groups[0].inside.size() != 1 || !groups[0].exponent.empty() || !contraction(p, s)) return false;
    const FormTerm& t = groups[0].inside[0];
    std::size_t weights = 0, others = 0;
    for (const auto& [a, power] : t.factors) {
      if (!is_operand(a, power)) return false;
      ++(is_known(a) ? weights : others);
    }
    return t.exponent.empty() && t.conditions.empty() && others + (weights > 0) == 2;
  }

  // Of three operands one goes into another that has its axes, so that a product of two is left: into known weights, if
  // it is one.
  ScalarRef paired(Factors& operands, const std::string& hint) {
    for (const bool weights : {true, false})
      for (const auto& [a, power] : operands)
        for (const auto& [b, other] : operands) {
          if (a == b || (weights && !(is_known(a) && is_known(b))) ||
              !within_axes(atoms.value(a), axes_in(atoms.value(b)), s.axes.size()))
            continue;
          const ScalarRef value =
              placed(binary(Op::mul, atoms.value(b), atoms.value(a)), nullptr, Reducer::none,
                     is_known(a) && is_known(b) ? operand_type() : held(), hint + "_factor")
                  .value;
          const AtomId first = a, second = b;
          operands.erase(first), operands.erase(second);
          return value;
        }
    return nullptr;
  }

  static Form without_conditions(Form f, const std::vector<AtomId>& conditions) {
    if (!conditions.empty())
      for (FormTerm& t : f) t.conditions.clear();
    return f;
  }

  // Whether the reduction has a point; null: always.
  ScalarRef live(const std::vector<Group>& groups) {
    ScalarRef when = seen.guard;
    std::vector<AtomId> conditions = groups[0].inside[0].conditions;
    for (const Group& g : groups)
      for (const FormTerm& t : g.inside)
        if (t.conditions != conditions) return nullptr;
    if (const ScalarRef c = condition_of(conditions, atoms)) when = when ? binary(Op::logical_and, when, c) : c;
    if (!when) return nullptr;
    const bool fixed = std::all_of(s.axes.begin(), s.axes.end(), [](const Size& e) { return e.is_constant(); });
    if (fixed && always_some(p, s, when)) return nullptr;
    return placed(when, nullptr, Reducer::any, DType::boolean, name() + "_live").value;
  }

  bool sum_form() {
    const auto separated = separate(seen.body, lineage, s, atoms, facts);
    if (!separated) return refused = separated.reason(), false;
    const auto& groups = *separated;
    if (groups.empty()) return refused = "the body is 0", false;
    auto stays = [](const Group& g) {
      return std::any_of(g.inside.begin(), g.inside.end(), [](const FormTerm& t) { return !t.exponent.empty(); });
    };
    if (groups.size() == 1 && groups[0].factors.empty() && (groups[0].exponent.empty() || stays(groups[0])))
      return false;
    if (wanted != StreamForms::all &&
        std::none_of(groups.begin(), groups.end(), [&](const Group& g) { return stays(g) && !g.exponent.empty(); }) &&
        !(wanted == StreamForms::products && stays_product(groups)))
      return false;
    ScalarRef total;
    int part = 0;
    bool divides = false;
    for (const Group& g : groups) {
      const std::vector<Monomial> exponent = stays(g) ? g.exponent : std::vector<Monomial>{};
      ScalarRef value = sum_of(g.inside, exponent, fmt::format("{}_{}", name(), ++part));
      FormTerm factor{1, g.factors, stays(g) ? std::vector<Monomial>{} : g.exponent, {}};
      divides = divides || !factor.exponent.empty();
      Factors above, below;
      for (const auto& [a, power] : factor.factors)
        (power > 0 ? above : below)[a] = std::abs(power), divides = divides || power < 0;
      if (!above.empty() || !factor.exponent.empty())
        value = binary(Op::mul, value, scalar_of(FormTerm{1, above, factor.exponent, {}}, atoms, held()));
      if (!below.empty()) value = binary(Op::div, value, scalar_of(below, 1, atoms, held()));
      total = total ? binary(Op::add, total, value) : value;
    }
    if (divides)
      if (const ScalarRef some = live(groups)) total = select(some, total, number(0, held()));
    finish(total);
    return true;
  }

  // The map that stores the result where the reduction did. Where that is one sum as it is, the sum itself stores it.
  void finish(const ScalarRef& value) {
    if (value->op == Op::read && !made.empty()) {
      const TensorId t = std::get<Access>(value->leaf).tensor;
      for (Statement& m : made)
        if (m.out == t && m.axes == s.axes && p.tensor(s.out).dtype == held()) {
          m.out = s.out, m.at = s.at;
          return;
        }
    }
    Statement map;
    std::vector<Index> with(s.axes.size(), constant_index(0));
    for (AxisId a : parallel_axes(s)) {
      with[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(map.axes.size()));
      map.axes.push_back(s.axes[static_cast<std::size_t>(a)]);
      map.names.push_back(axis_name(a));
    }
    map.out = s.out, map.at = s.at, map.label = s.label, map.place = s.place;
    for (Index& i : map.at) i = substitute(p, i, with);
    map.body = substitute(p, value, with);
    made.push_back(std::move(map));
  }

  // ---- maxima

  // c * f(elements) + shift, c not negative: the extreme of f. exp(e) is extreme where e is.
  bool extreme_form() {
    auto form = normal_form(seen.body, atoms, facts, Sums::expanded);
    if (!form) return refused = form.reason(), false;
    if (form->empty()) return refused = "the body is 0", false;
    Form shift, inside;
    FormTerm scale;
    for (const FormTerm& t : *form) {
      FormTerm outer{1, {}, {}, {}}, inner{t.coefficient, {}, {}, t.conditions};
      for (const auto& [a, power] : t.factors) (atoms.side(a) == Side::statistic ? outer : inner).factors[a] = power;
      for (const Monomial& m : t.exponent) {
        const bool statistic = std::any_of(m.factors.begin(), m.factors.end(),
                                           [&](const auto& f) { return atoms.side(f.first) == Side::statistic; });
        (statistic ? outer : inner).exponent.push_back(m);
      }
      const bool runs =
          !inner.exponent.empty() || std::any_of(inner.factors.begin(), inner.factors.end(),
                                                 [&](const auto& f) { return atoms.side(f.first) == Side::stream; });
      if (!runs && inner.conditions.empty()) {
        shift.push_back(t);
        continue;
      }
      if (!inside.empty() && !same_but_for_coefficient(scale, outer))
        return refused = fmt::format("the terms of {} are scaled by different statistics", facts.print(seen.body)),
               false;
      scale = outer;
      inside.push_back(inner);
    }
    if (inside.empty()) return refused = "the body runs along no reduced axis", false;
    for (const auto& [a, power] : scale.factors)
      if (std::fmod(power, 2) != 0 && !nonnegative(atoms.value(a), facts))
        return refused =
                   fmt::format("{} may be negative, and the {} turn", facts.print(atoms.value(a)), name_of(s.reducer)),
               false;
    const bool logarithmic = inside.size() == 1 && inside[0].factors.empty() && inside[0].coefficient > 0 &&
                             !inside[0].exponent.empty() && inside[0].conditions.empty();
    const ScalarRef body =
        logarithmic ? scalar_of(inside[0].exponent, atoms, held()) : scalar_of(inside, atoms, held());
    if (is_pair(s.reducer)) {
      Statement t = s;
      t.body = body, t.guard = seen.guard;
      made.push_back(std::move(t));
      return true;
    }
    ScalarRef value = placed(body, seen.guard, s.reducer, held(), name() + "_1").value;
    if (logarithmic) {
      for (const Monomial& m : scale.exponent)
        value = binary(m.coefficient < 0 ? Op::sub : Op::add, value,
                       scalar_of(m.factors, std::abs(m.coefficient), atoms, held()));
      value = unary(Op::exp, value);
      scale.exponent.clear();
      if (inside[0].coefficient != 1) value = binary(Op::mul, value, number(inside[0].coefficient, held()));
    }
    if (!scale.factors.empty() || !scale.exponent.empty())
      value = binary(Op::mul, value, scalar_of(scale, atoms, held()));
    if (!shift.empty()) value = binary(Op::add, value, scalar_of(shift, atoms, held()));
    finish(value);
    return true;
  }

  bool run() {
    seen = read_through(lineage, s);
    if (!seen.refused.empty()) return refused = seen.refused, false;
    if (seen.statistics.empty()) return false;
    atoms = atoms_of(s, seen.statistics);
    if (seen.guard && static_cast<int>(atoms.side(seen.guard)) >= static_cast<int>(Side::statistic))
      return refused = fmt::format("the condition {} is decided by a statistic", facts.print(seen.guard)), false;
    if (!is_float(s.body->dtype) || !is_float(compute_type(seen.body->dtype)))
      return refused = fmt::format("{} is no sum of floats", facts.print(seen.body)), false;
    if (s.reducer == Reducer::sum) return sum_form();
    if ((is_extreme(s.reducer) || is_pair(s.reducer)) && wanted == StreamForms::all) return extreme_form();
    if (wanted != StreamForms::all) return false;
    return refused = fmt::format("a statistic stands under {}", name_of(s.reducer)), false;
  }
};

// Sums and extremes that others follow, or that follow others, are held as they are accumulated; what they are declared
// as, a map behind them rounds to.
void widen_states(Program& p) {
  std::set<TensorId> states;
  const Lineage lineage(p);
  for (const auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    if (!s || s->reduced.empty()) continue;
    const ReadThrough seen = read_through(lineage, *s);
    if (seen.statistics.empty() || !seen.refused.empty()) continue;
    states.insert(seen.statistics.begin(), seen.statistics.end());
    states.insert(s->out);
  }
  Builder build(p);
  decltype(p.nodes) nodes;
  for (auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    if (!s || s->reduced.empty() || is_pair(s->reducer) || !states.count(s->out) ||
        held_as(p, *s) == p.tensor(s->out).dtype) {
      nodes.push_back(std::move(node));
      continue;
    }
    TakenApart t = take_apart(build, *s);
    nodes.emplace_back(std::move(t.sum));
    nodes.emplace_back(std::move(t.map));
  }
  p.nodes = std::move(nodes);
}

// What keeps an axis that it needs statistics over ends no loop: a map of them alone. Told for results that leave the
// program.
void tell_kept(const Program& p, std::vector<StreamRefusal>& refusals) {
  const Lineage lineage(p);
  std::deque<Statement> reduced; // the lineage knows statements by where they are
  for (TensorId t : p.outputs) {
    const Statement* s = lineage.writer(t);
    if (!s || !is_map(*s)) continue;
    for (AxisId a = 0; a < static_cast<AxisId>(s->axes.size()); ++a) {
      Statement& as_if = reduced.emplace_back(*s); // were it reduced along the axis, would it read a statistic?
      as_if.reduced = {a}, as_if.reducer = Reducer::sum;
      auto seen = read_through(lineage, as_if);
      std::erase_if(seen.statistics,
                    [&](TensorId x) { return lineage.elements(*lineage.writer(x)).empty(); }); // counts
      if (seen.statistics.empty() || !seen.refused.empty()) continue;
      const std::string axis = s->names.empty() ? fmt::format("a{}", a) : s->names[static_cast<std::size_t>(a)];
      refusals.push_back({p.tensor(t).name, axis,
                          fmt::format("{} keeps {} and needs {}, which is known only behind it; followed by a "
                                      "contraction over {} it would stream",
                                      p.tensor(t).name, axis, p.tensor(*seen.statistics.begin()).name, axis)});
    }
  }
}

} // namespace

Program stream_forms(Program p, std::vector<StreamRefusal>* refusals, StreamForms wanted) {
  gathers_as_sums(p);
  widen_states(p);
  Lineage lineage(p);
  Builder build(p);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = std::get_if<Statement>(&p.nodes[n]);
    if (!s || s->reduced.empty()) continue;
    Former former{p, build, lineage, *s};
    former.wanted = wanted;
    const bool formed = former.run();
    if (!former.refused.empty() && refusals && !former.seen.statistics.empty())
      refusals->push_back({former.name(), former.axis_name(s->reduced[0]), former.refused});
    if (!formed) continue;
    const TensorId out = s->out;
    p.nodes.erase(p.nodes.begin() + static_cast<std::ptrdiff_t>(n));
    p.nodes.insert(p.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::make_move_iterator(former.made.begin()),
                   std::make_move_iterator(former.made.end()));
    n += former.made.size() - 1;
    lineage.renew(out);
  }
  p = drop_unused(std::move(p));
  if (refusals) tell_kept(p, *refusals);
  return p;
}

} // namespace tilewright
