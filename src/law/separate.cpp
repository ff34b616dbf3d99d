#include "law/separate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tilewright {

namespace {

struct Separator {
  const Lineage& lineage;
  const Statement& s;
  Atoms& atoms;
  const Facts& facts;

  Side side(const Factors& f) const {
    int all = 0;
    for (const auto& [a, p] : f) all |= static_cast<int>(atoms.side(a));
    return static_cast<Side>(all);
  }

  bool may_anchor(AtomId a, double power) const {
    return atoms.side(a) == Side::statistic && power > 0 && power == std::floor(power) && is_linear(atoms.value(a));
  }

  std::vector<Group> grouped(const Form& f) const {
    std::vector<Group> groups;
    for (const FormTerm& t : f) {
      Group here;
      FormTerm inside{t.coefficient, {}, {}, t.conditions};
      for (const auto& [a, p] : t.factors)
        (atoms.side(a) == Side::statistic && !may_anchor(a, p) ? here.factors : inside.factors)[a] = p;
      for (const Monomial& m : t.exponent)
        (side(m.factors) == Side::statistic ? here.exponent : inside.exponent).push_back(m);
      auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return g.factors == here.factors &&
               same_but_for_coefficient({1, {}, g.exponent, {}}, {1, {}, here.exponent, {}});
      });
      if (same == groups.end()) groups.push_back(here), same = std::prev(groups.end());
      same->inside.push_back(std::move(inside));
    }
    for (Group& g : groups) settle(g);
    return groups;
  }

  // A statistic with one power in all terms is a factor; the others are anchors.
  void settle(Group& g) const {
    std::map<AtomId, std::vector<double>> powers;
    for (const FormTerm& t : g.inside)
      for (const auto& [a, p] : t.factors)
        if (atoms.side(a) == Side::statistic) powers[a];
    for (auto& [a, list] : powers)
      for (const FormTerm& t : g.inside) {
        const auto at = t.factors.find(a);
        list.push_back(at == t.factors.end() ? 0 : at->second);
      }
    for (const auto& [a, list] : powers) {
      const double least = *std::min_element(list.begin(), list.end());
      if (least > 0) {
        g.factors[a] = least;
        for (FormTerm& t : g.inside)
          if ((t.factors[a] -= least) == 0) t.factors.erase(a);
      }
      if (*std::max_element(list.begin(), list.end()) > least) g.anchors.push_back(a);
    }
    for (const FormTerm& t : g.inside)
      for (const auto& [a, p] : t.factors)
        if (const Form* terms = atoms.sum(a))
          for (const FormTerm& x : *terms)
            for (const auto& [b, q] : x.factors)
              if (atoms.side(b) == Side::statistic &&
                  std::find(g.anchors.begin(), g.anchors.end(), b) == g.anchors.end())
                g.anchors.push_back(b);
  }

  // The body of a max or min statistic at the elements of this reduction, as a polynomial.
  std::optional<std::vector<Monomial>> elements_of(const Access& read, const Statement& w) const {
    if (w.reduced.size() != s.reduced.size()) return std::nullopt;
    std::vector<Index> with(w.axes.size());
    for (std::size_t d = 0; d < w.at.size(); ++d) {
      const auto axis = plain_axis(w.at[d]);
      if (!axis && lineage.program().tensor(w.out).dims[d] == Size(1)) continue;
      if (!axis) return std::nullopt;
      with[static_cast<std::size_t>(*axis)] = read.at[d];
    }
    for (std::size_t i = 0; i < w.reduced.size(); ++i)
      with[static_cast<std::size_t>(w.reduced[i])] = axis_index(s.reduced[i]);
    return polynomial(substitute(lineage.program(), w.body, with), atoms, facts);
  }

  bool bounded_by_sign(const std::vector<Monomial>& q) const {
    return std::all_of(q.begin(), q.end(), [&](const Monomial& m) {
      return m.coefficient < 0 && std::all_of(m.factors.begin(), m.factors.end(), [&](const auto& f) {
               return std::fmod(f.second, 2) == 0 || nonnegative(atoms.value(f.first), facts);
             });
    });
  }

  // exp(q(elements) + r(statistics)) is at most 1 where each statistic is a max (or min) of what stands opposite to it.
  std::string unbounded(const Group& g, const FormTerm& t) const {
    if (t.exponent.empty() || g.exponent.empty() || bounded_by_sign(t.exponent)) return {};
    Form rest;
    for (const Monomial& m : t.exponent) rest.push_back({m.coefficient, m.factors, {}, {}});
    for (const Monomial& m : g.exponent) {
      const Access* read = nullptr;
      Factors others;
      for (const auto& [a, p] : m.factors) {
        ScalarRef value = atoms.value(a);
        while (value->op == Op::cast) value = value->args[0];
        const Access* access = std::get_if<Access>(&value->leaf);
        if (atoms.side(a) == Side::statistic && p == 1 && access && !read)
          read = access;
        else
          others[a] = p;
      }
      const Statement* w = read ? lineage.writer(read->tensor) : nullptr;
      const bool extreme =
          w && ((w->reducer == Reducer::max && m.coefficient < 0) || (w->reducer == Reducer::min && m.coefficient > 0));
      const bool positive = std::all_of(others.begin(), others.end(),
                                        [&](const auto& f) { return nonnegative(atoms.value(f.first), facts); });
      const auto mine = extreme && positive ? elements_of(*read, *w) : std::nullopt;
      if (!mine)
        return fmt::format("exp({}) may leave its range before {} is known, which is no maximum of it",
                           facts.print(scalar_of(t.exponent, atoms, DType::f32)),
                           facts.print(scalar_of(m.factors, 1, atoms, DType::f32)));
      for (const Monomial& e : *mine)
        rest = sum(rest, product(Form{{e.coefficient, e.factors, {}, {}}}, Form{{m.coefficient, others, {}, {}}}));
    }
    if (rest.empty()) return {};
    return fmt::format("exp({}) may leave its range: what is subtracted is no maximum of it",
                       facts.print(scalar_of(t.exponent, atoms, DType::f32)));
  }

  Or<std::vector<Group>> run(const ScalarRef& body) const {
    const auto form = normal_form(body, atoms, facts);
    if (!form) return Refused{form.reason()};
    auto groups = grouped(*form);
    if (groups.size() > 1)
      if (const auto apart = normal_form(body, atoms, facts, Sums::apart))
        if (auto fewer = grouped(*apart); fewer.size() < groups.size()) groups = std::move(fewer);
    for (const Group& g : groups)
      for (const FormTerm& t : g.inside)
        if (std::string why = unbounded(g, t); !why.empty()) return Refused{why};
    return groups;
  }
};

} // namespace

