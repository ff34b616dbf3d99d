#include "law/split.h"

#include <algorithm>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "normal/passes.h"

namespace tilewright {

namespace {

bool is_pair(Reducer r) { return r == Reducer::argmax || r == Reducer::argmin; }
bool is_extreme(Reducer r) { return r == Reducer::max || r == Reducer::min; }

// One statement over a range of the axis: its body, its guard, the local value of the axis, and where the part's states lie.
struct Part {
  ScalarRef body, guard, local;
  std::vector<Index> point;
};
using Body = std::function<ScalarRef(const Part&)>;

struct Splitter {
  Program p;
  const Statement s;
  const AxisId axis;
  const std::int64_t extent, chunk;
  Builder build{p};
  std::vector<Statement> made{};
  std::string part_name{};

  std::int64_t whole() const { return extent / chunk; }                                  // parts of full length
  std::int64_t parts() const { return ceil_div_i64(extent, chunk); }

  TensorId states(const char* suffix, DType type, bool by_part = true) {
    std::vector<Size> dims;
    if (by_part) dims.push_back(parts());
    for (AxisId a : parallel_axes(s)) dims.push_back(s.axes[static_cast<std::size_t>(a)]);
    return build.tensor(p.tensor(s.out).name + suffix, type, dims);
  }

  // The pieces of `out`: the parts of full length, then the shorter last one.
  void in_parts(TensorId out, Reducer reducer, bool guarded, const Body& body) {
    if (whole() > 0) made.push_back(piece(out, reducer, guarded, body, false));
    if (extent % chunk != 0) made.push_back(piece(out, reducer, guarded, body, true));
  }

  Statement piece(TensorId out, Reducer reducer, bool guarded, const Body& body, bool last) const {
    const AxisId shift = last ? 0 : 1;
    Statement t = s;
    t.out = out, t.reducer = reducer, t.at.clear();
    t.axes[static_cast<std::size_t>(axis)] = last ? extent % chunk : chunk;
    if (!last) {
      t.axes.insert(t.axes.begin(), Size(whole()));
      if (!t.names.empty()) t.names.insert(t.names.begin(), part_name);
    }
    for (AxisId& r : t.reduced) r += shift;
    std::vector<Index> with;
    for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) with.push_back(axis_index(a + shift));
    Part part;
    part.local = axis_value(axis + shift, DType::i64);
    part.point.push_back(last ? constant_index(whole()) : axis_index(0));
    for (AxisId a : parallel_axes(s)) part.point.push_back(with[static_cast<std::size_t>(a)]);
    Index& x = with[static_cast<std::size_t>(axis)];
    x = last ? x + constant_index(whole() * chunk) : Size(chunk) * axis_index(0) + x;
    part.body = substitute(p, s.body, with);
    part.guard = s.guard ? substitute(p, s.guard, with) : nullptr;
    t.at = part.point;
    t.body = body(part);
    t.guard = guarded ? part.guard : nullptr;
    return with_simple_indices(p, std::move(t));
  }

  // A statement over the parts (axis 0, reduced) and the parallel axes, or over the latter alone (a map).
  Statement over_parts(TensorId out, Reducer reducer, const std::function<ScalarRef(const std::vector<Index>&)>& body) const {
    const AxisId shift = reducer == Reducer::none ? 0 : 1;
    Statement t;
    t.out = out, t.reducer = reducer, t.label = s.label, t.place = s.place;
    if (shift) t.axes.push_back(parts()), t.names.push_back(part_name), t.reduced = {0};
    std::vector<Index> point, with(s.axes.size(), constant_index(0));
    for (AxisId a : parallel_axes(s)) {
      with[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(t.axes.size()));
      point.push_back(with[static_cast<std::size_t>(a)]);
      t.axes.push_back(s.axes[static_cast<std::size_t>(a)]);
      t.names.push_back(s.names.empty() ? fmt::format("a{}", a) : s.names[static_cast<std::size_t>(a)]);
    }
    t.at = point;
    if (out == s.out) {
      t.at = s.at;
      for (Index& i : t.at) i = substitute(p, i, with);
    }
    t.body = body(point);
    return t;
  }

  static std::vector<Index> under(const Index& part, std::vector<Index> point) {
    point.insert(point.begin(), part);
    return point;
  }

