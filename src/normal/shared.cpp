#include <algorithm>
#include <set>

#include "expr/scalar.h"
#include "normal/passes.h"
#include "support/file.h"

namespace tilewright {

std::vector<std::vector<StatementId>> readers_of(const Program& p) {
  std::vector<std::vector<StatementId>> list(p.tensors.size());
  auto add = [&](TensorId t, std::size_t n) {
    auto& readers = list[static_cast<std::size_t>(t)];
    if (readers.empty() || readers.back() != static_cast<StatementId>(n)) readers.push_back(static_cast<StatementId>(n));
  };
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) for_each_access(*s, [&](const Access& a) { add(a.tensor, n); });
    else for (TensorId t : std::get<Opaque>(p.nodes[n]).in) add(t, n);
  return list;
}

std::vector<std::vector<StatementId>> writers_of(const Program& p) {
  std::vector<std::vector<StatementId>> list(p.tensors.size());
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) list[static_cast<std::size_t>(s->out)].push_back(static_cast<StatementId>(n));
    else for (TensorId t : std::get<Opaque>(p.nodes[n]).out) list[static_cast<std::size_t>(t)].push_back(static_cast<StatementId>(n));
  return list;
}

namespace {

// The same scalar with every access's indices simplified.
ScalarRef simple(const ScalarRef& s, const std::vector<Size>& axes) {
  if (!s) return s;
  return rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
    if (node->op != Op::read) return node;
    Access a = std::get<Access>(node->leaf);
    for (Index& i : a.at) i = simplify(i, axes);
    if (a.otherwise) a.otherwise = simple(a.otherwise, axes);
    auto copy = std::make_shared<Scalar>(*node);
    copy->leaf = std::move(a);
    return copy;
  });
}

int quotients(const Index& i) {
  int n = (i.div != Size(1)) + (i.mod != Size(0));
  for (const Index::Term& t : i.terms) {
    if (const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of)) n += quotients(**inner);
    if (const auto* gather = std::get_if<std::shared_ptr<const Access>>(&t.of))
      for (const Index& g : (*gather)->at) n += quotients(g);
  }
  return n;
}

}  // namespace

Statement with_simple_indices(const Program&, Statement s) {
  s.body = simple(s.body, s.axes);
  s.guard = simple(s.guard, s.axes);
  for (Index& i : s.at) i = simplify(i, s.axes);
  return s;
}

bool all_weights(const Program& p, const ScalarRef& s) {
  bool known = true;
  for_each_access(s, [&](const Access& a) { known &= p.tensor(a.tensor).kind == Kind::weight && !p.tensor(a.tensor).data.empty(); });
  return known;
}

int quotients_in(const Statement& s) {
  int n = 0;
  for_each_access(s, [&](const Access& a) {
    for (const Index& i : a.at) n += quotients(i);
  });
  return n;
}

TakenApart take_apart(Builder& build, const Statement& s) {
  Program& p = build.program();
  TakenApart t{s, s, std::vector<Index>(s.axes.size(), constant_index(0)), nullptr};
  t.sum.at.clear(), t.map.axes.clear(), t.map.names.clear(), t.map.reduced.clear();
  std::vector<Index> point;
  std::vector<Size> dims;
  for (AxisId a : parallel_axes(s)) {
    Index& mine = t.with[static_cast<std::size_t>(a)];
    mine = axis_index(static_cast<AxisId>(t.map.axes.size()));
    point.push_back(mine);
    t.sum.at.push_back(axis_index(a));
    dims.push_back(s.axes[static_cast<std::size_t>(a)]);
    t.map.axes.push_back(dims.back());
    if (!s.names.empty()) t.map.names.push_back(s.names[static_cast<std::size_t>(a)]);
  }
  t.sum.out = build.tensor(p.tensor(s.out).name + "_sum", held_as(p, s), dims);
  t.value = read(p, t.sum.out, point);
  t.map.body = t.value, t.map.guard = nullptr, t.map.reducer = Reducer::none;
  for (Index& i : t.map.at) i = substitute(p, i, t.with);
  return t;
}

Alone reduce_alone(Builder& build, const Statement& s, const TakenApart& taken, const ScalarRef& body, const char* suffix) {
  Program& p = build.program();
  Statement t = s;
  t.axes.clear(), t.names.clear(), t.reduced.clear(), t.at.clear();
  std::vector<Index> mine(s.axes.size(), constant_index(0)), read_at;
  std::vector<Size> dims;
  for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) {
    const bool reduced = std::find(s.reduced.begin(), s.reduced.end(), a) != s.reduced.end();
    if (!reduced && !mentions_axis(body, a)) continue;
    mine[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(t.axes.size()));
    if (!reduced) {
      t.at.push_back(mine[static_cast<std::size_t>(a)]);
      dims.push_back(s.axes[static_cast<std::size_t>(a)]);
      read_at.push_back(taken.with[static_cast<std::size_t>(a)]);
    }
    t.axes.push_back(s.axes[static_cast<std::size_t>(a)]);
    if (!s.names.empty()) t.names.push_back(s.names[static_cast<std::size_t>(a)]);
  }
  for (AxisId r : s.reduced) t.reduced.push_back(*plain_axis(mine[static_cast<std::size_t>(r)]));
  t.body = substitute(p, body, mine);
  t.out = build.tensor(p.tensor(s.out).name + suffix, held_as(p, s), dims);
  const ScalarRef value = read(p, t.out, read_at);
  return {std::move(t), value};
}

Program drop_unused(Program p) {
  std::set<TensorId> needed = p.results();
  std::vector<bool> keep(p.nodes.size(), false);
  for (std::size_t n = p.nodes.size(); n-- > 0;) {
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) {
      if (!(keep[n] = needed.count(s->out) > 0)) continue;
      for_each_access(*s, [&](const Access& a) { needed.insert(a.tensor); });
    } else {
      const Opaque& o = std::get<Opaque>(p.nodes[n]);
      keep[n] = std::any_of(o.out.begin(), o.out.end(), [&](TensorId t) { return needed.count(t) > 0; });
      if (keep[n]) needed.insert(o.in.begin(), o.in.end());
    }
  }
  decltype(p.nodes) nodes;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (keep[n]) nodes.push_back(std::move(p.nodes[n]));
  p.nodes = std::move(nodes);
  // Weights that nobody reads any more give up their bytes; ids stay.
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind == Kind::weight && !p.tensors[t].data.empty() && !needed.count(static_cast<TensorId>(t))) {
      p.tensors[t].kind = Kind::intermediate;
      release_pages(p.tensors[t].data);
      p.tensors[t].data = {};
      p.tensors[t].owner.reset();
    }
  return p;
}

}  // namespace tilewright
