#include "target/cpu/lane_emit.h"

#include <bit>
#include <cmath>
#include <limits>

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

// The type that an operator's arguments are computed in.
DType argument_type(const Scalar& s) {
  if (is_logical(s.op)) return DType::boolean;
  if (is_comparison(s.op)) return compute_type(promote(s.args[0]->dtype, s.args[1]->dtype));
  if (s.op == Op::is_nan || s.op == Op::is_inf) return compute_type(s.args[0]->dtype);
  return s.dtype;
}

double lowest(DType t, bool highest, std::int64_t* integer) {
  *integer = t == DType::i64 ? (highest ? INT64_MAX : INT64_MIN) : t == DType::i32 ? (highest ? INT32_MAX : INT32_MIN) : highest;
  return highest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

K combine_op(Reducer r) {
  switch (r) {
    case Reducer::sum: return K::add;
    case Reducer::prod: return K::mul;
    case Reducer::max: return K::max;
    case Reducer::min: return K::min;
    case Reducer::any: return K::bit_or;
    default: return K::bit_and;
  }
}

bool pair(Reducer r) { return r == Reducer::argmax || r == Reducer::argmin; }

DType accumulator_type(const Statement& s) {
  if (s.reducer == Reducer::any || s.reducer == Reducer::all) return DType::boolean;
  return compute_type(s.body->dtype);
}

}  // namespace

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

LaneEmitter::Register LaneEmitter::emit(const ScalarRef& s) {
  const auto seen = known_[section_].find(s.get());
  if (seen != known_[section_].end()) return seen->second;
  const Register r = emit_node(s);
  known_[section_][s.get()] = r;
  return r;
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
    case Op::select: {
      const Register c = emit_as(s->args[0], DType::boolean), a = emit_as(s->args[1], s->dtype), b = emit_as(s->args[2], s->dtype);
      const Register r = fresh(k::register_type(s->dtype));
      code().push_back(k::select(k::register_type(s->dtype), r, c, a, b));
      return r;
    }
    default: break;
  }
  const DType of = argument_type(*s);
  const k::Type t = k::register_type(of);
  const Register a = emit_as(s->args[0], of);
  const Register b = s->args.size() > 1 ? emit_as(s->args[1], of) : -1;
  const bool flag = is_comparison(s->op) || is_logical(s->op) || s->op == Op::is_nan || s->op == Op::is_inf;
  const Register r = fresh(flag ? k::Type::b8 : t);
  code().push_back(b < 0 ? k::unary(kernel_op(s->op), t, r, a) : k::binary(kernel_op(s->op), t, r, a, b));
  return r;
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

LaneEmitter::Register LaneEmitter::read(const Access& a) {
  if (const auto it = inner_.find(a.tensor); it != inner_.end()) return it->second;
  const BufferId b = buffer_of(a.tensor);
  const Stored& stored = buffers_[static_cast<std::size_t>(b)];
  bool affine = true;
  for (const Index& i : a.at) affine &= is_affine(i);
  std::vector<Register> at;
  Register inside = in_bounds(a, affine ? nullptr : &at, a.otherwise || !affine);
  if (inside >= 0 && !a.otherwise) {
    const Register bad = fresh(k::Type::b8);
    code().push_back(k::unary(K::bit_not, k::Type::b8, bad, inside));
    flag_fault(both(bad, guard_));
  }
  double literal = 0;
  // The value outside is an element like the others: rounded to the tensor's dtype.
  const ScalarRef otherwise = a.otherwise ? cast(a.otherwise, p_.tensor(a.tensor).dtype) : nullptr;
  alive_.push_back(otherwise);
  const bool simple = !otherwise || is_literal(otherwise, &literal);
  k::Instruction in{.op = K::load, .dtype = stored.dtype, .dst = fresh(k::register_type(stored.dtype)), .mask = both(inside, guard_)};
  in.type = k::register_type(stored.dtype);
  in.real = literal;
  in.integer = static_cast<std::int64_t>(std::isfinite(literal) ? literal : 0);
  if (affine) {
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
  Register value = in.dst;
  if (!simple && inside >= 0) {
    const Register other = emit_as(otherwise, dtype_of(in.type)), r = fresh(in.type);
    code().push_back(k::select(in.type, r, inside, value, other));
    value = r;
  }
  return value;
}

// Bad lanes are collected in one register and end up in a buffer of flags.
void LaneEmitter::flag_fault(Register bad) {
  if (bad < 0) return;
  if (fault_register_ < 0) {
    fault_register_ = fresh(k::Type::b8);
    program.begin.insert(program.begin.begin(), k::unary(K::copy, k::Type::b8, fault_register_, constant_of(DType::boolean, 0, 0)));
  }
  code().push_back(k::binary(K::bit_or, k::Type::b8, fault_register_, fault_register_, bad));
}

void LaneEmitter::end_of_faults() {
  if (fault_register_ < 0) return;
  section_ = end;
  fault = pointer(-1, DType::boolean, 0, std::vector<std::int64_t>(r_.axes.size(), 0));
  Register bad = fault_register_;
  if (lanes_reduced_) {
    bad = fresh(k::Type::b8);
    code().push_back(k::unary(K::reduce_any, k::Type::b8, bad, fault_register_));
  }
  const Register old = fresh(k::Type::b8), all = fresh(k::Type::b8);
  code().push_back(k::load(old, DType::boolean, fault));
  code().push_back(k::binary(K::bit_or, k::Type::b8, all, old, bad));
  code().push_back(k::store(all, DType::boolean, fault));
}

// ---- statements

BufferId LaneEmitter::buffer_of(TensorId t) const {
  for (std::size_t b = 0; b < nest_.buffers.size(); ++b)
    if (nest_.buffers[b].tensor == t) return static_cast<BufferId>(b);
  TW_ASSERT(!"a tensor without a buffer");
  return -1;
}

ScalarRef LaneEmitter::over_region(const ScalarRef& s, int statement) const {
  return s ? substitute(p_, s, r_.image[static_cast<std::size_t>(statement)]) : nullptr;
}

LaneEmitter::Register LaneEmitter::as_declared(int statement, Register v) {
  const DType declared = p_.tensor(p_.statement(r_.statements[static_cast<std::size_t>(statement)])->out).dtype;
  const k::Type have = program.registers[static_cast<std::size_t>(v)];
  return convert(v, have, declared);
}

void LaneEmitter::store(int statement, Register value) {
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(statement)]);
  const Register declared = as_declared(statement, value);
  inner_[s.out] = declared;
  const BufferId b = buffer_of(s.out);
  if (!live_[static_cast<std::size_t>(b)]) return;
  Access out{s.out, {}, nullptr};
  for (const Index& i : s.at) out.at.push_back(substitute(p_, i, r_.image[static_cast<std::size_t>(statement)]));
  const Stored& stored = buffers_[static_cast<std::size_t>(b)];
  const k::Type have = program.registers[static_cast<std::size_t>(declared)];
  const Register v = have == k::register_type(stored.dtype) ? declared : convert(declared, have, stored.dtype);
  code().push_back(k::store(v, stored.dtype, pointer_of(out, b)));
}

