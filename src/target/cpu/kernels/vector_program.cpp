#include "target/cpu/kernels/vector_program.h"

#include "support/error.h"

namespace tilewright::kernels {

Type register_type(DType dtype) {
  switch (dtype) {
  case DType::f64: return Type::f64;
  case DType::i64: return Type::i64;
  case DType::i8:
  case DType::u8:
  case DType::i32: return Type::i32;
  case DType::boolean: return Type::b8;
  default: return Type::f32;
  }
}

Instruction constant(int dst, Type type, double real) {
  return {.op = Op::constant, .type = type, .dst = dst, .real = real};
}
Instruction constant(int dst, Type type, std::int64_t integer) {
  return {.op = Op::constant, .type = type, .dst = dst, .integer = integer};
}
Instruction index(int dst, int slot) {
  return {.op = Op::index, .type = Type::i64, .slot = static_cast<std::uint16_t>(slot), .dst = dst};
}
Instruction load(int dst, DType dtype, int pointer, int mask) {
  return {.op = Op::load,
          .type = register_type(dtype),
          .dtype = dtype,
          .slot = static_cast<std::uint16_t>(pointer),
          .dst = dst,
          .mask = mask};
}
Instruction gather(int dst, DType dtype, int pointer, int offset, int mask) {
  Instruction i = load(dst, dtype, pointer, mask);
  i.op = Op::gather;
  i.a = offset;
  return i;
}
Instruction store(int a, DType dtype, int pointer, int mask) {
  Instruction i = load(-1, dtype, pointer, mask);
  i.op = Op::store;
  i.a = a;
  return i;
}
Instruction scatter(int a, DType dtype, int pointer, int offset, int mask) {
  Instruction i = store(a, dtype, pointer, mask);
  i.op = Op::scatter;
  i.b = offset;
  return i;
}
Instruction unary(Op op, Type type, int dst, int a) { return {.op = op, .type = type, .dst = dst, .a = a}; }
Instruction binary(Op op, Type type, int dst, int a, int b) {
  return {.op = op, .type = type, .dst = dst, .a = a, .b = b};
}
Instruction select(Type type, int dst, int condition, int yes, int no) {
  return {.op = Op::select, .type = type, .dst = dst, .a = condition, .b = yes, .c = no};
}
Instruction cast(int dst, DType dtype, int a, Type from) {
  return {.op = Op::cast, .type = from, .dtype = dtype, .dst = dst, .a = a};
}
Instruction pair(Op op, Type type, int best, int winner, int value, int index) {
  if (op == Op::fold_argmax || op == Op::fold_argmin)
    return {.op = op, .type = type, .dst = best, .a = winner, .b = value, .c = index};
  return {.op = op, .type = type, .dst = best, .a = value, .b = index, .c = winner};
}

namespace {

bool between(Op op, Op first, Op last) { return op >= first && op <= last; }

bool is_float(Type type) { return type == Type::f32 || type == Type::f64; }
bool is_integer(Type type) { return type == Type::i32 || type == Type::i64; }

std::int64_t bytes_of(Type type) { return type == Type::b8 ? 1 : type == Type::f32 || type == Type::i32 ? 4 : 8; }

// Checks one instruction: what types its registers must have follows from the operation.
class Checker {
public:
  Checker(const VectorProgram& program, bool horizontal_allowed) : program_(program), horizontal_(horizontal_allowed) {}

  void check(const Instruction& i) const {
    TW_ASSERT(i.op < Op::count_);
    if (i.mask >= 0) {
      TW_ASSERT(i.op == Op::load || i.op == Op::gather || i.op == Op::store || i.op == Op::scatter);
      is(i.mask, Type::b8);
    }
    if (between(i.op, Op::constant, Op::scatter)) return check_source(i);
    if (between(i.op, Op::copy, Op::cast)) return check_move(i);
    if (between(i.op, Op::add, Op::shr_logical)) return check_two(i);
    if (between(i.op, Op::neg, Op::isinf)) return check_function(i);
    check_reduction(i);
  }

private:
  void is(int r, Type type) const {
    TW_ASSERT(r >= 0 && r < static_cast<int>(program_.registers.size()));
    TW_ASSERT(program_.registers[static_cast<std::size_t>(r)] == type);
  }

