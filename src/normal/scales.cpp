#include <algorithm>

#include "expr/evaluate.h"
#include "expr/scalar.h"
#include "normal/passes.h"
#include "support/file.h"

namespace tilewright {

namespace {

// scale * value + shift, where neither holds the value; null: 1 or 0.
struct Linear { ScalarRef scale, shift; };

bool reads(const ScalarRef& s, TensorId t) {
  bool found = false;
  for_each_access(s, [&](const Access& a) { found |= a.tensor == t; });
  return found;
}

ScalarRef times(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::mul, a, b); }
ScalarRef plus(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::add, a, b); }

// The body as a linear function of its read of `t`, or nothing.
std::optional<Linear> linear(const ScalarRef& s, TensorId t) {
  if (s->op == Op::read && std::get<Access>(s->leaf).tensor == t) return Linear{nullptr, nullptr};
  if (s->args.size() == 1 && s->op == Op::neg) {
    auto x = linear(s->args[0], t);
    if (!x) return x;
    return Linear{times(x->scale, number(-1, s->dtype)), x->shift ? unary(Op::neg, x->shift) : nullptr};
  }
  if (s->args.size() != 2) return std::nullopt;
  const bool left = reads(s->args[0], t), right = reads(s->args[1], t);
  if (left == right) return std::nullopt;
  auto x = linear(s->args[left ? 0 : 1], t);
  if (!x) return x;
  const ScalarRef& other = s->args[left ? 1 : 0];
  switch (s->op) {
    case Op::add: return Linear{x->scale, plus(x->shift, other)};
    case Op::sub:
      if (left) return Linear{x->scale, x->shift ? binary(Op::sub, x->shift, other) : unary(Op::neg, other)};
      return Linear{times(x->scale, number(-1, s->dtype)), x->shift ? binary(Op::sub, other, x->shift) : other};
    case Op::mul: return Linear{times(x->scale, other), x->shift ? binary(Op::mul, x->shift, other) : nullptr};
    case Op::div:
      if (!left) return std::nullopt;
      return Linear{binary(Op::div, x->scale ? x->scale : number(1, s->dtype), other), x->shift ? binary(Op::div, x->shift, other) : nullptr};
    default: return std::nullopt;
  }
}

// The known weights in a sum of products, and the statement that has them.
const Access* weights_of(const Program& p, const Statement& s) {
  if (s.reducer != Reducer::sum || s.body->op != Op::mul || s.guard) return nullptr;
  for (int i : {1, 0}) {
    const ScalarRef& f = s.body->args[static_cast<std::size_t>(i)];
    if (f->op != Op::read) continue;
    const Access& a = std::get<Access>(f->leaf);
    const Tensor& t = p.tensor(a.tensor);
    if (t.kind == Kind::weight && !t.data.empty() && !a.otherwise && is_float(t.dtype)) return &a;
  }
  return nullptr;
}

struct Folder {
  Program& p;

  // The axes of the map as dims of the weights: an axis that reads dim d of the sum's result is the dim of the weights that the
  // sum indexes just as it writes d. Axes without one stay empty.
  std::vector<std::optional<int>> weight_dims(const Statement& map, const Statement& sum, const Access& weights) const {
    std::vector<std::optional<int>> dims(map.axes.size());
    for_each_access(map, [&](const Access& a) {
      if (a.tensor != sum.out) return;
      for (std::size_t d = 0; d < a.at.size(); ++d)
        if (const auto axis = plain_axis(a.at[d]))
          for (std::size_t e = 0; e < weights.at.size(); ++e)
            if (weights.at[e] == sum.at[d]) dims[static_cast<std::size_t>(*axis)] = static_cast<int>(e);
    });
    return dims;
  }

  // W * scale as a new weight of the same shape; the scale's axes are replaced by the weights' dims.
  TensorId scaled(const Access& weights, const ScalarRef& scale, const std::vector<std::optional<int>>& dims) {
    Program q;
    q.name = "scaled";
    q.tensors.resize(p.tensors.size());
    q.tensor(weights.tensor) = p.tensor(weights.tensor);
    for_each_access(scale, [&](const Access& a) { q.tensor(a.tensor) = p.tensor(a.tensor); });
    Builder b(q);
    const Tensor& w = p.tensor(weights.tensor);
    std::vector<Index> identity, with(dims.size(), constant_index(0));
    for (std::size_t d = 0; d < w.dims.size(); ++d) identity.push_back(axis_index(static_cast<AxisId>(d)));
    for (std::size_t a = 0; a < dims.size(); ++a)
      if (dims[a]) with[a] = axis_index(*dims[a]);
    const ScalarRef body = binary(Op::mul, b.read(weights.tensor, identity), substitute(q, scale, with));
    const TensorId out = b.statement(w.name, w.dtype, w.dims, body);
    q.outputs = {out};
    Array a = evaluate(q, {}, {}, Evaluation::typed).at(out);
    release_pages(w.data);      // mostly nobody reads them again
    Tensor t = q.tensor(out);
    t.kind = Kind::weight;
    t.data = {a.data, a.bytes()};
    t.owner = a.owner;
    p.tensors.push_back(std::move(t));
    return static_cast<TensorId>(p.tensors.size()) - 1;
  }

  bool fold(StatementId sum_id, StatementId map_id) {
    const Statement sum = *p.statement(sum_id), map = *p.statement(map_id);
    const Access* weights = weights_of(p, sum);
    if (!weights || map.guard || !is_float(map.body->dtype) || p.tensor(sum.out).dtype != p.tensor(weights->tensor).dtype) return false;
    const auto form = linear(map.body, sum.out);
    if (!form || !form->scale || !all_weights(p, form->scale)) return false;
    const auto dims = weight_dims(map, sum, *weights);
    for (std::size_t a = 0; a < map.axes.size(); ++a) {
      bool mentioned = uses_axis_value(form->scale, static_cast<AxisId>(a));
      for_each_access(form->scale, [&](const Access& x) {
        for (const Index& i : x.at) mentioned |= mentions_axis(i, static_cast<AxisId>(a));
      });
      if (mentioned && !dims[a]) return false;
    }
    const TensorId made = scaled(*weights, form->scale, dims), old = weights->tensor;
    Statement& s = std::get<Statement>(p.nodes[static_cast<std::size_t>(sum_id)]);
    s.body = rewrite(s.body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read || std::get<Access>(node->leaf).tensor != old) return node;
      auto copy = std::make_shared<Scalar>(*node);
      std::get<Access>(copy->leaf).tensor = made;
      return copy;
    });
    ScalarRef value;
    rewrite(map.body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op == Op::read && std::get<Access>(node->leaf).tensor == sum.out) value = node;
      return node;
    });
    std::get<Statement>(p.nodes[static_cast<std::size_t>(map_id)]).body = form->shift ? binary(Op::add, value, form->shift) : value;
    return true;
  }
};

}  // namespace

Program fold_scales(Program p) {
  const auto readers = readers_of(p), writers = writers_of(p);
  Folder f{p};
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* sum = p.statement(static_cast<StatementId>(n));
    if (!sum || !weights_of(p, *sum)) continue;
    const TensorId out = sum->out;
    const auto& next = readers[static_cast<std::size_t>(out)];
    const bool stored = std::find(p.outputs.begin(), p.outputs.end(), out) != p.outputs.end();
    if (stored || next.size() != 1 || writers[static_cast<std::size_t>(out)].size() != 1) continue;
    const Statement* map = p.statement(next[0]);
    if (map && is_map(*map)) f.fold(static_cast<StatementId>(n), next[0]);
  }
  return p;
}

}  // namespace tilewright
