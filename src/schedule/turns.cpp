#include "schedule/turns.h"

#include <algorithm>
#include <cmath>

#include "law/stream.h"
#include "schedule/schedule.h"

namespace tilewright {

namespace {

constexpr std::int64_t far = std::int64_t{1} << 60;             // beyond: nothing is known
constexpr std::size_t most_nodes = 64, most_dims = 8;

std::int64_t floored(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

std::int64_t product(std::int64_t a, std::int64_t b) {
  const double v = static_cast<double>(a) * static_cast<double>(b);
  return std::abs(v) >= static_cast<double>(far) ? (v > 0 ? far : -far) : a * b;
}

std::int64_t clamped(std::int64_t v) { return std::clamp(v, -far, far); }

}  // namespace

int Turns::add(Node n) {
  nodes_.push_back(n);
  return static_cast<int>(nodes_.size()) - 1;
}

// The box that an access reads in a turn, where each index of it is one axis or a number.
std::optional<Turns::Read> Turns::box_of(const Access& a, const std::vector<Where>& axes) const {
  if (a.otherwise || a.at.size() > most_dims) return std::nullopt;
  Read made{a.tensor, {}};
  for (const Index& i : a.at) {
    const auto axis = plain_axis(i);
    if (!axis) return std::nullopt;
    made.dims.push_back(axes[static_cast<std::size_t>(*axis)]);
  }
  return made;
}

// What is not understood may be anything.
int Turns::compile(const ScalarRef& s, const std::vector<Where>& axes, const std::set<TensorId>& given) {
  const bool flag = s->dtype == DType::boolean;
  const Node unknown{Op::constant, -1, -1, -1, flag ? Bounds{0, 1} : Bounds{-far, far}};
  double v = 0;
  if (nodes_.size() > most_nodes) return add(unknown);
  if (is_literal(s, &v)) {
    if (std::abs(v) >= 0x1p53 || v != std::floor(v)) return add(unknown);
    const auto n = static_cast<std::int64_t>(v);
    return add({Op::constant, -1, -1, -1, {n, n}});
  }
  if (s->op == Op::axis) {
    const Where& w = axes[static_cast<std::size_t>(std::get<AxisId>(s->leaf))];
    if (w.step >= 0) steps_.push_back(w.step);
    return add({Op::axis, -1, -1, w.step, {0, w.extent - 1}});
  }
  if (s->op == Op::read && is_integer(s->dtype) && given.count(std::get<Access>(s->leaf).tensor)) {
    auto read = box_of(std::get<Access>(s->leaf), axes);
    if (!read) return add(unknown);
    reads_.push_back(std::move(*read));
    return add({Op::read, static_cast<int>(reads_.size()) - 1, -1, -1, unknown.value});
  }
  if (s->op == Op::cast) return s->dtype == DType::boolean ? add(unknown) : compile(s->args[0], axes, given);
  switch (s->op) {
    case Op::neg: case Op::logical_not: case Op::add: case Op::sub: case Op::mul: case Op::floor_div: case Op::mod: case Op::min: case Op::max:
    case Op::eq: case Op::ne: case Op::lt: case Op::le: case Op::gt: case Op::ge: case Op::logical_and: case Op::logical_or: break;
    default: return add(unknown);
  }
  const int a = compile(s->args[0], axes, given), b = s->args.size() > 1 ? compile(s->args[1], axes, given) : -1;
  return add({s->op, a, b, -1, unknown.value});
}

Turns::Bounds Turns::at(const Node& n, const Bounds* known, const std::int64_t* variables, const Data* data) const {
  if (n.op == Op::constant) return n.value;
  if (n.op == Op::axis) return n.step < 0 ? n.value : Bounds{variables[2 * n.step], variables[2 * n.step + 1] - 1};
  if (n.op == Op::read) {
    if (!data) return n.value;
    const Read& r = reads_[static_cast<std::size_t>(n.a)];
    Bounds box[most_dims];
    for (std::size_t d = 0; d < r.dims.size(); ++d) {
      const Where& w = r.dims[d];
      box[d] = w.step < 0 ? Bounds{0, w.extent} : Bounds{variables[2 * w.step], variables[2 * w.step + 1]};
    }
    const auto found = (*data)(r.tensor, box);
    return found ? Bounds{clamped(found->low), clamped(found->high)} : n.value;
  }
  const Bounds a = known[n.a], b = n.b < 0 ? a : known[n.b];
  auto flag = [](bool always, bool ever) { return Bounds{always, ever}; };
  switch (n.op) {
    case Op::neg: return {-a.high, -a.low};
    case Op::add: return {clamped(a.low + b.low), clamped(a.high + b.high)};
    case Op::sub: return {clamped(a.low - b.high), clamped(a.high - b.low)};
    case Op::mul: {
      const auto [low, high] = std::minmax({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)});
      return {low, high};
    }
    case Op::floor_div: return b.low == b.high && b.low > 0 ? Bounds{floored(a.low, b.low), floored(a.high, b.low)} : n.value;
    case Op::mod: {
      if (b.low != b.high || b.low <= 0) return n.value;
      const std::int64_t turn = floored(a.low, b.low);
      return turn == floored(a.high, b.low) ? Bounds{a.low - turn * b.low, a.high - turn * b.low} : Bounds{0, b.low - 1};
    }
    case Op::min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::lt: return flag(a.high < b.low, a.low < b.high);
    case Op::le: return flag(a.high <= b.low, a.low <= b.high);
    case Op::gt: return flag(a.low > b.high, a.high > b.low);
    case Op::ge: return flag(a.low >= b.high, a.high >= b.low);
    case Op::eq: return flag(a.low == a.high && b.low == b.high && a.low == b.low, a.low <= b.high && b.low <= a.high);
    case Op::ne: return flag(a.high < b.low || b.high < a.low, !(a.low == a.high && b.low == b.high && a.low == b.low));
    case Op::logical_and: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::logical_or: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::logical_not: return {1 - a.high, 1 - a.low};
    default: return n.value;
  }
}

Turns::Turns(const ScalarRef& condition, const std::vector<Where>& axes, const std::set<TensorId>& given) : condition_(condition) {
  compile(condition, axes, given);
  std::sort(steps_.begin(), steps_.end());
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
}

bool Turns::live(const std::int64_t* variables, const Data* data) const {
  Bounds known[2 * most_nodes];
  TW_ASSERT(nodes_.size() <= 2 * most_nodes);
  for (std::size_t i = 0; i < nodes_.size(); ++i) known[i] = at(nodes_[i], known, variables, data);
  return nodes_.empty() || known[nodes_.size() - 1].high > 0;
}

namespace {

ScalarRef both(const ScalarRef& a, const ScalarRef& b) { return !a ? b : !b ? a : binary(Op::logical_and, a, b); }

struct Asked {
  const Program& p;
  const Region& r;

