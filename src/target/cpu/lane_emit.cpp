#include "target/cpu/lane_emit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace tilewright::cpu {

namespace k = kernels;
using K = kernels::Op;

namespace {

k::Op kernel_op(Op op) {
  switch (op) {
    case Op::add: return K::add;
    case Op::sub: return K::sub;
    case Op::mul: return K::mul;
    case Op::div: return K::div;
    case Op::floor_div: return K::floor_div;
    case Op::mod: return K::mod;
    case Op::min: return K::min;
    case Op::max: return K::max;
    case Op::pow: return K::pow;
    case Op::neg: return K::neg;
    case Op::abs: return K::abs;
    case Op::sign: return K::sign;
    case Op::floor: return K::floor;
    case Op::ceil: return K::ceil;
    case Op::round: return K::round;
    case Op::trunc: return K::trunc;
    case Op::exp: return K::exp;
    case Op::log: return K::log;
    case Op::sqrt: return K::sqrt;
    case Op::tanh: return K::tanh;
    case Op::erf: return K::erf;
    case Op::sin: return K::sin;
    case Op::cos: return K::cos;
    case Op::tan: return K::tan;
    case Op::asin: return K::asin;
    case Op::acos: return K::acos;
    case Op::atan: return K::atan;
    case Op::sinh: return K::sinh;
    case Op::cosh: return K::cosh;
    case Op::asinh: return K::asinh;
    case Op::acosh: return K::acosh;
    case Op::atanh: return K::atanh;
    case Op::eq: return K::eq;
    case Op::ne: return K::ne;
    case Op::lt: return K::lt;
    case Op::le: return K::le;
    case Op::gt: return K::gt;
    case Op::ge: return K::ge;
    case Op::logical_and: case Op::bit_and: return K::bit_and;
    case Op::logical_or: case Op::bit_or: return K::bit_or;
    case Op::logical_not: case Op::bit_not: return K::bit_not;
    case Op::bit_xor: return K::bit_xor;
    case Op::shift_left: return K::shl;
    case Op::shift_right: return K::shr;
    case Op::is_nan: return K::isnan;
    case Op::is_inf: return K::isinf;
    default: TW_ASSERT(!"an operator without an instruction"); return K::copy;
  }
}

// The type that an operator's arguments are computed in.
DType argument_type(const Scalar& s) {
  if (is_logical(s.op)) return DType::boolean;
  if (is_comparison(s.op)) return compute_type(promote(s.args[0]->dtype, s.args[1]->dtype));
  if (s.op == Op::is_nan || s.op == Op::is_inf) return compute_type(s.args[0]->dtype);
  return s.dtype;
}

}  // namespace

DType dtype_of(k::Type t) {
  switch (t) {
    case k::Type::f32: return DType::f32;
    case k::Type::f64: return DType::f64;
    case k::Type::i32: return DType::i32;
    case k::Type::i64: return DType::i64;
    case k::Type::b8: return DType::boolean;
  }
  return DType::f32;
}

std::vector<k::Instruction>& LaneEmitter::code() {
  switch (section_) {
    case setup: return program.setup;
    case begin: return program.begin;
    case body: return program.body;
    default: return program.end;
  }
}

LaneEmitter::Register LaneEmitter::fresh(k::Type t) {
  program.registers.push_back(t);
  return static_cast<Register>(program.registers.size()) - 1;
}

LaneEmitter::Register LaneEmitter::constant_of(DType compute, double real, std::int64_t integer) {
  const k::Type t = k::register_type(compute);
  const bool floating = t == k::Type::f32 || t == k::Type::f64;
  // NaN compares unequal to itself and -0 equal to 0: the key is the bit pattern.
  const auto bits = floating ? std::bit_cast<std::int64_t>(real) : integer;
  const auto [it, isnew] = constants_.try_emplace({static_cast<int>(t), bits}, -1);
  if (isnew) {
    it->second = fresh(t);
    program.setup.push_back(floating ? k::constant(it->second, t, real) : k::constant(it->second, t, integer));
  }
  return it->second;
}

