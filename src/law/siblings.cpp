#include "law/siblings.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

namespace tilewright {

namespace {

// The one dim of an access at which the axis stands alone; -1: it is not in it; -2: it is there otherwise.
int dim_along(const std::vector<Index>& at, AxisId axis) {
  int found = -1;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (!mentions_axis(at[d], axis)) continue;
    found = found == -1 && plain_axis(at[d]) == axis ? static_cast<int>(d) : -2;
  }
  return found;
}

bool is_constant(const Tensor& t) { return t.kind == Kind::weight && !t.data.empty(); }

// Whether two statements differ only in the weights that they read, in earlier siblings, and in the extent of one axis.
struct Likeness {
  const Program& p;
  const Statement &s, &t;
  AxisId axis;
  const std::map<TensorId, TensorId>& earlier; // results of the first that stand for those of the second
  bool reads_shared = false;

  bool same_extents() const {
    if (s.axes.size() != t.axes.size() || s.reduced != t.reduced || s.reducer != t.reducer) return false;
    for (std::size_t a = 0; a < s.axes.size(); ++a)
      if (static_cast<AxisId>(a) != axis && !(s.axes[a] == t.axes[a])) return false;
    return true;
  }
  bool same_results() const {
    const Tensor &a = p.tensor(s.out), &b = p.tensor(t.out);
    return a.dtype == b.dtype && s.at == t.at && dim_along(s.at, axis) >= 0 &&
           a.dims[static_cast<std::size_t>(dim_along(s.at, axis))] == s.axes[static_cast<std::size_t>(axis)] &&
           b.dims[static_cast<std::size_t>(dim_along(t.at, axis))] == t.axes[static_cast<std::size_t>(axis)];
  }

  // Weights of their own along the axis, all of it; else the same tensor, which does not know the axis.
  bool weights(const Access& a, const Access& b) const {
    const Tensor &x = p.tensor(a.tensor), &y = p.tensor(b.tensor);
    const int d = dim_along(a.at, axis);
    if (!is_constant(x) || !is_constant(y) || x.dtype != y.dtype || x.dims.size() != y.dims.size() || a.otherwise ||
        b.otherwise || d < 0)
      return false;
    for (std::size_t i = 0; i < x.dims.size(); ++i)
      if (static_cast<int>(i) != d && !(x.dims[i] == y.dims[i])) return false;
    const auto dim = static_cast<std::size_t>(d);
    return x.dims[dim] == s.axes[static_cast<std::size_t>(axis)] &&
           y.dims[dim] == t.axes[static_cast<std::size_t>(axis)];
  }

  bool access(const Access& a, const Access& b) {
    if (!(a.at == b.at) || !scalar(a.otherwise, b.otherwise)) return false;
    for (const Index& i : a.at)
      if (!is_affine(i)) return false;
    const auto sibling = earlier.find(b.tensor);
    if (sibling != earlier.end() && sibling->second == a.tensor) return !a.otherwise && dim_along(a.at, axis) >= 0;
    if (a.tensor != b.tensor || dim_along(a.at, axis) != -1) return weights(a, b);
    reads_shared |= !is_constant(p.tensor(a.tensor));
    return true;
  }

  bool scalar(const ScalarRef& a, const ScalarRef& b) {
    if (!a || !b) return !a && !b;
    if (a->op != b->op || a->dtype != b->dtype || a->args.size() != b->args.size()) return false;
    for (std::size_t i = 0; i < a->args.size(); ++i)
      if (!scalar(a->args[i], b->args[i])) return false;
    const Access *x = std::get_if<Access>(&a->leaf), *y = std::get_if<Access>(&b->leaf);
    if (x && y) return access(*x, *y);
    return a->args.empty() ? equal(a, b) && !(a->op == Op::axis && std::get<AxisId>(a->leaf) == axis) : true;
  }

  bool holds() { return same_extents() && same_results() && !s.guard && !t.guard && scalar(s.body, t.body); }
};

struct Finder {
  const Program& p;
  const Readers readers = readers_by_tensor(p);
  std::vector<int> writers = std::vector<int>(p.tensors.size(), 0);
  std::vector<bool> taken = std::vector<bool>(p.nodes.size(), false);

  // A result that only statements read, each inside it, and that one statement makes.
  bool movable(const Statement& s) const {
    const Tensor& t = p.tensor(s.out);
    if (t.kind != Kind::intermediate || p.is_result(s.out) || t.stored_in || t.sparse || t.index_of ||
        writers[static_cast<std::size_t>(s.out)] != 1)
      return false;
    bool inside = true;
    for (StatementId id : readers[static_cast<std::size_t>(s.out)]) {
      const Statement* reader = p.statement(id);
      if (!reader) return false;
      for_each_access(*reader, [&](const Access& a) { inside &= a.tensor != s.out || !a.otherwise; });
    }
    return inside;
  }

