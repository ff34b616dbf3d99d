#include "law/parts.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

struct Parter {
  const Program& before;
  const Cascade& c;
  const Stream& stream;
  std::int64_t parts, length;
  Program p{before};
  Builder build{p};
  std::map<TensorId, TensorId> part_of{};          // what is made in parts, by what it was
  std::map<TensorId, std::size_t> place_of{};      // the dim of an element along the axis; none: a state
  std::vector<Statement> made{}, merged{};

  const std::vector<Index>& image(StatementId id) const { return c.region.image[static_cast<std::size_t>(c.region.position(id))]; }
  // The statement's own axis that runs along the stream; -1: it has none.
  AxisId own_axis(StatementId id) const {
    AxisId own = -1;
    for (std::size_t a = 0; a < image(id).size(); ++a) {
      if (!mentions_axis(image(id)[a], c.axis)) continue;
      if (plain_axis(image(id)[a]) != c.axis || own >= 0) throw Refused{before.tensor(before.statement(id)->out).name + " runs along the axis in another way than as it is"};
      own = static_cast<AxisId>(a);
    }
    return own;
  }

  // Axes of a part: those of the statement, of which one is shorter now, and the part behind them.
  ScalarRef in_part(const Statement& s, AxisId own, const ScalarRef& body) {
    const auto z = static_cast<AxisId>(s.axes.size());
    std::vector<Index> with;
    for (AxisId a = 0; a < z; ++a) with.push_back(a == own ? Size(length) * axis_index(z) + axis_index(a) : axis_index(a));
    // What is made in parts is read there: an element at its place within the part.
    const ScalarRef marked = rewrite(body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      const auto to = part_of.find(a.tensor);
      if (to == part_of.end()) return node;
      const auto dim = place_of.find(a.tensor);
      if (a.otherwise || (dim != place_of.end() && plain_axis(a.at[dim->second]) != own)) throw Refused{before.tensor(a.tensor).name + " is read at another place than it is made at"};
      std::vector<Index> at{axis_index(z)};
      at.insert(at.end(), a.at.begin(), a.at.end());
      return read(p, to->second, std::move(at));
    });
    return substituted(marked, with);
  }
  // Reads of parts keep their indices; all else runs over all of the axis.
  ScalarRef substituted(const ScalarRef& s, const std::vector<Index>& with) {
    if (s->op == Op::read) {
      const TensorId t = std::get<Access>(s->leaf).tensor;
      if (std::any_of(part_of.begin(), part_of.end(), [&](const auto& x) { return x.second == t; })) return s;
      return substitute(p, s, with);
    }
    if (s->args.empty()) return substitute(p, s, with);
    Scalar out = *s;
    for (ScalarRef& a : out.args) a = substituted(a, with);
    return std::make_shared<const Scalar>(std::move(out));
  }

  void part(StatementId id) {
    const Statement& s = *before.statement(id);
    const AxisId own = own_axis(id), z = static_cast<AxisId>(s.axes.size());
    Statement t = s;
    t.body = in_part(s, own, s.body);
    if (s.guard) t.guard = in_part(s, own, s.guard);
    t.axes[static_cast<std::size_t>(own)] = length;
    t.axes.push_back(parts), t.names.push_back("part");
    std::vector<Size> dims{parts};
    const auto& old = before.tensor(s.out).dims;
    for (std::size_t d = 0; d < s.at.size(); ++d) {
      const bool along = mentions_axis(s.at[d], own);
      if (along && plain_axis(s.at[d]) != own) throw Refused{before.tensor(s.out).name + " is not made at each place of the axis"};
      if (along) place_of[s.out] = d;
      dims.push_back(along ? Size(length) : old[d]);
    }
    const bool sums = std::count(s.reduced.begin(), s.reduced.end(), own) > 0;
    t.out = build.tensor(before.tensor(s.out).name + "_part", sums ? held_as(before, s) : before.tensor(s.out).dtype, dims);
    t.at.insert(t.at.begin(), axis_index(z));
    part_of[s.out] = t.out;
    made.push_back(std::move(t));
  }

  // A state of all parts: each as it is where its statistic has come to what it is of all.
  void merge(const Stream::State& state) {
    const Statement& s = *before.statement(state.reduction);
    const std::vector<AxisId> parallel = parallel_axes(s);
    const auto z = static_cast<AxisId>(parallel.size());
    auto of_part = [&](TensorId t, std::vector<Index> at) {
      at.insert(at.begin(), axis_index(z));
      return read(p, part_of.at(t), std::move(at));
    };
    // Over the parallel axes of the reduction, as the law says what moves it.
    std::vector<Index> over(s.axes.size(), constant_index(0)), point;
    Statement m;
    for (AxisId a = 0; a < z; ++a) {
      const auto own = static_cast<std::size_t>(parallel[static_cast<std::size_t>(a)]);
      over[own] = axis_index(a), m.axes.push_back(s.axes[own]), m.names.push_back("a" + std::to_string(a));
    }
    for (const Index& i : s.at) point.push_back(substitute(p, i, over));
    m.axes.push_back(parts), m.names.push_back("part"), m.reduced = {z}, m.reducer = s.reducer;
    m.out = s.out, m.at = point, m.label = s.label, m.place = s.place;
    m.body = of_part(s.out, point);
    if (state.corrected >= 0) {
      ScalarRef empty;
      m.body = rewrite(state.moved, [&](const ScalarRef& node) -> ScalarRef {
        if (node->op != Op::read) return node;
        const Access& a = std::get<Access>(node->leaf);
        if (a.tensor == state.tensor) return of_part(a.tensor, a.at);
        for (const Stream::Kept& k : stream.kept) {
          if (k.was != a.tensor) continue;
          const ScalarRef own = of_part(k.statistic, a.at);
          if (const Reducer by = before_reducer(k.statistic); by == Reducer::max || by == Reducer::min) {
            const ScalarRef nothing = binary(Op::eq, own, number(identity_of(by), own->dtype));
            empty = empty ? binary(Op::logical_or, empty, nothing) : nothing;
          }
          return own;
        }
        return node;
      });
      if (empty) m.body = select(empty, number(0, m.body->dtype), m.body);   // nothing was seen there
    }
    merged.push_back(std::move(m));
  }
  Reducer before_reducer(TensorId t) const {
    for (StatementId id : c.region.statements)
      if (before.statement(id)->out == t) return before.statement(id)->reducer;
    return Reducer::none;
  }

  Program run() {
    std::set<StatementId> along;
    for (StatementId id : c.region.statements)
      if (own_axis(id) >= 0) along.insert(id);
    for (const Stream::State& s : stream.state)
      if (!along.count(s.reduction)) throw Refused{"a sum that the law adds is not in the program"};
    const Boundary bound = boundary(before, c.region);
    for (StatementId id : c.region.statements) {
      if (!along.count(id)) continue;
      const TensorId t = before.statement(id)->out;
      const bool state = stream.state_of(t) != nullptr;
      if (!state && std::count(bound.outputs.begin(), bound.outputs.end(), t)) throw Refused{before.tensor(t).name + " leaves the kernel along the axis"};
      part(id);
    }
    for (const Stream::State& s : stream.state) merge(s);
    // Where the last statement of them stood; what reads their sums stands behind it.
    const StatementId last = *along.rbegin();
    std::set<TensorId> late;
    for (const auto& made_in_parts : part_of) late.insert(made_in_parts.first);
    decltype(p.nodes) nodes, behind;
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      if (!along.count(id)) (id < last && reads_any(id, late) ? behind : nodes).push_back(p.nodes[n]);
      if (id != last) continue;
      for (auto* list : {&made, &merged})
        for (Statement& s : *list) nodes.emplace_back(std::move(s));
      nodes.insert(nodes.end(), behind.begin(), behind.end());
    }
    p.nodes = std::move(nodes);
    return drop_unused(std::move(p));
  }
  // Then it makes what is late too.
  bool reads_any(StatementId id, std::set<TensorId>& late) const {
    const Statement* s = before.statement(id);
    bool any = false;
    if (!s) {
      const Opaque& o = std::get<Opaque>(before.nodes[static_cast<std::size_t>(id)]);
      any = std::any_of(o.in.begin(), o.in.end(), [&](TensorId t) { return late.count(t) > 0; });
      if (any) late.insert(o.out.begin(), o.out.end());
      return any;
    }
    for_each_access(*s, [&](const Access& a) { any |= late.count(a.tensor) > 0; });
    if (any) late.insert(s->out);
    return any;
  }
};

}  // namespace

Or<Program> stream_in_parts(const Program& p, const Cascade& c, std::int64_t parts) {
  const Size& extent = c.region.axes[static_cast<std::size_t>(c.axis)];
  if (!extent.is_constant() || parts < 2 || extent.constant() % parts) return Refused{fmt::format("{} does not fall into {} equal parts", extent.text(), parts)};
  const auto stream = derive_stream(p, c.region, c.axis);
  if (!stream) return Refused{stream.reason()};
  try {
    return Parter{p, c, *stream, parts, extent.constant() / parts}.run();
  } catch (const Refused& refused) {
    return refused;
  }
}

}  // namespace tilewright
