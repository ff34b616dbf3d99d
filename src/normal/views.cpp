#include <algorithm>
#include <set>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

// A map whose body is one access of the same dtype, written at plain axes.
bool is_view(const Program& p, const Statement& s) {
  if (!is_map(s) || s.guard || s.body->op != Op::read || s.body->dtype != p.tensor(s.out).dtype) return false;
  std::set<AxisId> written;
  for (const Index& i : s.at)
    if (const auto a = plain_axis(i)) written.insert(*a);
  std::size_t unit = 0;
  for (std::size_t d = 0; d < s.at.size(); ++d) unit += !plain_axis(s.at[d]) && p.tensor(s.out).dims[d] == Size(1);
  return written.size() == s.axes.size() && written.size() + unit == s.at.size();
}

// Where a reader's index leaves the view, the reader's `else` speaks. Reading through is right only if the source's own bounds
// say the same: each dim of the view that can be left is one dim of the source, shifted, whose range lies inside the view's.
bool bounds_carry_over(const Program& p, const Statement& view, const Access& source, const Access& reader, const Statement& in) {
  double mine = 0, theirs = 0;
  if (!is_literal(reader.otherwise, &mine)) return false;
  if (source.otherwise && (!is_literal(source.otherwise, &theirs) || mine != theirs)) return false;
  for (std::size_t d = 0; d < reader.at.size(); ++d) {
    const std::int64_t dim = p.tensor(view.out).dims[d].constant();
    const Interval range = bounds(reader.at[d], in.axes);
    if (range.low >= 0 && range.high < dim) continue;
    const auto axis = plain_axis(view.at[d]);
    if (!axis) return false;
    bool found = false;
    for (std::size_t e = 0; e < source.at.size(); ++e) {
      if (!mentions_axis(source.at[e], *axis)) continue;
      if (found || !is_affine(source.at[e]) || source.at[e].terms.size() != 1 || coefficient_of(source.at[e], *axis) != Size(1)) return false;
      const std::int64_t shift = source.at[e].offset.constant(), inner = p.tensor(source.tensor).dims[e].constant();
      if (shift > 0 || dim + shift < inner) return false;
      found = true;
    }
    if (!found) return false;
  }
  return true;
}

struct Inliner {
  const Program& p;
  const Statement& view;

  // The reader with the view's source in its place, or nothing where the bounds forbid it.
  std::optional<Statement> read_through(const Statement& reader) const {
    bool possible = true;
    auto through = [&](const ScalarRef& s) -> ScalarRef {
      if (!s) return s;
      return rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
        if (node->op != Op::read) return node;
        const Access& a = std::get<Access>(node->leaf);
        for (const Index& i : a.at) possible &= !gathers_view(i);
        if (a.tensor != view.out) return node;
        const Access& source = std::get<Access>(view.body->leaf);
        if (a.otherwise && !bounds_carry_over(p, view, source, a, reader)) {
          possible = false;
          return node;
        }
        std::vector<Index> with(view.axes.size());
        for (std::size_t d = 0; d < view.at.size(); ++d)
          if (const auto axis = plain_axis(view.at[d])) with[static_cast<std::size_t>(*axis)] = a.at[d];
        Access made{source.tensor, {}, a.otherwise ? a.otherwise : source.otherwise};
        for (const Index& i : source.at) made.at.push_back(simplify(substitute(p, i, with), reader.axes));
        if (!a.otherwise && source.otherwise) made.otherwise = substitute(p, source.otherwise, with);
        auto copy = std::make_shared<Scalar>(*node);
        copy->leaf = std::move(made);
        return copy;
      });
    };
    Statement out = reader;
    out.body = through(reader.body);
    out.guard = through(reader.guard);
    for (const Index& i : out.at) possible &= !gathers_view(i);
    if (!possible) return std::nullopt;
    return refine(p, out);
  }

  // A view used as an index stays: gathers read plain integer tensors.
  bool gathers_view(const Index& i) const {
    for (const Index::Term& t : i.terms) {
      if (const auto* g = std::get_if<std::shared_ptr<const Access>>(&t.of)) {
        if ((*g)->tensor == view.out) return true;
        for (const Index& inner : (*g)->at)
          if (gathers_view(inner)) return true;
      }
      if (const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of))
        if (gathers_view(**inner)) return true;
    }
    return false;
  }
};

int general_indices(const Statement& s) {
  int n = 0;
  for_each_access(s, [&](const Access& a) { n += !std::all_of(a.at.begin(), a.at.end(), [](const Index& i) { return is_affine(i); }); });
  return n;
}

// A reduction visits each point of its operand many times: it must not pay for a general index at each.
bool worth_it(const Statement& before, const Statement& after) {
  return is_map(after) || general_indices(after) <= general_indices(before);
}

}  // namespace

Program inline_views(Program p) {
  const auto writers = writers_of(p);
  auto readers = readers_of(p);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* found = p.statement(static_cast<StatementId>(n));
    if (!found || !is_map(*found)) continue;
    const Statement view = with_simple_indices(p, without_unit_axes(p, *found));
    const bool stored = p.is_result(view.out);
    if (stored || writers[static_cast<std::size_t>(view.out)].size() != 1 || !is_view(p, view)) continue;
    const std::vector<StatementId> mine = readers[static_cast<std::size_t>(view.out)];
    for (StatementId r : mine) {
      const Statement* reader = p.statement(r);
      if (!reader) continue;
      auto next = Inliner{p, view}.read_through(*reader);
      if (!next || !worth_it(*reader, *next)) continue;
      p.nodes[static_cast<std::size_t>(r)] = std::move(*next);
      for_each_access(*p.statement(r), [&](const Access& a) {
        auto& list = readers[static_cast<std::size_t>(a.tensor)];
        if (std::find(list.begin(), list.end(), r) == list.end()) list.insert(std::lower_bound(list.begin(), list.end(), r), r);
      });
    }
  }
  return drop_unused(std::move(p));
}

}  // namespace tilewright
