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

// The given statements as a program of their own; everything else that its tensors name is left empty.
Program program_of(const Program& p, const std::vector<StatementId>& nodes) {
  Program q;
  q.name = "constants";
  q.tensors.resize(p.tensors.size());
  for (StatementId id : nodes) {
    const Statement& s = *p.statement(id);
    for_each_access(s, [&](const Access& a) { q.tensor(a.tensor) = p.tensor(a.tensor); });
    q.tensor(s.out) = p.tensor(s.out);
    q.nodes.push_back(s);
  }
  return q;
}

}  // namespace

namespace {

bool widens_bytes(const ScalarRef& s) {
  if (s->op == Op::cast && is_float(s->dtype) && is_integer(s->args[0]->dtype)) return true;
  return std::any_of(s->args.begin(), s->args.end(), [](const ScalarRef& a) { return widens_bytes(a); });
}

Program folded(Program p, bool bytes_too) {
  const auto writers = writers_of(p);
  const std::set<TensorId> stored = p.results();
  std::vector<StatementId> nodes;
  std::set<TensorId> done;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s || !done.insert(s->out).second || stored.count(s->out) || p.tensor(s->out).stored_in) continue;
    const auto& pieces = writers[static_cast<std::size_t>(s->out)];
    const bool all = std::all_of(pieces.begin(), pieces.end(), [&](StatementId id) { return p.statement(id) && known(p, *p.statement(id)); });
    if (!bytes_too && is_map(*s) && !s->axes.empty() && widens_bytes(s->body)) continue;
    if (!all || !small_enough(p, pieces)) continue;
    // Known from here on, for the statements behind it; the bytes follow.
    static const std::byte promised{};
    p.tensor(s->out).kind = Kind::weight;
    p.tensor(s->out).data = {&promised, 1};
    nodes.insert(nodes.end(), pieces.begin(), pieces.end());
  }
  if (nodes.empty()) return p;
  Program q = program_of(p, nodes);
  for (StatementId id : nodes) {
    Tensor& t = q.tensor(p.statement(id)->out);
    t.kind = Kind::intermediate;
    t.data = {};
  }
  const Values values = evaluate(q, {}, {}, Evaluation::typed);
  for (StatementId id : nodes) {
    Tensor& t = p.tensor(p.statement(id)->out);
    const Array& a = values.at(p.statement(id)->out);
    t.data = {a.data, a.bytes()};
    t.owner = a.owner;
  }
  decltype(p.nodes) left;
  for (auto& node : p.nodes)
    if (const Statement* s = std::get_if<Statement>(&node); !s || p.tensor(s->out).kind != Kind::weight) left.push_back(std::move(node));
  p.nodes = std::move(left);
  return p;
}

}  // namespace

Program fold_constants(Program p) { return folded(std::move(p), true); }
Program fold_constants_but_bytes(Program p) { return folded(std::move(p), false); }

}  // namespace tilewright
