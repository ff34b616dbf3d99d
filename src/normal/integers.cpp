#include "normal/integers.h"

#include <algorithm>

namespace tilewright {

namespace {

// A term of a float sum as scales, which stand still, times integers, which run.
struct Product {
  std::vector<ScalarRef> integers, above, below;
};

bool all_literal_or_weights(const Program& p, const ScalarRef& s) { return is_float(s->dtype) && all_weights(p, s); }

struct Sum {
  Builder& build;
  const Statement& s;
  const std::vector<std::vector<StatementId>>& writers;
  Program& p = build.program();
  int depth = 0;

  bool runs(const ScalarRef& x) const {
    return std::any_of(s.reduced.begin(), s.reduced.end(), [&](AxisId r) { return mentions_axis(x, r); });
  }

  // What the map that makes the tensor computes, seen from here.
  std::optional<ScalarRef> source(const Access& a) const {
    const Tensor& t = p.tensor(a.tensor);
    const auto n = static_cast<std::size_t>(a.tensor);
    if (t.kind != Kind::intermediate || t.stored_in || n >= writers.size() || writers[n].size() != 1)
      return std::nullopt;
    const Statement* map = p.statement(writers[n][0]);
    if (!map) return std::nullopt;
    auto body = read_through(p, *map, a, s.axes);
    if (!body || !a.otherwise) return body;
    double v = 1;
    if (!is_literal(a.otherwise, &v) || v != 0 || !same_edges(*map)) return std::nullopt;
    return body;
  }

  // Whether leaving the map's result is leaving the one tensor that runs with it: each axis of the map is a whole dim
  // of it.
  bool same_edges(const Statement& map) const {
    int whole = 0;
    bool plain = true;
    for_each_access(map.body, [&](const Access& a) {
      plain &= !a.otherwise;
      std::size_t found = 0, constant = 0;
      for (std::size_t d = 0; d < a.at.size(); ++d) {
        const auto axis = plain_axis(a.at[d]);
        found += axis && p.tensor(a.tensor).dims[d] == map.axes[static_cast<std::size_t>(*axis)];
        constant += a.at[d].terms.empty();
      }
      whole += found == map.axes.size() && found + constant == a.at.size();
    });
    return plain && whole == 1;
  }

  bool stays_inside(const ScalarRef& x) const {
    bool stays = true;
    for_each_access(x, [&](const Access& a) {
      for (std::size_t d = 0; d < a.at.size(); ++d) stays &= in_bounds(a.at[d], p.tensor(a.tensor).dims[d], s.axes);
    });
    return stays;
  }

  // The integer where its tensor ends: what makes it 0 is read outside.
  std::optional<ScalarRef> zero_outside(const ScalarRef& x) const {
    const ScalarRef& element = x->op == Op::sub ? x->args[0] : x;
    if (element->op != Op::read || std::get<Access>(element->leaf).otherwise) return std::nullopt;
    const Access& a = std::get<Access>(element->leaf);
    const ScalarRef zero = x->op == Op::sub ? x->args[1] : integer(0);
    if (!stays_inside(zero)) return std::nullopt;
    const ScalarRef inside = read(p, a.tensor, a.at, zero);
    return x->op == Op::sub ? binary(Op::sub, inside, zero) : inside;
  }

  bool collect(const ScalarRef& x, Product& out, bool padded = false) {
    if (all_literal_or_weights(p, x) && !runs(x)) {
      if (padded) return false;
      out.above.push_back(x);
      return true;
    }
    return collect_running(x, out, padded);
  }

  bool collect_running(const ScalarRef& x, Product& out, bool padded) {
    if (x->dtype != DType::f32) return false;
    if (x->op == Op::mul) {
      // Of what is read with padding every scale may go, as long as the integer is 0 outside.
      for (const ScalarRef& f : x->args) {
        if (all_literal_or_weights(p, f) && !runs(f) && stays_inside(f))
          out.above.push_back(f);
        else if (!collect_running(f, out, padded))
          return false;
      }
      return true;
    }
    if (x->op == Op::div) {
      if (!all_literal_or_weights(p, x->args[1]) || runs(x->args[1]) || !stays_inside(x->args[1])) return false;
      out.below.push_back(x->args[1]);
      return collect_running(x->args[0], out, padded);
    }
    if (x->op == Op::cast && is_integer(x->args[0]->dtype) && bytes_of(compute_type(x->args[0]->dtype)) == 4) {
      const auto inside = padded ? zero_outside(x->args[0]) : x->args[0];
      if (inside) out.integers.push_back(*inside);
      return inside.has_value();
    }
    if (x->op != Op::read || ++depth > 8) return false;
    const Access& a = std::get<Access>(x->leaf);
    const auto body = source(a);
    if (!body) return false;
    if (padded && a.otherwise) return false;
    return collect_running(*body, out, padded || a.otherwise != nullptr);
  }

  bool fits(const ScalarRef& product) const {
    const auto each = IntegerBounds(p).of(product);
    if (!each) return false;
    double points = 1;
    for (AxisId a : s.reduced) points *= static_cast<double>(s.axes[static_cast<std::size_t>(a)].constant());
    return std::max(std::abs(each->low), std::abs(each->high)) * points < 0x1p31;
  }

  static ScalarRef all(const std::vector<ScalarRef>& list) {
    ScalarRef product;
    for (const ScalarRef& f : list) product = product ? binary(Op::mul, product, f) : f;
    return product;
  }

  std::optional<TakenApart> run() {
    if (s.reducer != Reducer::sum || s.guard || s.body->dtype != DType::f32) return std::nullopt;
    Product product;
    if (!collect(s.body, product) || product.integers.empty() || product.integers.size() > 2) return std::nullopt;
    ScalarRef inside = all(product.integers);
    if (compute_type(inside->dtype) != DType::i32 || !fits(inside)) return std::nullopt;
    Statement whole = s;
    whole.body = inside;
    TakenApart t = take_apart(build, whole);
    auto over_map = [&](const ScalarRef& f) { return substitute(p, f, t.with); };
    ScalarRef value = cast(t.value, DType::f32);
    if (ScalarRef above = all(product.above)) value = binary(Op::mul, value, over_map(above));
    if (ScalarRef below = all(product.below)) value = binary(Op::div, value, over_map(below));
    t.map.body = value;
    return t;
  }
};

} // namespace

Program sum_integers(Program p) {
  const auto writers = writers_of(p);
  Builder build(p);
  decltype(p.nodes) nodes;
  // Statements are read through where they stand in the program, so nothing moves before all sums are made.
  for (const auto& node : p.nodes) {
    const Statement* s = std::get_if<Statement>(&node);
    auto parts = s ? Sum{build, *s, writers}.run() : std::nullopt;
    if (!parts) {
      nodes.push_back(node);
      continue;
    }
    nodes.emplace_back(std::move(parts->sum));
    nodes.emplace_back(std::move(parts->map));
  }
  p.nodes = std::move(nodes);
  return p;
}

} // namespace tilewright
