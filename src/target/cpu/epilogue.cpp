#include "target/cpu/epilogue.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

namespace tilewright::cpu {

namespace {

using S = kernels::StepOp;

bool literal(const ScalarRef& s, double* v) { return is_literal(s, v); }
bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

// f(x) = 1 / (1 + exp(-x)): gives x.
ScalarRef inside_sigmoid(const ScalarRef& s) {
  double one = 0;
  if (s->op != Op::div || !literal(s->args[0], &one) || one != 1 || s->args[1]->op != Op::add) return nullptr;
  for (int i : {0, 1}) {
    const ScalarRef& e = s->args[1]->args[static_cast<std::size_t>(i)];
    if (literal(s->args[1]->args[static_cast<std::size_t>(1 - i)], &one) && one == 1 && e->op == Op::exp && e->args[0]->op == Op::neg)
      return e->args[0]->args[0];
  }
  return nullptr;
}

// f(x) = min(max(a * x + b, 0), 1) in any spelling with a scale in or after the clamp: gives x, a, b of the unit clamp.
ScalarRef inside_unit_clamp(const ScalarRef& s, double* a, double* b) {
  double low = 0, high = 0;
  auto clamp = [&](const ScalarRef& c) -> ScalarRef {
    if ((c->op != Op::min && c->op != Op::max) || !literal(c->args[1], c->op == Op::min ? &high : &low)) return nullptr;
    const ScalarRef& d = c->args[0];
    if (d->op != (c->op == Op::min ? Op::max : Op::min) || !literal(d->args[1], d->op == Op::min ? &high : &low)) return nullptr;
    return d->args[0];
  };
  double scale = 1;
  ScalarRef in = clamp(s);
  if (!in && (s->op == Op::mul || s->op == Op::div) && literal(s->args[1], &scale)) {
    in = clamp(s->args[0]);
    if (s->op == Op::div) scale = 1 / scale;
  }
  if (!in || low != 0 || !near(high * scale, 1)) return nullptr;
  *a = 1, *b = 0;
  if (in->op == Op::add && literal(in->args[1], b)) in = in->args[0];
  if (in->op == Op::mul && literal(in->args[1], a)) in = in->args[0];
  else if (in->op == Op::div && literal(in->args[1], a)) *a = 1 / *a, in = in->args[0];
  *a *= scale, *b *= scale;
  return in;
}

struct Matcher {
  const Program& p;
  const Region& r;
  const Nest& nest;
  const std::vector<Stored>& buffers;
  TensorId source = -1;
  int statement = 0;                                       // whose axes the bodies are over
  bool inner_operands = false;                             // what the kernel makes may stand beside the value
  enum class Held { floats, integers, bytes } held = Held::floats;   // bytes: whole numbers of eight bits, as floats
  std::vector<StepOf> steps;
  std::string refusal;

  bool no(const ScalarRef& s) {
    if (refusal.empty()) refusal = fmt::format("{} is not in the register menu", name_of(s->op));
    return false;
  }

  bool is_source(const ScalarRef& s) const { return s->op == Op::read && std::get<Access>(s->leaf).tensor == source; }
  bool contains(const ScalarRef& s) const {
    bool found = false;
    for_each_access(s, [&](const Access& a) { found |= a.tensor == source; });
    return found;
  }

  bool operand(const ScalarRef& s, StepOf* step) {
    double v = 0;
    if (literal(s, &v)) {
      step->a = static_cast<float>(v);
      return true;
    }
    if (byte_operand(s, step)) return true;
    if (s->op == Op::cast && s->dtype == DType::f32 && s->args[0]->op == Op::read) return operand(s->args[0], step);
    if (s->op != Op::read || (s->dtype != DType::f32 && s->dtype != DType::f16 && s->dtype != DType::bf16)) return no(s);
    return place(s, step);
  }

