#include "normal/masks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "expr/evaluate.h"

namespace tilewright {

namespace {

bool indices_alone(const ScalarRef& s) {
  bool reads = false;
  for_each_access(s, [&](const Access&) { reads = true; });
  return !reads;
}

ScalarRef both(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::logical_and, a, b); }

// The table behind a read of constants at affine indices, over the axes of the reader.
std::optional<Table> table(const Program& p, const ScalarRef& s) {
  if (s->op != Op::read) return std::nullopt;
  const Access& a = std::get<Access>(s->leaf);
  if (a.otherwise || !std::all_of(a.at.begin(), a.at.end(), is_affine)) return std::nullopt;
  auto t = two_valued(p, a.tensor);
  if (t) t->where = substitute(p, t->where, a.at);
  return t;
}

// The only statement that writes a tensor, if it is a map of all of its elements, with its axes as indices of a reader.
const Statement* map_behind(const Program& p, const Access& a, std::vector<Index>* with) {
  const Statement* map = nullptr;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n)); s && s->out == a.tensor) {
      if (map) return nullptr;
      map = s;
    }
  if (!map || !is_map(*map) || map->guard || a.otherwise) return nullptr;
  with->assign(map->axes.size(), constant_index(0));
  std::set<AxisId> known;
  for (std::size_t d = 0; d < map->at.size(); ++d) {
    const auto axis = plain_axis(map->at[d]);
    if (axis ? !known.insert(*axis).second : p.tensor(map->out).dims[d] != Size(1)) return nullptr;
    if (axis) (*with)[static_cast<std::size_t>(*axis)] = a.at[d];
  }
  return known.size() == map->axes.size() ? map : nullptr;
}

// A scalar with what only indices decide written out: constant tables of comparisons and progressions, and maps of those. Null where
// something else is left.
ScalarRef of_indices(const Program& p, const ScalarRef& s, int depth = 8) {
  bool other = depth == 0;
  const ScalarRef made = rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
    if (other || node->op != Op::read) return node;
    const Access& a = std::get<Access>(node->leaf);
    if (const auto t = node->dtype == DType::boolean ? table(p, node) : std::nullopt) return t->where;
    if (const auto run = a.otherwise ? std::nullopt : progression(p, a.tensor)) return cast(index_value(p, substitute(p, *run, a.at)), node->dtype);
    std::vector<Index> with;
    const Statement* map = p.tensor(a.tensor).kind == Kind::intermediate ? map_behind(p, a, &with) : nullptr;
    const ScalarRef body = map ? of_indices(p, map->body, depth - 1) : nullptr;
    other = !body;
    return body ? cast(substitute(p, body, with), node->dtype) : node;
  });
  return other ? nullptr : made;
}

ScalarRef condition(const Program& p, const ScalarRef& c) {
  if (c->op == Op::logical_not) return unary(Op::logical_not, condition(p, c->args[0]));
  const ScalarRef written = c->dtype == DType::boolean && !indices_alone(c) ? of_indices(p, c) : nullptr;
  return written ? written : c;
}

// select(c, 0, k), select(c, k, 0) or a table of 0 and k.
std::optional<Masked> added_term(const Program& p, const ScalarRef& s) {
  double a = 0, b = 0;
  if (s->op == Op::select && is_literal(s->args[1], &a) && is_literal(s->args[2], &b) && (a == 0) != (b == 0)) {
    const ScalarRef c = condition(p, s->args[0]);
    return a == 0 ? Masked{c, nullptr, b, true} : Masked{unary(Op::logical_not, c), nullptr, a, true};
  }
  if (s->dtype != DType::boolean)
    if (const auto t = table(p, s)) return Masked{t->where, nullptr, t->no, true};
  return std::nullopt;
}

}  // namespace

std::optional<Masked> masked(const Program& p, const ScalarRef& s) {
  double v = 0;
  if (s->op == Op::select) {
    const ScalarRef c = condition(p, s->args[0]);
    if (is_literal(s->args[2], &v)) return Masked{c, s->args[1], v, false};
    if (is_literal(s->args[1], &v)) return Masked{unary(Op::logical_not, c), s->args[2], v, false};
    return std::nullopt;
  }
  if (!is_float(s->dtype) || s->args.size() != 2) return std::nullopt;
  if (s->op == Op::add)
    for (int i : {1, 0})
      if (auto m = added_term(p, s->args[static_cast<std::size_t>(i)])) {
        m->rest = s->args[static_cast<std::size_t>(1 - i)];
        return m;
      }
  if ((s->op == Op::mul || s->op == Op::div) && is_literal(s->args[1], &v) && v > 0 && std::isfinite(v))
    if (auto m = masked(p, s->args[0])) {
      m->rest = binary(s->op, m->rest, s->args[1]);
      m->value = s->op == Op::mul ? m->value * v : m->value / v;
      return m;
    }
  return std::nullopt;
}