  void plain() {
    const TensorId states_of = states("_part", held_as(p, s));
    in_parts(states_of, s.reducer, true, [](const Part& part) { return part.body; });
    made.push_back(over_parts(s.out, s.reducer, [&](const auto& point) { return read(p, states_of, under(axis_index(0), point)); }));
  }

  void pair() {
    const Reducer extreme = s.reducer == Reducer::argmax ? Reducer::max : Reducer::min;
    const TensorId value = states("_value", held_as(p, s)), at = states("_at", DType::i64), best = states("_best", DType::i64, false);
    in_parts(value, extreme, true, [](const Part& part) { return part.body; });
    TensorId live = -1;
    if (!s.guard) {
      in_parts(at, s.reducer, false, [](const Part& part) { return part.body; });
    } else {
      live = states("_live", DType::boolean);
      in_parts(live, Reducer::any, false, [](const Part& part) { return part.guard; });
      in_parts(at, Reducer::min, true, [&](const Part& part) { return first_place(part, value); });
    }
    Statement winner = over_parts(best, s.reducer, [&](const auto& point) { return read(p, value, under(axis_index(0), point)); });
    if (live >= 0) winner.guard = read(p, live, under(axis_index(0), over_parts_point()));
    p.tensor(best).index_of = parts();
    p.tensor(best).index_axis = part_name;
    made.push_back(std::move(winner));
    made.push_back(over_parts(s.out, Reducer::none, [&](const std::vector<Index>& point) {
      Index part;
      part.terms.push_back({1, std::make_shared<const Access>(Access{best, point, nullptr})});
      return binary(Op::add, binary(Op::mul, integer(chunk, DType::i64), read(p, best, point)), read(p, at, under(part, point)));
    }));
  }

  std::vector<Index> over_parts_point() const {
    std::vector<Index> point;
    for (AxisId a = 1; a <= static_cast<AxisId>(parallel_axes(s).size()); ++a) point.push_back(axis_index(a));
    return point;
  }

  // The place of an element that is the value of its part (NaN is NaN), else a place behind all.
  ScalarRef first_place(const Part& part, TensorId value) const {
    const ScalarRef best = read(p, value, part.point);
    ScalarRef same = binary(Op::eq, part.body, best);
    if (is_float(part.body->dtype))
      same = binary(Op::logical_or, same, binary(Op::logical_and, unary(Op::is_nan, part.body), unary(Op::is_nan, best)));
    return select(same, part.local, integer(chunk, DType::i64));
  }
};

}  // namespace

Or<Program> split(const Program& program, StatementId id, AxisId axis, std::int64_t parts) {
  const Statement* s = program.statement(id);
  if (!s) return Refused{"an opaque node has no axes"};
  TW_ASSERT(axis >= 0 && static_cast<std::size_t>(axis) < s->axes.size());
  const std::string name = s->names.empty() ? fmt::format("axis {}", axis) : s->names[static_cast<std::size_t>(axis)];
  if (std::find(s->reduced.begin(), s->reduced.end(), axis) == s->reduced.end()) return Refused{name + " is not reduced"};
  const auto extent = s->axes[static_cast<std::size_t>(axis)].value();
  if (!extent) return Refused{fmt::format("the extent of {} is not fixed", name)};
  if (*extent < 2) return Refused{fmt::format("{} has {} points", name, *extent)};
  if (parts < 2) return Refused{fmt::format("{} parts", parts)};
  const DType held = held_as(program, *s), declared = program.tensor(s->out).dtype;
  if (s->guard && is_extreme(s->reducer) && !is_float(held) && held != declared)
    return Refused{fmt::format("the {} of nothing is another value in {} than in {}", name_of(s->reducer), name_of(held), name_of(declared))};
  Splitter splitter{program, *s, axis, *extent, ceil_div_i64(*extent, std::min(parts, *extent))};
  splitter.part_name = name + "_part";
  while (std::count(s->names.begin(), s->names.end(), splitter.part_name) > 0) splitter.part_name += "_";
  if (is_pair(s->reducer)) splitter.pair();
  else splitter.plain();
  auto& nodes = splitter.p.nodes;
  nodes.erase(nodes.begin() + id);
  nodes.insert(nodes.begin() + id, std::make_move_iterator(splitter.made.begin()), std::make_move_iterator(splitter.made.end()));
  return std::move(splitter.p);
}

}  // namespace tilewright
