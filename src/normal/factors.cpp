#include <algorithm>
#include <cmath>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

// A product, taken apart: what runs with the reduction, and what stands still (times `above`, over `below`).
struct Product {
  std::vector<ScalarRef> inside, above, below;
  bool negative = false;
  bool stands_still() const { return !above.empty() || !below.empty() || negative; }
};

struct Factors {
  const Statement& s;
  const bool guard_leaves = guard_stands_still();

  // A guard that does not run with a sum of products leaves it too: where it fails the sum is 0, as the map is that has it instead.
  bool guard_stands_still() const { return s.guard && s.body->op == Op::mul && !runs(s.guard); }
  bool runs(const ScalarRef& f) const {
    return std::any_of(s.reduced.begin(), s.reduced.end(), [&](AxisId r) { return mentions_axis(f, r); });
  }

  // Whether the sum may be multiplied by f afterwards. Where every point may be missing the sum is 0 whatever f is: only a
  // factor known to be finite keeps that. Literals of extreme size stay, so that no sum overflows or vanishes which did not before.
  bool may_leave(const ScalarRef& f) const {
    double v = 0;
    if (is_literal(f, &v) && is_float(f->dtype)) return std::abs(v) > 0x1p-60 && std::abs(v) < 0x1p60;
    return !runs(f) && (is_literal(f) || !s.guard || guard_leaves);
  }

  // Integers multiply exactly, wrap-around included, and do not divide.
  void take_apart(const ScalarRef& node, Product& out) const {
    const bool typed = node->dtype == s.body->dtype;
    if (may_leave(node)) return out.above.push_back(node);
    if (node->op == Op::mul && typed) {
      take_apart(node->args[0], out);
      return take_apart(node->args[1], out);
    }
    if (node->op == Op::div && typed && is_float(node->dtype) && may_leave(node->args[1])) {
      out.below.push_back(node->args[1]);
      return take_apart(node->args[0], out);
    }
    if (node->op == Op::neg && typed) {
      out.negative = !out.negative;
      return take_apart(node->args[0], out);
    }
    out.inside.push_back(node);
  }
};

ScalarRef product_of(const std::vector<ScalarRef>& factors) {
  ScalarRef all = factors[0];
  for (std::size_t i = 1; i < factors.size(); ++i) all = binary(Op::mul, all, factors[i]);
  return all;
}

ScalarRef applied(const Product& f, ScalarRef value) {
  if (f.negative) value = unary(Op::neg, value);
  if (!f.above.empty()) value = binary(Op::mul, value, product_of(f.above));
  if (!f.below.empty()) value = binary(Op::div, value, product_of(f.below));
  return value;
}

bool has_points(const Statement& s) {
  return std::all_of(s.reduced.begin(), s.reduced.end(), [&](AxisId r) { return s.axes[static_cast<std::size_t>(r)].constant() > 0; });
}

// The sum alone, and the map that multiplies it; nothing where no factor stands still.
std::optional<TakenApart> hoisted(Builder& build, const Statement& s) {
  if (s.reducer != Reducer::sum || !has_points(s) || s.body->dtype != compute_type(s.body->dtype)) return std::nullopt;
  if (is_integer(s.body->dtype) && held_as(build.program(), s) != s.body->dtype) return std::nullopt;   // the product wraps before it is widened
  Product f;
  const Factors factors{s};
  factors.take_apart(s.body, f);
  if (f.inside.empty() || !(f.stands_still() || factors.guard_leaves)) return std::nullopt;
  const ScalarRef inside = product_of(f.inside);
  if (compute_type(inside->dtype) != s.body->dtype) return std::nullopt;
  TakenApart t = take_apart(build, s);
  t.sum.body = inside;
  if (factors.guard_leaves) {
    t.map.guard = substitute(build.program(), s.guard, t.with);
    t.sum.guard = nullptr;
  }
  for (auto* list : {&f.above, &f.below})
    for (ScalarRef& factor : *list) factor = substitute(build.program(), factor, t.with);
  t.map.body = applied(f, t.value);
  return t;
}

}  // namespace

Program hoist_factors(Program p) {
  Builder build(p);
  decltype(p.nodes) nodes;
  for (auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    auto parts = s ? hoisted(build, *s) : std::nullopt;
    if (!parts) {
      nodes.push_back(std::move(node));
      continue;
    }
    nodes.emplace_back(std::move(parts->sum));
    nodes.emplace_back(std::move(parts->map));
  }
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace tilewright