namespace {

// A sum of multiples of axes.
struct Line { std::int64_t offset = 0; std::map<AxisId, std::int64_t> of; };

std::optional<Line> line(const ScalarRef& v) {
  double n = 0;
  if (!is_integer(v->dtype)) return std::nullopt;
  if (is_literal(v, &n)) return std::abs(n) < 0x1p40 ? std::optional(Line{static_cast<std::int64_t>(n), {}}) : std::nullopt;
  if (v->op == Op::axis) return Line{0, {{std::get<AxisId>(v->leaf), 1}}};
  if (v->op == Op::cast) return line(v->args[0]);
  if (v->op != Op::add && v->op != Op::sub) return std::nullopt;
  auto a = line(v->args[0]);
  const auto b = line(v->args[1]);
  if (!a || !b) return std::nullopt;
  const std::int64_t sign = v->op == Op::add ? 1 : -1;
  a->offset += sign * b->offset;
  for (const auto& [axis, c] : b->of) a->of[axis] += sign * c;
  return a;
}

// What is at least 0 where comparisons, all of them, hold; false: there is another condition.
bool lines(const ScalarRef& c, std::vector<Line>& list) {
  if (c->op == Op::logical_and) return lines(c->args[0], list) && lines(c->args[1], list);
  if (c->op != Op::le && c->op != Op::lt && c->op != Op::ge && c->op != Op::gt) return false;
  const bool less = c->op == Op::le || c->op == Op::lt;
  const auto made = line(binary(Op::sub, c->args[less ? 1 : 0], c->args[less ? 0 : 1]));
  if (!made) return false;
  list.push_back(*made);
  list.back().offset -= c->op == Op::lt || c->op == Op::gt;
  return true;
}

// Of conditions that bound one reduced axis by the others: whether the bounds leave some of it at every point of those.
bool bounds_leave_some(const Statement& s, const ScalarRef& condition) {
  std::vector<Line> list;
  if (!lines(condition, list)) return false;
  AxisId bounded = -1;
  std::set<AxisId> others;
  for (const Line& l : list)
    for (const auto& [a, c] : l.of) {
      if (c == 0) continue;
      if (std::find(s.reduced.begin(), s.reduced.end(), a) == s.reduced.end()) {
        others.insert(a);
        continue;
      }
      if ((bounded >= 0 && bounded != a) || (c != 1 && c != -1)) return false;
      bounded = a;
    }
  if (bounded < 0) return false;
  double points = 1;
  std::map<AxisId, std::int64_t> at;
  const auto extent = [&](AxisId a) { return s.axes[static_cast<std::size_t>(a)].constant(); };
  for (AxisId a : others) points *= static_cast<double>(extent(a)), at[a] = 0;
  if (points > 0x1p24) return false;
  for (bool more = points > 0; more;) {
    std::int64_t low = 0, high = extent(bounded) - 1;
    for (const Line& l : list) {
      std::int64_t rest = l.offset, own = 0;
      for (const auto& [a, c] : l.of)
        if (a == bounded) own = c;
        else if (c != 0) rest += c * at.at(a);
      if (own > 0) low = std::max(low, -rest);
      else if (own < 0) high = std::min(high, rest);
      else if (rest < 0) return false;
    }
    if (low > high) return false;
    more = false;
    for (auto& [a, v] : at) {
      more = ++v < extent(a);
      if (more) break;
      v = 0;
    }
  }
  return true;
}

}  // namespace

bool always_some(const Program& p, const Statement& s, const ScalarRef& condition) {
  if (!indices_alone(condition)) return false;
  Program q;
  q.name = "live";
  Builder build(q);
  std::vector<Index> with(s.axes.size(), constant_index(0));
  std::vector<Size> axes;
  std::vector<AxisId> reduced;
  double points = 1;
  for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) {
    const Size& extent = s.axes[static_cast<std::size_t>(a)];
    const bool is_reduced = std::find(s.reduced.begin(), s.reduced.end(), a) != s.reduced.end();
    if (is_reduced && extent == Size(0)) return false;
    if (!mentions_axis(condition, a)) continue;
    with[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(axes.size()));
    if (is_reduced) reduced.push_back(static_cast<AxisId>(axes.size()));
    axes.push_back(extent);
    points *= static_cast<double>(extent.constant());
  }
  if (points > 0x1p24) return bounds_leave_some(s, condition);
  const bool reduces = !reduced.empty();
  const TensorId t = build.statement("some", DType::boolean, axes, substitute(p, condition, with), reduces ? Reducer::any : Reducer::none, reduced);
  q.outputs = {t};
  const Array a = evaluate(q, {}, {}, Evaluation::typed).at(t);
  return std::all_of(a.data, a.data + a.count(), [](std::byte b) { return b != std::byte{0}; });
}

