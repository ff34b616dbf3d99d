#include "plan/merge.h"

#include <algorithm>
#include <map>

#include "law/excerpt.h"
#include "plan/choose.h"

namespace tilewright {

namespace {

struct Pricer {
  const Machine& m;
  const PlanOptions& o;
  const Program& p;
  std::map<std::string, std::int64_t>& known;
  const std::vector<DimOrder> layouts = choose_layouts(p);
  const Readers readers = readers_by_tensor(p);

  // Of statements as one kernel; -1: they are none.
  std::int64_t of(std::vector<StatementId> set) {
    std::sort(set.begin(), set.end());
    auto r = unify(p, std::move(set));
    if (!r) return -1;
    fix_boundary(p, readers, *r);
    if (!legality(p, *r, {}, m).empty()) return -1;
    const std::string key = signature(p, *r, &layouts);
    if (const auto at = known.find(key); at != known.end()) return at->second;
    const Choice c = choose(p, *r, m, o, layouts);
    return known[key] = c.rule.empty() ? c.price : -1;
  }
};

std::vector<StatementId> writers_of(const Program& p, const std::vector<TensorId>& results) {
  std::vector<StatementId> list;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n));
        s && std::count(results.begin(), results.end(), s->out))
      list.push_back(static_cast<StatementId>(n));
  return list;
}

std::string names_of(const Program& p, const std::vector<StatementId>& row) {
  std::string text;
  for (StatementId id : row) text += (text.empty() ? "" : " + ") + p.tensor(p.statement(id)->out).name;
  return text;
}

} // namespace

Merged merge_siblings(const Program& p, const Machine& m, const PlanOptions& o) {
  Merged out;
  const std::vector<Siblings> all = siblings(p);
  if (all.empty()) return out;
  std::vector<std::vector<TensorId>> results;
  const Program together = side_by_side(p, all, false, &results);
  std::map<std::string, std::int64_t> known;
  Pricer before{m, o, p, known}, after{m, o, together, known};
  for (std::size_t n = 0; n < all.size(); ++n) {
    const auto& rows = all[n].rows;
    Alternative a{names_of(p, rows[0]), after.of(writers_of(together, results[n])), 0, {}};
    for (std::size_t column = 0; column < rows[0].size() && a.apart >= 0; ++column) {
      std::vector<StatementId> kernel;
      for (const auto& row : rows) kernel.push_back(row[column]);
      const std::int64_t price = before.of(kernel);
      a.apart = price < 0 ? -1 : checked_add(a.apart, price);
    }
    if (a.apart < 0 || a.together < 0)
      a.rule = "one of them is no kernel of its own";
    else if (asked(a.together, o) >= a.apart)
      a.rule = o.objective == Objective::bytes ? "saves nothing" : "saves less than the margin";
    else
      out.worth.push_back(all[n]);
    out.sets.push_back(std::move(a));
  }
  return out;
}

} // namespace tilewright