  bool alike(StatementId a, StatementId b, AxisId axis, const std::map<TensorId, TensorId>& earlier) const {
    Likeness l{p, *p.statement(a), *p.statement(b), axis, earlier};
    return l.holds() && (l.reads_shared || !earlier.empty());
  }

  // The map behind each of a row, if there is one kind of them.
  std::vector<StatementId> next_row(const std::vector<StatementId>& row, AxisId& axis,
                                    std::map<TensorId, TensorId>& earlier) const {
    const Statement& first = *p.statement(row[0]);
    for (StatementId id : readers[static_cast<std::size_t>(first.out)]) {
      const Statement* map = p.statement(id);
      if (!map || !is_map(*map) || taken[static_cast<std::size_t>(id)] || !movable(*map)) continue;
      AxisId along = -1;
      for_each_access(*map, [&](const Access& a) {
        const int d = dim_along(first.at, axis);
        if (a.tensor == first.out && d >= 0)
          if (const auto x = plain_axis(a.at[static_cast<std::size_t>(d)])) along = *x;
      });
      std::vector<StatementId> found{id};
      for (std::size_t i = 1; along >= 0 && i < row.size(); ++i)
        for (StatementId other : readers[static_cast<std::size_t>(p.statement(row[i])->out)])
          if (const Statement* s = p.statement(other);
              found.size() == i && s && is_map(*s) && !taken[static_cast<std::size_t>(other)] &&
              !std::count(found.begin(), found.end(), other) && movable(*s) && alike(id, other, along, earlier))
            found.push_back(other);
      if (found.size() != row.size()) continue;
      axis = along;
      return found;
    }
    return {};
  }

  void grow(Siblings& s) {
    std::map<TensorId, TensorId> earlier;
    AxisId axis = s.axis[0];
    for (std::vector<StatementId> row = s.rows[0]; !row.empty();) {
      const TensorId first = p.statement(row[0])->out;
      for (StatementId id : row) earlier[p.statement(id)->out] = first, taken[static_cast<std::size_t>(id)] = true;
      row = next_row(row, axis, earlier);
      if (!row.empty()) s.rows.push_back(row), s.axis.push_back(axis);
    }
  }

  std::vector<Siblings> run() {
    for (const auto& node : p.nodes)
      if (const Statement* s = std::get_if<Statement>(&node)) ++writers[static_cast<std::size_t>(s->out)];
    std::vector<Siblings> list;
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      const Statement* s = p.statement(id);
      if (!s || taken[n] || !movable(*s)) continue;
      const auto c = contraction(p, *s);
      if (!c || !is_constant(p.tensor(c->b->tensor))) continue;
      for (AxisId axis : c->n) {
        Siblings found{{{id}}, {axis}};
        for (StatementId other : readers[static_cast<std::size_t>(c->a->tensor)])
          if (other > id && !taken[static_cast<std::size_t>(other)] && p.statement(other) &&
              movable(*p.statement(other)) && alike(id, other, axis, {}))
            found.rows[0].push_back(other);
        if (found.rows[0].size() < 2) continue;
        grow(found);
        list.push_back(std::move(found));
        break;
      }
    }
    return list;
  }
};

// Writes siblings as one, and reads of them as reads of its parts.
struct Writer {
  Program& p;
  bool bytes;
  Builder build{p};
  struct Part {
    TensorId tensor;
    std::size_t dim;
    std::int64_t offset;
  };
  std::map<TensorId, Part> parts = {};
  std::map<std::vector<TensorId>, TensorId> joined = {}; // weights that stand side by side already