  // f32(q - zero) * scale.
  bool byte_operand(const ScalarRef& s, StepOf* step) {
    double scale = 1, zero = 0;
    ScalarRef x = s;
    if (x->op == Op::mul && literal(x->args[1], &scale)) x = x->args[0];
    else if (x->op == Op::mul && literal(x->args[0], &scale)) x = x->args[1];
    if (x->op != Op::cast || x->dtype != DType::f32) return false;
    x = x->args[0];
    if (x->op == Op::sub && x->dtype == DType::i32 && literal(x->args[1], &zero)) x = x->args[0];
    if (x->op == Op::cast && x->dtype == DType::i32) x = x->args[0];
    if (x->op != Op::read || (x->dtype != DType::u8 && x->dtype != DType::i8) || std::abs(zero) > 0x1p20) return false;
    step->a = static_cast<float>(zero), step->b = static_cast<float>(scale);
    return place(x, step);
  }

  bool place(const ScalarRef& s, StepOf* step) {
    const Access& a = std::get<Access>(s->leaf);
    if (a.otherwise) return no(s);
    for (std::size_t b = 0; b < nest.buffers.size(); ++b)
      if (nest.buffers[b].tensor == a.tensor) step->buffer = static_cast<BufferId>(b);
    if (step->buffer < 0 || (nest.buffers[static_cast<std::size_t>(step->buffer)].inner && !inner_operands)) return no(s);
    step->dtype = buffers[static_cast<std::size_t>(step->buffer)].dtype;
    auto found = strides_of(p, r, statement, a.at, buffers[static_cast<std::size_t>(step->buffer)]);
    if (!found) return no(s);
    step->strides = std::move(*found);
    return true;
  }

  bool push(S op, const ScalarRef& other = nullptr, double a = 0, double b = 0) {
    StepOf step{op, -1, DType::f32, {0, std::vector<std::int64_t>(r.axes.size(), 0)}, static_cast<float>(a), static_cast<float>(b)};
    if (other && !operand(other, &step)) return false;
    steps.push_back(std::move(step));
    return true;
  }

  // x * f(x) and the like, where the chain's value occurs more than once.
  bool idiom(const ScalarRef& s, bool* matched) {
    *matched = true;
    double a = 0, b = 0;
    if (ScalarRef x = inside_sigmoid(s)) return chain(x) && push(S::sigmoid);
    if (s->op == Op::mul)
      for (int i : {0, 1}) {
        const ScalarRef &x = s->args[static_cast<std::size_t>(i)], &f = s->args[static_cast<std::size_t>(1 - i)];
        if (ScalarRef y = inside_sigmoid(f); y && equal(x, y)) return chain(x) && push(S::silu);
        if (ScalarRef y = inside_unit_clamp(f, &a, &b); y && equal(x, y)) return chain(x) && push(S::hardswish, nullptr, a, b);
      }
    if (s->op == Op::div || s->op == Op::mul) {            // (x * clamp(x + 3)) / 6
      double scale = 0;
      if (s->args[0]->op == Op::mul && literal(s->args[1], &scale))
        for (int i : {0, 1}) {
          const ScalarRef &x = s->args[0]->args[static_cast<std::size_t>(i)], &f = s->args[0]->args[static_cast<std::size_t>(1 - i)];
          const ScalarRef scaled = binary(s->op, f, s->args[1]);
          if (ScalarRef y = inside_unit_clamp(scaled, &a, &b); y && equal(x, y)) return chain(x) && push(S::hardswish, nullptr, a, b);
        }
    }
    if (ScalarRef x = gated_erf(s)) return chain(x) && push(S::gated_erf);
    *matched = false;
    return false;
  }

  // x * 0.5 * (1 + erf(x / sqrt 2)), its three factors in any order.
  ScalarRef gated_erf(const ScalarRef& s) {
    std::vector<ScalarRef> factors;
    std::function<void(const ScalarRef&)> collect = [&](const ScalarRef& f) {
      if (f->op == Op::mul) collect(f->args[0]), collect(f->args[1]);
      else factors.push_back(f);
    };
    if (s->op != Op::mul) return nullptr;
    collect(s);
    if (factors.size() != 3) return nullptr;
    ScalarRef x, inner;
    bool half = false;
    double v = 0;
    for (const ScalarRef& f : factors) {
      if (literal(f, &v)) half = v == 0.5;
      else if (f->op == Op::add && literal(f->args[1], &v) && v == 1 && f->args[0]->op == Op::erf) inner = f->args[0]->args[0];
      else if (f->op == Op::add && literal(f->args[0], &v) && v == 1 && f->args[1]->op == Op::erf) inner = f->args[1]->args[0];
      else x = f;
    }
    if (!half || !x || !inner) return nullptr;
    const bool scaled = (inner->op == Op::div && literal(inner->args[1], &v) && near(v, std::sqrt(2.0))) ||
                        (inner->op == Op::mul && literal(inner->args[1], &v) && near(v, std::sqrt(0.5)));
    return scaled && equal(inner->args[0], x) ? x : nullptr;
  }

