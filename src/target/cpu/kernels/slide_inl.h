// slide: a depthwise convolution over an image, channels last, whose neighbouring outputs share what they read.
//
// One tile is `count` outputs of a row x one vector of channels. For each row of taps the weights are loaded once and
// every input column once: it meets all the outputs that read it, which a window would load again for each tap. Columns
// and rows outside the image are left out, so that edges need no calls of their own. Tiles go down a band of the image
// inside strips inside channels: of the rows that a tile reads, all but the last `row_step` are in the L1 cache. A band
// is as many rows as a part of an L2 cache holds: what a vector of channels reads are single lines, and those between
// them, which the hardware brings along, are wanted before they are gone.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int slide_strip = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;
constexpr std::int64_t slide_band = 256 * 1024, fewest_rows = 4; // bytes of A; of outputs

struct SlideAt {
  std::int64_t x, c;
  std::int64_t left;     // channels from c on
  std::int64_t top, end; // rows of outputs
};

template <bool whole, int count>
TW_INLINE void end_slide(const Slide& s, const Quick& quick, const SlideAt& at, std::int64_t y, V (&sum)[count]) {
  const std::int64_t first = y * s.x + at.x;
  if (!quick.possible) {
    alignas(64) float values[count * lanes];
    unroll<count>(TW_UNROLLED(i) { store(sum[i.value], values + i.value * lanes); });
    const int columns = whole ? lanes : static_cast<int>(at.left);
    std::int64_t rows[count];
    for (int i = 0; i < count; ++i) rows[i] = y * s.out_row + (at.x + i) * s.out_column;
    return finish_tile({values, lanes, count, columns, first, at.c, nullptr}, quick.rest,
                       {s.out, s.out_type, {0, rows}, 1, 0});
  }
  if (quick.residual)
    unroll<count>(TW_UNROLLED(i) {
      const auto* p =
          static_cast<const float*>(quick.residual->operand) + row_at(quick.residual->rows, first + i.value);
      sum[i.value] = hn::Add(sum[i.value], load_if<whole>(p + at.c, at.left));
    });
  if (quick.limits)
    unroll<count>(TW_UNROLLED(i) {
      sum[i.value] = min_limit(hn::Set(D(), quick.high), max_limit(hn::Set(D(), quick.low), sum[i.value]));
    });
  float* const out = static_cast<float*>(s.out) + (y * s.out_row + at.x * s.out_column + at.c);
  if (quick.function) {
    alignas(64) float values[count * lanes];
    float* to[count];
    unroll<count>(TW_UNROLLED(i) {
      store(sum[i.value], values + i.value * lanes);
      to[i.value] = out + i.value * s.out_column;
    });
    return quick.function(*quick.last, values, to, 0, count, whole ? lanes : static_cast<int>(at.left));
  }
  unroll<count>(TW_UNROLLED(i) { store_if<whole>(sum[i.value], out + i.value * s.out_column, at.left); });
}

// A band's rows of outputs in one strip. edge: some of its columns lie outside.
template <int taps, int step, int count, bool whole, bool edge>
HWY_NOINLINE void slide_down(const Slide& s, const Quick& quick, const SlideAt& at) {
  constexpr int span = (count - 1) * step + taps;
  const std::int64_t column = s.column + at.x * step, a_column = s.a_column, w_tap = s.w_tap;
  unsigned inside = (1u << span) - 1;
  if constexpr (edge) {
    if (column < 0) inside &= column <= -span ? 0u : ~0u << -column;
    if (column + span > s.columns) inside &= s.columns <= column ? 0u : (1u << (s.columns - column)) - 1;
  }
  const V start = quick.bias ? load_if<whole>(quick.bias + at.c, at.left) : hn::Zero(D());
  const std::int64_t origin = column * a_column + at.c;
  for (std::int64_t y = at.top; y < at.end; ++y) {
    V sum[count];
    unroll<count>(TW_UNROLLED(i) { sum[i.value] = start; });
    const float* w = s.w + at.c;
    std::int64_t row = s.row + y * s.row_step;
    for (std::int64_t i = 0; i < s.taps_y; ++i, row += s.row_dilation, w += taps * w_tap) {
      if (row < 0 || row >= s.rows) continue;
      const float* const line = s.a + (row * s.a_row + origin);
      V weight[taps];
      unroll<taps>(TW_UNROLLED(j) { weight[j.value] = load_if<whole>(w + j.value * w_tap, at.left); });
      unroll<span>(TW_UNROLLED(j) {
        if (!edge || (inside >> j.value & 1u)) {
          const V x = load_if<whole>(line + j.value * a_column, at.left);
          unroll<count>(TW_UNROLLED(o) {
            constexpr int tap = decltype(j)::value - decltype(o)::value * step;
            if constexpr (tap >= 0 && tap < taps) sum[o.value] = hn::MulAdd(x, weight[tap], sum[o.value]);
          });
        }
      });
    }
    end_slide<whole>(s, quick, at, y, sum);
  }
}