void LaneEmitter::map(int statement) {
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(statement)]);
  const ScalarRef value = over_region(s.body, statement), guard = over_region(s.guard, statement);
  alive_.push_back(value);
  if (guard) {
    alive_.push_back(guard);
    guard_ = emit_as(guard, DType::boolean);
    for (auto& map_of_section : known_) map_of_section.clear();   // masked loads serve this statement only
  }
  Register v = emit(value);
  if (guard) {
    const k::Type t = program.registers[static_cast<std::size_t>(v)];
    const Register r = fresh(t), zero = constant_of(dtype_of(t), 0.0, 0);
    code().push_back(k::select(t, r, guard_, v, zero));
    v = r;
    guard_ = -1;
    for (auto& map_of_section : known_) map_of_section.clear();
  }
  store(statement, v);
}

void LaneEmitter::start_accumulator(const Statement& s) {
  const DType t = accumulator_type(s);
  std::int64_t integer = 0;
  double real = 0;
  switch (s.reducer) {
    case Reducer::prod: real = 1, integer = 1; break;
    case Reducer::all: integer = 1; break;
    case Reducer::max: case Reducer::argmax: real = lowest(t, false, &integer); break;
    case Reducer::min: case Reducer::argmin: real = lowest(t, true, &integer); break;
    default: break;
  }
  accumulator_ = fresh(k::register_type(t));
  code().push_back(k::unary(K::copy, k::register_type(t), accumulator_, constant_of(t, real, integer)));
  if (pair(s.reducer)) {
    winner_ = fresh(k::Type::i64);
    code().push_back(k::unary(K::copy, k::Type::i64, winner_, constant_of(DType::i64, 0, s.guard ? -1 : 0)));
  }
}

void LaneEmitter::accumulate(const Statement& s, Register v, Register index) {
  const k::Type t = k::register_type(accumulator_type(s));
  if (pair(s.reducer) && guard_ < 0) {
    k::Instruction fold{.op = s.reducer == Reducer::argmax ? K::fold_argmax : K::fold_argmin, .type = t, .dst = accumulator_};
    fold.a = winner_;
    fold.b = v;
    fold.c = index;
    code().push_back(fold);
    return;
  }
  if (pair(s.reducer)) {
    // A guarded point may not win, and the first live one wins whatever its value.
    const Register none = fresh(k::Type::b8), better = fresh(k::Type::b8), nan = fresh(k::Type::b8), had = fresh(k::Type::b8);
    code().push_back(k::binary(K::lt, k::Type::i64, none, winner_, constant_of(DType::i64, 0, 0)));
    code().push_back(k::binary(s.reducer == Reducer::argmax ? K::gt : K::lt, t, better, v, accumulator_));
    code().push_back(k::binary(K::ne, t, nan, v, v));
    code().push_back(k::binary(K::eq, t, had, accumulator_, accumulator_));
    code().push_back(k::binary(K::bit_and, k::Type::b8, nan, nan, had));
    code().push_back(k::binary(K::bit_or, k::Type::b8, better, better, nan));
    code().push_back(k::binary(K::bit_or, k::Type::b8, better, better, none));
    const Register wins = both(better, guard_);
    code().push_back(k::select(t, accumulator_, wins, v, accumulator_));
    code().push_back(k::select(k::Type::i64, winner_, wins, index, winner_));
    return;
  }
  const K op = combine_op(s.reducer);
  if (guard_ < 0) {
    code().push_back(k::binary(op, t, accumulator_, accumulator_, v));
  } else {
    const Register next = fresh(t);
    code().push_back(k::binary(op, t, next, accumulator_, v));
    code().push_back(k::select(t, accumulator_, guard_, next, accumulator_));
  }
}

