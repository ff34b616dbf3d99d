#include "law/operand_types.h"

#include <map>

#include "expr/scalar.h"
#include "law/region.h"

namespace tilewright {

namespace {

// The tensor with as many dims as the map's result that the map scales, if it is the only one.
TensorId scaled(const Program& p, const Statement& map) {
  const Scalar* body = map.body.get();
  while (body->op == Op::cast) body = body->args[0].get();
  if (body->op != Op::mul && body->op != Op::div) return -1;
  TensorId found = -1;
  bool one = true;
  for_each_access(map, [&](const Access& a) {
    if (p.tensor(a.tensor).dims.size() < p.tensor(map.out).dims.size()) return;
    one &= found < 0;
    found = a.tensor;
  });
  const Scalar& first = *body->args[0];
  return one && first.op == Op::read && std::get<Access>(first.leaf).tensor == found ? found : -1;
}

// By the name of the wider tensor: what contractions were declared to take in its place.
std::map<std::string, DType> narrower(const Program& p) {
  std::map<std::string, DType> list;
  for (const auto& node : p.nodes) {
    const Statement* map = std::get_if<Statement>(&node);
    if (!map || !is_map(*map) || map->guard) continue;
    const DType narrow = p.tensor(map->out).dtype;
    const TensorId e = scaled(p, *map);
    if (e < 0 || !is_float(narrow) || bytes_of(narrow) >= bytes_of(p.tensor(e).dtype)) continue;
    for (const auto& reader : p.nodes)
      if (const Statement* s = std::get_if<Statement>(&reader))
        if (const auto c = contraction(p, *s); c && (c->a->tensor == map->out || c->b->tensor == map->out)) list[p.tensor(e).name] = narrow;
  }
  return list;
}

ScalarRef replaced(const Program& p, const ScalarRef& s, TensorId from, TensorId to) {
  if (s->op == Op::read) {
    Access a = std::get<Access>(s->leaf);
    if (a.tensor != from) return s;
    return read(p, to, a.at, a.otherwise);
  }
  Scalar out = *s;
  for (ScalarRef& arg : out.args) arg = replaced(p, arg, from, to);
  return std::make_shared<const Scalar>(std::move(out));
}

}  // namespace

Program round_operands(const Program& before, Program p) {
  const auto wanted = narrower(before);
  Builder build(p);
  std::map<TensorId, TensorId> rounded;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = std::get_if<Statement>(&p.nodes[n]);
    const auto c = s ? contraction(p, *s) : Or<Contraction>(Refused{""});
    if (!c) continue;
    for (const TensorId e : {c->a->tensor, c->b->tensor}) {
      const auto it = wanted.find(p.tensor(e).name);
      if (it == wanted.end()) continue;
      if (!rounded.count(e)) {
        // A map over E's dims, in front of its first contraction.
        Statement map;
        map.place = s->place, map.label = s->label;
        std::vector<Index> point;
        for (const Size& d : p.tensor(e).dims) {
          point.push_back(axis_index(static_cast<AxisId>(map.axes.size())));
          map.names.push_back("a" + std::to_string(map.axes.size()));
          map.axes.push_back(d);
        }
        map.body = read(p, e, point), map.at = point;
        map.out = build.tensor(p.tensor(e).name + "_operand", it->second, p.tensor(e).dims);
        rounded[e] = map.out;
        p.nodes.insert(p.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::move(map));
        ++n;
      }
      Statement& reader = std::get<Statement>(p.nodes[n]);
      reader.body = replaced(p, reader.body, e, rounded.at(e));
      break;
    }
  }
  return p;
}

}  // namespace tilewright