using SlideDown = void (*)(const Slide&, const Quick&, const SlideAt&);
template <int taps, int step, bool whole, bool edge, int count> constexpr void fill_slides(SlideDown* table) {
  table[count - 1] = slide_down<taps, step, count, whole, edge>;
  if constexpr (count > 1) fill_slides<taps, step, whole, edge, count - 1>(table);
}
template <int taps, int step> struct Slides {
  SlideDown inner[slide_strip], edge[slide_strip], part[slide_strip / 2];
  constexpr Slides() : inner{}, edge{}, part{} {
    fill_slides<taps, step, true, false, slide_strip>(inner);
    fill_slides<taps, step, true, true, slide_strip>(edge);
    fill_slides<taps, step, false, true, slide_strip / 2>(part);
  }
};

// Outputs of a row are dealt out evenly over strips.
template <int taps, int step, bool whole>
void slide_channels(const Slide& s, const Quick& quick, const Slides<taps, step>& kernels, std::int64_t c, std::int64_t top, std::int64_t end) {
  constexpr std::int64_t most = whole ? slide_strip : slide_strip / 2;
  const std::int64_t strips = (s.x + most - 1) / most;
  for (std::int64_t i = 0; i < strips; ++i) {
    const std::int64_t x = i * s.x / strips, count = (i + 1) * s.x / strips - x, column = s.column + x * step;
    const bool edge = column < 0 || column + (count - 1) * step + taps > s.columns;
    const SlideDown* kernel = !whole ? kernels.part : edge ? kernels.edge : kernels.inner;
    kernel[count - 1](s, quick, {x, c, s.c - c, top, end});
  }
}

// Channels behind the last whole vector go in one that begins among those before, which are computed twice: whole
// vectors are faster than parts. Not where the result may be what is added.
template <int taps, int step> void slide_image(const Slide& s, const Quick& quick) {
  static constexpr Slides<taps, step> kernels;
  const std::int64_t row = least(s.columns, s.x * step + taps) * s.c * 4 * s.row_step; // bytes that a row of outputs adds
  const std::int64_t bands = (s.y * row + slide_band - 1) / slide_band, rows = (s.y + bands - 1) / bands, band = rows < fewest_rows ? fewest_rows : rows;
  const bool twice = s.c > lanes && quick.possible && !quick.residual;
  for (std::int64_t top = 0; top < s.y; top += band) {
    const std::int64_t end = least(top + band, s.y);
    std::int64_t c = 0;
    for (; c + lanes <= s.c; c += lanes) slide_channels<taps, step, true>(s, quick, kernels, c, top, end);
    if (c == s.c) continue;
    twice ? slide_channels<taps, step, true>(s, quick, kernels, s.c - lanes, top, end)
          : slide_channels<taps, step, false>(s, quick, kernels, c, top, end);
  }
}

template <int taps> void slide_by_step(const Slide& s, const Quick& quick) {
  s.column_step == 1 ? slide_image<taps, 1>(s, quick) : slide_image<taps, 2>(s, quick);
}

inline void slide_block(const Slide& s) {
  if (s.y <= 0 || s.x <= 0 || s.c <= 0) return;
  const Quick quick = quick_ending(s.epilogue, s.out_type, 1);
  switch (s.taps_x) {
  case 3: return slide_by_step<3>(s, quick);
  case 5: return slide_by_step<5>(s, quick);
  case 7: return slide_by_step<7>(s, quick);
  default: return;
  }
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
