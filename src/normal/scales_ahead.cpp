#include <algorithm>

#include "normal/scales.h"

namespace tilewright {

namespace {

struct Ahead {
  Program& p;
  const std::vector<std::vector<StatementId>>&readers, &writers;

  // The factor beside the weights, read from the result of one map that nobody else needs.
  const Statement* map_ahead(StatementId sum_id, const Statement& sum, const Access& weights, const Access** operand) const {
    for (const ScalarRef& f : sum.body->args) {
      if (f->op != Op::read || std::get<Access>(f->leaf).tensor == weights.tensor) continue;
      const Access& a = std::get<Access>(f->leaf);
      const auto t = static_cast<std::size_t>(a.tensor);
      if (p.tensor(a.tensor).kind != Kind::intermediate || p.is_result(a.tensor) || p.tensor(a.tensor).stored_in) return nullptr;
      if (readers[t] != std::vector<StatementId>{sum_id} || writers[t].size() != 1 || !only_read(sum.body, a.tensor)) return nullptr;
      const Statement* map = p.statement(writers[t][0]);
      if (!map || !is_map(*map) || map->guard) return nullptr;
      *operand = &a;
      return map;
    }
    return nullptr;
  }

  // What the map scales: the one read that is not made of weights.
  const Access* scaled_value(const Statement& map) const {
    const Access* found = nullptr;
    bool one = true;
    for_each_access(map.body, [&](const Access& a) {
      if (p.tensor(a.tensor).kind == Kind::weight && !p.tensor(a.tensor).data.empty()) return;
      one &= found == nullptr;
      found = &a;
    });
    return one ? found : nullptr;
  }

  // Whether leaving the map's result is leaving what it reads: each axis of the map is one whole dim of both.
  bool same_edges(const Statement& map, const Access& value) const {
    if (value.otherwise) return false;
    for (AxisId a = 0; a < static_cast<AxisId>(map.axes.size()); ++a) {
      bool found = false;
      for (std::size_t d = 0; d < value.at.size(); ++d)
        found |= plain_axis(value.at[d]) == a && p.tensor(value.tensor).dims[d] == map.axes[static_cast<std::size_t>(a)];
      if (!found) return false;
    }
    return true;
  }

  // Each axis of the map as an index of the sum.
  std::optional<std::vector<Index>> axes_in_sum(const Statement& map, const Access& operand) const {
    std::vector<Index> with(map.axes.size(), constant_index(0));
    std::size_t known = 0;
    for (std::size_t d = 0; d < map.at.size(); ++d)
      if (const auto axis = plain_axis(map.at[d])) with[static_cast<std::size_t>(*axis)] = operand.at[d], ++known;
      else if (p.tensor(map.out).dims[d] != Size(1)) return std::nullopt;
    return known == map.axes.size() ? std::optional(with) : std::nullopt;
  }

  bool fold(Builder& build, StatementId sum_id, decltype(Program::nodes)& nodes) {
    const Statement sum = *p.statement(sum_id);
    const Access* weights = known_weights(p, sum);
    const Access* operand = nullptr;
    const Statement* map = weights ? map_ahead(sum_id, sum, *weights, &operand) : nullptr;
    const Access* value = map ? scaled_value(*map) : nullptr;
    if (!value) return false;
    // Narrow floats round between the map and the sum: only what is computed as it is stored is the same.
    const DType type = p.tensor(weights->tensor).dtype;
    for (DType t : {p.tensor(map->out).dtype, p.tensor(value->tensor).dtype, map->body->dtype})
      if (t != type || compute_type(t) != t) return false;
    const auto form = linear(map->body, value->tensor);
    if (!form || !form->scale || !all_weights(p, form->scale) || (form->shift && !all_weights(p, form->shift))) return false;
    // One number for all would cost a copy of the weights and save nothing: a map of a literal folds into what makes its value.
    bool per_column = false;
    for (AxisId a = 0; a < static_cast<AxisId>(map->axes.size()); ++a) per_column |= mentions_axis(form->scale, a);
    if (!per_column) return false;
    if (operand->otherwise && (!zero_outside(*operand) || form->shift || !same_edges(*map, *value))) return false;
    const auto with = axes_in_sum(*map, *operand);
    if (!with) return false;
    std::vector<std::optional<int>> dims(map->axes.size());
    for (std::size_t a = 0; a < dims.size(); ++a)
      for (std::size_t e = 0; e < weights->at.size(); ++e)
        if (weights->at[e] == (*with)[a]) dims[a] = static_cast<int>(e);
    if (!scales_dims(p, *map, form->scale, *weights, dims)) return false;

    const ScalarRef known = read(p, weights->tensor, weights->at);
    std::vector<Index> at;
    for (const Index& i : value->at) at.push_back(simplify(substitute(p, i, *with), sum.axes));
    ScalarRef otherwise = operand->otherwise;
    if (!otherwise && value->otherwise) otherwise = substitute(p, value->otherwise, *with);
    const ScalarRef shift = form->shift ? binary(Op::mul, substitute(p, form->shift, *with), known) : nullptr;
    const auto made = scaled_weights(p, *weights, form->scale, dims);
    if (!made) return false;
    const ScalarRef product = binary(Op::mul, read(p, value->tensor, at, otherwise), read(p, *made, weights->at));
    if (!shift) {
      Statement& s = std::get<Statement>(p.nodes[static_cast<std::size_t>(sum_id)]);
      s.body = product;
      nodes.emplace_back(s);
      return true;
    }
    TakenApart t = take_apart(build, sum);
    t.sum.body = product;
    auto [constant, added] = reduce_alone(build, sum, t, shift, "_shift");
    t.map.body = binary(Op::add, t.value, added);
    nodes.emplace_back(std::move(constant));
    nodes.emplace_back(std::move(t.sum));
    nodes.emplace_back(std::move(t.map));
    return true;
  }
};

}  // namespace

Program fold_scales_ahead(Program p) {
  const auto readers = readers_of(p), writers = writers_of(p);
  Builder build(p);
  Ahead ahead{p, readers, writers};
  decltype(p.nodes) nodes;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (!p.statement(static_cast<StatementId>(n)) || !ahead.fold(build, static_cast<StatementId>(n), nodes)) nodes.push_back(p.nodes[n]);
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace tilewright
