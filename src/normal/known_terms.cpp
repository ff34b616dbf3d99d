#include <algorithm>
#include <cstring>
#include <set>

#include "expr/evaluate.h"
#include "normal/integers.h"

namespace tilewright {

namespace {

std::optional<Bounds> bounds_of_dtype(DType t) {
  if (t == DType::i8) return Bounds{-128, 127};
  if (t == DType::u8) return Bounds{0, 255};
  if (t == DType::boolean) return Bounds{0, 1};
  return std::nullopt;
}

Bounds hull_of(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

Bounds product_of(const Bounds& a, const Bounds& b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

Bounds elements_of(const Tensor& t) {
  Bounds b{0, 0};
  const std::size_t count = t.data.size() / sizeof(std::int32_t);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t v = 0;
    std::memcpy(&v, t.data.data() + i * sizeof v, sizeof v);
    b = i == 0 ? Bounds{double(v), double(v)} : hull_of(b, {double(v), double(v)});
  }
  return b;
}

} // namespace

IntegerBounds::IntegerBounds(const Program& p) : p_(p), writers_(writers_of(p)) {}

std::optional<Bounds> IntegerBounds::of_tensor(TensorId id) const {
  const Tensor& t = p_.tensor(id);
  if (auto b = bounds_of_dtype(t.dtype)) return b;
  if (t.dtype != DType::i32) return std::nullopt;
  if (t.kind == Kind::weight && !t.data.empty()) return elements_of(t);
  if (static_cast<std::size_t>(id) >= writers_.size() || writers_[static_cast<std::size_t>(id)].size() != 1)
    return std::nullopt;
  const Statement* s = p_.statement(writers_[static_cast<std::size_t>(id)][0]);
  if (!s || s->guard) return std::nullopt;
  const auto body = of(s->body);
  if (!body || s->reducer == Reducer::none) return body;
  if (s->reducer != Reducer::sum) return std::nullopt;
  double points = 1;
  for (AxisId a : s->reduced) points *= static_cast<double>(s->axes[static_cast<std::size_t>(a)].constant());
  return Bounds{body->low * points, body->high * points};
}

std::optional<Bounds> IntegerBounds::of(const ScalarRef& s) const {
  double v = 0;
  if (!is_integer(s->dtype)) return std::nullopt;
  if (is_literal(s, &v)) return Bounds{v, v};
  if (s->op == Op::read) {
    const Access& a = std::get<Access>(s->leaf);
    const auto inside = of_tensor(a.tensor);
    if (!inside || !a.otherwise) return inside;
    const auto outside = of(a.otherwise);
    return outside ? std::optional(hull_of(*inside, *outside)) : std::nullopt;
  }
  if (s->op != Op::add && s->op != Op::sub && s->op != Op::mul && s->op != Op::neg && s->op != Op::cast)
    return std::nullopt;
  const auto a = of(s->args[0]);
  if (!a) return std::nullopt;
  if (s->op == Op::neg) return Bounds{-a->high, -a->low};
  if (s->op == Op::cast) {
    const auto narrow = bounds_of_dtype(s->dtype);
    if (narrow && (a->low < narrow->low || a->high > narrow->high)) return narrow;
    return a;
  }
  const auto b = of(s->args[1]);
  if (!b) return std::nullopt;
  if (s->op == Op::mul) return product_of(*a, *b);
  return s->op == Op::add ? Bounds{a->low + b->low, a->high + b->high} : Bounds{a->low - b->high, a->high - b->low};
}

KnownTerm known_term(const Program& p, const ScalarRef& term, const std::vector<Size>& axes) {
  KnownTerm made;
  Program q;
  q.name = "known";
  q.tensors.resize(p.tensors.size());
  for_each_access(term, [&](const Access& a) { q.tensor(a.tensor) = p.tensor(a.tensor); });
  Builder b(q);
  std::vector<Index> with(axes.size(), constant_index(0));
  std::vector<Size> extents;
  for (AxisId a = 0; a < static_cast<AxisId>(axes.size()); ++a) {
    if (!mentions_axis(term, a)) continue;
    with[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(made.axes.size()));
    made.axes.push_back(a);
    extents.push_back(axes[static_cast<std::size_t>(a)]);
  }
  const TensorId out = b.statement("known", term->dtype, extents, substitute(q, term, with));
  q.outputs = {out};
  made.values = evaluate(q, {}, {}, Evaluation::typed).at(out);
  return made;
}

ScalarRef as_weight(Program& p, const std::string& hint, const KnownTerm& term) {
  std::vector<std::byte> bytes(term.values.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), term.values.data, bytes.size());
  std::vector<Index> at;
  for (AxisId a : term.axes) at.push_back(axis_index(a));
  const TensorId made = Builder(p).weight(hint, term.values.dtype, term.values.dims, std::move(bytes));
  return read(p, made, std::move(at));
}

std::optional<ScalarRef> read_through(const Program& p, const Statement& map, const Access& read,
                                      const std::vector<Size>& axes) {
  if (!is_map(map) || map.guard || map.out != read.tensor) return std::nullopt;
  std::vector<Index> with(map.axes.size(), constant_index(0));
  std::size_t found = 0;
  for (std::size_t d = 0; d < map.at.size(); ++d) {
    const Size& extent = p.tensor(map.out).dims[d];
    if (const auto axis = plain_axis(map.at[d])) {
      if (map.axes[static_cast<std::size_t>(*axis)] != extent) return std::nullopt;
      with[static_cast<std::size_t>(*axis)] = read.at[d], ++found;
    } else if (extent != Size(1) || (read.otherwise && !in_bounds(read.at[d], extent, axes))) {
      return std::nullopt;
    }
  }
  if (found != map.axes.size()) return std::nullopt;
  const ScalarRef body = substitute(p, map.body, with);
  return rewrite(body, [&](const ScalarRef& node) -> ScalarRef {
    if (node->op != Op::read) return node;
    auto copy = std::make_shared<Scalar>(*node);
    for (Index& i : std::get<Access>(copy->leaf).at) i = simplify(i, axes);
    return copy;
  });
}

} // namespace tilewright
