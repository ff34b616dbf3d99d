#include "target/cpu/masked_turns.h"

#include <algorithm>
#include <set>

namespace tilewright::cpu {

namespace {

bool guarded_by(const ScalarRef& g, TensorId mask) {
  if (!g) return false;
  if (g->op == Op::logical_and) return guarded_by(g->args[0], mask) || guarded_by(g->args[1], mask);
  if (g->op != Op::read) return false;
  const Access& a = std::get<Access>(g->leaf);
  return a.tensor == mask && !a.otherwise;
}

void masks_in(const Program& p, const ScalarRef& g, std::set<TensorId>& out) {
  if (!g) return;
  if (g->op == Op::logical_and)
    for (const ScalarRef& a : g->args) masks_in(p, a, out);
  if (g->op == Op::read && g->dtype == DType::boolean) out.insert(std::get<Access>(g->leaf).tensor);
}

struct Turns {
  const Program& p;
  const Nest& nest;
  std::vector<const Compute*> computes{};
  std::set<StatementId> inside{};
  std::set<BufferId> begun{}; // sums that begin and end in one turn
  bool plain = true;          // nothing but computes

  void collect(const Block& body) {
    for (const Node& n : body) {
      if (const Compute* c = std::get_if<Compute>(&n.op)) computes.push_back(c), inside.insert(c->statement);
      if (const Init* i = std::get_if<Init>(&n.op)) begun.insert(i->buffer);
      plain &= !std::holds_alternative<For>(n.op) && !std::holds_alternative<Call>(n.op) &&
               !std::holds_alternative<Store>(n.op);
    }
  }

  const Statement& statement(const Compute& c) const { return *p.statement(c.statement); }

  // Values that are 0 wherever the mask does not hold.
  bool zero_without(TensorId t, TensorId mask) const {
    return std::any_of(computes.begin(), computes.end(), [&](const Compute* c) {
      const Statement& s = statement(*c);
      return s.out == t && s.reduced.empty() && guarded_by(s.guard, mask);
    });
  }
  bool read_outside(TensorId t) const {
    for (StatementId id = 0; id < static_cast<StatementId>(p.nodes.size()); ++id) {
      const Statement* s = p.statement(id);
      if (!s || inside.count(id)) continue;
      bool reads = false;
      for_each_access(*s, [&](const Access& a) { reads |= a.tensor == t; });
      if (reads) return true;
    }
    return p.is_result(t) || std::count(nest.outputs.begin(), nest.outputs.end(), t) > 0;
  }
  bool reads_itself(const Statement& s) const {
    bool found = false;
    for_each_access(s, [&](const Access& a) { found |= a.tensor == s.out; });
    return found;
  }
  // Carried from turn to turn.
  bool is_state(TensorId t) const {
    return std::any_of(computes.begin(), computes.end(), [&](const Compute* c) {
      return statement(*c).out == t && !statement(*c).reduced.empty() && !begun.count(c->out);
    });
  }

  bool adds_nothing(const Statement& s, TensorId mask) const {
    if (guarded_by(s.guard, mask)) return true;
    if (s.reduced.empty()) return reads_itself(s) && is_state(s.out); // a correction by what did not move
    bool zero = false;
    if (s.reducer == Reducer::sum && s.body->op == Op::mul)
      for (const ScalarRef& f : s.body->args)
        zero |= f->op == Op::read && zero_without(std::get<Access>(f->leaf).tensor, mask);
    if (s.reducer == Reducer::sum && s.body->op == Op::read)
      zero = zero_without(std::get<Access>(s.body->leaf).tensor, mask);
    return zero;
  }
};

} // namespace

BufferId mask_of_turns(const Program& p, const Region& r, const Nest& nest, const Block& body) {
  (void)r;
  Turns turns{p, nest};
  turns.collect(body);
  if (!turns.plain) return -1;
  std::set<TensorId> masks;
  for (const Compute* c : turns.computes) masks_in(p, turns.statement(*c).guard, masks);
  for (TensorId mask : masks) {
    const auto at =
        std::find_if(nest.buffers.begin(), nest.buffers.end(), [&](const Buffer& b) { return b.tensor == mask; });
    if (at == nest.buffers.end() || at->inner) continue;
    const bool all = std::all_of(turns.computes.begin(), turns.computes.end(), [&](const Compute* c) {
      const Statement& s = turns.statement(*c);
      return turns.adds_nothing(s, mask) || (!turns.is_state(s.out) && !turns.read_outside(s.out));
    });
    if (all) return static_cast<BufferId>(at - nest.buffers.begin());
  }
  return -1;
}

} // namespace tilewright::cpu