LaneEmitter::Register LaneEmitter::convert(Register a, k::Type from, DType to) {
  if (from == k::register_type(to) && compute_type(to) == to) return a;
  if (to == DType::boolean && from == k::Type::b8) return a;
  const Register r = fresh(k::register_type(to));
  code().push_back(k::cast(r, to, a, from));
  return r;
}

LaneEmitter::Register LaneEmitter::emit_as(const ScalarRef& s, DType compute) {
  const Register a = emit(s);
  const k::Type have = program.registers[static_cast<std::size_t>(a)];
  return have == k::register_type(compute) ? a : convert(a, have, compute);
}

// A value is made once in a section, but what went wrong in it counts wherever it is used.
LaneEmitter::Register LaneEmitter::emit(const ScalarRef& s) {
  auto& known = known_[section_];
  auto seen = known.find(s.get());
  if (seen == known.end()) {
    const Faults outer = std::exchange(faults_, no_faults);
    const Register r = emit_node(s);
    seen = known.emplace(s.get(), Known{r, faults_}).first;
    faults_ = outer;
  }
  add_faults(seen->second.faults);
  return seen->second.value;
}

// A value that is not always used: the caller adds its faults where it is.
std::pair<LaneEmitter::Register, LaneEmitter::Faults> LaneEmitter::emit_apart(const ScalarRef& s, DType compute) {
  const Faults outer = std::exchange(faults_, no_faults);
  const Register r = emit_as(s, compute);
  return {r, std::exchange(faults_, outer)};
}

LaneEmitter::Register LaneEmitter::emit_node(const ScalarRef& s) {
  switch (s->op) {
    case Op::constant: {
      if (const double* d = std::get_if<double>(&s->leaf)) return constant_of(s->dtype, *d, static_cast<std::int64_t>(*d));
      const auto i = std::get<std::int64_t>(s->leaf);
      return constant_of(s->dtype, static_cast<double>(i), i);
    }
    case Op::size: {
      const std::int64_t v = std::get<Size>(s->leaf).constant();
      return constant_of(s->dtype, static_cast<double>(v), v);
    }
    case Op::axis: return convert(affine_index(axis_index(std::get<AxisId>(s->leaf))), k::Type::i64, s->dtype);
    case Op::read: return read(std::get<Access>(s->leaf));
    case Op::cast: {
      const Register a = emit(s->args[0]);
      return convert(a, program.registers[static_cast<std::size_t>(a)], s->dtype);
    }
    case Op::select: return selection(*s);
    default: break;
  }
  return operation(*s);
}

LaneEmitter::Register LaneEmitter::selection(const Scalar& s) {
  const Register c = emit_as(s.args[0], DType::boolean);
  const auto [a, if_true] = emit_apart(s.args[1], s.dtype);
  const auto [b, if_false] = emit_apart(s.args[2], s.dtype);
  add_faults(if_true, c);
  add_faults_outside(if_false, c);
  const k::Type t = k::register_type(s.dtype);
  const Register r = fresh(t);
  code().push_back(k::select(t, r, c, a, b));
  return r;
}

LaneEmitter::Register LaneEmitter::operation(const Scalar& s) {
  const DType of = argument_type(s);
  const k::Type t = k::register_type(of);
  const Register a = emit_as(s.args[0], of);
  Register b = -1;
  if (s.args.size() > 1) {
    const auto [right, right_faults] = emit_apart(s.args[1], of);
    b = right;
    // `and` and `or` do not look at their right side where the left side has decided.
    if (s.op == Op::logical_or) add_faults_outside(right_faults, a);
    else add_faults(right_faults, s.op == Op::logical_and ? a : -1);
    add_undefined(s, t, a, b);
  }
  const bool flag = is_comparison(s.op) || is_logical(s.op) || s.op == Op::is_nan || s.op == Op::is_inf;
  const Register r = fresh(flag ? k::Type::b8 : t);
  code().push_back(b < 0 ? k::unary(kernel_op(s.op), t, r, a) : k::binary(kernel_op(s.op), t, r, a, b));
  return r;
}

// ---- faults

