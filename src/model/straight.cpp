#include "model/straight.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "expr/scalar.h"

namespace tilewright {

namespace {

struct Version {
  TensorId tensor = -1;
  std::vector<std::int64_t> low, extent; // the clipped box of the buffer
  bool gaps = false;                     // not every point of the box is written
};

struct Writer {
  const Program& p;
  const Nest& nest;
  std::size_t most;
  Program q;
  Builder build;
  std::vector<std::int64_t> v;
  std::map<BufferId, Version> now{};
  std::map<BufferId, Reducer> reducing{};

  Writer(const Program& program, const Nest& n, std::size_t limit)
      : p(program), nest(n), most(limit), q(program), build(q),
        v(static_cast<std::size_t>(std::max(n.variables, 2)), 0) {
    q.nodes.clear();
  }

  const Buffer& buffer(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)]; }

  void add(Statement s) {
    q.nodes.emplace_back(std::move(s));
    if (q.nodes.size() > most) throw Refused{fmt::format("more than {} statements", most)};
  }

  Version fresh(BufferId b, bool accumulator) {
    const Buffer& x = buffer(b);
    Version out;
    std::vector<Size> dims;
    for (std::size_t d = 0; d < x.box.size(); ++d) {
      std::int64_t first = 0;
      const std::int64_t dim = p.tensor(x.tensor).dims[d].constant();
      Span dense = x.box[d];
      dense.step = 1;
      out.extent.push_back(dense.count(v.data(), dim, &first));
      out.low.push_back(first), dims.push_back(out.extent.back());
    }
    out.tensor = build.tensor(x.name, accumulator ? x.held : p.tensor(x.tensor).dtype, dims);
    return out;
  }

  // Axes of the original run over their clipped ranges; reads of what the nest has made go to its newest version.
  ScalarRef here(const ScalarRef& s, const std::vector<Index>& with) const {
    if (!s) return s;
    return rewrite(substitute(p, s, with), [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      for (const Index& i : a.at)
        for_each_access(i, [&](const Access& inner) {
          for (const auto& one : now)
            if (buffer(one.first).tensor == inner.tensor)
              throw Refused{"an index reads " + p.tensor(inner.tensor).name + ", which the kernel makes"};
        });
      for (const auto& [b, version] : now) {
        if (buffer(b).tensor != a.tensor) continue;
        std::vector<Index> at = a.at;
        for (std::size_t d = 0; d < at.size(); ++d) at[d] = at[d] - constant_index(version.low[d]);
        return read(q, version.tensor, std::move(at), a.otherwise);
      }
      return node;
    });
  }

  static ScalarRef identity(Reducer r, DType t) {
    const double x = identity_of(r);
    if (t == DType::boolean) return boolean(x != 0);
    return is_integer(t) ? integer(static_cast<std::int64_t>(x), t) : number(x, t);
  }

  std::vector<Index> points(const Version& x) const {
    std::vector<Index> at;
    for (std::size_t d = 0; d < x.extent.size(); ++d) at.push_back(axis_index(static_cast<AxisId>(d)));
    return at;
  }

  // A map over a version's box.
  void whole(const Version& x, TensorId out, std::vector<Index> at, ScalarRef body) {
    Statement s;
    s.out = out, s.at = std::move(at), s.body = std::move(body);
    for (std::size_t d = 0; d < x.extent.size(); ++d)
      s.axes.push_back(x.extent[d]), s.names.push_back(fmt::format("i{}", d));
    add(std::move(s));
  }

  void compute(const Compute& c) {
    Statement s = *p.statement(c.statement);
    const Statement original = s;
    std::vector<Index> with;
    for (std::size_t a = 0; a < s.axes.size(); ++a) {
      std::int64_t first = 0;
      const std::int64_t n = c.ranges[a].count(v.data(), s.axes[a].constant(), &first);
      if (n == 0) return;
      with.push_back(axis_index(static_cast<AxisId>(a)) + constant_index(first));
      s.axes[a] = n;
    }
    const bool joins = reducing.count(c.out) > 0 && now.count(c.out) > 0 && !original.reduced.empty();
    Version made = fresh(c.out, !original.reduced.empty() || reducing.count(c.out) > 0);
    s.body = here(original.body, with), s.guard = here(original.guard, with);
    for (std::size_t d = 0; d < s.at.size(); ++d)
      s.at[d] = substitute(p, original.at[d], with) - constant_index(made.low[d]);
    s.out = made.tensor;
    std::int64_t points_of_box = 1, written = 1;
    for (std::int64_t n : made.extent) points_of_box *= n;
    for (AxisId a : parallel_axes(s)) written *= s.axes[static_cast<std::size_t>(a)].constant();
    made.gaps = written < points_of_box;
    add(std::move(s));
    if (joins) made = joined(c.out, now.at(c.out), made);
    now[c.out] = made;
  }