  const Statement* map_of(TensorId t) const {
    const Statement* found = nullptr;
    for (StatementId id : r.statements)
      if (const Statement& s = *p.statement(id); s.out == t) {
        if (found || !is_map(s)) return nullptr;
        found = &s;
      }
    return found;
  }

  // Under which condition a term of a sum is not 0: a factor of it may be a map, which is 0 where its guard fails.
  ScalarRef factors(const ScalarRef& body) const {
    if (body->op == Op::mul) return both(factors(body->args[0]), factors(body->args[1]));
    if (body->op == Op::neg || (body->op == Op::cast && is_float(body->dtype))) return factors(body->args[0]);
    if (body->op != Op::read) return nullptr;
    const Access& a = std::get<Access>(body->leaf);
    const Statement* w = a.otherwise ? nullptr : map_of(a.tensor);
    if (!w) return nullptr;
    std::vector<Index> with(w->axes.size(), constant_index(0));
    for (std::size_t d = 0; d < w->at.size(); ++d)
      if (const auto axis = plain_axis(w->at[d])) with[static_cast<std::size_t>(*axis)] = a.at[d];
      else if (!w->at[d].terms.empty()) return nullptr;
    const ScalarRef asked = both(w->guard, factors(w->body));
    return asked ? substitute(p, asked, with) : nullptr;
  }

  ScalarRef of(std::size_t i) const {
    const Statement& s = *p.statement(r.statements[i]);
    const ScalarRef own = s.reducer == Reducer::sum ? factors(s.body) : s.reducer == Reducer::any ? s.body : nullptr;
    const ScalarRef asked = both(s.guard, own);
    return asked ? substitute(p, asked, r.image[i]) : nullptr;
  }
};

// What some sum along the axis asks of its points; null: there is one that takes them all.
ScalarRef asked_along(const Program& p, const Region& r, RegionAxis axis) {
  const Asked asked{p, r};
  ScalarRef any;
  std::vector<ScalarRef> seen;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    const auto along = [&](AxisId a) { return mentions_axis(r.image[i][static_cast<std::size_t>(a)], axis); };
    if (std::none_of(s.reduced.begin(), s.reduced.end(), along)) continue;
    const ScalarRef mine = asked.of(i);
    if (!mine) return nullptr;
    if (std::any_of(seen.begin(), seen.end(), [&](const ScalarRef& c) { return equal(c, mine); })) continue;
    seen.push_back(mine);
    any = any ? binary(Op::logical_or, any, mine) : mine;
  }
  return any;
}

// A result that has the axis must be made at every point of it.
bool keeps(const Program& p, const Region& r, RegionAxis axis) {
  const Boundary b = boundary(p, r);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (std::find(b.outputs.begin(), b.outputs.end(), s.out) == b.outputs.end()) continue;
    for (AxisId a : parallel_axes(s))
      if (mentions_axis(r.image[i][static_cast<std::size_t>(a)], axis)) return true;
  }
  return false;
}

}  // namespace

Turns live_turns(const Program& p, const Region& r, const Schedule& s) {
  const int loop = followed_loop(p, r, s);
  if (loop < 0) return {};
  const RegionAxis axis = s.steps[static_cast<std::size_t>(loop)].axis;
  if (!asked_along(p, r, axis) || keeps(p, r, axis)) return {};
  // What stands beside the region's statements in a turn, such as the number of elements seen, counts too.
  const auto stream = derive_stream(p, r, axis);
  const ScalarRef asked = stream ? asked_along(stream->program, stream->region, axis) : nullptr;
  if (!asked) return {};
  std::vector<Turns::Where> axes;
  for (const Size& e : r.axes) {
    if (!e.is_constant()) return {};
    axes.push_back({-1, e.constant()});
  }
  for (std::size_t i = 0; i < s.steps.size(); ++i) axes[static_cast<std::size_t>(s.steps[i].axis)].step = static_cast<int>(i);
  const Boundary b = boundary(p, r);
  Turns turns(asked, axes, {b.inputs.begin(), b.inputs.end()});
  return std::find(turns.steps().begin(), turns.steps().end(), loop) == turns.steps().end() ? Turns{} : turns;
}

}  // namespace tilewright
