// The end of contract and window: what is done to a tile of fp32 sums before it is stored.
//
// A bias per column that comes first is where the sums begin. Then there are two ways. The common endings (one full
// operand such as a residual, limits, then perhaps a function of one value; f32 out, columns adjacent) are done on the
// accumulators in registers, the function on a tile's rows where they are stored: Quick.
// Everything else spills the tile to the stack, where each step runs over the whole tile, so that choosing the step
// costs little; a tile is at most 2 KiB and stays in the L1 cache. A function of one value that comes last is applied
// on the way to the result.
#pragma once
#include "target/cpu/kernels/math_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// ---- functions

// To a whole number, half to even.
TW_INLINE V nearest(V x) {
  if constexpr (scalar_vectors) return hn::Set(D(), rintf(hn::GetLane(x)));
  return hn::Round(x);
}

// As a cast to an integer type does it: cut off, within the type; NaN is 0.
TW_INLINE VI to_whole(V x, float low, float high) {
  const D d;
  const V kept = hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
  return hn::ConvertTo(DI(), hn::IfThenElseZero(hn::Eq(x, x), kept));
}
TW_INLINE float least_of(DType byte) { return byte == DType::u8 ? 0.0f : -128.0f; }
TW_INLINE float most_of(DType byte) { return byte == DType::u8 ? 255.0f : 127.0f; }

TW_INLINE V hard_sigmoid(V x, float a, float b) {
  const D d;
  const V line = hn::Add(hn::Mul(x, hn::Set(d, a)), hn::Set(d, b));
  return max_limit(hn::Zero(d), min_limit(hn::Set(d, 1.0f), line));
}

// The steps that are functions of one value.
template <StepOp op> TW_INLINE V one_value([[maybe_unused]] const EpilogueStep& s, V x) {
  if constexpr (op == StepOp::exp) return exp(x);
  if constexpr (op == StepOp::log) return log(x);
  if constexpr (op == StepOp::sigmoid) return sigmoid(x);
  if constexpr (op == StepOp::silu) return hn::Mul(x, sigmoid(x));
  if constexpr (op == StepOp::hardsigmoid) return hard_sigmoid(x, s.a, s.b);
  if constexpr (op == StepOp::hardswish) return hn::Mul(x, hard_sigmoid(x, s.a, s.b));
  if constexpr (op == StepOp::tanh) return tanh(x);
  if constexpr (op == StepOp::erf) return erf(x);
  if constexpr (op == StepOp::gated_erf) return hn::Mul(x, normal_share(x));
  if constexpr (op == StepOp::softplus) return softplus(x);
}

// One of them over rows of results: `to` plus column is where they go, and, without `from`, where they come from.
using OverRows = void (*)(const EpilogueStep&, const float* from, float* const* to, std::int64_t column, int rows,
                          int columns);
template <StepOp op>
void over_rows(const EpilogueStep& step, const float* from, float* const* to, std::int64_t column, int rows,
               int columns) {
  const EpilogueStep s = step;
  for (int r = 0; r < rows; ++r) {
    float* const p = to[r] + column;
    const float* const x = from ? from + r * lanes : p;
    by_vectors(
        columns, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
          constexpr bool full = decltype(whole)::value;
          store_if<full>(one_value<op>(s, load_if<full>(x + i, columns - i)), p + i, columns - i);
        });
  }
}
TW_INLINE OverRows function_of(StepOp op) {
  switch (op) {
  case StepOp::exp: return over_rows<StepOp::exp>;
  case StepOp::log: return over_rows<StepOp::log>;
  case StepOp::sigmoid: return over_rows<StepOp::sigmoid>;
  case StepOp::silu: return over_rows<StepOp::silu>;
  case StepOp::hardsigmoid: return over_rows<StepOp::hardsigmoid>;
  case StepOp::hardswish: return over_rows<StepOp::hardswish>;
  case StepOp::tanh: return over_rows<StepOp::tanh>;
  case StepOp::erf: return over_rows<StepOp::erf>;
  case StepOp::gated_erf: return over_rows<StepOp::gated_erf>;
  case StepOp::softplus: return over_rows<StepOp::softplus>;
  default: return nullptr;
  }
}

// ---- in registers

struct Quick {
  bool possible = false, limits = false, scaled = false;
  float scale = 1;                        // of the sums, before all else
  const float* bias = nullptr;            // per column; not among the steps of `rest`
  Epilogue rest;                          // where Quick is not possible
  const EpilogueStep* residual = nullptr; // one element an output
  float low = 0, high = 0;
  const EpilogueStep* last = nullptr; // a function of one value, over the rows as soon as they are stored
  OverRows function = nullptr;
};

