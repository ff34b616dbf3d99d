#include <algorithm>
#include <cmath>
#include <set>

#include "normal/integers.h"

namespace tilewright {

namespace {

constexpr double infinity = INFINITY;

// min(max(f32(source) * scale + shift, low), high), null: 1 and 0. Scale and shift are known before the run.
struct Line {
  ScalarRef source, scale, shift;
  double low = -infinity, high = infinity;
  bool limited() const { return low != -infinity || high != infinity; }
};

struct Rounding {
  Builder& build;
  Statement s; // a map that rounds
  const std::vector<std::vector<StatementId>>&readers, &writers;
  std::set<StatementId> through{}; // what is read through into s
  Program& p = build.program();

  bool known(const ScalarRef& x) const { return all_weights(p, x); }

  // ---- maps between

  static bool dequantises(const ScalarRef& x) {
    if (x->op == Op::cast) return is_float(x->dtype) && is_integer(x->args[0]->dtype);
    return x->op == Op::mul && (dequantises(x->args[0]) || dequantises(x->args[1]));
  }

  // A map whose result, a float or a wide integer, only we need, or that only widens small numbers.
  std::optional<ScalarRef> inside(const Access& a, StatementId self) {
    const Tensor& t = p.tensor(a.tensor);
    const auto n = static_cast<std::size_t>(a.tensor);
    if (t.kind != Kind::intermediate || a.otherwise || t.stored_in || compute_type(t.dtype) != t.dtype)
      return std::nullopt;
    if (n >= writers.size() || writers[n].size() != 1 || std::count(p.outputs.begin(), p.outputs.end(), a.tensor))
      return std::nullopt;
    const Statement* map = p.statement(writers[n][0]);
    if (!map || !is_map(*map)) return std::nullopt;
    const bool ours = std::all_of(readers[n].begin(), readers[n].end(),
                                  [&](StatementId r) { return r == self || through.count(r) > 0; });
    if (!ours && !dequantises(map->body)) return std::nullopt;
    auto body = read_through(p, *map, a, s.axes);
    if (body) through.insert(writers[n][0]), body = cast(*body, t.dtype);
    return body;
  }

  void read_maps_through(StatementId self) {
    for (int round = 0; round < 16; ++round) {
      std::set<TensorId> tensors;
      bool changed = false;
      for_each_access(s.body, [&](const Access& a) { tensors.insert(a.tensor); });
      for (TensorId t : tensors) {
        int times = 0;
        for_each_access(s.body, [&](const Access& a) { times += a.tensor == t; });
        if (times != 1) continue;
        s.body = rewrite(s.body, [&](const ScalarRef& node) -> ScalarRef {
          if (node->op != Op::read || std::get<Access>(node->leaf).tensor != t) return node;
          auto body = inside(std::get<Access>(node->leaf), self);
          changed |= body.has_value();
          return body ? *body : node;
        });
      }
      if (!changed) return;
    }
  }

  // ---- lines

  static ScalarRef times(const ScalarRef& a, const ScalarRef& b) { return a ? binary(Op::mul, a, b) : b; }

  // Limits stay limits under a positive literal.
  bool scale_limits(Line& l, const ScalarRef& k, bool divide) const {
    double v = 0;
    if (!l.limited()) return true;
    if (!is_literal(k, &v) || v <= 0) return false;
    const auto f = static_cast<float>(v);
    auto scaled = [&](double x) {
      return std::isinf(x) ? x : static_cast<double>(divide ? static_cast<float>(x) / f : static_cast<float>(x) * f);
    };
    l.low = scaled(l.low), l.high = scaled(l.high);
    return true;
  }

  std::optional<Line> line(const ScalarRef& x) const {
    if (x->dtype != DType::f32) return std::nullopt;
    if (x->op == Op::cast && is_integer(x->args[0]->dtype) && compute_type(x->args[0]->dtype) == DType::i32)
      return Line{x->args[0], nullptr, nullptr};
    if (x->args.size() != 2) return std::nullopt;
    const bool left = known(x->args[0]), right = known(x->args[1]);
    if (left == right) return std::nullopt;
    const ScalarRef& k = x->args[left ? 0 : 1];
    auto l = line(x->args[left ? 1 : 0]);
    if (!l) return l;
    double v = 0;
    switch (x->op) {
    case Op::mul:
      if (!scale_limits(*l, k, false)) return std::nullopt;
      l->scale = times(l->scale, k);
      if (l->shift) l->shift = binary(Op::mul, l->shift, k);
      return l;
    case Op::div:
      if (left || !scale_limits(*l, k, true)) return std::nullopt;
      l->scale = binary(Op::div, l->scale ? l->scale : number(1), k);
      if (l->shift) l->shift = binary(Op::div, l->shift, k);
      return l;
    case Op::add:
    case Op::sub:
      if (l->limited() || (x->op == Op::sub && left)) return std::nullopt;
      l->shift = l->shift ? binary(x->op, l->shift, k) : x->op == Op::add ? k : unary(Op::neg, k);
      return l;
    case Op::max:
      if (!is_literal(k, &v) || std::isnan(v)) return std::nullopt;
      l->low = std::max(l->low, v), l->high = std::max(l->high, v);
      return l;
    case Op::min:
      if (!is_literal(k, &v) || std::isnan(v)) return std::nullopt;
      l->low = std::min(l->low, v), l->high = std::min(l->high, v);
      return l;
    default: return std::nullopt;
    }
  }

