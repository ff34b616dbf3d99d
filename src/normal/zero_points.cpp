#include <algorithm>

#include "normal/integers.h"

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

  bool over_integers() const { return s.reducer == Reducer::sum && !s.guard && is_integer(s.body->dtype) && held_as(p, s) == s.body->dtype; }

  // Known weights less their zero point, in eight bits where they fit.
  ScalarRef narrow_weights(const ScalarRef& w, const ScalarRef& zero) const {
    const ScalarRef both = zero ? binary(Op::sub, w, zero) : w;
    if (!zero || both->dtype != DType::i32 || !all_weights(p, both)) return both;
    KnownTerm term = known_term(p, both, s.axes);
    const std::int32_t* v = term.values.as<std::int32_t>();
    const auto [low, high] = std::minmax_element(v, v + term.values.count());
    if (term.values.count() == 0 || *low < -128 || *high > 255 || (*low < 0 && *high > 127)) return both;
    KnownTerm bytes{term.axes, Array::make(*low < 0 ? DType::i8 : DType::u8, term.values.dims)};
    for (std::int64_t i = 0; i < term.values.count(); ++i) bytes.values.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v[i]);
    return as_weight(p, p.tensor(s.out).name + "_weights", bytes);
  }

  // The sum of a product and what is taken away from it; or of one factor.
  std::vector<Statement> run() {
    if (!over_integers()) return {};
    return s.body->op == Op::mul ? product() : one_factor();
  }

  std::vector<Statement> one_factor() {
    const auto f = shifted(s.body);
    if (!f || !f->zero || !runs(f->value)) return {};
    TakenApart t = take_apart(build, s);
    t.sum.body = cast(f->value, s.body->dtype);
    std::int64_t count = 1;
    for (AxisId r : s.reduced) count = checked_mul(count, s.axes[static_cast<std::size_t>(r)].constant());
    const ScalarRef times = integer(s.body->dtype == DType::i32 ? static_cast<std::int32_t>(count) : count, s.body->dtype);
    t.map.body = binary(Op::sub, t.map.body, binary(Op::mul, substitute(p, f->zero, t.with), times));
    return {std::move(t.sum), std::move(t.map)};
  }

  std::vector<Statement> product() {
    auto left = shifted(s.body->args[0]), right = shifted(s.body->args[1]);
    if (!left || !right || (!left->zero && !right->zero)) return {};
    if (all_weights(p, left->value)) std::swap(left, right);
    const ScalarRef &a = left->value, &za = left->zero;
    if (!runs(a) || !runs(right->value)) return {};
    const ScalarRef both = narrow_weights(right->value, right->zero);
    const bool narrowed = both->op == Op::read;
    const ScalarRef w = narrowed ? both : right->value, zw = narrowed ? nullptr : right->zero;
    // a*w - za * sum(w - zw) - zw * sum(a): the known zero point goes with the known weights.
    if ((za && !cheap(both)) || (zw && !cheap(a))) return {};
    if (!za && !zw) {
      Statement narrower = s;
      narrower.body = binary(Op::mul, a, w);
      return {narrower};
    }
    TakenApart t = take_apart(build, s);
    t.sum.body = binary(Op::mul, a, w);
    std::vector<Statement> made;
    auto take_away = [&](const ScalarRef& zero, const ScalarRef& body, const char* suffix) {
      const bool constant = all_weights(p, zero) && all_weights(p, body);
      auto [sum, value] = reduce_alone(build, s, t, constant ? binary(Op::mul, body, zero) : body, suffix);
      made.push_back(std::move(sum));
      const ScalarRef part = constant ? value : binary(Op::mul, substitute(p, zero, t.with), value);
      t.map.body = binary(Op::sub, t.map.body, part);
    };
    if (za) take_away(za, both, "_w");
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