void LaneEmitter::horizontal(const Statement& s) {
  const k::Type t = k::register_type(accumulator_type(s));
  if (pair(s.reducer)) {
    k::Instruction in{.op = s.reducer == Reducer::argmax ? K::reduce_argmax : K::reduce_argmin, .type = t, .dst = fresh(t)};
    in.a = accumulator_;
    in.b = winner_;
    in.c = fresh(k::Type::i64);
    code().push_back(in);
    winner_ = in.c;
    return;
  }
  static const std::map<Reducer, K> ops = {{Reducer::sum, K::reduce_sum}, {Reducer::prod, K::reduce_prod}, {Reducer::max, K::reduce_max},
                                           {Reducer::min, K::reduce_min}, {Reducer::any, K::reduce_any},   {Reducer::all, K::reduce_all}};
  const Register r = fresh(t);
  code().push_back(k::unary(ops.at(s.reducer), t, r, accumulator_));
  accumulator_ = r;
}

// The accumulator in memory: same point, its own buffer.
void LaneEmitter::load_accumulator(int statement, bool then_store) {
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(statement)]);
  const Stored& stored = buffers_[static_cast<std::size_t>(group_.accumulator)];
  Access at{s.out, {}, nullptr};
  for (const Index& i : s.at) at.at.push_back(substitute(p_, i, r_.image[static_cast<std::size_t>(statement)]));
  const int slot = pointer_of(at, group_.accumulator);
  if (then_store) {
    code().push_back(k::store(accumulator_, stored.dtype, slot));
    return;
  }
  accumulator_ = fresh(k::register_type(stored.dtype));
  code().push_back(k::load(accumulator_, stored.dtype, slot));
}

void LaneEmitter::reduction(int statement) {
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(statement)]);
  const DType t = accumulator_type(s);
  section_ = begin;
  start_accumulator(s);
  section_ = body;
  const ScalarRef value = over_region(s.body, statement), guard = over_region(s.guard, statement);
  alive_.push_back(value);
  if (guard) {
    alive_.push_back(guard);
    guard_ = emit_as(guard, DType::boolean);
    known_[body].clear();
  }
  const Register v = emit_as(value, t);
  Register index = -1;
  if (pair(s.reducer)) {
    const Index& image = r_.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(s.reduced[0])];
    index = this->index(image);
  }
  accumulate(s, v, index);
  guard_ = -1;
  section_ = end;
  if (lanes_reduced_) horizontal(s);
  if (group_.part == Group::Part::accumulate) {
    TW_ASSERT(!pair(s.reducer));
    const Register mine = accumulator_;
    load_accumulator(statement, false);
    code().push_back(k::binary(combine_op(s.reducer), k::register_type(t), accumulator_, accumulator_, mine));
    load_accumulator(statement, true);
    return;
  }
  if (pair(s.reducer) && s.guard) {
    const Register none = fresh(k::Type::b8);
    code().push_back(k::binary(K::lt, k::Type::i64, none, winner_, constant_of(DType::i64, 0, 0)));
    flag_fault(none);
  }
  store(statement, pair(s.reducer) ? winner_ : accumulator_);
}

void LaneEmitter::run() {
  program.lanes_reduced = lanes_reduced_;
  const int first = group_.statements[0];
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(first)]);
  const bool reduces = !s.reduced.empty();
  std::size_t next = 0;
  section_ = body;
  if (reduces && group_.part == Group::Part::init) {
    start_accumulator(s);
    load_accumulator(first, true);
    return;
  }
  if (reduces && group_.part == Group::Part::finish) {
    load_accumulator(first, false);
    store(first, accumulator_);
    next = 1;
  } else if (reduces) {
    reduction(first);
    if (group_.part == Group::Part::accumulate) {
      end_of_faults();
      return;
    }
    section_ = end;
    next = 1;
  }
  for (; next < group_.statements.size(); ++next) map(group_.statements[next]);
  end_of_faults();
}

}  // namespace tilewright::cpu
