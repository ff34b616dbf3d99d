#include "plan/ends.h"

#include <algorithm>
#include <map>

#include "expr/scalar.h"
#include "law/region.h"
#include "normal/scales.h"

namespace tilewright {

namespace {

constexpr std::int64_t fewest_lanes = 8; // that are worth turning a tensor for
constexpr int longest_chain = 16;        // of maps behind a window

const Statement* writer_of(const Program& p, TensorId t) {
  const Statement* found = nullptr;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n)); s && s->out == t) {
      if (found) return nullptr;
      found = s;
    }
  return found;
}

StatementId id_of(const Program& p, const Statement* s) {
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (p.statement(static_cast<StatementId>(n)) == s) return static_cast<StatementId>(n);
  return -1;
}

// Whether the window slides along this axis of its own, and has another that vectors could run along.
bool slides(const Program& p, const Statement& s, AxisId x) {
  if (!window(p, s)) return false;
  const auto role = roles(p, id_of(p, &s));
  if (!role[static_cast<std::size_t>(x)].windowed) return false;
  const auto parallel = parallel_axes(s);
  return std::any_of(parallel.begin(), parallel.end(), [&](AxisId a) {
    return !role[static_cast<std::size_t>(a)].windowed && s.axes[static_cast<std::size_t>(a)].is_constant() && s.axes[static_cast<std::size_t>(a)].constant() >= fewest_lanes;
  });
}

bool slides_along(const Program& p, TensorId t, std::size_t dim, int maps) {
  const Statement* s = maps < longest_chain ? writer_of(p, t) : nullptr;
  if (!s || dim >= s->at.size()) return false;
  const auto x = plain_axis(s->at[dim]);
  if (!x) return false;
  if (!is_map(*s)) return slides(p, *s, *x);
  bool found = false;
  for_each_access(*s, [&](const Access& a) {
    for (std::size_t d = 0; d < a.at.size(); ++d) found = found || (plain_axis(a.at[d]) == x && slides_along(p, a.tensor, d, maps + 1));
  });
  return found;
}

// An axis of the window slides along the innermost dim of the input that it reads.
bool slides_over(const Program& p, const Statement& s, const Access& data) {
  if (p.tensor(data.tensor).kind != Kind::input || data.at.empty()) return false;
  for (AxisId x : parallel_axes(s))
    if (mentions_axis(data.at.back(), x) && slides(p, s, x)) return true;
  return false;
}

struct Turner {
  Program q;
  Builder build{q};
  std::map<TensorId, TensorId> turned{}; // inputs, and results as their windows make them

  TensorId beside(TensorId t) { return build.tensor(q.tensor(t).name + ".turned", q.tensor(t).dtype, q.tensor(t).dims); }
  Statement copy(TensorId from, TensorId to) {
    Statement s;
    s.out = to;
    for (std::size_t d = 0; d < q.tensor(to).dims.size(); ++d) {
      s.at.push_back(axis_index(static_cast<AxisId>(d)));
      s.axes.push_back(q.tensor(to).dims[d]);
      s.names.push_back("a" + std::to_string(d));
    }
    s.body = build.read(from, s.at);
    return s;
  }
};

} // namespace

bool slides_along(const Program& p, TensorId t, std::size_t dim) { return slides_along(p, t, dim, 0); }

std::optional<Program> turn_ends(const Program& p) {
  Turner f{p};
  std::vector<Statement> before, behind;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s || s->reduced.empty()) continue;
    bool given = false;
    for_each_access(*s, [&](const Access& a) { given |= p.tensor(a.tensor).kind == Kind::input; });
    if (!given) continue;
    if (const auto w = window(p, *s); w && slides_over(p, *s, *w->data)) {
      const TensorId input = w->data->tensor;
      if (!f.turned.count(input)) f.turned[input] = f.beside(input), before.push_back(f.copy(input, f.turned[input]));
      Statement& mine = std::get<Statement>(f.q.nodes[n]);
      mine.body = with_tensor(mine.body, input, f.turned[input]);
    }
  }
  for (TensorId t : p.results())
    if (const Statement* s = writer_of(p, t); s && !s->at.empty() && slides_along(p, t, s->at.size() - 1)) {
      const TensorId made = f.turned[t] = f.beside(t);
      for (auto& node : f.q.nodes)
        if (Statement* mine = std::get_if<Statement>(&node)) {
          if (mine->out == t) mine->out = made;
          mine->body = with_tensor(mine->body, t, made);
        }
      behind.push_back(f.copy(made, t));
    }
  if (f.turned.empty()) return std::nullopt;
  f.q.nodes.insert(f.q.nodes.begin(), before.begin(), before.end());
  f.q.nodes.insert(f.q.nodes.end(), behind.begin(), behind.end());
  return std::move(f.q);
}

} // namespace tilewright
