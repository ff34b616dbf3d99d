// fold: a map of rows and adjacent columns, and its reduction over either, in one pass.
//
// Four vectors of a row are in registers at a time: each step is chosen once for the four, whose latencies hide each
// other. Where rows meet, the four accumulators stay in registers down all rows; where columns meet, they go across a
// row and are joined at its end. Which points of a row live is an interval of columns (its ends move with the row):
// vectors outside are not computed, only those that it cuts are masked.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int fold_vectors = 4;

TW_INLINE V load_as(DType t, const void* p, std::int64_t at, std::int64_t left) {
  const bool whole = left >= lanes;
  if (HWY_LIKELY(t == DType::f32)) {
    const float* x = static_cast<const float*>(p) + at;
    return HWY_LIKELY(whole) ? load(x) : load_part(x, left);
  }
  if (t == DType::f16) {
    const F16* x = static_cast<const F16*>(p) + at;
    return whole ? load(x) : load_part(x, left);
  }
  const Bf16* x = static_cast<const Bf16*>(p) + at;
  return whole ? load(x) : load_part(x, left);
}

TW_INLINE void store_as(DType t, V v, void* p, std::int64_t at, std::int64_t left) {
  const bool whole = left >= lanes;
  if (HWY_LIKELY(t == DType::f32)) {
    float* x = static_cast<float*>(p) + at;
    return HWY_LIKELY(whole) ? store(v, x) : store_part(v, x, left);
  }
  if (t == DType::f16) {
    F16* x = static_cast<F16*>(p) + at;
    return whole ? store(v, x) : store_part(v, x, left);
  }
  Bf16* x = static_cast<Bf16*>(p) + at;
  return whole ? store(v, x) : store_part(v, x, left);
}

TW_INLINE float load_one(DType t, const void* p, std::int64_t at) {
  return t == DType::f32   ? static_cast<const float*>(p)[at]
         : t == DType::f16 ? widen(static_cast<const F16*>(p)[at])
                           : widen(static_cast<const Bf16*>(p)[at]);
}

TW_INLINE V fold_identity(FoldReduce r) {
  const float infinity = bits_to_float(0x7f800000u);
  return hn::Set(D(), r == FoldReduce::max ? -infinity : r == FoldReduce::min ? infinity : 0.0f);
}
TW_INLINE V fold_join(FoldReduce r, V a, V b) {
  return r == FoldReduce::sum ? hn::Add(a, b) : r == FoldReduce::max ? max_nan(a, b) : min_nan(a, b);
}

// Up to four vectors of one row, from a column on.
struct FoldPiece {
  V v[fold_vectors];
  std::int64_t row, column, count; // columns of it
};

// A step's operand beside vector i of the piece.
TW_INLINE V fold_operand(const EpilogueStep& s, const FoldPiece& p, int i) {
  if (!s.operand) return hn::Set(D(), s.a);
  const std::int64_t row = row_at(s.rows, p.row), first = p.column + i * lanes, left = p.count - i * lanes;
  if (left <= 0) return hn::Zero(D());
  if (s.column == 1) return load_as(s.dtype, s.operand, row + first, left);
  if (s.column == 0) return hn::Set(D(), load_one(s.dtype, s.operand, row));
  alignas(64) float gathered[lanes] = {};
  for (std::int64_t c = 0; c < least<std::int64_t>(left, lanes); ++c)
    gathered[c] = load_one(s.dtype, s.operand, row + (first + c) * s.column);
  return load(gathered);
}

#define TW_BINARY(expression)                                                                                          \
  unroll<fold_vectors>(TW_UNROLLED(i) {                                                                                \
    V& x = p.v[i.value];                                                                                               \
    const V v = fold_operand(s, p, i.value);                                                                           \
    x = expression;                                                                                                    \
  })
#define TW_UNARY(expression)                                                                                           \
  unroll<fold_vectors>(TW_UNROLLED(i) {                                                                                \
    V& x = p.v[i.value];                                                                                               \
    x = expression;                                                                                                    \
  })

template <class T> TW_INLINE V rounded_to(V x) {
  alignas(64) T narrowed[lanes];
  store(x, narrowed);
  return load(narrowed);
}

