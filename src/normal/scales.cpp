#include "normal/scales.h"

#include <algorithm>
#include <cmath>

#include "expr/evaluate.h"
#include "onnx/arrays.h"
#include "support/file.h"

namespace tilewright {

namespace {

bool reads(const ScalarRef& s, TensorId t) {
  bool found = false;
  for_each_access(s, [&](const Access& a) { found |= a.tensor == t; });
  return found;
}

ScalarRef times(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::mul, a, b); }
ScalarRef plus(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::add, a, b); }

}  // namespace

const Access* only_read(const ScalarRef& body, TensorId t) {
  const Access* found = nullptr;
  int count = 0;
  for_each_access(body, [&](const Access& a) {
    if (a.tensor == t) found = &a, ++count;
  });
  return count == 1 ? found : nullptr;
}

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

const Access* known_weights(const Program& p, const Statement& s) {
  if (s.reducer != Reducer::sum || s.body->op != Op::mul || s.guard) return nullptr;
  for (int i : {1, 0}) {
    const ScalarRef& f = s.body->args[static_cast<std::size_t>(i)];
    if (f->op != Op::read) continue;
    const Access& a = std::get<Access>(f->leaf);
    const Tensor& t = p.tensor(a.tensor);
    if (t.kind == Kind::weight && !t.data.empty() && !a.otherwise && is_float(t.dtype) && only_read(s.body, a.tensor)) return &a;
  }
  return nullptr;
}

bool scales_dims(const Program& p, const Statement& map, const ScalarRef& scale, const Access& weights, const std::vector<std::optional<int>>& dims) {
  for (AxisId a = 0; a < static_cast<AxisId>(map.axes.size()); ++a) {
    if (!mentions_axis(scale, a)) continue;
    const auto& d = dims[static_cast<std::size_t>(a)];
    if (!d || p.tensor(weights.tensor).dims[static_cast<std::size_t>(*d)] != map.axes[static_cast<std::size_t>(a)]) return false;
  }
  return true;
}

namespace {

bool all_finite(const Array& a) {
  if (a.dtype == DType::f32) {
    const auto* v = reinterpret_cast<const float*>(a.data);
    return std::all_of(v, v + a.count(), [](float x) { return std::isfinite(x); });
  }
  for (std::int64_t i = 0; i < a.count(); ++i)
    if (!std::isfinite(onnx::real_at(a, i))) return false;
  return true;
}

}  // namespace

std::optional<TensorId> scaled_weights(Program& p, const Access& weights, const ScalarRef& scale, const std::vector<std::optional<int>>& dims) {
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
  if (!all_finite(a)) return {};
  release_pages(w.data);      // mostly nobody reads them again
  Tensor t = q.tensor(out);
  t.kind = Kind::weight;
  t.data = {a.data, a.bytes()};
  t.owner = a.owner;
  p.tensors.push_back(std::move(t));
  return static_cast<TensorId>(p.tensors.size()) - 1;
}

ScalarRef with_tensor(const ScalarRef& s, TensorId old, TensorId made) {
  return rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
    if (node->op != Op::read || std::get<Access>(node->leaf).tensor != old) return node;
    auto copy = std::make_shared<Scalar>(*node);
    std::get<Access>(copy->leaf).tensor = made;
    return copy;
  });
}

namespace {

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

  bool fold(StatementId sum_id, StatementId map_id) {
    const Statement sum = *p.statement(sum_id), map = *p.statement(map_id);
    const Access* weights = known_weights(p, sum);
    if (!weights || map.guard || !is_float(map.body->dtype) || p.tensor(sum.out).dtype != p.tensor(weights->tensor).dtype) return false;
    const auto form = linear(map.body, sum.out);
    if (!form || !form->scale || !all_weights(p, form->scale)) return false;
    const auto dims = weight_dims(map, sum, *weights);
    if (!scales_dims(p, map, form->scale, *weights, dims)) return false;
    const Access* value = only_read(map.body, sum.out);
    if (!value || !zero_outside(*value)) return false;
    const ScalarRef read_of = read(p, sum.out, value->at, value->otherwise);
    const TensorId old = weights->tensor;
    const auto made = scaled_weights(p, *weights, form->scale, dims);
    if (!made) return false;
    Statement& s = std::get<Statement>(p.nodes[static_cast<std::size_t>(sum_id)]);
    s.body = with_tensor(s.body, old, *made);
    std::get<Statement>(p.nodes[static_cast<std::size_t>(map_id)]).body = form->shift ? binary(Op::add, read_of, form->shift) : read_of;
    return true;
  }