  void check_source(const Instruction& i) const {
    if (i.op == Op::constant) return is(i.dst, i.type);
    if (i.op == Op::index) return is(i.dst, Type::i64);
    TW_ASSERT(i.type == register_type(i.dtype));
    is(i.op == Op::load || i.op == Op::gather ? i.dst : i.a, i.type);
    if (i.op == Op::gather) is(i.a, Type::i64), TW_ASSERT(i.dst != i.a || i.type == Type::i64);
    if (i.op == Op::scatter) is(i.b, Type::i64);
  }

  void check_move(const Instruction& i) const {
    if (i.op == Op::select) {
      is(i.a, Type::b8), is(i.b, i.type), is(i.c, i.type), is(i.dst, i.type);
    } else {
      is(i.a, i.type), is(i.dst, i.op == Op::cast ? register_type(i.dtype) : i.type);
    }
  }

  void check_two(const Instruction& i) const {
    const bool comparison = between(i.op, Op::eq, Op::ge);
    is(i.dst, comparison ? Type::b8 : i.type);
    is(i.a, i.type);
    if (i.op != Op::bit_not) is(i.b, i.type);
    if (between(i.op, Op::add, Op::pow)) TW_ASSERT(i.type != Type::b8);
    if (between(i.op, Op::bit_and, Op::bit_not)) TW_ASSERT(!is_float(i.type));
    if (between(i.op, Op::shl, Op::shr_logical)) TW_ASSERT(is_integer(i.type));
  }

  void check_function(const Instruction& i) const {
    is(i.a, i.type);
    is(i.dst, i.op == Op::isnan || i.op == Op::isinf ? Type::b8 : i.type);
    TW_ASSERT(is_float(i.type) || (between(i.op, Op::neg, Op::sign) && is_integer(i.type)));
  }

  void check_reduction(const Instruction& i) const {
    is(i.dst, i.type);
    if (between(i.op, Op::fold_argmax, Op::fold_argmin)) return is(i.a, Type::i64), is(i.b, i.type), is(i.c, Type::i64);
    TW_ASSERT(horizontal_);
    is(i.a, i.type);
    if (between(i.op, Op::reduce_argmax, Op::reduce_argmin)) return is(i.b, Type::i64), is(i.c, Type::i64);
    TW_ASSERT((i.type == Type::b8) == (i.op == Op::reduce_any || i.op == Op::reduce_all));
  }

  const VectorProgram& program_;
  bool horizontal_;
};

// Byte offsets of the registers in the scratch. Each ends in a vector of padding, so that whole vectors may be read at
// any lane.
std::vector<std::int32_t> place_registers(const VectorProgram& program, std::int64_t& bytes) {
  std::vector<std::int32_t> offsets;
  bytes = 0;
  for (Type type : program.registers) {
    offsets.push_back(static_cast<std::int32_t>(bytes));
    bytes += (program.block * bytes_of(type) + 63) / 64 * 64 + 64;
  }
  TW_ASSERT(bytes < INT32_MAX);
  return offsets;
}

} // namespace

VectorCode prepare(const VectorProgram& program) {
  TW_ASSERT(program.block >= 64 && program.block <= max_block && program.block % 64 == 0);
  VectorCode code;
  const std::vector<std::int32_t> offsets = place_registers(program, code.scratch_bytes);
  const auto append = [&](const std::vector<Instruction>& section, bool horizontal_allowed) {
    const Checker checker(program, horizontal_allowed);
    for (Instruction i : section) {
      checker.check(i);
      for (std::int32_t* r : {&i.dst, &i.a, &i.b, &i.c, &i.mask})
        if (*r >= 0) *r = offsets[static_cast<std::size_t>(*r)];
      code.instructions.push_back(i);
    }
    return static_cast<int>(section.size());
  };
  code.setup = append(program.setup, false);
  code.begin = append(program.begin, false);
  code.body = append(program.body, false);
  code.end = append(program.end, program.lanes_reduced);
  code.block = program.block;
  code.lanes_reduced = program.lanes_reduced;
  return code;
}

} // namespace tilewright::kernels