// The steps that are common between a contraction and the next; false: the rest go through memory.
TW_INLINE bool fold_step(const EpilogueStep& s, FoldPiece& p) {
  switch (s.op) {
  case StepOp::add: TW_BINARY(hn::Add(x, v)); return true;
  case StepOp::sub: TW_BINARY(hn::Sub(x, v)); return true;
  case StepOp::rsub: TW_BINARY(hn::Sub(v, x)); return true;
  case StepOp::mul: TW_BINARY(hn::Mul(x, v)); return true;
  case StepOp::div: TW_BINARY(hn::Div(x, v)); return true;
  case StepOp::gate: TW_BINARY(hn::IfThenZeroElse(hn::Eq(v, hn::Zero(D())), hn::Mul(x, v))); return true;
  case StepOp::square: TW_UNARY(hn::Mul(x, x)); return true;
  case StepOp::exp: TW_UNARY(exp(x)); return true;
  default: return false;
  }
}
#undef TW_BINARY
#undef TW_UNARY

HWY_NOINLINE void fold_step_in_memory(const EpilogueStep& s, FoldPiece& p) {
  alignas(64) float values[fold_vectors * lanes];
  for (int i = 0; i < fold_vectors; ++i) store(p.v[i], values + i * lanes);
  apply_step(s, {values, fold_vectors * lanes, 1, static_cast<int>(p.count), p.row, p.column, nullptr});
  for (int i = 0; i < fold_vectors; ++i) p.v[i] = load(values + i * lanes);
}

// A piece whose address nobody takes stays in registers: what goes through memory goes as a copy.
TW_INLINE void fold_any_step(const EpilogueStep& s, FoldPiece& p) {
  if (HWY_LIKELY(fold_step(s, p))) return;
  FoldPiece copy = p;
  fold_step_in_memory(s, copy);
  p = copy;
}

