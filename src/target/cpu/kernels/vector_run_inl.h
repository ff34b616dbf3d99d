// The interpreter's loops, and the table from (operation, type) to the function that executes it over a block.
#pragma once
#include "target/cpu/kernels/vector_memory_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int op_count = static_cast<int>(Op::count_), type_count = 5;

struct Handlers {
  Handler at[op_count][type_count];
  constexpr void set(Op op, Type type, Handler h) { at[static_cast<int>(op)][static_cast<int>(type)] = h; }
  constexpr void set_all(Op op, Handler h) {
    for (int t = 0; t < type_count; ++t) at[static_cast<int>(op)][t] = h;
  }
};

using I32 = std::int32_t;
using I64 = std::int64_t;
using B8 = std::uint8_t;

template <class F> constexpr void arithmetic(Handlers& h, Op op) {
  h.set(op, Type::f32, on_vectors<F>);
  h.set(op, Type::f64, on_lanes<F, double>);
  h.set(op, Type::i32, on_lanes<F, I32>);
  h.set(op, Type::i64, on_lanes<F, I64>);
}
template <class F> constexpr void lane_arithmetic(Handlers& h, Op op) {
  h.set(op, Type::f32, on_lanes<F, float>);
  h.set(op, Type::f64, on_lanes<F, double>);
  h.set(op, Type::i32, on_lanes<F, I32>);
  h.set(op, Type::i64, on_lanes<F, I64>);
}
template <class F> constexpr void comparison(Handlers& h, Op op) {
  h.set(op, Type::f32, vectors_compared<F>);
  h.set(op, Type::f64, lanes_compared<F, double>);
  h.set(op, Type::i32, lanes_compared<F, I32>);
  h.set(op, Type::i64, lanes_compared<F, I64>);
  h.set(op, Type::b8, lanes_compared<F, B8>);
}
template <class F> constexpr void bits(Handlers& h, Op op) {
  h.set(op, Type::i32, on_lanes<F, I32>);
  h.set(op, Type::i64, on_lanes<F, I64>);
}
template <class F> constexpr void function(Handlers& h, Op op) {
  h.set(op, Type::f32, of_vectors<F>);
  h.set(op, Type::f64, of_lanes<F, double>);
}
template <class F> constexpr void function_of_integers(Handlers& h, Op op) {
  h.set(op, Type::i32, of_lanes<F, I32>);
  h.set(op, Type::i64, of_lanes<F, I64>);
}
template <float (*f32)(float), double (*f64)(double)> constexpr void libm(Handlers& h, Op op) {
  h.set(op, Type::f32, through_libm<float, f32>);
  h.set(op, Type::f64, through_libm<double, f64>);
}
template <bool greatest> constexpr void pairs(Handlers& h, Op fold, Op reduce) {
  h.set(fold, Type::f32, fold_pair<greatest, float>);
  h.set(fold, Type::f64, fold_pair<greatest, double>);
  h.set(fold, Type::i32, fold_pair<greatest, I32>);
  h.set(fold, Type::i64, fold_pair<greatest, I64>);
  h.set(fold, Type::b8, fold_pair<greatest, B8>);
  h.set(reduce, Type::f32, reduce_pair<greatest, float>);
  h.set(reduce, Type::f64, reduce_pair<greatest, double>);
  h.set(reduce, Type::i32, reduce_pair<greatest, I32>);
  h.set(reduce, Type::i64, reduce_pair<greatest, I64>);
  h.set(reduce, Type::b8, reduce_pair<greatest, B8>);
}
template <class F> constexpr void reduction(Handlers& h, Op op) {
  h.set(op, Type::f32, reduce_lanes<F, float>);
  h.set(op, Type::f64, reduce_lanes<F, double>);
  h.set(op, Type::i32, reduce_lanes<F, I32>);
  h.set(op, Type::i64, reduce_lanes<F, I64>);
}