LaneEmitter::Register LaneEmitter::negated(Register mask) {
  const Register r = fresh(k::Type::b8);
  code().push_back(k::unary(K::bit_not, k::Type::b8, r, mask));
  return r;
}

void LaneEmitter::add_fault(LaneProgram::Cause cause, Register bad) {
  Register& sum = faults_[static_cast<std::size_t>(cause)];
  if (sum < 0 || sum == bad) {
    sum = bad;
    return;
  }
  const Register r = fresh(k::Type::b8);
  code().push_back(k::binary(K::bit_or, k::Type::b8, r, sum, bad));
  sum = r;
}

// Faults of a part of the expression, in the lanes where it is used: those of the mask (-1: all), or those outside of it.
void LaneEmitter::add_faults(const Faults& part, Register where) {
  for (std::size_t c = 0; c < part.size(); ++c)
    if (part[c] >= 0) add_fault(static_cast<LaneProgram::Cause>(c), both(part[c], where));
}
void LaneEmitter::add_faults_outside(const Faults& part, Register mask) {
  if (part != no_faults) add_faults(part, negated(mask));
}

// An integer divided by zero, or zero to a negative power.
void LaneEmitter::add_undefined(const Scalar& s, k::Type t, Register a, Register b) {
  const bool power = s.op == Op::pow, division = s.op == Op::div || s.op == Op::floor_div || s.op == Op::mod;
  if (!(power || division) || !(t == k::Type::i32 || t == k::Type::i64)) return;
  double known = 0;
  if (is_literal(s.args[1], &known) && (power ? known >= 0 : known != 0)) return;
  const Register zero = constant_of(dtype_of(t), 0, 0);
  auto compared = [&](K op, Register with) {
    const Register r = fresh(k::Type::b8);
    code().push_back(k::binary(op, t, r, with, zero));
    return r;
  };
  add_fault(LaneProgram::Cause::division, power ? both(compared(K::eq, a), compared(K::lt, b)) : compared(K::eq, b));
}

// What went wrong in a statement, at the points that its guard leaves (-1: all), is collected over all its points.
void LaneEmitter::keep_faults(int statement, Register guard) {
  for (std::size_t c = 0; c < faults_.size(); ++c) {
    if (faults_[c] < 0) continue;
    Register& kept = kept_[c];
    if (kept < 0) {
      kept = fresh(k::Type::b8);
      program.begin.insert(program.begin.begin(), k::unary(K::copy, k::Type::b8, kept, constant_of(DType::boolean, 0, 0)));
      faults.push_back({static_cast<LaneProgram::Cause>(c), {}, statement});
    }
    code().push_back(k::binary(K::bit_or, k::Type::b8, kept, kept, both(faults_[c], guard)));
    const auto entry = std::find_if(faults.begin(), faults.end(), [&](const auto& f) { return f.cause == static_cast<LaneProgram::Cause>(c); });
    const std::string& name = p_.tensor(p_.statement(r_.statements[static_cast<std::size_t>(statement)])->out).name;
    if (entry->where.empty()) entry->where = name;
    else if (entry->where != name) entry->where += " or " + name;
    entry->first = std::min(entry->first, statement);
  }
  faults_ = no_faults;
}

// Into the buffers of flags, one a cause.
void LaneEmitter::store_faults() {
  section_ = end;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const int at = pointer(-1 - static_cast<BufferId>(i), DType::boolean, 0, std::vector<std::int64_t>(r_.axes.size(), 0));
    Register bad = kept_[static_cast<std::size_t>(faults[i].cause)];
    if (lanes_reduced_) {
      const Register any = fresh(k::Type::b8);
      code().push_back(k::unary(K::reduce_any, k::Type::b8, any, bad));
      bad = any;
    }
    const Register old = fresh(k::Type::b8), all = fresh(k::Type::b8);
    code().push_back(k::load(old, DType::boolean, at));
    code().push_back(k::binary(K::bit_or, k::Type::b8, all, old, bad));
    code().push_back(k::store(all, DType::boolean, at));
  }
}

// ---- indices and accesses