namespace {

// What a reducer leaves out: its identity, or a finite value beyond all that is taken for it.
enum class Dead { no, exactly, practically };
Dead dead(Reducer r, double v) {
  constexpr double far = 1e4;
  switch (r) {
    case Reducer::sum: return v == 0 ? Dead::exactly : Dead::no;
    case Reducer::prod: return v == 1 ? Dead::exactly : Dead::no;
    case Reducer::max: return v == -INFINITY ? Dead::exactly : v <= -far ? Dead::practically : Dead::no;
    case Reducer::min: return v == INFINITY ? Dead::exactly : v >= far ? Dead::practically : Dead::no;
    default: return Dead::no;
  }
}

struct Masks {
  Program& p;
  const std::vector<std::vector<StatementId>>&readers, &writers;
  std::vector<std::string>* left = nullptr;                        // why masks stay

  void say(const Statement& s, const std::string& why) const {
    if (left) left->push_back(fmt::format("masks: the mask in {} stays a value: {}", p.tensor(s.out).name, why));
  }

  // A reduction's own mask: its body without it, under a guard.
  bool own(Statement& s) const {
    if (is_map(s)) return false;
    const auto m = masked(p, s.body);
    if (!m || (s.reducer != Reducer::max && s.reducer != Reducer::min && m->added)) return false;
    const Dead d = dead(s.reducer, m->value);
    if (d == Dead::no || compute_type(m->rest->dtype) != compute_type(s.body->dtype)) return false;
    // The maximum of nothing is the lowest of the declared dtype, the sum of nothing 0.
    const ScalarRef guard = both(s.guard, m->live);
    if (!fits(s, d) || (d == Dead::practically && !always_some(p, s, guard))) {
      say(s, "some reduction may have no other point");
      return false;
    }
    s.body = m->rest;
    s.guard = guard;
    return true;
  }

  // What a widening cast of floats leaves as it is.
  static const ScalarRef& bare(const ScalarRef& s) {
    const bool wider = s->op == Op::cast && is_float(s->dtype) && is_float(s->args[0]->dtype) && s->dtype == compute_type(s->args[0]->dtype);
    return wider ? s->args[0] : s;
  }

  bool fits(const Statement& s, Dead d) const {
    return d == Dead::practically || s.reducer == Reducer::sum || s.reducer == Reducer::prod ||
           (is_float(s.body->dtype) && is_float(p.tensor(s.out).dtype));
  }

  // The axes of a map that writes all of its dims plainly, as indices of a reader.
  std::optional<std::vector<Index>> axes_in(const Statement& map, const Access& a) const {
    std::vector<Index> with(map.axes.size(), constant_index(0));
    std::set<AxisId> known;
    for (std::size_t d = 0; d < map.at.size(); ++d)
      if (const auto axis = plain_axis(map.at[d])) with[static_cast<std::size_t>(*axis)] = a.at[d], known.insert(*axis);
      else if (p.tensor(map.out).dims[d] != Size(1)) return std::nullopt;
    return known.size() == map.axes.size() ? std::optional(with) : std::nullopt;
  }

  // max over masked values: they are left out where another point is always there.
  bool extreme(const Statement& map, const Masked& m, const Statement& s, ScalarRef* guard) const {
    const ScalarRef& read_of = bare(s.body);
    const auto* a = read_of->op == Op::read ? &std::get<Access>(read_of->leaf) : nullptr;
    const Dead d = dead(s.reducer, m.value);
    if (s.reducer != Reducer::max || !a || a->tensor != map.out || a->otherwise || d == Dead::no || !is_float(s.body->dtype)) return false;
    const auto with = axes_in(map, *a);
    if (!with) return false;
    *guard = both(s.guard, substitute(p, m.live, *with));
    return always_some(p, s, *guard);
  }