TW_INLINE bool is_limit(const EpilogueStep& s, StepOp op) { return s.op == op && !s.operand && s.a == s.a; }

TW_INLINE Quick quick_ending(const Epilogue& epilogue, DType out, std::int64_t column, bool scales = false) {
  Quick q{};
  const EpilogueStep* s = epilogue.steps;
  const EpilogueStep* const end = s + epilogue.count;
  const auto added = [&] {
    return s != end && s->op == StepOp::add && s->operand && s->dtype == DType::f32 && s->column == 1;
  };
  if (added() && !s->rows.table && s->rows.stride == 0) q.bias = static_cast<const float*>((s++)->operand);
  q.rest = {s, static_cast<int>(end - s)};
  if (scales && !q.bias && s != end && s->op == StepOp::mul && !s->operand) q.scale = (s++)->a, q.scaled = true;
  if (added()) q.residual = s++;
  const float infinity = bits_to_float(0x7f800000u);
  q.low = -infinity;
  q.high = infinity;
  if (s != end && is_limit(*s, StepOp::max)) q.low = (s++)->a, q.limits = true;
  if (s != end && is_limit(*s, StepOp::min)) q.high = (s++)->a, q.limits = true;
  if (s != end && (q.function = function_of(s->op))) q.last = s++;
  q.possible = s == end && out == DType::f32 && column == 1;
  return q;
}

// ---- on the stack

struct Tile {
  float* values; // [rows][width]
  int width;     // a multiple of the vector; columns past `columns` hold anything
  int rows, columns;
  std::int64_t row, column; // of the block, where the tile begins
  float* const* to;         // where the rows go; null: they stay
};

template <class F> TW_INLINE void over_tile(const Tile& t, F&& f) {
  if (t.to) {
    for (int r = 0; r < t.rows; ++r) {
      const float* const x = t.values + r * t.width;
      float* const p = t.to[r];
      by_vectors(
          t.columns, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
            store_if<decltype(whole)::value>(f(load(x + i)), p + i, t.columns - i);
          });
    }
    return;
  }
  for (int i = 0; i < t.rows * t.width; i += lanes) store(f(load(t.values + i)), t.values + i);
}

// Elements of an operand beside one row of the tile, as f32.
inline void operand_row(const EpilogueStep& s, const Tile& t, int r, float* to) {
  const std::int64_t from = row_at(s.rows, t.row + r) + t.column * s.column;
  if (s.dtype == DType::u8 || s.dtype == DType::i8) {
    const auto* p = static_cast<const std::uint8_t*>(s.operand) + from;
    const bool is_signed = s.dtype == DType::i8;
    for (int i = 0; i < t.columns; ++i) {
      const std::uint8_t v = p[i * s.column];
      to[i] = (static_cast<float>(is_signed ? static_cast<std::int8_t>(v) : v) - s.a) * s.b;
    }
    return;
  }
  for_storage(
      s.dtype, [&](auto* type) __attribute__((always_inline)) {
        const auto* p = static_cast<decltype(type)>(const_cast<void*>(s.operand)) + from;
        if (s.column == 1)
          by_vectors(
              t.columns, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
                store(load_if<decltype(whole)::value>(p + i, t.columns - i), to + i);
              });
        else
          for (int i = 0; i < t.columns; ++i) to[i] = widen(p[i * s.column]);
      });
}

// x = f(x, v) for every element x of the tile and its element v of the operand, or the constant.
template <class F> TW_INLINE void with_operand(const EpilogueStep& s, const Tile& t, F&& f) {
  if (!s.operand) {
    const V v = hn::Set(D(), s.a);
    return over_tile(
        t, [&](V x) __attribute__((always_inline)) { return f(x, v); });
  }
  alignas(64) float row[64] = {};
  const bool same = !s.rows.table && s.rows.stride == 0;
  for (int r = 0; r < t.rows; ++r) {
    if (r == 0 || !same) operand_row(s, t, r, row);
    float* const x = t.values + r * t.width;
    for (int i = 0; i < t.width; i += lanes) store(f(load(x + i), load(row + i)), x + i);
  }
}

template <class T> void round_tile(const Tile& t) {
  alignas(64) T narrowed[lanes];
  over_tile(
      t, [&](V x) __attribute__((always_inline)) {
        store(x, narrowed);
        return load(narrowed);
      });
}

#define TW_BINARY(expression)                                                                                          \
  with_operand(                                                                                                        \
      s, t, [&](V x, V v) __attribute__((always_inline)) { return expression; })
#define TW_UNARY(expression)                                                                                           \
  over_tile(                                                                                                           \
      t, [&](V x) __attribute__((always_inline)) { return expression; })