template <class T> constexpr void moves(Handlers& h, Type type) {
  h.set(Op::constant, type, set_constant<T>);
  h.set(Op::copy, type, copy_register<T>);
  h.set(Op::select, type, select_lanes<T>);
  h.set(Op::cast, type, cast_from<T>);
}

constexpr void set_memory_and_moves(Handlers& h) {
  h.set_all(Op::index, index_lanes);
  h.set_all(Op::load, load_any);
  h.set_all(Op::gather, gather_any);
  h.set_all(Op::store, store_any);
  h.set_all(Op::scatter, scatter_any);
  moves<float>(h, Type::f32);
  moves<double>(h, Type::f64);
  moves<I32>(h, Type::i32);
  moves<I64>(h, Type::i64);
  moves<B8>(h, Type::b8);
  h.set(Op::select, Type::f32, select_vectors);
}

constexpr void set_two_arguments(Handlers& h) {
  arithmetic<Add>(h, Op::add);
  arithmetic<Sub>(h, Op::sub);
  arithmetic<Mul>(h, Op::mul);
  arithmetic<Div>(h, Op::div);
  arithmetic<FloorDiv>(h, Op::floor_div);
  arithmetic<Max>(h, Op::max);
  arithmetic<Min>(h, Op::min);
  lane_arithmetic<Mod>(h, Op::mod);
  lane_arithmetic<Rem>(h, Op::rem);
  lane_arithmetic<Pow>(h, Op::pow);
  comparison<Eq>(h, Op::eq);
  comparison<Ne>(h, Op::ne);
  comparison<Lt>(h, Op::lt);
  comparison<Le>(h, Op::le);
  comparison<Gt>(h, Op::gt);
  comparison<Ge>(h, Op::ge);
  bits<BitAnd>(h, Op::bit_and);
  bits<BitOr>(h, Op::bit_or);
  bits<BitXor>(h, Op::bit_xor);
  h.set(Op::bit_and, Type::b8, on_lanes<BitAnd, B8>);
  h.set(Op::bit_or, Type::b8, on_lanes<BitOr, B8>);
  h.set(Op::bit_xor, Type::b8, on_lanes<BitXor, B8>);
  bits<Shl>(h, Op::shl);
  bits<Shr>(h, Op::shr);
  bits<ShrLogical>(h, Op::shr_logical);
}

constexpr void set_functions(Handlers& h) {
  function<Neg>(h, Op::neg);
  function<Abs>(h, Op::abs);
  function<Sign>(h, Op::sign);
  function_of_integers<Neg>(h, Op::neg);
  function_of_integers<Abs>(h, Op::abs);
  function_of_integers<Sign>(h, Op::sign);
  function<Floor>(h, Op::floor);
  function<Ceil>(h, Op::ceil);
  function<Trunc>(h, Op::trunc);
  function<Round>(h, Op::round);
  function<Sqrt>(h, Op::sqrt);
  function<Exp>(h, Op::exp);
  function<Log>(h, Op::log);
  function<Tanh>(h, Op::tanh);
  function<Erf>(h, Op::erf);
  function<Sin>(h, Op::sin);
  function<Cos>(h, Op::cos);
  libm<::tanf, ::tan>(h, Op::tan);
  libm<::asinf, ::asin>(h, Op::asin);
  libm<::acosf, ::acos>(h, Op::acos);
  libm<::atanf, ::atan>(h, Op::atan);
  libm<::sinhf, ::sinh>(h, Op::sinh);
  libm<::coshf, ::cosh>(h, Op::cosh);
  libm<::asinhf, ::asinh>(h, Op::asinh);
  libm<::acoshf, ::acosh>(h, Op::acosh);
  libm<::atanhf, ::atanh>(h, Op::atanh);
  h.set(Op::isnan, Type::f32, vectors_tested<IsNan>);
  h.set(Op::isnan, Type::f64, lanes_tested<IsNan>);
  h.set(Op::isinf, Type::f32, vectors_tested<IsInf>);
  h.set(Op::isinf, Type::f64, lanes_tested<IsInf>);
  h.set(Op::bit_not, Type::i32, bits_inverted<I32>);
  h.set(Op::bit_not, Type::i64, bits_inverted<I64>);
  h.set(Op::bit_not, Type::b8, bits_inverted<B8>);
}

