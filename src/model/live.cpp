#include "model/live.h"

#include <algorithm>
#include <cmath>

#include "expr/scalar.h"

namespace tilewright {

namespace {

// What a condition can be on a box: 1 always, 0 never, -1 either.
struct OnBox {
  const std::vector<Interval>& box; // of the region axes

  std::optional<Interval> value(const ScalarRef& s) const {
    switch (s->op) {
    case Op::constant: {
      if (const auto* i = std::get_if<std::int64_t>(&s->leaf)) return Interval{*i, *i};
      const double v = std::get<double>(s->leaf);
      if (v != std::floor(v) || std::abs(v) > 1e15) return std::nullopt;
      return Interval{static_cast<std::int64_t>(v), static_cast<std::int64_t>(v)};
    }
    case Op::axis: return box[static_cast<std::size_t>(std::get<AxisId>(s->leaf))];
    case Op::size: {
      const std::int64_t v = std::get<Size>(s->leaf).constant();
      return Interval{v, v};
    }
    case Op::cast: return is_integer(s->dtype) ? value(s->args[0]) : std::nullopt;
    case Op::add:
    case Op::sub:
    case Op::mul: {
      const auto a = value(s->args[0]), b = value(s->args[1]);
      if (!a || !b) return std::nullopt;
      if (s->op == Op::add) return *a + *b;
      if (s->op == Op::mul) return *a * *b;
      return *a + Interval{-b->high, -b->low};
    }
    case Op::neg: {
      const auto a = value(s->args[0]);
      return a ? std::optional(Interval{-a->high, -a->low}) : std::nullopt;
    }
    case Op::floor_div: {
      const auto a = value(s->args[0]), b = value(s->args[1]);
      return a && b && b->low > 0 ? std::optional(floor_div(*a, *b)) : std::nullopt;
    }
    default: return std::nullopt;
    }
  }

  int holds(const ScalarRef& s) const {
    if (s->op == Op::logical_and || s->op == Op::logical_or) {
      const int a = holds(s->args[0]), b = holds(s->args[1]), stop = s->op == Op::logical_and ? 0 : 1;
      if (a == stop || b == stop) return stop;
      return a == 1 - stop && b == 1 - stop ? 1 - stop : -1;
    }
    if (s->op == Op::logical_not) {
      const int a = holds(s->args[0]);
      return a < 0 ? a : 1 - a;
    }
    if (!is_comparison(s->op)) return -1;
    const auto a = value(s->args[0]), b = value(s->args[1]);
    if (!a || !b) return -1;
    auto less = [](const Interval& x, const Interval& y, std::int64_t by) {
      return x.high + by <= y.low ? 1 : x.low + by > y.high ? 0 : -1;
    };
    switch (s->op) {
    case Op::lt: return less(*a, *b, 1);
    case Op::le: return less(*a, *b, 0);
    case Op::gt: return less(*b, *a, 1);
    case Op::ge: return less(*b, *a, 0);
    case Op::eq:
      return a->high < b->low || b->high < a->low                         ? 0
             : a->low == a->high && b->low == b->high && a->low == b->low ? 1
                                                                          : -1;
    default: return -1;
    }
  }
};

struct Finder {
  const Program& p;
  const Region& r;
  const Schedule& s;
  int step = -1;

  RegionAxis axis() const { return s.steps[static_cast<std::size_t>(step)].axis; }
  const Statement& at(std::size_t i) const { return *p.statement(r.statements[i]); }
  ScalarRef guard(std::size_t i) const { return at(i).guard ? substitute(p, at(i).guard, r.image[i]) : nullptr; }
  bool reduces(std::size_t i) const {
    return std::any_of(at(i).reduced.begin(), at(i).reduced.end(),
                       [&](AxisId a) { return mentions_axis(r.image[i][static_cast<std::size_t>(a)], axis()); });
  }
  // A factor of the body that is 0 where the condition fails.
  bool multiplies_dead(const ScalarRef& body, const std::set<TensorId>& dead) const {
    if (body->op == Op::read) return dead.count(std::get<Access>(body->leaf).tensor) > 0;
    if (body->op == Op::cast) return multiplies_dead(body->args[0], dead);
    if (body->op == Op::mul) return multiplies_dead(body->args[0], dead) || multiplies_dead(body->args[1], dead);
    return body->op == Op::div && multiplies_dead(body->args[0], dead);
  }
  // Whether there is any point: where the condition fails there is none.
  bool asks(std::size_t i, const ScalarRef& condition) const {
    return at(i).reducer == Reducer::any && equal(substitute(p, at(i).body, r.image[i]), condition);
  }
  // Whether every reduction along the stream adds nothing where the condition fails.
  bool covers(const ScalarRef& condition) const {
    std::set<TensorId> dead;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const ScalarRef mine = guard(i);
      const bool guarded = mine && equal(mine, condition);
      if (at(i).reduced.empty()) {
        if (guarded || multiplies_dead(at(i).body, dead)) dead.insert(at(i).out);
      } else if (reduces(i) && !guarded && !(at(i).reducer == Reducer::sum && multiplies_dead(at(i).body, dead)) &&
                 !asks(i, condition)) {
        return false;
      }
    }
    return true;
  }
  ScalarRef condition() const {
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const ScalarRef mine = guard(i);
      if (mine && mentions_axis(mine, axis()) && covers(mine)) return mine;
    }
    return nullptr;
  }
};