  // A shift of whole steps of the scale, as a shift is that was stored as an integer, goes to the integers.
  void shift_by_steps(Line& l) {
    if (!l.shift || !l.scale) return;
    const KnownTerm ratio =
        known_term(p, binary(Op::div, cast(l.shift, DType::f64), cast(l.scale, DType::f64)), s.axes);
    KnownTerm steps{ratio.axes, Array::make(DType::i32, ratio.values.dims)};
    double most = 0;
    for (std::int64_t i = 0; i < ratio.values.count(); ++i) {
      const double exact = ratio.values.as<double>()[i], whole = std::nearbyint(exact);
      if (!(std::abs(exact - whole) <= std::max(std::abs(whole) * 0x1p-21, 0x1p-20)) || std::abs(whole) > 0x1p30)
        return;
      steps.values.as<std::int32_t>()[i] = static_cast<std::int32_t>(whole);
      most = std::max(most, std::abs(whole));
    }
    const auto range = IntegerBounds(p).of(l.source);
    if (!range || std::max(std::abs(range->low), std::abs(range->high)) + most >= 0x1p31) return;
    l.source = binary(Op::add, l.source, as_weight(p, p.tensor(s.out).name + "_steps", steps));
    l.shift = nullptr;
  }

  // Terms of an integer sum that are known before the run, behind the others.
  ScalarRef known_last(const ScalarRef& sum) {
    ScalarRef rest, constant;
    std::function<void(const ScalarRef&, bool)> collect = [&](const ScalarRef& x, bool negative) {
      if (x->dtype == DType::i32 && (x->op == Op::add || x->op == Op::sub)) {
        collect(x->args[0], negative);
        return collect(x->args[1], negative != (x->op == Op::sub));
      }
      ScalarRef& to = known(x) ? constant : rest;
      if (to)
        to = binary(negative ? Op::sub : Op::add, to, x);
      else
        to = negative ? unary(Op::neg, x) : cast(x, DType::i32);
    };
    collect(sum, false);
    if (!rest || !constant) return sum;
    return binary(Op::add, rest, as_known(constant, "_zero"));
  }

  // A term of several known weights is one.
  ScalarRef as_known(const ScalarRef& x, const char* suffix) {
    if (x->op == Op::read || is_literal(x) || !known(x)) return x;
    const KnownTerm term = known_term(p, x, s.axes);
    if (term.axes.empty())
      return is_float(x->dtype) ? number(static_cast<double>(*term.values.as<float>()))
                                : integer(*term.values.as<std::int32_t>());
    return as_weight(p, p.tensor(s.out).name + suffix, term);
  }

  // ---- the whole

  // cast(round(x) + zero): gives x and zero (null: 0).
  static std::optional<std::pair<ScalarRef, ScalarRef>> rounded(const ScalarRef& body) {
    if (body->op != Op::cast || (body->dtype != DType::u8 && body->dtype != DType::i8)) return std::nullopt;
    const ScalarRef& x = body->args[0];
    if (x->op == Op::round && x->dtype == DType::f32) return std::pair(x->args[0], ScalarRef());
    if (x->op == Op::add && x->args[0]->op == Op::round && x->dtype == DType::f32)
      return std::pair(x->args[0]->args[0], x->args[1]);
    return std::nullopt;
  }

  ScalarRef limit(ScalarRef q, Op op, double at, const ScalarRef& zero) const {
    double z = 0;
    if (zero) is_literal(zero, &z);
    const double whole =
        static_cast<double>(static_cast<float>(std::nearbyint(static_cast<float>(at))) + static_cast<float>(z));
    const bool wide = s.body->dtype == DType::u8;
    if (op == Op::max ? whole <= (wide ? 0 : -128) : whole >= (wide ? 255 : 127)) return q;
    return binary(op, q, number(whole));
  }

  void simplify_rounding() {
    const auto form = rounded(s.body);
    if (!form) return;
    auto l = line(form->first);
    const ScalarRef& zero = form->second;
    if (!l || (l->limited() && zero && !is_literal(zero))) return;
    shift_by_steps(*l);
    ScalarRef v = cast(known_last(l->source), DType::f32);
    if (l->scale) v = binary(Op::mul, v, as_known(l->scale, "_ratio"));
    if (l->shift) v = binary(Op::add, v, as_known(l->shift, "_shift"));
    v = unary(Op::round, v);
    if (zero) v = binary(Op::add, v, zero);
    if (l->low != -infinity) v = limit(v, Op::max, l->low, zero);
    if (l->high != infinity) v = limit(v, Op::min, l->high, zero);
    s.body = cast(v, s.body->dtype);
  }
};

bool rounds(const ScalarRef& s) {
  if (s->op == Op::round) return true;
  return std::any_of(s->args.begin(), s->args.end(), [](const ScalarRef& a) { return rounds(a); });
}

} // namespace

Program gather_roundings(Program p) {
  const auto readers = readers_of(p), writers = writers_of(p);
  Builder build(p);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s || !is_map(*s) || s->guard || (p.tensor(s->out).dtype != DType::u8 && p.tensor(s->out).dtype != DType::i8) ||
        !rounds(s->body))
      continue;
    Rounding r{build, *s, readers, writers};
    r.read_maps_through(static_cast<StatementId>(n));
    r.simplify_rounding();
    p.nodes[n] = std::move(r.s);
  }
  return drop_unused(std::move(p));
}

} // namespace tilewright