constexpr void set_reductions(Handlers& h) {
  reduction<Add>(h, Op::reduce_sum);
  reduction<Mul>(h, Op::reduce_prod);
  reduction<Max>(h, Op::reduce_max);
  reduction<Min>(h, Op::reduce_min);
  h.set(Op::reduce_any, Type::b8, reduce_lanes<BitOr, B8>);
  h.set(Op::reduce_all, Type::b8, reduce_lanes<BitAnd, B8>);
  pairs<true>(h, Op::fold_argmax, Op::reduce_argmax);
  pairs<false>(h, Op::fold_argmin, Op::reduce_argmin);
}

constexpr Handlers make_handlers() {
  Handlers h{};
  set_memory_and_moves(h);
  set_two_arguments(h);
  set_functions(h);
  set_reductions(h);
  return h;
}
constexpr Handlers handlers = make_handlers();

TW_INLINE void execute(const Instruction& i, const Block& b) {
  handlers.at[static_cast<int>(i.op)][static_cast<int>(i.type)](i, b);
}

inline void execute_all(const Instruction* i, int count, const Block& b) {
  for (const Instruction* end = i + count; i != end; ++i) execute(*i, b);
}

// The end of a program that reduced its lanes: horizontal instructions see all of them, the others only what came out
// in lane 0.
inline void execute_end(const Instruction* i, int count, Block b, int seen) {
  for (const Instruction* end = i + count; i != end; ++i) {
    b.count = i->op >= Op::reduce_sum ? seen : 1;
    execute(*i, b);
  }
}

inline void run_reducing_lanes(const CodeView& code, const Frame& f, Block b) {
  const Instruction *begin = code.instructions + code.setup, *body = begin + code.begin, *end = body + code.body;
  const int first = static_cast<int>(least<std::int64_t>(f.lanes, code.block));
  for (b.outer = 0; b.outer < f.outer; ++b.outer) {
    b.inner = b.lane = 0;
    b.count = first > 0 ? first : 1; // the identity, where there are no lanes
    const int seen = b.count;
    execute_all(begin, code.begin, b);
    for (b.inner = 0; b.inner < f.inner; ++b.inner)
      for (b.lane = 0; b.lane < f.lanes; b.lane += code.block) {
        b.count = static_cast<int>(least<std::int64_t>(f.lanes - b.lane, code.block));
        execute_all(body, code.body, b);
      }
    b.inner = b.lane = 0;
    execute_end(end, code.end, b, seen);
  }
}

inline void run_keeping_lanes(const CodeView& code, const Frame& f, Block b) {
  const Instruction *begin = code.instructions + code.setup, *body = begin + code.begin, *end = body + code.body;
  for (b.outer = 0; b.outer < f.outer; ++b.outer)
    for (b.lane = 0; b.lane < f.lanes; b.lane += code.block) {
      b.count = static_cast<int>(least<std::int64_t>(f.lanes - b.lane, code.block));
      b.inner = 0;
      execute_all(begin, code.begin, b);
      for (b.inner = 0; b.inner < f.inner; ++b.inner) execute_all(body, code.body, b);
      b.inner = 0;
      execute_all(end, code.end, b);
    }
}

inline void run_code(const CodeView& code, const Frame& f) {
  Block b = {static_cast<char*>(f.scratch), &f, 0, 0, 0, code.block};
  execute_all(code.instructions, code.setup, b);
  if (code.lanes_reduced)
    run_reducing_lanes(code, f, b);
  else
    run_keeping_lanes(code, f, b);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
