// The block-vector interpreter: any scalar body, executed one instruction at a time over blocks of up to 256 lanes, so
// that the price of choosing an instruction is shared by a block. A program is pure arithmetic: sizes, strides and
// addresses are in the Frame, so one program serves every binding.
//
// Example: out[r, i] = max(x[r, i] + bias[i], 0) over 50 rows of 1000, two f32 registers and a constant:
//
//   VectorProgram p;  p.registers = {Type::f32, Type::f32, Type::f32};
//   p.setup = {constant(2, Type::f32, 0.0)};
//   p.body  = {load(0, DType::f32, 0), load(1, DType::f32, 1), binary(Op::add, Type::f32, 0, 0, 1),
//              binary(Op::max, Type::f32, 0, 0, 2), store(0, DType::f32, 2)};
//   Pointer at[] = {{x, 1, 0, 1000}, {bias, 1, 0, 0}, {out, 1, 0, 1000}};
//   run(leaf, prepare(p), {.pointers = at, .lanes = 1000, .outer = 50, .scratch = scratch});
//
// A program has four sections around two loops:
//
//   lanes_reduced = false (lanes survive)              lanes_reduced = true (the lanes are what is reduced)
//     for o in outer:                                    for o in outer:
//       for each block of lanes:                           begin       over the first block's lanes: identities
//         begin                                            for i in inner:
//         for i in inner: body                               for each block of lanes: body
//         end                                              end         horizontal instructions read that many lanes;
//                                                                      all the others work on lane 0 only
//   setup runs once before everything, over full blocks: constants.
//
// Registers keep their values between instructions, steps and blocks, so an accumulator is a register that begin sets
// and body updates (add, mul, min, max, and, or, fold_arg*). With lanes_reduced the last block may be shorter: its
// lanes accumulate onto the first lanes of the block.
//
// Arithmetic is plain IEEE; no contraction. Integers wrap, and divide by 0 to 0 (remainders too). min and max propagate
// NaN. Nothing traps. Lanes past the block's are not touched.
#pragma once
#include "support/dtype.h"
#include <cstdint>
#include <vector>