  Version joined(BufferId b, const Version& x, const Version& y) {
    const Reducer r = reducing.at(b);
    if (r == Reducer::argmax || r == Reducer::argmin) throw Refused{"the index of a winner is not joined"};
    const Op op = r == Reducer::sum    ? Op::add
                  : r == Reducer::prod ? Op::mul
                  : r == Reducer::max  ? Op::max
                  : r == Reducer::min  ? Op::min
                  : r == Reducer::any  ? Op::logical_or
                                       : Op::logical_and;
    Version out = fresh(b, true);
    out.gaps = y.gaps;
    whole(out, out.tensor, points(out), binary(op, read(q, x.tensor, points(out)), read(q, y.tensor, points(out))));
    return out;
  }

  void block(const Block& nodes) {
    for (const Node& n : nodes) node(n);
  }

  void node(const Node& n) {
    if (const auto* f = std::get_if<For>(&n.op)) {
      const auto i = static_cast<std::size_t>(2 * f->step);
      for (std::int64_t low = 0; low < f->extent; low += f->size) {
        v[i] = low, v[i + 1] = std::min(low + f->size, f->extent);
        block(n.body);
      }
    } else if (const auto* i = std::get_if<Init>(&n.op)) {
      reducing[i->buffer] = i->reducer;
      const Version x = fresh(i->buffer, true);
      if (i->reducer != Reducer::argmax && i->reducer != Reducer::argmin)
        whole(x, x.tensor, points(x), identity(i->reducer, buffer(i->buffer).held));
      now[i->buffer] = x;
    } else if (const auto* c = std::get_if<Compute>(&n.op)) {
      const Reducer r = p.statement(c->statement)->reducer;
      if (r == Reducer::argmax || r == Reducer::argmin)
        reducing.erase(c->out); // whole in one turn, or refused by its law
      compute(*c);
    } else if (const auto* st = std::get_if<Store>(&n.op)) {
      const auto made = now.find(st->buffer);
      if (made == now.end()) return; // nothing of it exists in this tile
      const Version& x = made->second;
      if (x.gaps) throw Refused{"a tile of " + buffer(st->buffer).name + " is stored with gaps"};
      std::vector<Index> at;
      for (std::size_t d = 0; d < x.low.size(); ++d)
        at.push_back(axis_index(static_cast<AxisId>(d)) + constant_index(x.low[d]));
      whole(x, buffer(st->buffer).tensor, at, read(q, x.tensor, points(x)));
    } else {
      block(n.body);
    }
  }
};

} // namespace

Or<Program> straight(const Program& planned, const Region& region, const Nest& nest, std::size_t most) {
  Writer w{program_of(planned, nest), nest, most};
  std::vector<const std::variant<Statement, Opaque>*> later;
  std::set<TensorId> behind;
  for (StatementId id : region.statements) behind.insert(planned.statement(id)->out);
  for (std::size_t n = 0; n < planned.nodes.size(); ++n) {
    if (region.position(static_cast<StatementId>(n)) >= 0) continue;
    const Statement* s = planned.statement(static_cast<StatementId>(n));
    if (!s) return Refused{"an opaque node has no loops"};
    bool waits = false;
    for_each_access(*s, [&](const Access& a) { waits |= behind.count(a.tensor) > 0; });
    if (waits)
      behind.insert(s->out), later.push_back(&planned.nodes[n]);
    else
      w.q.nodes.push_back(planned.nodes[n]);
  }
  try {
    w.block(nest.body);
  } catch (const Refused& r) {
    return r;
  }
  for (TensorId t : nest.outputs)
    if (std::none_of(w.q.nodes.begin(), w.q.nodes.end(),
                     [&](const auto& n) { return std::get<Statement>(n).out == t; }))
      return Refused{planned.tensor(t).name + " has no elements"};
  for (const auto* n : later) w.q.nodes.push_back(*n);
  return std::move(w.q);
}

} // namespace tilewright