Or<std::vector<Group>> separate(const ScalarRef& body, const Lineage& lineage, const Statement& s, Atoms& atoms,
                                const Facts& facts) {
  return Separator{lineage, s, atoms, facts}.run(body);
}

Form derivative(const Form& f, AtomId by, const Atoms& atoms) {
  Form d;
  for (const FormTerm& t : f)
    for (const auto& [a, power] : t.factors) {
      const Form* terms = atoms.sum(a);
      const Form inner = terms ? derivative(*terms, by, atoms) : a == by ? Form{FormTerm{}} : Form{};
      if (inner.empty()) continue;
      FormTerm x = t;
      x.coefficient *= power;
      if ((x.factors[a] -= 1) == 0) x.factors.erase(a);
      d = sum(std::move(d), product({x}, inner));
    }
  return d;
}

std::vector<Derivative> derivatives(const Group& g, const Atoms& atoms) {
  std::vector<Derivative> list{{std::vector<int>(g.anchors.size(), 0), g.inside}};
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t a = 0; a < g.anchors.size(); ++a) {
      Derivative d{list[i].powers, derivative(list[i].body, g.anchors[a], atoms)};
      ++d.powers[a];
      if (d.body.empty() ||
          std::any_of(list.begin(), list.end(), [&](const Derivative& x) { return x.powers == d.powers; }))
        continue;
      list.push_back(std::move(d));
    }
  return list;
}

} // namespace tilewright
