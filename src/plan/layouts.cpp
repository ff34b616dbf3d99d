#include <algorithm>
#include <map>
#include <set>

#include "plan/plan.h"

namespace tilewright {

namespace {

// The dim of `out` that an axis of the statement writes alone, or -1.
int dim_of(const Statement& s, AxisId axis) {
  for (std::size_t d = 0; d < s.at.size(); ++d)
    if (s.at[d].terms.size() == 1 && is_affine(s.at[d]) && mentions_axis(s.at[d], axis) && coefficient_of(s.at[d], axis) == Size(1))
      return static_cast<int>(d);
  return -1;
}

int innermost(const DimOrder& o) { return o.empty() ? -1 : o.back(); }

// The axis of the statement that runs along the innermost dim of what an access reads, or -1; of so many axes the last digit of an index too.
//
//   K[b h d m] = A[b, m, 64*h + d]      d
AxisId along_innermost(const Program& p, const std::vector<DimOrder>& layouts, const Access& a, std::size_t digits = 0) {
  const int d = innermost(layouts[static_cast<std::size_t>(a.tensor)]);
  if (d < 0 || p.tensor(a.tensor).dims.empty()) return -1;
  const Index& at = a.at[static_cast<std::size_t>(d)];
  if (const auto axis = plain_axis(at)) return *axis;
  AxisId last = -1;
  for (std::size_t x = 0; x < digits && is_affine(at); ++x)
    if (coefficient_of(at, static_cast<AxisId>(x)) == Size(1)) last = last == -1 ? static_cast<AxisId>(x) : -2;
  return std::max(last, -1);
}

// Where a window slides along the dim that a map's result would have innermost: the dim of the window's longest axis that does not
// slide; else that dim itself. readers: reductions, by the tensor that they read.
int wanted_behind(const Program& p, const Statement& map, int d, const std::multimap<TensorId, StatementId>& readers) {
  const auto [first, last] = readers.equal_range(map.out);
  for (auto reader = first; d >= 0 && reader != last; ++reader) {
    const Statement& s = *p.statement(reader->second);
    bool several = false;                                  // axes in that dim, one of which might slide
    for_each_access(s, [&](const Access& a) { several |= a.tensor == map.out && a.at[static_cast<std::size_t>(d)].terms.size() > 1; });
    const auto w = several ? window(p, s) : Or<Window>(Refused{"it does not slide"});
    if (!w || w->data->tensor != map.out) continue;
    const auto role = roles(p, reader->second);
    const auto slides = [&](AxisId x) { return role[static_cast<std::size_t>(x)].windowed; };
    const auto parallel = parallel_axes(s);
    if (std::none_of(parallel.begin(), parallel.end(), [&](AxisId x) { return slides(x) && mentions_axis(w->data->at[static_cast<std::size_t>(d)], x); })) continue;
    std::int64_t longest = 0;
    for (std::size_t e = 0; e < w->data->at.size(); ++e)
      if (const auto x = plain_axis(w->data->at[e]); x && !slides(*x) && s.axes[static_cast<std::size_t>(*x)].constant() > longest)
        longest = s.axes[static_cast<std::size_t>(*x)].constant(), d = static_cast<int>(e);
    return d;
  }
  return d;
}

// What a statement wants innermost in its result: the columns of a contraction whose weights are known, the axis that a window
// runs through, and otherwise what is innermost in the largest tensor that it reads; `digits`: also where an index has several axes. A spatial axis
// in a window is never it.
int wanted(const Program& p, const std::vector<DimOrder>& layouts, StatementId id, bool digits) {
  const Statement& s = *p.statement(id);
  if (const auto c = contraction(p, s)) {
    AxisId best = -1;
    for (AxisId n : c->n)
      if (best < 0 || s.axes[static_cast<std::size_t>(n)].constant() > s.axes[static_cast<std::size_t>(best)].constant()) best = n;
    const bool weights = p.tensor(c->b->tensor).kind == Kind::weight;
    const int d = dim_of(s, best);
    if (d >= 0 && (weights || d == static_cast<int>(s.at.size()) - 1)) return d;
    return -1;
  }
  const auto role = roles(p, id);
  AxisId best = -1;
  std::int64_t size = -1;
  for_each_access(s, [&](const Access& a) {
    std::int64_t n = 1;
    for (const Size& d : p.tensor(a.tensor).dims) n *= d.constant();
    const AxisId x = along_innermost(p, layouts, a, digits ? s.axes.size() : 0);
    if (x < 0 || role[static_cast<std::size_t>(x)].reducer != Reducer::none || role[static_cast<std::size_t>(x)].windowed) return;
    if (n > size) size = n, best = x;
  });
  if (best < 0) {
    // A window over the last dims: the longest axis that does not slide.
    if (const auto w = window(p, s); w && w->data->otherwise)
      for (AxisId x : parallel_axes(s))
        if (!role[static_cast<std::size_t>(x)].windowed &&
            (best < 0 || s.axes[static_cast<std::size_t>(x)].constant() > s.axes[static_cast<std::size_t>(best)].constant()))
          best = x;
  }
  return best < 0 ? -1 : dim_of(s, best);
}

// The dim of a weight that the statement walks along in pieces: the lanes of a window, the products of a contraction where they lie side
// by side in its other operand, else its columns; -1: as it comes.
int wanted_in(const Program& p, const std::vector<DimOrder>& layouts, const Statement& s, const Access& weight) {
  auto dim_along = [&](AxisId x) {
    for (std::size_t d = 0; d < weight.at.size(); ++d)
      if (x >= 0 && plain_axis(weight.at[d]) == x) return static_cast<int>(d);
    return -1;
  };
  if (const auto c = contraction(p, s); c && c->b->tensor == weight.tensor) {
    const AxisId along = along_innermost(p, layouts, *c->a);
    if (std::count(c->k.begin(), c->k.end(), along)) return weight.at.size() > 2 ? dim_along(along) : -1;
    return c->n.empty() ? -1 : dim_along(c->n.back());        // no pieces of products: columns side by side
  }
  if (const auto w = window(p, s); w && w->weights && w->weights->tensor == weight.tensor) return dim_along(along_innermost(p, layouts, *w->data));
  return -1;
}

void choose_weights(const Program& p, std::vector<DimOrder>& layouts) {
  std::set<TensorId> done;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s) {
      const Opaque& o = std::get<Opaque>(p.nodes[n]);
      done.insert(o.in.begin(), o.in.end());
      continue;
    }
    for_each_access(*s, [&](const Access& a) {
      if (p.tensor(a.tensor).kind != Kind::weight || p.is_result(a.tensor) || !done.insert(a.tensor).second) return;
      DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
      const int d = wanted_in(p, layouts, *s, a);
      if (d < 0) return;
      order.erase(std::find(order.begin(), order.end(), d));
      order.push_back(d);
    });
  }
}

