// Statements as instructions: maps, reductions and their accumulators.
#include <limits>

#include "target/cpu/lane_emit.h"

namespace tilewright::cpu {

namespace k = kernels;
using K = kernels::Op;

namespace {

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

// From here on loads are masked, and serve this statement only.
void LaneEmitter::guarded(const ScalarRef& guard, int statement) {
  if (!guard) return;
  alive_.push_back(guard);
  const Register live = emit_as(guard, DType::boolean);
  keep_faults(statement, -1);
  guard_ = live;
  for (auto& map_of_section : known_) map_of_section.clear();
}

void LaneEmitter::map(int statement) {
  const Statement& s = *p_.statement(r_.statements[static_cast<std::size_t>(statement)]);
  const ScalarRef value = over_region(s.body, statement), guard = over_region(s.guard, statement);
  alive_.push_back(value);
  guarded(guard, statement);
  Register v = emit(value);
  keep_faults(statement, guard_);
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
  const ScalarRef value = over_region(s.body, statement);
  alive_.push_back(value);
  guarded(over_region(s.guard, statement), statement);
  const Register v = emit_as(value, t);
  keep_faults(statement, guard_);
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
    add_fault(LaneProgram::Cause::bounds, none);
    keep_faults(statement, -1);
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
      store_faults();
      return;
    }
    section_ = end;
    next = 1;
  }
  for (; next < group_.statements.size(); ++next) map(group_.statements[next]);
  store_faults();
}

}  // namespace tilewright::cpu