namespace tilewright::kernels {

struct Kernels;

inline constexpr int max_block = 256;

// Types of registers. Storage types narrower than these are widened on load and narrowed on store.
enum class Type : std::uint8_t { f32, f64, i32, i64, b8 };
Type register_type(DType); // f32 for the narrow floats, i32 for i8 and u8, b8 for bool, else the type itself

// clang-format off
enum class Op : std::uint8_t {
  // Sources and sinks. dtype is the storage type; the register has register_type(dtype). With a mask, lanes that are
  // off are not touched in memory and get the immediate (load, gather) or stay as they are (store, scatter).
  constant,   // dst = immediate
  index,      // dst (i64) = Frame::indices[slot] at this lane and step
  load,       // dst = pointers[slot], lane by lane
  gather,     // dst = pointers[slot] at a (i64, elements) instead of the lane's stride
  store,      // pointers[slot] = a, rounded to dtype; integers wrap
  scatter,    // pointers[slot] at b (i64, elements) = a
  // Moves
  copy,       // dst = a
  select,     // dst = a (b8) ? b : c, of `type`
  cast,       // dst = a of `type` as if stored in dtype and loaded again. Float to integer truncates and saturates, NaN
              // is 0; integers to narrower integers wrap; to bool is a != 0; to a float rounds to nearest even.
  // Arithmetic of `type`: dst = a op b
  add, sub, mul,
  div,        // integers: truncates, as C does
  floor_div,  // rounds down; floats too
  mod,        // a - floor_div(a, b) * b: the sign of b
  rem,        // the sign of a (fmod)
  min, max,
  pow,        // integers: a negative exponent gives 0, except of 1 and -1
  // Comparisons of `type`, result b8
  eq, ne, lt, le, gt, ge,
  // Bits: i32, i64, and b8 (logical)
  bit_and, bit_or, bit_xor, bit_not,
  shl,         // i32, i64. Counts of the width or more, or negative ones, give 0
  shr,         // the sign comes in; such counts give the sign
  shr_logical, // zeros come in
  // Functions of one argument: dst = f(a)
  neg, abs, sign,
  floor, ceil, trunc, round,  // round: half to even
  sqrt, exp, log, tanh, erf,
  sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh,
  isnan, isinf,               // result b8
  // Folding a pair: where b is better than dst (greater or smaller; the first NaN beats all), dst = b and the i64
  // register a = the i64 register c. Equal values keep what is there, so ascending indices give the first winner.
  fold_argmax, fold_argmin,
  // Horizontal, in section `end` of a program with lanes_reduced: lane 0 of dst = all lanes of a, which are destroyed. A
  // sum or product is the fixed tree lanes[i] op= lanes[i + half], the same on every instruction set.
  reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_any, reduce_all,
  reduce_argmax, reduce_argmin, // dst = the best of a; lane 0 of c (i64) = its index from b (i64), the least of equals
  count_
};
// clang-format on

struct Instruction {
  Op op = Op::copy;
  Type type = Type::f32;
  DType dtype = DType::f32;
  std::uint16_t slot = 0;                        // of Frame::pointers or Frame::indices
  std::int32_t dst = -1, a = -1, b = -1, c = -1; // registers
  std::int32_t mask = -1;                        // b8 register of load, gather, store, scatter; -1: all lanes
  double real = 0;                               // immediate of float types
  std::int64_t integer = 0;                      // immediate of integer types and b8
};

Instruction constant(int dst, Type, double real);
Instruction constant(int dst, Type, std::int64_t integer);
Instruction index(int dst, int slot);
Instruction load(int dst, DType, int pointer, int mask = -1);
Instruction gather(int dst, DType, int pointer, int offset, int mask = -1);
Instruction store(int a, DType, int pointer, int mask = -1);
Instruction scatter(int a, DType, int pointer, int offset, int mask = -1);
Instruction unary(Op, Type, int dst, int a);
Instruction binary(Op, Type, int dst, int a, int b);
Instruction select(Type, int dst, int condition, int yes, int no);
Instruction cast(int dst, DType, int a, Type from);
Instruction pair(Op, Type, int best, int winner, int value, int index); // fold_arg* and reduce_arg*

struct VectorProgram {
  std::vector<Type> registers;
  std::vector<Instruction> setup, begin, body, end;
  bool lanes_reduced = false;
  int block = max_block; // lanes of a block, 64 to max_block, a multiple of 64: fewer when many registers would leave
                         // the L1 cache
};

// Element at lane l, step (o, i): base[l * lane + i * inner + o * outer]. Strides count elements of the instruction's
// dtype.
struct Pointer {
  void* base = nullptr;
  std::int64_t lane = 1, inner = 0, outer = 0;
};

// Value at lane l, step (o, i): start + l * lane + i * inner + o * outer.
struct IndexValue {
  std::int64_t start = 0, lane = 1, inner = 0, outer = 0;
};

struct Frame {
  const Pointer* pointers = nullptr;
  const IndexValue* indices = nullptr;
  std::int64_t lanes = 0, inner = 1, outer = 1;
  void* scratch = nullptr; // VectorCode::scratch_bytes, aligned to 64; one a thread
};

// What the tables execute: verified, registers turned into byte offsets of the scratch.
struct VectorCode {
  std::vector<Instruction> instructions;       // setup, begin, body, end
  int setup = 0, begin = 0, body = 0, end = 0; // how many each
  int block = max_block;
  bool lanes_reduced = false;
  std::int64_t scratch_bytes = 0;
};

// Asserts that registers exist, are of the types that the instructions want, and are used where they may be.
VectorCode prepare(const VectorProgram&);

void run(const Kernels&, const VectorCode&, const Frame&);

// The same as plain data: the tables' own translation units must not instantiate anything of std.
struct CodeView {
  const Instruction* instructions;
  int setup, begin, body, end;
  int block;
  bool lanes_reduced;
};

} // namespace tilewright::kernels
