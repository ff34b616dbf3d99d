#include <algorithm>
#include <set>

#include "expr/evaluate.h"
#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

std::int64_t bytes(const Tensor& t) {
  std::int64_t n = static_cast<std::int64_t>(bytes_of(t.dtype));
  for (const Size& d : t.dims) n = checked_mul(n, d.constant());
  return n;
}

// A broadcast of weights is cheaper read through than stored: results may not outgrow what they are made of by much.
bool small_enough(const Program& p, const std::vector<StatementId>& pieces) {
  std::int64_t in = 0;
  std::set<TensorId> seen;
  for (StatementId id : pieces)
    for_each_access(*p.statement(id), [&](const Access& a) {
      if (seen.insert(a.tensor).second) in += bytes(p.tensor(a.tensor));
    });
  return bytes(p.tensor(p.statement(pieces[0])->out)) <= std::max<std::int64_t>(64 * 1024, 2 * in);
}

bool known(const Program& p, const Statement& s) {
  bool all = all_weights(p, s.body) && all_weights(p, s.guard);
  for_each_access(s, [&](const Access& a) { all &= p.tensor(a.tensor).kind == Kind::weight && !p.tensor(a.tensor).data.empty(); });
  return all;
}

// The pieces of one tensor as a program of their own, run by the evaluator.
Array value_of(const Program& p, const std::vector<StatementId>& pieces) {
  Program q;
  q.name = "constants";
  q.tensors = p.tensors;
  for (StatementId id : pieces) q.nodes.push_back(*p.statement(id));
  q.outputs = {p.statement(pieces[0])->out};
  return evaluate(q, {}, {}, Evaluation::typed).at(q.outputs[0]);
}

}  // namespace

Program fold_constants(Program p) {
  const auto writers = writers_of(p);
  std::set<TensorId> done;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s || !done.insert(s->out).second) continue;
    const TensorId out = s->out;
    const auto& pieces = writers[static_cast<std::size_t>(out)];
    if (p.tensor(out).stored_in || !std::all_of(pieces.begin(), pieces.end(), [&](StatementId id) { return p.statement(id) && known(p, *p.statement(id)); }))
      continue;
    if (std::find(p.outputs.begin(), p.outputs.end(), out) != p.outputs.end() || !small_enough(p, pieces)) continue;
    Array a = value_of(p, pieces);
    Tensor& t = p.tensor(out);
    t.kind = Kind::weight;
    t.data = {a.data, a.bytes()};
    t.owner = a.owner;
  }
  decltype(p.nodes) nodes;
  for (auto& node : p.nodes)
    if (const Statement* s = std::get_if<Statement>(&node); !s || p.tensor(s->out).kind != Kind::weight) nodes.push_back(std::move(node));
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace tilewright