// x <= q + c as {+1, c}; x >= q + c as {-1, c}: x the stream, q one other axis.
struct Bound {
  bool upper = false;
  RegionAxis other = -1;
  std::int64_t c = 0;
};

// A linear form over axes, of an integer expression.
bool linear(const ScalarRef& s, std::int64_t factor, std::map<RegionAxis, std::int64_t>& terms,
            std::int64_t& constant) {
  switch (s->op) {
  case Op::axis: terms[std::get<AxisId>(s->leaf)] += factor; return true;
  case Op::constant:
    if (const auto* i = std::get_if<std::int64_t>(&s->leaf)) return constant += factor * *i, true;
    return false;
  case Op::size: return constant += factor * std::get<Size>(s->leaf).constant(), true;
  case Op::cast: return is_integer(s->dtype) && linear(s->args[0], factor, terms, constant);
  case Op::add: return linear(s->args[0], factor, terms, constant) && linear(s->args[1], factor, terms, constant);
  case Op::sub: return linear(s->args[0], factor, terms, constant) && linear(s->args[1], -factor, terms, constant);
  case Op::neg: return linear(s->args[0], -factor, terms, constant);
  default: return false;
  }
}

std::optional<Bound> bound_of(const ScalarRef& s, RegionAxis x) {
  if (s->op != Op::le && s->op != Op::lt && s->op != Op::ge && s->op != Op::gt) return std::nullopt;
  const bool at_most = s->op == Op::le || s->op == Op::lt;
  std::map<RegionAxis, std::int64_t> terms; // of small - large <= 0 (or < 0)
  std::int64_t constant = s->op == Op::lt || s->op == Op::gt ? 1 : 0;
  const std::size_t small = at_most ? 0 : 1;
  if (!linear(s->args[small], 1, terms, constant) || !linear(s->args[1 - small], -1, terms, constant))
    return std::nullopt;
  std::erase_if(terms, [](const auto& t) { return t.second == 0; });
  const auto mine = terms.find(x);
  if (mine == terms.end() || std::abs(mine->second) != 1 || terms.size() > 2) return std::nullopt;
  Bound b;
  b.upper = mine->second == 1;
  for (const auto& [axis, c] : terms)
    if (axis != x) {
      if (c != -mine->second) return std::nullopt;
      b.other = axis;
    }
  b.c = b.upper ? -constant : constant; // x <= q - constant;  -x + q + constant <= 0: x >= q + constant
  return b;
}

void conjuncts(const ScalarRef& s, std::vector<ScalarRef>& list) {
  if (s->op != Op::logical_and) return list.push_back(s);
  conjuncts(s->args[0], list), conjuncts(s->args[1], list);
}

// The mean extent of the stream that a tile of q sees between its bounds; none where the ends of the axis cut them,
// except that a window narrower than the axis loses little there.
std::optional<Formula> mean_extent(const ScalarRef& condition, RegionAxis x, const Extents& e) {
  std::optional<Bound> upper, lower;
  std::vector<ScalarRef> list;
  conjuncts(condition, list);
  for (const ScalarRef& one : list) {
    const auto b = bound_of(one, x);
    if (!b || b->other < 0 || (b->upper ? upper : lower)) return std::nullopt;
    (b->upper ? upper : lower) = b;
  }
  const auto only = upper ? upper : lower;
  if (!only) return std::nullopt;
  const std::int64_t q = e.r.axes[static_cast<std::size_t>(only->other)].constant(),
                     n = e.r.axes[static_cast<std::size_t>(x)].constant();
  const Formula whole_q = Formula::symbol(e.names.axes[static_cast<std::size_t>(only->other)]);
  const Formula whole_x = Formula::symbol(e.names.axes[static_cast<std::size_t>(x)]);
  const Formula tile = e.of(only->other);
  if (upper && lower)
    return upper->other == lower->other ? std::optional(tile + static_cast<double>(upper->c - lower->c)) : std::nullopt;
  const std::int64_t free_at_end =
      upper ? q - 1 + upper->c : n - 1 - lower->c; // of the tile that sees most: at most all
  const std::int64_t least = upper ? upper->c + 1 : n - (q - 1 + lower->c);
  if (free_at_end > n - 1 || least < 0) return std::nullopt;
  // x <= q + c: the tile from t to t + g sees t + g + c.
  if (upper)
    return upper->c == n - q && n != q ? whole_x - 0.5 * whole_q + 0.5 * tile
                                       : 0.5 * whole_q + 0.5 * tile + static_cast<double>(upper->c);
  return whole_x - 0.5 * whole_q + 0.5 * tile - static_cast<double>(lower->c);
}