LaneEmitter::Register LaneEmitter::affine_index(const Index& i) {
  LaneProgram::IndexOf value{i.offset.constant(), std::vector<std::int64_t>(r_.axes.size(), 0)};
  for (const Index::Term& t : i.terms) value.axis[static_cast<std::size_t>(std::get<AxisId>(t.of))] += t.coefficient.constant();
  std::size_t slot = 0;
  while (slot < indices.size() && !(indices[slot].offset == value.offset && indices[slot].axis == value.axis)) ++slot;
  if (slot == indices.size()) indices.push_back(value);
  const Register r = fresh(k::Type::i64);
  k::Instruction in{.op = K::index, .type = k::Type::i64, .slot = static_cast<std::uint16_t>(slot), .dst = r};
  code().push_back(in);
  return r;
}

LaneEmitter::Register LaneEmitter::index_sum(Register sum, const Index::Term& t) {
  Register v = -1;
  if (const AxisId* a = std::get_if<AxisId>(&t.of)) {
    v = affine_index(t.coefficient * axis_index(*a));
  } else {
    if (const auto* g = std::get_if<std::shared_ptr<const Access>>(&t.of)) {
      v = read(**g);
      v = convert(v, program.registers[static_cast<std::size_t>(v)], DType::i64);
    } else {
      v = index(*std::get<std::shared_ptr<const Index>>(t.of));
    }
    if (t.coefficient != Size(1)) {
      const Register c = constant_of(DType::i64, 0, t.coefficient.constant()), scaled = fresh(k::Type::i64);
      code().push_back(k::binary(K::mul, k::Type::i64, scaled, v, c));
      v = scaled;
    }
  }
  if (sum < 0) return v;
  const Register r = fresh(k::Type::i64);
  code().push_back(k::binary(K::add, k::Type::i64, r, sum, v));
  return r;
}

LaneEmitter::Register LaneEmitter::index(const Index& i) {
  if (is_affine(i)) return affine_index(i);
  Register r = -1;
  for (const Index::Term& t : i.terms) r = index_sum(r, t);
  auto apply = [&](K op, const Size& with) {
    const Register c = constant_of(DType::i64, 0, with.constant()), next = fresh(k::Type::i64);
    code().push_back(k::binary(op, k::Type::i64, next, r < 0 ? constant_of(DType::i64, 0, 0) : r, c));
    r = next;
  };
  if (i.offset != Size(0) || r < 0) apply(K::add, i.offset);
  if (i.div != Size(1)) apply(K::floor_div, i.div);
  if (i.mod != Size(0)) apply(K::mod, i.mod);
  return r;
}

LaneEmitter::Register LaneEmitter::both(Register a, Register b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  const Register r = fresh(k::Type::b8);
  code().push_back(k::binary(K::bit_and, k::Type::b8, r, a, b));
  return r;
}

// The mask of lanes whose index lies in the tensor, -1 where that is certain.
LaneEmitter::Register LaneEmitter::in_bounds(const Access& a, std::vector<Register>* registers, bool check) {
  Register mask = -1;
  std::vector<Size> extents(r_.axes.begin(), r_.axes.end());
  for (std::size_t d = 0; d < a.at.size(); ++d) {
    const std::int64_t dim = p_.tensor(a.tensor).dims[d].constant();
    const Interval range = bounds(a.at[d], extents);
    const bool low = check && range.low < 0, high = check && range.high >= dim;
    Register i = -1;
    if (registers || low || high) i = index(a.at[d]);
    if (registers) registers->push_back(i);
    auto compare = [&](K op, std::int64_t with) {
      const Register c = constant_of(DType::i64, 0, with), flag = fresh(k::Type::b8);
      code().push_back(k::binary(op, k::Type::i64, flag, i, c));
      mask = both(mask, flag);
    };
    if (low) compare(K::ge, 0);
    if (high) compare(K::lt, dim);
  }
  return mask;
}

BufferId LaneEmitter::buffer_of(TensorId t) const {
  for (std::size_t b = 0; b < nest_.buffers.size(); ++b)
    if (nest_.buffers[b].tensor == t) return static_cast<BufferId>(b);
  TW_ASSERT(!"a tensor without a buffer");
  return -1;
}

