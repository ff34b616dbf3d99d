// lists of one instruction set: a few panels' columns of one row in registers, over the row's terms.
#include "target/cpu/kernels/lists.h"
#include "target/cpu/kernels/tile_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// So many vectors, in panels of panel_vectors; `columns` of them are stored.
template <int panels>
TW_INLINE void row_of(const Lists& l, const float* b, std::int64_t r, float* c, std::int64_t columns) {
  constexpr int vectors = panels * panel_vectors;
  V sum[vectors];
  unroll<vectors>(TW_UNROLLED(i) { sum[i.value] = hn::Zero(D()); });
  const std::int64_t* const taps = l.taps + l.tap[r];
  const float* const values = l.values + l.value[r];
  for (std::int64_t t = 0, n = l.count[r]; t < n; ++t) {
    const float* const at = b + taps[t];
    const V value = hn::Set(D(), values[t]);
    unroll<vectors>(TW_UNROLLED(i) {
      constexpr int panel = decltype(i)::value / panel_vectors, in = decltype(i)::value % panel_vectors;
      sum[i.value] = hn::MulAdd(value, hn::LoadU(D(), at + panel * l.b_panel + in * lanes), sum[i.value]);
    });
  }
  if (columns == vectors * lanes) {
    unroll<vectors>(TW_UNROLLED(i) { hn::StoreU(sum[i.value], D(), c + i.value * lanes); });
    return;
  }
  float last[vectors * lanes];
  unroll<vectors>(TW_UNROLLED(i) { hn::StoreU(sum[i.value], D(), last + i.value * lanes); });
  for (std::int64_t i = 0; i < columns; ++i) c[i] = last[i];
}

template <int panels> void rows_of(const Lists& l, std::int64_t column) {
  const float* const b = l.b + column / nr * l.b_panel;
  const std::int64_t columns = least<std::int64_t>(panels * nr, l.n - column);
  for (std::int64_t r = 0; r < l.rows; ++r) row_of<panels>(l, b, r, l.c + l.c_rows[r] + column, columns);
}

} // namespace

void lists(const Lists& l) {
  constexpr int together = HWY_TARGET == HWY_SCALAR ? 1 : 2;
  std::int64_t column = 0;
  for (; l.n - column > (together - 1) * nr; column += together * nr) rows_of<together>(l, column);
  for (; column < l.n; column += nr) rows_of<1>(l, column);
}

} // namespace TW_ISA
} // namespace tilewright::kernels