// Copies take pieces along the innermost dim: those of one element stand outside, which moves nothing.
void singles_outside(const Program& p, std::vector<DimOrder>& layouts) {
  for (std::size_t t = 0; t < layouts.size(); ++t)
    std::stable_partition(layouts[t].begin(), layouts[t].end(), [&](int d) { return p.tensors[t].dims[static_cast<std::size_t>(d)] == Size(1); });
}

}  // namespace

std::vector<DimOrder> choose_layouts(const Program& p, bool weights) {
  std::vector<DimOrder> layouts;
  for (const Tensor& t : p.tensors) layouts.push_back(row_major(t.dims.size()));
  std::set<TensorId> fixed = p.results(), written;
  for (const auto& node : p.nodes)
    if (const Opaque* o = std::get_if<Opaque>(&node)) {
      fixed.insert(o->in.begin(), o->in.end());
      fixed.insert(o->out.begin(), o->out.end());
    }
  std::multimap<TensorId, StatementId> readers;
  for (std::size_t n = 0; n < p.nodes.size() && !weights; ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n)); s && !s->reduced.empty())
      for_each_access(*s, [&](const Access& a) { readers.emplace(a.tensor, static_cast<StatementId>(n)); });
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s || fixed.count(s->out) || p.tensor(s->out).kind != Kind::intermediate || !written.insert(s->out).second) continue;
    int d = wanted(p, layouts, static_cast<StatementId>(n), weights);
    if (!weights && is_map(*s)) d = wanted_behind(p, *s, d, readers);
    if (d < 0) continue;
    DimOrder& order = layouts[static_cast<std::size_t>(s->out)];
    order.erase(std::find(order.begin(), order.end(), d));
    order.push_back(d);
  }
  if (weights) choose_weights(p, layouts), singles_outside(p, layouts);
  return layouts;
}

}  // namespace tilewright
