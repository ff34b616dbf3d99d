// fold of few steps that are known when this is compiled: they and what they read that stands still are in registers for a whole pass.
// Candidates before fold_down's own loop, which asks for each step of each four vectors what it is and so keeps them on the stack.
//
//   steps sub, exp; sum of rows, stored:    y = exp(x - m), l += y      16 vectors of registers: 4 x, 4 m, 4 l, and what exp needs
#pragma once
#include "target/cpu/kernels/fold_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

template <StepOp op> TW_INLINE V chain_step(V x, V v) {
  switch (op) {
  case StepOp::add: return hn::Add(x, v);
  case StepOp::sub: return hn::Sub(x, v);
  case StepOp::mul: return hn::Mul(x, v);
  case StepOp::gate: return hn::IfThenZeroElse(hn::Eq(v, hn::Zero(D())), hn::Mul(x, v));
  case StepOp::exp: return exp(x);
  default: return hn::Mul(x, x); // square
  }
}

// Whole vectors of f32 from the first column on, rows that all live; `columns` is a multiple of four vectors.
template <FoldReduce reduce, bool stores, StepOp... ops> void fold_chain(const Fold& f, std::int64_t columns) {
  constexpr int count = sizeof...(ops);
  constexpr StepOp op[count + 1] = {ops..., StepOp::add};
  for (std::int64_t c = 0; c < columns; c += fold_vectors * lanes) {
    V acc[fold_vectors], held[count + 1][fold_vectors];
    unroll<fold_vectors>(TW_UNROLLED(i) {
      acc[i.value] = reduce == FoldReduce::none ? hn::Zero(D()) : load(f.acc + c + i.value * lanes);
      unroll<count>(TW_UNROLLED(k) {
        const EpilogueStep& s = f.steps.steps[k.value];
        held[k.value][i.value] = s.operand ? load(static_cast<const float*>(s.operand) + c + i.value * lanes) : hn::Set(D(), s.a);
      });
    });
    for (std::int64_t r = 0; r < f.rows; ++r) {
      const float* const from = static_cast<const float*>(f.x) + row_at(f.x_rows, r) + c;
      float* const to = stores ? static_cast<float*>(f.y) + row_at(f.y_rows, r) + c : nullptr;
      unroll<fold_vectors>(TW_UNROLLED(i) {
        V x = load(from + i.value * lanes);
        unroll<count>(TW_UNROLLED(k) { x = chain_step<op[k.value]>(x, held[k.value][i.value]); });
        if constexpr (stores) store(x, to + i.value * lanes);
        if constexpr (reduce != FoldReduce::none) acc[i.value] = fold_join(reduce, acc[i.value], x);
      });
    }
    if constexpr (reduce != FoldReduce::none) unroll<fold_vectors>(TW_UNROLLED(i) { store(acc[i.value], f.acc + c + i.value * lanes); });
  }
}

using FoldChain = void (*)(const Fold&, std::int64_t columns);

template <StepOp... ops> FoldChain chain_of(const Fold& f) {
  constexpr int count = sizeof...(ops);
  constexpr StepOp op[count + 1] = {ops..., StepOp::add};
  if (f.steps.count != count) return nullptr;
  for (int k = 0; k < count; ++k)
    if (f.steps.steps[k].op != op[k]) return nullptr;
  switch (f.reduce) {
  case FoldReduce::none: return f.y ? fold_chain<FoldReduce::none, true, ops...> : nullptr;
  case FoldReduce::sum: return f.y ? fold_chain<FoldReduce::sum, true, ops...> : fold_chain<FoldReduce::sum, false, ops...>;
  case FoldReduce::max: return f.y ? fold_chain<FoldReduce::max, true, ops...> : fold_chain<FoldReduce::max, false, ops...>;
  default: return nullptr;
  }
}

// What stands still down the rows: constants and vectors along the columns.
TW_INLINE bool stands_still(const EpilogueStep& s) {
  return !s.operand || (s.dtype == DType::f32 && s.column == 1 && !s.rows.table && s.rows.stride == 0);
}

// Null: no chain says it.
inline FoldChain fold_chain_for(const Fold& f) {
  if (f.bound_count || f.x_type != DType::f32 || (f.y && f.y_type != DType::f32)) return nullptr;
  for (int k = 0; k < f.steps.count; ++k)
    if (!stands_still(f.steps.steps[k])) return nullptr;
  const FoldChain chains[] = {chain_of<>(f), chain_of<StepOp::mul>(f), chain_of<StepOp::add>(f), chain_of<StepOp::gate>(f), chain_of<StepOp::sub, StepOp::exp>(f),
                              chain_of<StepOp::mul, StepOp::sub, StepOp::exp>(f), chain_of<StepOp::mul, StepOp::add>(f)};
  for (FoldChain chain : chains)
    if (chain) return chain;
  return nullptr;
}

inline void fold_block(const Fold& f) {
  if (f.rows <= 0 || f.columns <= 0) return;
  if (!f.down && f.reduce != FoldReduce::none) return fold_across(f);
  const std::int64_t whole = f.columns / (fold_vectors * lanes) * (fold_vectors * lanes);
  const FoldChain chain = whole ? fold_chain_for(f) : nullptr;
  if (chain) chain(f, whole);
  if (!chain || whole < f.columns) fold_down(f, chain ? whole : 0);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
