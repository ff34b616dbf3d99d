#include <algorithm>

#include "normal/passes.h"

namespace tilewright {

namespace {

struct Shifted { ScalarRef value, zero; };                   // value - zero; zero null: nothing is taken away

struct Distribution {
  Builder& build;
  const Statement& s;
  Program& p = build.program();

  bool runs(const ScalarRef& x) const {
    return std::any_of(s.reduced.begin(), s.reduced.end(), [&](AxisId r) { return mentions_axis(x, r); });
  }

  static bool is_element(const ScalarRef& x) { return x->op == Op::read || (x->op == Op::cast && x->args[0]->op == Op::read && is_integer(x->dtype)); }

  std::optional<Shifted> shifted(const ScalarRef& f) const {
    if (is_element(f)) return Shifted{f, nullptr};
    if (f->op != Op::sub && f->op != Op::add) return std::nullopt;
    const ScalarRef &a = f->args[0], &b = f->args[1];
    if (is_element(a) && !runs(b)) return Shifted{a, f->op == Op::sub ? b : unary(Op::neg, b)};
    if (f->op == Op::add && is_element(b) && !runs(a)) return Shifted{b, unary(Op::neg, a)};
    return std::nullopt;
  }

  double points(const ScalarRef& body) const {
    double n = 1;
    for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a)
      if (!body || mentions_axis(body, a)) n *= static_cast<double>(s.axes[static_cast<std::size_t>(a)].constant());
    return n;
  }

  // At run time, a quarter of the points of the product at most.
  bool cheap(const ScalarRef& body) const { return all_weights(p, body) || 4 * points(body) <= points(nullptr); }

  // The statements that stand for s, or none.
  std::vector<Statement> run() {
    if (s.reducer != Reducer::sum || s.guard || s.body->op != Op::mul || !is_integer(s.body->dtype) || held_as(p, s) != s.body->dtype) return {};
    auto left = shifted(s.body->args[0]), right = shifted(s.body->args[1]);
    if (!left || !right || (!left->zero && !right->zero)) return {};
    if (all_weights(p, left->value)) std::swap(left, right);
    const ScalarRef &a = left->value, &w = right->value, &za = left->zero, &zw = right->zero;
    if (!runs(a) || !runs(w)) return {};
    // a*w - za * sum(w - zw) - zw * sum(a): the known zero point goes with the known weights.
    const ScalarRef weights = zw ? binary(Op::sub, w, zw) : w;
    if ((za && !cheap(weights)) || (zw && !cheap(a))) return {};
    TakenApart t = take_apart(build, s);
    t.sum.body = binary(Op::mul, a, w);
    std::vector<Statement> made;
    auto take_away = [&](const ScalarRef& zero, const ScalarRef& body, const char* suffix) {
      auto [sum, value] = reduce_alone(build, s, t, body, suffix);
      made.push_back(std::move(sum));
      const ScalarRef part = binary(Op::mul, substitute(p, zero, t.with), value);
      t.map.body = binary(Op::sub, t.map.body, part);
    };
    if (za) take_away(za, weights, "_w");
    if (zw) take_away(zw, a, "_a");
    made.push_back(std::move(t.sum));
    made.push_back(std::move(t.map));
    return made;
  }
};

}  // namespace

Program distribute_zero_points(Program p) {
  Builder build(p);
  decltype(p.nodes) nodes;
  for (auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    std::vector<Statement> made = s ? Distribution{build, *s}.run() : std::vector<Statement>{};
    if (made.empty()) nodes.push_back(std::move(node));
    for (Statement& m : made) nodes.emplace_back(std::move(m));
  }
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace tilewright
