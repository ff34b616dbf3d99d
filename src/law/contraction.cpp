#include <algorithm>

#include <fmt/format.h>

#include "law/region.h"

namespace tilewright {

namespace {

// An access behind float casts that change nothing in the compute type (f16 -> f32).
const Access* plain_read(const ScalarRef& s) {
  if (s->op == Op::read) return &std::get<Access>(s->leaf);
  if (s->op == Op::cast && is_float(s->dtype) && s->args[0]->op == Op::read && is_float(s->args[0]->dtype) &&
      bytes_of(s->dtype) >= bytes_of(s->args[0]->dtype) && s->dtype == compute_type(s->args[0]->dtype))
    return &std::get<Access>(s->args[0]->leaf);
  return nullptr;
}

bool affine(const Access& a) { return std::all_of(a.at.begin(), a.at.end(), [](const Index& i) { return is_affine(i); }); }

// What lies outside is 0, or a number that the tensor itself could hold, as zero points are.
bool constant_outside(const Access& a, DType t) {
  double v = 1;
  return !a.otherwise || (is_literal(a.otherwise, &v) && (v == 0 || (t == DType::u8 && v >= 0 && v <= 255) || (t == DType::i8 && v >= -128 && v <= 127)));
}

bool has(const Access& a, AxisId x) {
  return std::any_of(a.at.begin(), a.at.end(), [&](const Index& i) { return mentions_axis(i, x); });
}

bool reduced_axis(const Statement& s, AxisId a) { return std::find(s.reduced.begin(), s.reduced.end(), a) != s.reduced.end(); }

}  // namespace

Or<Contraction> contraction(const Program& p, const Statement& s) {
  if (s.reducer != Reducer::sum) return Refused{fmt::format("the reducer is {}", name_of(s.reducer))};
  if (s.guard) return Refused{"it has a guard"};
  if (s.body->op != Op::mul) return Refused{"the body is no product"};
  const Access *a = plain_read(s.body->args[0]), *b = plain_read(s.body->args[1]);
  if (!a || !b) return Refused{"a factor is no plain access"};
  if (!affine(*a) || !affine(*b)) return Refused{"an index is not affine"};
  const auto padded = [&](const Access* x) { return constant_outside(*x, p.tensor(x->tensor).dtype); };
  if (!padded(a) || b->otherwise) {
    std::swap(a, b);
    if (!padded(a) || b->otherwise) return Refused{"an operand has a value outside its bounds that is not 0"};
  }
  // b is the operand with the n axes: a weight where there is one.
  const auto weight = [&](const Access* x) { return p.tensor(x->tensor).kind == Kind::weight; };
  if (!a->otherwise && weight(a) && !weight(b)) std::swap(a, b);
  auto sort = [&](const Access* left, const Access* right) {
    Contraction c{left, right, {}, {}, {}, {}};
    for (std::size_t i = 0; i < s.axes.size(); ++i) {
      const auto x = static_cast<AxisId>(i);
      const bool in_a = has(*left, x), in_b = has(*right, x);
      if (reduced_axis(s, x)) c.k.push_back(x);
      else if (in_a && in_b) c.batch.push_back(x);
      else if (in_b) c.n.push_back(x);
      else c.m.push_back(x);
    }
    return c;
  };
  Contraction c = sort(a, b);
  if (c.n.empty() && !c.m.empty() && !a->otherwise) c = sort(b, a);
  for (AxisId k : c.k)
    if (!has(*c.a, k) || !has(*c.b, k)) return Refused{fmt::format("{} is reduced but only one factor has it", s.names[static_cast<std::size_t>(k)])};
  if (c.n.empty()) return Refused{"no axis belongs to one factor alone: nothing is used twice"};
  return c;
}

Or<Window> window(const Program& p, const Statement& s) {
  (void)p;
  if (s.reducer != Reducer::sum && s.reducer != Reducer::max && s.reducer != Reducer::min)
    return Refused{fmt::format("the reducer is {}", name_of(s.reducer))};
  if (s.guard) return Refused{"it has a guard"};
  Window w;
  if ((w.data = plain_read(s.body))) {
  } else if (s.reducer == Reducer::sum && s.body->op == Op::mul) {
    w.data = plain_read(s.body->args[0]);
    w.weights = plain_read(s.body->args[1]);
    if (!w.data || !w.weights) return Refused{"a factor is no plain access"};
    if (w.weights->otherwise) std::swap(w.data, w.weights);
    if (w.weights->otherwise) return Refused{"both factors leave their bounds"};
    // The data is the operand with more parallel axes: weights stand still while the window slides.
    auto parallel_of = [&](const Access& a) {
      int n = 0;
      for (AxisId x : parallel_axes(s)) n += has(a, x);
      return n;
    };
    if (!w.data->otherwise && parallel_of(*w.weights) > parallel_of(*w.data)) std::swap(w.data, w.weights);
  } else {
    return Refused{"the body is neither an access nor a product of two"};
  }
  if (!affine(*w.data) || (w.weights && !affine(*w.weights))) return Refused{"an index is not affine"};
  if (w.data->otherwise && !is_literal(w.data->otherwise)) return Refused{"the value outside the bounds is no constant"};
  for (AxisId x : parallel_axes(s)) {
    if (!has(*w.data, x)) return Refused{fmt::format("{} is not in the data", s.names[static_cast<std::size_t>(x)])};
    (!w.weights || has(*w.weights, x) ? w.lanes : w.parallel).push_back(x);
  }
  if (w.lanes.empty()) return Refused{"no axis runs through data and weights alike"};
  for (AxisId t : s.reduced) {
    if (!has(*w.data, t)) return Refused{fmt::format("{} is reduced but not in the data", s.names[static_cast<std::size_t>(t)])};
    w.taps.push_back(t);
  }
  return w;
}

}  // namespace tilewright
