#include "law/unscaled.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

bool is_extreme(const Statement& s) { return s.reducer == Reducer::max || s.reducer == Reducer::min; }

const Access* read_of(ScalarRef s) {
  while (s->op == Op::cast && is_float(s->dtype)) s = s->args[0];
  return s->op == Op::read ? &std::get<Access>(s->leaf) : nullptr;
}

struct Unscaler {
  Program& p;

  // f and c of f * c or f / c, c a positive number; none: it is no such product.
  static ScalarRef factor_of(const ScalarRef& body, double& by) {
    ScalarRef s = body;
    while (s->op == Op::cast && is_float(s->dtype)) s = s->args[0];
    for (std::size_t i : {1, 0}) {
      if ((s->op != Op::mul && (s->op != Op::div || i == 0)) || !is_literal(s->args[i], &by)) continue;
      if (s->op == Op::div) by = 1 / by;
      return by > 0 && std::isfinite(by) && !is_literal(s->args[1 - i]) ? s->args[1 - i] : nullptr;
    }
    return nullptr;
  }

  // Made by one statement, read by others as it is: who reads it may read something else.
  bool replaceable(TensorId t) const {
    const auto out = [&](TensorId o) { return o == t; };
    if (p.tensor(t).kind != Kind::intermediate || std::any_of(p.outputs.begin(), p.outputs.end(), out)) return false;
    int writers = 0;
    bool plain = true;
    for (const auto& node : p.nodes) {
      if (const Opaque* o = std::get_if<Opaque>(&node)) {
        plain &= std::none_of(o->in.begin(), o->in.end(), out) && std::none_of(o->out.begin(), o->out.end(), out);
        continue;
      }
      const Statement& s = std::get<Statement>(node);
      writers += s.out == t;
      for_each_access(s, [&](const Access& a) { plain &= a.tensor != t || !a.otherwise; });
      for (const Index& i : s.at) for_each_access(i, [&](const Access& a) { plain &= a.tensor != t; });
    }
    return writers == 1 && plain;
  }
  // The value of a map at indices; null: not every axis of it is one of its dims.
  ScalarRef at(const Statement& map, const ScalarRef& value, const std::vector<Index>& point) const {
    std::vector<Index> with(map.axes.size());
    std::vector<bool> known(map.axes.size(), false);
    for (std::size_t d = 0; d < map.at.size(); ++d)
      if (const auto a = plain_axis(map.at[d])) with[static_cast<std::size_t>(*a)] = point[d], known[static_cast<std::size_t>(*a)] = true;
    if (std::count(known.begin(), known.end(), false)) return nullptr;
    return substitute(p, value, with);
  }

  // Readers of t read something of the same value instead.
  void replace(TensorId t, const std::function<ScalarRef(const ScalarRef&, const Access&)>& by) {
    const auto replaced = [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read || std::get<Access>(node->leaf).tensor != t) return node;
      return by(node, std::get<Access>(node->leaf));
    };
    for (auto& node : p.nodes)
      if (Statement* s = std::get_if<Statement>(&node)) {
        s->body = rewrite(s->body, replaced);
        if (s->guard) s->guard = rewrite(s->guard, replaced);
      }
  }
  static ScalarRef times(const ScalarRef& x, double by) {
    return by == 1 ? cast(x, compute_type(x->dtype)) : binary(Op::mul, cast(x, compute_type(x->dtype)), number(by, compute_type(x->dtype)));
  }

  bool under_an_extreme(TensorId t) const {
    return std::any_of(p.nodes.begin(), p.nodes.end(), [&](const auto& node) {
      const Statement* s = std::get_if<Statement>(&node);
      const Access* a = s && is_extreme(*s) ? read_of(s->body) : nullptr;
      return a && a->tensor == t;
    });
  }
  // Elements: a map that scales them is read as what it scales.
  void elements(std::size_t n) {
    Statement& s = std::get<Statement>(p.nodes[n]);
    double by = 1;
    const ScalarRef f = factor_of(s.body, by);
    if (!f || !is_map(s) || s.guard || !is_float(p.tensor(s.out).dtype) || !replaceable(s.out) || !under_an_extreme(s.out)) return;
    const Statement map = s;
    std::vector<Index> same;
    for (std::size_t d = 0; d < map.at.size(); ++d) same.push_back(axis_index(static_cast<AxisId>(d)));
    if (!at(map, f, same)) return;
    if (read_of(f)) return replace(map.out, [&](const ScalarRef&, const Access& a) { return times(at(map, f, a.at), by); });
    s.body = f;                          // it stays, without its factor
    replace(map.out, [&](const ScalarRef& node, const Access&) { return times(node, by); });
  }
  // An extreme of scaled elements.
  void extremes(std::size_t n) {
    Statement& s = std::get<Statement>(p.nodes[n]);
    double by = 1;
    const ScalarRef f = is_extreme(s) ? factor_of(s.body, by) : nullptr;
    if (!f || !replaceable(s.out)) return;
    s.body = f;
    replace(s.out, [&](const ScalarRef& node, const Access&) { return times(node, by); });
  }
  // A map that only rounds an extreme, or scales it too, is read as that.
  void roundings(std::size_t n) {
    const Statement map = std::get<Statement>(p.nodes[n]);
    if (!is_map(map) || map.guard || !is_float(p.tensor(map.out).dtype) || !replaceable(map.out)) return;
    double by = 1;
    ScalarRef f = factor_of(map.body, by);
    if (!f) f = map.body, by = 1;
    const Access* a = read_of(f);
    const bool of_extreme = a && !a->otherwise && std::any_of(p.nodes.begin(), p.nodes.end(), [&](const auto& node) {
      const Statement* s = std::get_if<Statement>(&node);
      return s && s->out == a->tensor && is_extreme(*s);
    });
    std::vector<Index> same;
    for (std::size_t d = 0; d < map.at.size(); ++d) same.push_back(axis_index(static_cast<AxisId>(d)));
    if (!of_extreme || !at(map, f, same)) return;
    replace(map.out, [&](const ScalarRef&, const Access& x) { return times(at(map, f, x.at), by); });
  }
};

}  // namespace

Program unscaled(Program p) {
  Unscaler u{p};
  for (const auto step : {&Unscaler::elements, &Unscaler::extremes, &Unscaler::roundings})
    for (std::size_t n = 0; n < p.nodes.size(); ++n)
      if (std::holds_alternative<Statement>(p.nodes[n])) (u.*step)(n);
  return drop_unused(std::move(p));
}

}  // namespace tilewright