HWY_NOINLINE void apply_step(const EpilogueStep& s, const Tile& t) {
  const V zero = hn::Zero(D());
  switch (s.op) {
  case StepOp::add: return TW_BINARY(hn::Add(x, v));
  case StepOp::sub: return TW_BINARY(hn::Sub(x, v));
  case StepOp::rsub: return TW_BINARY(hn::Sub(v, x));
  case StepOp::mul: return TW_BINARY(hn::Mul(x, v));
  case StepOp::div: return TW_BINARY(hn::Div(x, v));
  case StepOp::rdiv: return TW_BINARY(hn::Div(v, x));
  case StepOp::max: return TW_BINARY(max_nan(v, x));
  case StepOp::min: return TW_BINARY(min_nan(v, x));
  case StepOp::leaky: return TW_BINARY(hn::IfThenElse(hn::Lt(x, zero), hn::Mul(v, x), x));
  case StepOp::elu: return TW_BINARY(hn::IfThenElse(hn::Lt(x, zero), hn::Mul(v, expm1(x)), x));
  case StepOp::neg: return TW_UNARY(hn::Neg(x));
  case StepOp::abs: return TW_UNARY(hn::Abs(x));
  case StepOp::square: return TW_UNARY(hn::Mul(x, x));
  case StepOp::sqrt: return TW_UNARY(hn::Sqrt(x));
  case StepOp::exp: return TW_UNARY(one_value<StepOp::exp>(s, x));
  case StepOp::log: return TW_UNARY(one_value<StepOp::log>(s, x));
  case StepOp::sigmoid: return TW_UNARY(one_value<StepOp::sigmoid>(s, x));
  case StepOp::silu: return TW_UNARY(one_value<StepOp::silu>(s, x));
  case StepOp::hardsigmoid: return TW_UNARY(one_value<StepOp::hardsigmoid>(s, x));
  case StepOp::hardswish: return TW_UNARY(one_value<StepOp::hardswish>(s, x));
  case StepOp::tanh: return TW_UNARY(one_value<StepOp::tanh>(s, x));
  case StepOp::erf: return TW_UNARY(one_value<StepOp::erf>(s, x));
  case StepOp::gated_erf: return TW_UNARY(one_value<StepOp::gated_erf>(s, x));
  case StepOp::softplus: return TW_UNARY(one_value<StepOp::softplus>(s, x));
  case StepOp::round:
    if (s.dtype == DType::u8 || s.dtype == DType::i8)
      return TW_UNARY(hn::ConvertTo(D(), to_whole(x, least_of(s.dtype), most_of(s.dtype))));
    return s.dtype == DType::f16 ? round_tile<F16>(t) : s.dtype == DType::bf16 ? round_tile<Bf16>(t) : TW_UNARY(x);
  case StepOp::rint: return TW_UNARY(nearest(x));
  case StepOp::gate: return TW_BINARY(hn::IfThenZeroElse(hn::Eq(v, zero), hn::Mul(x, v)));
  case StepOp::to_float: return; // of sums of integers: done by their own ending
  }
}

#undef TW_BINARY
#undef TW_UNARY

struct Output {
  void* base;
  DType dtype;
  Rows rows;
  std::int64_t column; // stride
  std::int64_t row;    // of `rows`, where the tile begins
};

constexpr int most_tile_rows = 16;

inline void store_tile(const Tile& t, const Output& out) {
  for_storage(
      out.dtype, [&](auto* type) __attribute__((always_inline)) {
        for (int r = 0; r < t.rows; ++r) {
          auto* p = static_cast<decltype(type)>(out.base) + row_at(out.rows, out.row + r) + t.column * out.column;
          const float* x = t.values + r * t.width;
          if (out.column == 1)
            by_vectors(
                t.columns, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
                  store_if<decltype(whole)::value>(load(x + i), p + i, t.columns - i);
                });
          else
            for (int i = 0; i < t.columns; ++i) narrow(x[i], p + i * out.column);
        }
      });
}

// Applies all steps and stores the tile.
[[maybe_unused]] HWY_NOINLINE void finish_tile(Tile t, const Epilogue& epilogue, const Output& out) {
  const int last = epilogue.count - 1;
  for (int i = 0; i < last; ++i) apply_step(epilogue.steps[i], t);
  if (last >= 0) {
    const EpilogueStep& s = epilogue.steps[last];
    if (!s.operand && out.dtype == DType::f32 && out.column == 1) {
      float* to[most_tile_rows];
      for (int r = 0; r < t.rows; ++r) to[r] = static_cast<float*>(out.base) + row_at(out.rows, out.row + r) + t.column;
      t.to = to;
      return apply_step(s, t);
    }
    apply_step(s, t);
  }
  store_tile(t, out);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