  bool chain(const ScalarRef& s) {
    if (is_source(s)) return true;
    bool matched = false;
    const bool done = idiom(s, &matched);
    if (matched) return done;
    if (s->op == Op::cast) return chain(s->args[0]) && (becomes(s->dtype) || no(s));
    if (s->dtype == DType::i32) return integer_step(s);
    if (s->dtype != DType::f32) return no(s);
    if (s->args.size() == 1) return unary_step(s);
    if (s->op == Op::select) return gate(s);
    if (s->args.size() != 2) return no(s);
    double power = 0;
    if ((s->op == Op::mul && equal(s->args[0], s->args[1])) || (s->op == Op::pow && literal(s->args[1], &power) && power == 2))
      return chain(s->args[0]) && push(S::square);
    const bool left = contains(s->args[0]), right = contains(s->args[1]);
    if (left == right) return no(s);
    const ScalarRef &value = s->args[left ? 0 : 1], &other = s->args[left ? 1 : 0];
    return chain(value) && binary_step(s, other, left);
  }

  // select(v == 0, 0, x * v)
  bool gate(const ScalarRef& s) {
    double a = 1, b = 1;
    const ScalarRef &c = s->args[0], &x = s->args[2];
    if (c->op != Op::eq || !literal(c->args[1], &a) || a != 0 || !literal(s->args[1], &b) || b != 0 || x->op != Op::mul) return no(s);
    for (std::size_t i : {0, 1})
      if (equal(x->args[i], c->args[0]) && !contains(c->args[0])) return chain(x->args[1 - i]) && push(S::gate, c->args[0]);
    return no(s);
  }

  // The value so far as a number of another type.
  bool becomes(DType t) {
    if (t == DType::i8 || t == DType::u8) {
      if (held != Held::floats || !push(S::round)) return false;
      steps.back().dtype = t;
      held = Held::bytes;
      return true;
    }
    if (t == DType::i32) return held != Held::floats;
    if (!is_float(t)) return false;
    if (held == Held::integers && (t != DType::f32 || !push(S::to_float))) return false;
    const bool same = held == Held::floats;
    held = Held::floats;
    return t == DType::f32 || same;
  }

  // Sums: of integers with integers of any kind, of bytes with small numbers, which floats hold.
  bool integer_step(const ScalarRef& s) {
    if (s->op != Op::add && s->op != Op::sub) return no(s);
    const bool left = contains(s->args[0]), right = contains(s->args[1]);
    if (left == right || (right && s->op == Op::sub)) return no(s);
    const ScalarRef& other = s->args[left ? 1 : 0];
    if (!chain(s->args[left ? 0 : 1])) return false;
    const S op = s->op == Op::add ? S::add : S::sub;
    double v = 0;
    if (held == Held::bytes) return is_literal(other, &v) && std::abs(v) < 0x1p20 ? push(op, nullptr, v) : no(s);
    if (held != Held::integers) return no(s);
    StepOf step{op, -1, DType::i32, {0, std::vector<std::int64_t>(r.axes.size(), 0)}};
    if (is_literal(other, &v)) step.whole = static_cast<std::int32_t>(v);
    else if (other->op != Op::read || other->dtype != DType::i32 || !place(other, &step)) return no(s);
    steps.push_back(std::move(step));
    return true;
  }

  bool unary_step(const ScalarRef& s) {
    static const std::pair<Op, S> menu[] = {{Op::round, S::rint}, {Op::neg, S::neg}, {Op::abs, S::abs}, {Op::sqrt, S::sqrt}, {Op::exp, S::exp},
                                            {Op::log, S::log}, {Op::tanh, S::tanh}, {Op::erf, S::erf}};
    for (const auto& [op, step] : menu)
      if (s->op == op) return chain(s->args[0]) && push(step);
    return no(s);
  }