  // What the map makes, where another reads it: nothing is left to do there but that. As it is read, if its axes are not plain dims.
  ScalarRef moved(const Statement& map, const Access& read, const ScalarRef& body, const ScalarRef& otherwise) {
    std::vector<Index> with(map.axes.size(), constant_index(0));
    std::vector<bool> found(map.axes.size(), false);
    for (std::size_t d = 0; d < map.at.size(); ++d)
      if (const auto axis = plain_axis(map.at[d])) with[static_cast<std::size_t>(*axis)] = read.at[d], found[static_cast<std::size_t>(*axis)] = true;
    for (std::size_t a = 0; a < found.size(); ++a)
      if (!found[a] && map.axes[a] != Size(1)) return otherwise;
    return substitute(p, body, with);
  }

  // A scale behind a map that adds what is known goes to where that map stands, if it folds into the weights from there:
  //   A = sum + b; Y = A * g + x      ->      A = sum + b * g; Y = A + x
  void fold_behind(StatementId sum_id, StatementId map_id, StatementId next_id) {
    const Statement sum = *p.statement(sum_id), map = *p.statement(map_id), next = *p.statement(next_id);
    if (!is_map(next) || map.guard || next.guard || !is_float(next.body->dtype) || map.body->dtype != next.body->dtype) return;
    const auto first = linear(map.body, sum.out), second = linear(next.body, map.out);
    if (!first || first->scale || !first->shift || first->shift->op != Op::read) return;
    const Access& shift = std::get<Access>(first->shift->leaf);
    if (p.tensor(shift.tensor).kind != Kind::weight || p.tensor(shift.tensor).data.empty() || shift.otherwise) return;
    if (!second || !second->scale || !all_weights(p, second->scale)) return;
    const Access* value = only_read(next.body, map.out);
    if (!value || value->otherwise || value->at.size() != map.at.size()) return;
    // The axes of the second map as those of the first.
    std::vector<std::optional<AxisId>> to(next.axes.size());
    for (std::size_t d = 0; d < map.at.size(); ++d)
      if (const auto from = plain_axis(value->at[d]), at = plain_axis(map.at[d]); from && at && next.axes[static_cast<std::size_t>(*from)] == map.axes[static_cast<std::size_t>(*at)])
        to[static_cast<std::size_t>(*from)] = *at;
    std::vector<Index> with(next.axes.size(), constant_index(0));
    for (AxisId a = 0; a < static_cast<AxisId>(to.size()); ++a) {
      if (to[static_cast<std::size_t>(a)]) with[static_cast<std::size_t>(a)] = axis_index(*to[static_cast<std::size_t>(a)]);
      else if (mentions_axis(second->scale, a)) return;
    }
    const auto body_of = [&](StatementId id) -> ScalarRef& { return std::get<Statement>(p.nodes[static_cast<std::size_t>(id)]).body; };
    const ScalarRef rest = read(p, map.out, value->at, value->otherwise);
    const ScalarRef scale = substitute(p, second->scale, with);
    std::vector<std::optional<int>> dims(map.axes.size());
    for (std::size_t d = 0; d < shift.at.size(); ++d)
      if (const auto axis = plain_axis(shift.at[d])) dims[static_cast<std::size_t>(*axis)] = static_cast<int>(d);
    if (!scales_dims(p, map, scale, shift, dims)) return;
    const auto shifted = scaled_weights(p, shift, scale, dims);
    if (!shifted) return;
    body_of(map_id) = binary(Op::mul, read(p, sum.out, only_read(map.body, sum.out)->at, only_read(map.body, sum.out)->otherwise), scale);
    if (!fold(sum_id, map_id)) {
      body_of(map_id) = map.body;
      return;
    }
    body_of(map_id) = binary(Op::add, body_of(map_id), with_tensor(first->shift, shift.tensor, *shifted));
    body_of(next_id) = second->shift ? binary(Op::add, rest, second->shift) : moved(map, *value, body_of(map_id), rest);
  }
};

}  // namespace

Program fold_scales(Program p) {
  const auto readers = readers_of(p), writers = writers_of(p);
  Folder f{p};
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* sum = p.statement(static_cast<StatementId>(n));
    if (!sum || !known_weights(p, *sum)) continue;
    const TensorId out = sum->out;
    const auto& next = readers[static_cast<std::size_t>(out)];
    const bool stored = p.is_result(out);
    if (stored || next.size() != 1 || writers[static_cast<std::size_t>(out)].size() != 1) continue;
    const Statement* map = p.statement(next[0]);
    if (!map || !is_map(*map)) continue;
    f.fold(static_cast<StatementId>(n), next[0]);
    const auto& last = readers[static_cast<std::size_t>(map->out)];
    if (last.size() == 1 && !p.is_result(map->out) && writers[static_cast<std::size_t>(map->out)].size() == 1 && p.statement(last[0])) f.fold_behind(static_cast<StatementId>(n), next[0], last[0]);
  }
  return p;
}

}  // namespace tilewright
