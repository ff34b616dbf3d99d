#include <algorithm>
#include <set>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

// Where an axis may be split so that a quotient or remainder goes: the divisors, in units of the axis.
void divisors(const Index& i, const std::vector<Size>& axes, std::set<std::pair<AxisId, std::int64_t>>& out) {
  for (const Index::Term& t : i.terms) {
    if (const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of)) divisors(**inner, axes, out);
    if (const auto* gather = std::get_if<std::shared_ptr<const Access>>(&t.of))
      for (const Index& g : (*gather)->at) divisors(g, axes, out);
    const AxisId* a = std::get_if<AxisId>(&t.of);
    if (!a || !t.coefficient.is_constant() || !i.div.is_constant() || !i.mod.is_constant()) continue;
    const std::int64_t c = std::abs(t.coefficient.constant()), e = axes[static_cast<std::size_t>(*a)].constant();
    for (const std::int64_t v : {i.div.constant(), i.div.constant() * i.mod.constant()}) {
      if (v <= 1 || c == 0 || v % c != 0) continue;
      const std::int64_t q = v / c;
      if (q > 1 && q < e && e % q == 0) out.insert({*a, q});
    }
  }
}

std::set<std::pair<AxisId, std::int64_t>> candidates(const Statement& s) {
  std::set<std::pair<AxisId, std::int64_t>> out;
  for_each_access(s, [&](const Access& a) {
    for (const Index& i : a.at) divisors(i, s.axes, out);
  });
  return out;
}

// Axis a becomes q * a + a', the new axis right behind it.
Statement split_axis(const Program& p, const Statement& s, AxisId axis, std::int64_t q) {
  Statement out = s;
  const auto a = static_cast<std::size_t>(axis);
  out.axes[a] = Size(s.axes[a].constant() / q);
  out.axes.insert(out.axes.begin() + axis + 1, Size(q));
  if (!s.names.empty()) out.names.insert(out.names.begin() + axis + 1, s.names[a] + "_");
  std::vector<Index> with;
  for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()); ++x)
    with.push_back(x < axis ? axis_index(x) : x > axis ? axis_index(x + 1) : Size(q) * axis_index(axis) + axis_index(axis + 1));
  out.body = substitute(p, s.body, with);
  out.guard = s.guard ? substitute(p, s.guard, with) : nullptr;
  for (Index& i : out.at) i = substitute(p, i, with);
  out.reduced.clear();
  for (AxisId r : s.reduced) {
    out.reduced.push_back(r > axis ? r + 1 : r);
    if (r == axis) out.reduced.push_back(axis + 1);
  }
  return with_simple_indices(p, std::move(out));
}

}  // namespace

Statement without_unit_axes(const Program& p, const Statement& s) {
  std::vector<Index> with;
  Statement out = s;
  out.axes.clear(), out.names.clear(), out.reduced.clear();
  std::size_t kept_reduced = 0;
  for (AxisId r : s.reduced) kept_reduced += s.axes[static_cast<std::size_t>(r)] != Size(1);
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    const bool reduced = std::find(s.reduced.begin(), s.reduced.end(), static_cast<AxisId>(a)) != s.reduced.end();
    const bool last = reduced && kept_reduced == 0 && static_cast<AxisId>(a) == s.reduced.back();
    if (s.axes[a] == Size(1) && !last) {
      with.push_back(constant_index(0));
      continue;
    }
    with.push_back(axis_index(static_cast<AxisId>(out.axes.size())));
    out.axes.push_back(s.axes[a]);
    if (a < s.names.size()) out.names.push_back(s.names[a]);
  }
  if (out.axes.size() == s.axes.size()) return s;
  for (AxisId r : s.reduced)
    if (const auto axis = plain_axis(with[static_cast<std::size_t>(r)])) out.reduced.push_back(*axis);
  out.body = substitute(p, s.body, with);
  out.guard = s.guard ? substitute(p, s.guard, with) : nullptr;
  for (Index& i : out.at) i = substitute(p, i, with);
  return out;
}

Statement refine(const Program& p, const Statement& statement) {
  Statement best = with_simple_indices(p, without_unit_axes(p, statement));
  // The first winner of an argmax is told by the value of one axis: that axis stays.
  const bool pair = best.reducer == Reducer::argmax || best.reducer == Reducer::argmin;
  for (int round = 0; round < 8 && quotients_in(best) > 0; ++round) {
    bool better = false;
    for (const auto& [axis, q] : candidates(best)) {
      if (pair && std::find(best.reduced.begin(), best.reduced.end(), axis) != best.reduced.end()) continue;
      Statement next = split_axis(p, best, axis, q);
      if (quotients_in(next) >= quotients_in(best)) continue;
      best = std::move(next);
      better = true;
      break;
    }
    if (!better) break;
  }
  return best;
}

Program refine(Program p) {
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) {
      Statement next = refine(p, *s);
      if (quotients_in(next) < quotients_in(*s) || next.axes.size() < s->axes.size()) p.nodes[n] = std::move(next);
    }
  return p;
}

}  // namespace tilewright