  bool binary_step(const ScalarRef& s, const ScalarRef& other, bool left) {
    switch (s->op) {
      case Op::add: return push(S::add, other);
      case Op::sub: return push(left ? S::sub : S::rsub, other);
      case Op::mul: return push(S::mul, other);
      case Op::div: return push(left ? S::div : S::rdiv, other);
      case Op::max: return push(S::max, other);
      case Op::min: return push(S::min, other);
      default: return no(s);
    }
  }
};

// The body of a map with what the maps before it make written out, over its own axes: x * s with s = 1 / (1 + exp(-x)) is one
// expression. Null where a value is read in a way that cannot be written out.
struct Composer {
  const Program& p;
  const Region& r;
  const std::vector<int>& maps;
  bool failed = false;
  int left = 64;                                           // values to write out: what is read twice doubles at each map

  const Statement* map_of(TensorId t) const {
    for (int i : maps)
      if (const Statement* s = p.statement(r.statements[static_cast<std::size_t>(i)]); s->out == t) return s;
    return nullptr;
  }

  ScalarRef body(const Statement& s) {
    if (s.guard) failed = true;
    if (failed) return nullptr;
    const ScalarRef made = rewrite(s.body, [&](const ScalarRef& node) -> ScalarRef {
      if (failed || node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      const Statement* inner = map_of(a.tensor);
      if (!inner) return node;
      std::vector<Index> with(inner->axes.size(), Index{});
      std::vector<bool> known(inner->axes.size(), false);
      for (std::size_t d = 0; d < a.at.size(); ++d)
        if (const auto x = plain_axis(inner->at[d])) with[static_cast<std::size_t>(*x)] = a.at[d], known[static_cast<std::size_t>(*x)] = true;
      failed |= --left < 0 || a.otherwise != nullptr || !std::all_of(known.begin(), known.end(), [](bool k) { return k; });
      const ScalarRef written = body(*inner);
      return failed ? node : substitute(p, written, with);
    });
    return failed ? nullptr : rounded(made, p.tensor(s.out).dtype);
  }

  // Between floats a value may be held wider than it is declared; to whole numbers and back it is converted.
  static ScalarRef rounded(const ScalarRef& made, DType declared) {
    const bool byte = declared == DType::i8 || declared == DType::u8;
    return made->dtype != declared && (byte || is_float(declared) != is_float(made->dtype)) ? cast(made, declared) : made;
  }
};

}  // namespace

Or<std::vector<StepOf>> chain_steps(const Program& p, const Region& r, const Nest& nest, int statement, TensorId source, const std::vector<Stored>& buffers) {
  Matcher m{p, r, nest, buffers, source, statement, true, Matcher::Held::floats, {}, {}};
  const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
  if (!is_float(p.tensor(source).dtype) || !m.chain(s.body)) return Refused{m.refusal.empty() ? "the body does not read the value" : m.refusal};
  return std::move(m.steps);
}

Or<std::vector<StepOf>> epilogue_steps(const Program& p, const Region& r, const Nest& nest, int from, const std::vector<int>& maps,
                                       const std::vector<Stored>& buffers) {
  Matcher m{p, r, nest, buffers, p.statement(r.statements[static_cast<std::size_t>(from)])->out, 0, false, Matcher::Held::floats, {}, {}};
  if (maps.empty()) return std::move(m.steps);
  if (is_integer(p.tensor(m.source).dtype)) m.held = Matcher::Held::integers;
  const Statement& last = *p.statement(r.statements[static_cast<std::size_t>(maps.back())]);
  const ScalarRef body = Composer{p, r, maps}.body(last);
  if (!body) return Refused{"a map has a guard, or reads another at other points"};
  m.statement = maps.back();
  if (!m.contains(body) || !m.chain(body)) return Refused{m.refusal.empty() ? "the maps do not read the value" : m.refusal};
  // The last rounding is the store's own.
  if (!m.steps.empty() && m.steps.back().op == S::round && m.steps.back().dtype == p.tensor(last.out).dtype) m.steps.pop_back();
  return std::move(m.steps);
}

}  // namespace tilewright::cpu
