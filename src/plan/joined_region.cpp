#include <set>

#include <fmt/format.h>

#include "plan/join.h"

namespace tilewright {

namespace {

constexpr std::size_t most_statements = 32; // of one kernel

} // namespace

Ends ends_of(const Program& p) {
  Ends ends{readers_by_tensor(p), std::vector<int>(p.tensors.size(), 0)};
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) ++ends.writers[static_cast<std::size_t>(s->out)];
  return ends;
}

Or<Region> joined_region(const Program& p, const Machine& m, const std::vector<StatementId>& set, const Ends* known) {
  if (set.size() > most_statements)
    return Refused{fmt::format("{} statements, at most {}", set.size(), most_statements)};
  std::optional<Ends> found;
  const Ends& ends = known ? *known : found.emplace(ends_of(p));
  // One piece of a tensor is no tensor: what reads it needs the others, too.
  std::set<TensorId> read;
  for (StatementId id : set) for_each_access(*p.statement(id), [&](const Access& a) { read.insert(a.tensor); });
  for (StatementId id : set)
    if (const TensorId t = p.statement(id)->out; read.count(t) && ends.writers[static_cast<std::size_t>(t)] > 1)
      return Refused{fmt::format("{} is made in pieces", p.tensor(t).name)};
  auto r = unify(p, set);
  if (!r) return r;
  fix_boundary(p, ends.readers, *r);
  const auto why = legality(p, *r, {}, m);
  if (!why.empty()) return Refused{text(why.front())};
  return r;
}

} // namespace tilewright