struct Counter {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Live& live;
  std::set<RegionAxis> in_condition{};

  std::int64_t extent(std::size_t step) const {
    return r.axes[static_cast<std::size_t>(s.steps[step].axis)].constant();
  }
  std::int64_t tiles(std::size_t step) const { return ceil_div_i64(extent(step), s.steps[step].size); }

  std::set<std::size_t> steps_of_condition() const {
    std::set<std::size_t> list;
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      if (live.condition && mentions_axis(live.condition, s.steps[i].axis)) list.insert(i);
    return list;
  }

  // Calls f with the loop variables of every turn, over the given steps, that is alive; the other steps stand at their
  // first tile.
  template <class F> void for_each(const std::set<std::size_t>& steps, bool skip, const F& f) const {
    std::vector<std::size_t> order(steps.begin(), steps.end());
    std::vector<std::int64_t> v(2 * s.steps.size() + 2, 0);
    for (std::size_t i = 0; i < s.steps.size(); ++i) v[2 * i + 1] = std::min(s.steps[i].size, extent(i));
    std::vector<std::int64_t> number(order.size(), 0);
    for (bool more = true; more;) {
      for (std::size_t k = 0; k < order.size(); ++k) {
        const std::size_t i = order[k];
        v[2 * i] = number[k] * s.steps[i].size, v[2 * i + 1] = std::min(v[2 * i] + s.steps[i].size, extent(i));
      }
      if (!skip || alive(v)) f(v);
      more = false;
      for (std::size_t k = order.size(); k-- > 0 && !more;) {
        more = ++number[k] < tiles(order[k]);
        if (!more) number[k] = 0;
      }
    }
  }

  bool alive(const std::vector<std::int64_t>& v) const {
    if (!live.condition) return true;
    std::vector<Interval> box;
    for (std::size_t a = 0; a < r.axes.size(); ++a) box.push_back({0, r.axes[a].constant() - 1});
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      box[static_cast<std::size_t>(s.steps[i].axis)] = {v[2 * i], v[2 * i + 1] - 1};
    return OnBox{box}.holds(live.condition) != 0;
  }
};

} // namespace

std::optional<Live> live_share(const Program& p, const Region& r, const Schedule& s) {
  Live live;
  for (std::size_t i = 0; i < s.steps.size() && live.step < 0; ++i)
    if (s.steps[i].how == AxisStep::How::stream) live.step = static_cast<int>(i);
  if (live.step < 0) return std::nullopt;
  const Finder finder{p, r, s, live.step};
  live.condition = finder.condition();
  const Counter counter{p, r, s, live, {}};
  auto steps = counter.steps_of_condition();
  steps.insert(static_cast<std::size_t>(live.step));
  counter.for_each(steps, false, [&](const auto&) { ++live.turns; });
  counter.for_each(steps, true, [&](const auto&) { ++live.alive; });
  if (live.condition) live.extent = mean_extent(live.condition, finder.axis(), Extents(p, r, s));
  return live;
}

std::int64_t moved_alive(const Program& p, const Region& r, const Schedule& s, Count c) {
  const auto found = live_share(p, r, s);
  const Live live = found ? *found : Live{};
  const Counter counter{p, r, s, live, {}};
  std::int64_t total = 0;
  for (const Transfer& t : transfers(p, r, s)) {
    const bool in_turns = live.step >= 0 && t.depth > live.step;
    std::set<std::size_t> steps;
    if (in_turns) steps = counter.steps_of_condition();
    for (const Span& span : t.box)
      for (const Affine* bound : {&span.low, &span.high})
        for (const auto& term : bound->terms) steps.insert(static_cast<std::size_t>(term.first) / 2);
    std::int64_t values = 0;
    counter.for_each(steps, in_turns, [&](const std::vector<std::int64_t>& v) {
      std::int64_t box = 1;
      for (std::size_t d = 0; d < t.box.size(); ++d)
        box = checked_mul(box, t.box[d].count(v.data(), p.tensor(t.tensor).dims[d].constant()));
      values = checked_add(values, box);
    });
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.depth); ++i)
      if (!steps.count(i)) values = checked_mul(values, counter.tiles(i));
    const std::int64_t width = c == Count::bytes ? static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype)) : 1;
    total = checked_add(total, checked_mul(values, width));
  }
  return total;
}

Flow flow_alive(const Program& p, const Region& r, const Schedule& s) {
  Flow f = flow(p, r, s);
  const auto live = live_share(p, r, s);
  if (!live || !live->extent) return f;
  const Extents e(p, r, s);
  const Formula share =
      *live->extent /
      Formula::symbol(e.names.axes[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(live->step)].axis)]);
  for (Flow::Move& m : f.moves)
    if (m.depth > live->step) m.run = m.run * share;
  f.flops = f.flops * share;
  return f;
}

} // namespace tilewright