  TensorId weights(const std::vector<TensorId>& list, std::size_t dim) {
    if (const auto known = joined.find(list); known != joined.end()) return known->second;
    const Tensor& first = p.tensor(list[0]);
    std::vector<std::int64_t> dims;
    std::int64_t along = 0;
    for (const Size& d : first.dims) dims.push_back(d.constant());
    for (TensorId t : list) along += p.tensor(t).dims[dim].constant();
    dims[dim] = along;
    if (!bytes)
      return joined[list] = build.tensor(first.name + "_beside", first.dtype, {dims.begin(), dims.end()}, Kind::weight);
    std::int64_t outer = 1, inner = static_cast<std::int64_t>(bytes_of(first.dtype));
    for (std::size_t d = 0; d < dims.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : dims[d];
    std::vector<std::byte> all(static_cast<std::size_t>(outer * along * inner));
    std::byte* to = all.data();
    for (std::int64_t o = 0; o < outer; ++o)
      for (TensorId t : list) {
        const auto run = static_cast<std::size_t>(p.tensor(t).dims[dim].constant() * inner);
        std::memcpy(to, p.tensor(t).data.data() + static_cast<std::size_t>(o) * run, run);
        to += run;
      }
    return joined[list] = build.weight(first.name + "_beside", first.dtype, dims, std::move(all));
  }

  // The body of the first with the weights of all. Results of siblings are still read as those of the first, which
  // begin at 0.
  ScalarRef beside(const ScalarRef& s, const std::vector<ScalarRef>& others, AxisId axis) {
    if (!s) return s;
    auto copy = std::make_shared<Scalar>(*s);
    for (std::size_t i = 0; i < s->args.size(); ++i) {
      std::vector<ScalarRef> same;
      for (const ScalarRef& o : others) same.push_back(o->args[i]);
      copy->args[i] = beside(s->args[i], same, axis);
    }
    if (const Access* a = std::get_if<Access>(&s->leaf)) {
      std::vector<TensorId> tensors{a->tensor};
      for (const ScalarRef& o : others) tensors.push_back(std::get<Access>(o->leaf).tensor);
      Access read = *a;
      const int d = dim_along(a->at, axis);
      if (d >= 0 && is_constant(p.tensor(a->tensor))) read.tensor = weights(tensors, static_cast<std::size_t>(d));
      copy->leaf = std::move(read);
    }
    return copy;
  }

  Statement row(const std::vector<StatementId>& ids, AxisId axis) {
    Statement s = *p.statement(ids[0]);
    std::vector<ScalarRef> bodies;
    Size extent = 0;
    for (StatementId id : ids) {
      if (id != ids[0]) bodies.push_back(p.statement(id)->body);
      extent = extent + p.statement(id)->axes[static_cast<std::size_t>(axis)];
    }
    const auto dim = static_cast<std::size_t>(dim_along(s.at, axis));
    s.body = beside(s.body, bodies, axis);
    s.axes[static_cast<std::size_t>(axis)] = extent;
    std::vector<Size> dims = p.tensor(s.out).dims;
    dims[dim] = extent;
    const TensorId out = build.tensor(p.tensor(s.out).name + "_beside", p.tensor(s.out).dtype, dims);
    std::int64_t offset = 0;
    for (StatementId id : ids) {
      parts[p.statement(id)->out] = {out, dim, offset};
      offset += p.statement(id)->axes[static_cast<std::size_t>(axis)].constant();
    }
    s.out = out;
    return s;
  }

  // Reads of a part, wherever they stand.
  std::unordered_map<const Scalar*, std::pair<ScalarRef, ScalarRef>> done = {}; // the key is kept alive
  Index moved(Index i) {
    for (Index::Term& t : i.terms) {
      if (auto* a = std::get_if<std::shared_ptr<const Access>>(&t.of))
        t.of = std::make_shared<const Access>(moved(**a));
      else if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of))
        t.of = std::make_shared<const Index>(moved(**inner));
    }
    return i;
  }
  Access moved(const Access& a) {
    Access out{a.tensor, {}, moved(a.otherwise)};
    for (const Index& i : a.at) out.at.push_back(moved(i));
    if (const auto part = parts.find(a.tensor); part != parts.end()) {
      out.tensor = part->second.tensor;
      Index& at = out.at[part->second.dim];
      at = at + constant_index(part->second.offset);
    }
    return out;
  }
  ScalarRef moved(const ScalarRef& s) {
    if (!s) return s;
    if (const auto known = done.find(s.get()); known != done.end()) return known->second.second;
    auto copy = std::make_shared<Scalar>(*s);
    for (ScalarRef& arg : copy->args) arg = moved(arg);
    if (const Access* a = std::get_if<Access>(&s->leaf)) copy->leaf = moved(*a);
    done[s.get()] = {s, copy};
    return copy;
  }
};

} // namespace

std::vector<Siblings> siblings(const Program& p) { return Finder{p}.run(); }

Program side_by_side(Program p, const std::vector<Siblings>& all, bool bytes,
                     std::vector<std::vector<TensorId>>* results) {
  Writer w{p, bytes};
  std::map<StatementId, std::optional<Statement>> written; // in the place of the first; the others go
  for (const Siblings& s : all) {
    if (results) results->emplace_back();
    for (std::size_t r = 0; r < s.rows.size(); ++r) {
      for (StatementId id : s.rows[r]) written[id] = std::nullopt;
      Statement row = w.row(s.rows[r], s.axis[r]);
      if (results) results->back().push_back(row.out);
      written[s.rows[r][0]] = std::move(row);
    }
  }
  decltype(p.nodes) nodes;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const auto at = written.find(static_cast<StatementId>(n));
    if (at != written.end() && !at->second) continue;
    if (at != written.end()) p.nodes[n] = std::move(*at->second);
    if (Statement* s = std::get_if<Statement>(&p.nodes[n])) {
      for (Index& i : s->at) i = w.moved(i);
      s->body = w.moved(s->body), s->guard = w.moved(s->guard);
    }
    nodes.push_back(std::move(p.nodes[n]));
  }
  p.nodes = std::move(nodes);
  return p;
}

} // namespace tilewright