  // exp(masked - its maximum): 0 where the mask is. `found`: the maximum, of the same row.
  bool exponential(const Statement& map, const Masked& m, const Statement& s, StatementId* found, ScalarRef* guard) const {
    if (!is_map(s) || s.body->op != Op::exp || s.body->args[0]->op != Op::sub) return false;
    const ScalarRef &x = bare(s.body->args[0]->args[0]), &y = bare(s.body->args[0]->args[1]);
    if (x->op != Op::read || y->op != Op::read) return false;
    const Access &value = std::get<Access>(x->leaf), &most = std::get<Access>(y->leaf);
    if (value.tensor != map.out || value.otherwise || most.otherwise || writers[static_cast<std::size_t>(most.tensor)].size() != 1) return false;
    *found = writers[static_cast<std::size_t>(most.tensor)][0];
    const Statement* row = p.statement(*found);
    if (!row || row->reducer != Reducer::max || bare(row->body)->op != Op::read) return false;
    const Access& in_row = std::get<Access>(bare(row->body)->leaf);
    if (in_row.tensor != map.out || !covers(in_row, *row)) return false;
    for (AxisId a : parallel_axes(*row))
      for (std::size_t d = 0; d < in_row.at.size(); ++d)
        for (std::size_t e = 0; e < row->at.size(); ++e)
          if (plain_axis(in_row.at[d]) == a && plain_axis(row->at[e]) == a && !(value.at[d] == most.at[e])) return false;
    const auto with = axes_in(map, value);
    if (!with) return false;
    *guard = both(s.guard, substitute(p, m.live, *with));
    return true;
  }

  // Each dim is read along an axis of its own, and each parallel axis is written.
  bool covers(const Access& a, const Statement& row) const {
    std::set<AxisId> used;
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      const auto axis = plain_axis(a.at[d]);
      if (p.tensor(a.tensor).dims[d] == Size(1)) continue;
      if (!axis || !used.insert(*axis).second || row.axes[static_cast<std::size_t>(*axis)] != p.tensor(a.tensor).dims[d]) return false;
    }
    for (AxisId x : parallel_axes(row))
      if (std::none_of(row.at.begin(), row.at.end(), [&](const Index& i) { return plain_axis(i) == x; })) return false;
    return true;
  }

  // A map that masks, read by maxima and by the exponentials of what lies below them: the mask becomes their guard.
  bool shared(StatementId id) {
    Statement& map = std::get<Statement>(p.nodes[static_cast<std::size_t>(id)]);
    if (!is_map(map) || map.guard || !is_float(map.body->dtype)) return false;
    const auto m = masked(p, map.body);
    if (!m || dead(Reducer::max, m->value) == Dead::no) return false;
    const auto t = static_cast<std::size_t>(map.out);
    const bool seen = p.is_result(map.out) || p.tensor(map.out).stored_in;
    if (seen || writers[t].size() != 1) return say(map, "it is an output, or a piece of one"), false;
    std::vector<std::pair<StatementId, ScalarRef>> guards;
    std::set<StatementId> maxima;
    for (const bool first : {true, false})
      for (StatementId r : readers[t]) {
        const Statement* s = p.statement(r);
        ScalarRef guard;
        StatementId row = -1;
        if (s && !is_map(*s) && first) {
          if (!extreme(map, *m, *s, &guard)) return say(map, fmt::format("{} may have no other point", p.tensor(s->out).name)), false;
          maxima.insert(r);
        } else if (!s || is_map(*s)) {
          if (first) continue;
          if (!s || !exponential(map, *m, *s, &row, &guard) || !maxima.count(row)) return say(map, "it is read by more than maxima and what lies below them"), false;
        } else {
          continue;
        }
        guards.emplace_back(r, guard);
      }
    if (guards.empty()) return false;
    map.body = m->rest;
    for (auto& [r, guard] : guards) std::get<Statement>(p.nodes[static_cast<std::size_t>(r)]).guard = guard;
    return true;
  }
};

void run(Program& p, std::vector<std::string>* left) {
  const auto readers = readers_of(p), writers = writers_of(p);
  Masks masks{p, readers, writers, left};
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (Statement* s = std::get_if<Statement>(&p.nodes[n]); s && !masks.own(*s)) masks.shared(static_cast<StatementId>(n));
}

}  // namespace

Program masks_to_guards(Program p) {
  run(p, nullptr);
  return p;
}

std::vector<std::string> masks_left(const Program& before) {
  Program p = before;
  std::vector<std::string> left;
  run(p, &left);
  return left;
}

}  // namespace tilewright