int LaneEmitter::pointer(BufferId b, DType dtype, std::int64_t offset, std::vector<std::int64_t> axis) {
  for (std::size_t i = 0; i < pointers.size(); ++i)
    if (pointers[i].buffer == b && pointers[i].dtype == dtype && pointers[i].offset == offset && pointers[i].axis == axis)
      return static_cast<int>(i);
  pointers.push_back({b, dtype, offset, std::move(axis)});
  return static_cast<int>(pointers.size()) - 1;
}

int LaneEmitter::pointer_of(const Access& a, BufferId b) {
  const Stored& stored = buffers_[static_cast<std::size_t>(b)];
  std::int64_t offset = 0;
  std::vector<std::int64_t> axis(r_.axes.size(), 0);
  for (std::size_t d = 0; d < a.at.size(); ++d) {
    offset += a.at[d].offset.constant() * stored.stride[d];
    for (const Index::Term& t : a.at[d].terms)
      axis[static_cast<std::size_t>(std::get<AxisId>(t.of))] += t.coefficient.constant() * stored.stride[d];
  }
  return pointer(b, stored.dtype, offset, std::move(axis));
}

// The element where the mask holds, else the value of `outside`. at: the indices, if they are not affine.
LaneEmitter::Register LaneEmitter::load(const Access& a, const std::vector<Register>& at, Register mask, double outside) {
  const BufferId b = buffer_of(a.tensor);
  const Stored& stored = buffers_[static_cast<std::size_t>(b)];
  k::Instruction in{.op = K::load, .dtype = stored.dtype, .dst = fresh(k::register_type(stored.dtype)), .mask = mask};
  in.type = k::register_type(stored.dtype);
  in.real = outside;
  in.integer = static_cast<std::int64_t>(std::isfinite(outside) ? outside : 0);
  if (at.empty()) {
    in.slot = static_cast<std::uint16_t>(pointer_of(a, b));
  } else {
    in.op = K::gather;
    in.slot = static_cast<std::uint16_t>(pointer(b, stored.dtype, 0, std::vector<std::int64_t>(r_.axes.size(), 0)));
    in.a = constant_of(DType::i64, 0, 0);
    for (std::size_t d = 0; d < at.size(); ++d) {
      const Register scaled = fresh(k::Type::i64), sum = fresh(k::Type::i64);
      code().push_back(k::binary(K::mul, k::Type::i64, scaled, at[d], constant_of(DType::i64, 0, stored.stride[d])));
      code().push_back(k::binary(K::add, k::Type::i64, sum, in.a, scaled));
      in.a = sum;
    }
  }
  code().push_back(in);
  return in.dst;
}

LaneEmitter::Register LaneEmitter::read(const Access& a) {
  bool affine = true;
  for (const Index& i : a.at) affine &= is_affine(i);
  // A value of this group is here already; its index may have left the tensor all the same.
  const auto held = inner_.find(a.tensor);
  std::vector<Register> at;
  const Register inside = in_bounds(a, affine || held != inner_.end() ? nullptr : &at, a.otherwise || !affine);
  if (inside >= 0 && !a.otherwise) add_fault(LaneProgram::Cause::bounds, negated(inside));
  // The value outside is an element like the others: rounded to the tensor's dtype.
  double literal = 0;
  const ScalarRef otherwise = a.otherwise ? cast(a.otherwise, p_.tensor(a.tensor).dtype) : nullptr;
  alive_.push_back(otherwise);
  const bool simple = held == inner_.end() && is_literal(otherwise, &literal);
  const Register value = held != inner_.end() ? held->second : load(a, at, both(inside, guard_), literal);
  if (simple || !otherwise || inside < 0) return value;
  const k::Type t = program.registers[static_cast<std::size_t>(value)];
  const auto [other, outside] = emit_apart(otherwise, dtype_of(t));
  add_faults_outside(outside, inside);
  const Register r = fresh(t);
  code().push_back(k::select(t, r, inside, value, other));
  return r;
}

}  // namespace tilewright::cpu