// Columns of a row that live: [first, end) of the block.
struct FoldLive {
  std::int64_t first, end;
};
TW_INLINE std::int64_t fold_floor(std::int64_t a, std::int64_t b) {
  if (b == 1) return a;
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
TW_INLINE FoldLive fold_live(const Fold& f, std::int64_t r) {
  FoldLive live = {0, f.columns};
  for (int i = 0; i < f.bound_count; ++i) {
    const FoldBound& b = f.bounds[i];
    const std::int64_t rest = b.row * r + b.offset; // column * c + rest >= 0
    std::int64_t low = live.first, high = live.end;
    if (b.column > 0)
      low = -fold_floor(rest, b.column);
    else if (b.column < 0)
      high = fold_floor(rest, -b.column) + 1;
    else if (rest < 0)
      high = low;
    live.first = low > live.first ? low : live.first;
    live.end = high < live.end ? high : live.end;
  }
  if (live.end < live.first) live.end = live.first;
  return live;
}

// What lives of vector i: all of it, or the lanes of a mask.
TW_INLINE Mask fold_mask(const FoldLive& live, const FoldPiece& p, int i) {
  const std::int64_t at = p.column + i * lanes;
  const auto until = [&](std::int64_t n) {
    return hn::FirstN(D(), static_cast<std::size_t>(n < 0 ? 0 : least<std::int64_t>(n, lanes)));
  };
  const std::int64_t end = least(live.end, p.column + p.count);
  return hn::AndNot(until(live.first - at), until(end - at));
}

// The same where all of it lives, in whole vectors of f32.
TW_INLINE void fold_plain_piece(const Fold& f, FoldPiece& p, V (&acc)[fold_vectors]) {
  const float* const from = static_cast<const float*>(f.x) + row_at(f.x_rows, p.row) + p.column;
  unroll<fold_vectors>(TW_UNROLLED(i) { p.v[i.value] = load(from + i.value * lanes); });
  for (int k = 0; k < f.steps.count; ++k)
    fold_any_step(f.steps.steps[k], p);
  if (f.y) {
    float* const to = static_cast<float*>(f.y) + row_at(f.y_rows, p.row) + p.column;
    unroll<fold_vectors>(TW_UNROLLED(i) { store(p.v[i.value], to + i.value * lanes); });
  }
  switch (f.reduce) {
  case FoldReduce::none: return;
  case FoldReduce::sum: return unroll<fold_vectors>(TW_UNROLLED(i) { acc[i.value] = hn::Add(acc[i.value], p.v[i.value]); });
  default: return unroll<fold_vectors>(TW_UNROLLED(i) { acc[i.value] = fold_join(f.reduce, acc[i.value], p.v[i.value]); });
  }
}

// One piece: loaded, mapped, stored, and joined to `acc`.
TW_INLINE void fold_piece(const Fold& f, const FoldLive& live, FoldPiece& p, V (&acc)[fold_vectors]) {
  const bool dead = live.end <= p.column || live.first >= p.column + p.count;
  const bool whole = !dead && live.first <= p.column && live.end >= p.column + p.count && p.count == fold_vectors * lanes;
  const std::int64_t from = row_at(f.x_rows, p.row) + p.column;
  if (!dead) {
    unroll<fold_vectors>(TW_UNROLLED(i) {
      const std::int64_t left = p.count - i.value * lanes;
      p.v[i.value] = left > 0 ? load_as(f.x_type, f.x, from + i.value * lanes, left) : hn::Zero(D());
    });
    for (int k = 0; k < f.steps.count; ++k)
      fold_any_step(f.steps.steps[k], p);
  }
  const std::int64_t to = row_at(f.y_rows, p.row) + p.column;
  if (HWY_LIKELY(whole)) {
    if (f.y) unroll<fold_vectors>(TW_UNROLLED(i) { store_as(f.y_type, p.v[i.value], f.y, to + i.value * lanes, lanes); });
    if (f.reduce != FoldReduce::none)
      unroll<fold_vectors>(TW_UNROLLED(i) { acc[i.value] = fold_join(f.reduce, acc[i.value], p.v[i.value]); });
    return;
  }
  for (int i = 0; i < fold_vectors && i * lanes < p.count; ++i) {
    const Mask lives = dead ? hn::FirstN(D(), 0) : fold_mask(live, p, i);
    if (dead) p.v[i] = hn::Zero(D());
    if (f.y) store_as(f.y_type, hn::IfThenElseZero(lives, p.v[i]), f.y, to + i * lanes, p.count - i * lanes);
    if (f.reduce != FoldReduce::none && !dead)
      acc[i] = fold_join(f.reduce, acc[i], hn::IfThenElse(lives, p.v[i], fold_identity(f.reduce)));
  }
}

// From a column on.
inline void fold_down(const Fold& f, std::int64_t first) {
  for (std::int64_t c = first; c < f.columns; c += fold_vectors * lanes) {
    FoldPiece p;
    p.column = c;
    p.count = least<std::int64_t>(f.columns - c, fold_vectors * lanes);
    V acc[fold_vectors];
    const bool reduces = f.reduce != FoldReduce::none;
    for (int i = 0; i < fold_vectors; ++i)
      acc[i] = reduces && i * lanes < p.count ? load_as(DType::f32, f.acc, c + i * lanes, p.count - i * lanes) : hn::Zero(D());
    const bool plain = p.count == fold_vectors * lanes && f.bound_count == 0 && f.x_type == DType::f32 && (!f.y || f.y_type == DType::f32);
    if (plain)
      for (p.row = 0; p.row < f.rows; ++p.row) fold_plain_piece(f, p, acc);
    else
      for (p.row = 0; p.row < f.rows; ++p.row) fold_piece(f, fold_live(f, p.row), p, acc);
    for (int i = 0; reduces && i < fold_vectors && i * lanes < p.count; ++i)
      store_as(DType::f32, acc[i], f.acc, c + i * lanes, p.count - i * lanes);
  }
}

TW_INLINE float fold_two(FoldReduce r, float a, float b) {
  if (a != a || b != b) return a != a ? a : b;
  return (r == FoldReduce::max ? a > b : a < b) ? a : b;
}
TW_INLINE float fold_lanes(FoldReduce r, V v, float first) {
  if (r == FoldReduce::sum) return first + hn::GetLane(hn::SumOfLanes(D(), v));
  alignas(64) float x[lanes];
  store(v, x);
  for (int i = 0; i < lanes; ++i) first = fold_two(r, first, x[i]);
  return first;
}

inline void fold_across(const Fold& f) {
  for (std::int64_t r = 0; r < f.rows; ++r) {
    const FoldLive live = fold_live(f, r);
    FoldPiece p;
    p.row = r;
    V acc[fold_vectors];
    for (int i = 0; i < fold_vectors; ++i) acc[i] = fold_identity(f.reduce);
    for (p.column = 0; p.column < f.columns; p.column += fold_vectors * lanes) {
      p.count = least<std::int64_t>(f.columns - p.column, fold_vectors * lanes);
      fold_piece(f, live, p, acc);
    }
    const V all = fold_join(f.reduce, fold_join(f.reduce, acc[0], acc[1]), fold_join(f.reduce, acc[2], acc[3]));
    float& to = f.acc[row_at(f.acc_rows, r)];
    to = fold_lanes(f.reduce, all, to);
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
