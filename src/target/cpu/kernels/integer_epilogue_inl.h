// The end of sums of integers: what is done to a tile of i32 before it is stored as i32, in eight bits, or as a float.
//
// Steps on integers first (add, sub), then `to_float`, then those on floats. The common ending - a bias per column, a
// ratio, round, the zero point, limits, perhaps a residual in eight bits and the same again; eight bits out, columns
// adjacent - goes row by row in registers: IntegerQuick. Everything else runs step by step over the tile, as for sums
// of floats.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#include <immintrin.h>
#endif

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// ---- tiles

struct IntegerTile {
  std::int32_t* sums; // [rows][width]
  int width;          // a multiple of the vector
  int rows, columns;
  std::int64_t row, column;        // of the block, where the tile begins
  const std::int32_t* corrections; // per column of the tile, or null
};

[[maybe_unused]] TW_INLINE VI load(const std::int32_t* p) { return hn::LoadU(DI(), p); }

// ---- in registers

struct PerColumn {
  const float* of = nullptr; // null: the constant
  float constant = 0;
};

// rint(x), a zero point and limits: what ends in whole numbers of eight bits.
struct Rounded {
  float zero = 0, low = 0, high = 0;
};

// A bias, a ratio, a shift, a rounding; and perhaps (x - from) * by + residual, over or times a number, and one more
// rounding.
struct IntegerQuick {
  bool possible = false, whole = false; // whole: i32 out
  const std::int32_t* bias = nullptr;
  PerColumn ratio, shift;
  bool shifted = false;
  Rounded first, second;
  const EpilogueStep* residual = nullptr;
  float from = 0, by = 1, last = 1;
  bool divide = false;
  DType out = DType::u8;
};

TW_INLINE bool per_column(const EpilogueStep& s, DType type) {
  return s.operand && s.dtype == type && s.column == 1 && !s.rows.table && s.rows.stride == 0;
}
TW_INLINE bool is_constant(const EpilogueStep& s) { return !s.operand && s.a == s.a; }
TW_INLINE bool is_byte(DType t) { return t == DType::u8 || t == DType::i8; }

TW_INLINE bool column_or_constant(const EpilogueStep& s, PerColumn* to) {
  if (per_column(s, DType::f32))
    to->of = static_cast<const float*>(s.operand);
  else if (is_constant(s))
    to->constant = s.a;
  else
    return false;
  return true;
}

// rint [add constant] [max constant] [min constant], to a type of eight bits.
inline bool take_rounding(const EpilogueStep*& s, const EpilogueStep* end, DType type, Rounded* to) {
  if (s == end || s->op != StepOp::rint) return false;
  ++s;
  if (s != end && s->op == StepOp::add && is_constant(*s)) to->zero = (s++)->a;
  to->low = least_of(type);
  to->high = most_of(type);
  if (s != end && is_limit(*s, StepOp::max)) to->low = s->a > to->low ? s->a : to->low, ++s;
  if (s != end && is_limit(*s, StepOp::min)) to->high = s->a < to->high ? s->a : to->high, ++s;
  const float z = to->zero;
  return to->low <= to->high && z >= -512.0f && z <= 512.0f && z == static_cast<float>(static_cast<int>(z)) &&
         to->low == static_cast<float>(static_cast<int>(to->low)) &&
         to->high == static_cast<float>(static_cast<int>(to->high));
}

inline bool take_residual(const EpilogueStep*& s, const EpilogueStep* end, IntegerQuick* q) {
  if (s != end && s->op == StepOp::sub && is_constant(*s))
    q->from = (s++)->a;
  else if (s != end && s->op == StepOp::add && is_constant(*s))
    q->from = -(s++)->a;
  if (s != end && s->op == StepOp::mul && is_constant(*s)) q->by = (s++)->a;
  if (s == end || s->op != StepOp::add || !s->operand || !is_byte(s->dtype) || s->column != 1) return false;
  q->residual = s++;
  if (s != end && (s->op == StepOp::div || s->op == StepOp::mul) && is_constant(*s))
    q->divide = s->op == StepOp::div, q->last = (s++)->a;
  return true;
}

inline IntegerQuick integer_quick(const Epilogue& epilogue, DType out, std::int64_t column) {
  IntegerQuick q{};
  const EpilogueStep* s = epilogue.steps;
  const EpilogueStep* const end = s + epilogue.count;
  q.out = out;
  if (s != end && s->op == StepOp::add && per_column(*s, DType::i32))
    q.bias = static_cast<const std::int32_t*>((s++)->operand);
  if (column != 1) return q;
  if (s == end) {
    q.possible = q.whole = out == DType::i32;
    return q;
  }
  if ((s++)->op != StepOp::to_float || !is_byte(out)) return q;
  if (s == end || s->op != StepOp::mul || !column_or_constant(*s, &q.ratio)) return q;
  ++s;
  if (s != end && s->op == StepOp::add && column_or_constant(*s, &q.shift)) q.shifted = true, ++s;
  // The steps of a first rounding that another follows end in the step `round`, which has its type.
  const EpilogueStep* r = s;
  while (r != end && r->op != StepOp::round) ++r;
  const bool again = r != end;
  if (!take_rounding(s, end, again ? r->dtype : out, &q.first)) return q;
  if (again) {
    if (s != r || !is_byte(r->dtype)) return q;
    ++s;
    if (!take_residual(s, end, &q) || !take_rounding(s, end, out, &q.second)) return q;
  }
  q.possible = s == end;
  return q;
}

// Whole numbers of a rounding: limits before it are as good as behind it. x is no NaN.
TW_INLINE VI round_to(V x, const Rounded& r) {
  const D d;
  const V kept = hn::Min(hn::Max(x, hn::Set(d, r.low - r.zero)), hn::Set(d, r.high - r.zero));
#if HWY_TARGET == HWY_AVX3
  const VI whole{_mm512_cvtps_epi32(kept.raw)};
#elif HWY_TARGET == HWY_AVX2
  const VI whole{_mm256_cvtps_epi32(kept.raw)};
#else
  const VI whole = hn::ConvertTo(DI(), nearest(kept));
#endif
  return hn::Add(whole, hn::Set(DI(), static_cast<std::int32_t>(r.zero)));
}

// The first `count` lanes as bytes; they lie within the type.
TW_INLINE void store_bytes(VI v, DType type, void* to, std::int64_t count) {
  std::uint8_t* const p = static_cast<std::uint8_t*>(to);
  alignas(64) std::uint8_t part[64];
  const bool all = count >= lanes;
#if HWY_TARGET == HWY_AVX3
  (void)type;
  (void)part;
  const auto mask = static_cast<__mmask16>(all ? 0xffff : (1u << count) - 1);
  return _mm_mask_storeu_epi8(p, mask, _mm512_cvtepi32_epi8(v.raw));
#else
  if (type == DType::u8) {
    const hn::Rebind<std::uint8_t, DI> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, all ? p : part);
  } else {
    const hn::Rebind<std::int8_t, DI> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<std::int8_t*>(all ? p : part));
  }
  if (!all) memcpy(p, part, static_cast<std::size_t>(count));
#endif
}

// (v - a) * b of `count` bytes.
TW_INLINE V load_bytes(const EpilogueStep& s, const std::uint8_t* p, std::int64_t count) {
#if HWY_TARGET == HWY_AVX3
  const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>(count >= lanes ? 0xffff : (1u << count) - 1), p);
  const VI v{s.dtype == DType::u8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes)};
#else
  alignas(64) std::uint8_t part[64] = {};
  if (count < lanes) {
    memcpy(part, p, static_cast<std::size_t>(count));
    p = part;
  }
  VI v;
  if (s.dtype == DType::u8) {
    const hn::Rebind<std::uint8_t, DI> narrow;
    v = hn::PromoteTo(DI(), hn::LoadU(narrow, p));
  } else {
    const hn::Rebind<std::int8_t, DI> narrow;
    v = hn::PromoteTo(DI(), hn::LoadU(narrow, reinterpret_cast<const std::int8_t*>(p)));
  }
#endif
  const D d;
  return hn::Mul(hn::Sub(hn::ConvertTo(d, v), hn::Set(d, s.a)), hn::Set(d, s.b));
}

TW_INLINE V column_value(const PerColumn& p, std::int64_t column, std::int64_t left) {
  if (!p.of) return hn::Set(D(), p.constant);
  return left >= lanes ? load(p.of + column) : load_part(p.of + column, left);
}
TW_INLINE bool finite(V x) { return hn::AllTrue(D(), hn::Lt(hn::Abs(x), hn::Set(D(), bits_to_float(0x7f800000u)))); }

TW_INLINE VI integers_at(const std::int32_t* p, std::int64_t left) {
  if (left >= lanes) return load(p);
  alignas(64) std::int32_t part[lanes] = {};
  memcpy(part, p, static_cast<std::size_t>(left) * 4);
  return load(part);
}

// The shortest ending, of one or two vectors of columns: ratios below 1, so that no product leaves i32; saturating
// packs do what limits would.
struct ShortEnd {
  alignas(64) std::int32_t bias[2 * lanes];
  alignas(64) float ratio[2 * lanes];
  std::int16_t zero;
  std::uint8_t low, high; // of the type
  bool is_signed;
  std::uint32_t mask; // of the columns
};

// Whether the columns from `column` on end so.
inline bool short_end(const IntegerQuick& q, std::int64_t column, int columns, const std::int32_t* corrections,
                      ShortEnd* to) {
  if (HWY_TARGET != HWY_AVX3 || !q.possible || q.whole || q.shifted || q.residual) return false;
  for (int i = 0; i * lanes < columns; ++i) {
    const std::int64_t left = columns - i * lanes;
    const V ratio = column_value(q.ratio, column + i * lanes, left);
    if (!hn::AllTrue(D(), hn::Lt(hn::Abs(ratio), hn::Set(D(), 0.99f)))) return false;
    VI bias = q.bias ? integers_at(q.bias + column + i * lanes, left) : hn::Zero(DI());
    if (corrections) bias = hn::Add(bias, load(corrections + i * lanes));
    hn::StoreU(bias, DI(), to->bias + i * lanes);
    store(ratio, to->ratio + i * lanes);
  }
  to->zero = static_cast<std::int16_t>(q.first.zero);
  to->is_signed = q.out == DType::i8;
  to->mask = columns >= 32 ? ~0u : (1u << columns) - 1;
  to->low = static_cast<std::uint8_t>(static_cast<int>(q.first.low));
  to->high = static_cast<std::uint8_t>(static_cast<int>(q.first.high));
  return true;
}

#if HWY_TARGET == HWY_AVX3
TW_INLINE __m512i rounded_product(__m512i sum, const ShortEnd& e, int i) {
  const __m512 x = _mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_load_si512(e.bias + i * lanes)));
  return _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_load_ps(e.ratio + i * lanes)));
}
TW_INLINE void end_two(__m512i a, __m512i b, const ShortEnd& e, std::uint8_t* to) {
  const __m512i words =
      _mm512_packs_epi32(rounded_product(a, e, 0), rounded_product(b, e, 1)); // quarters of a and b in turn
  const __m512i moved = _mm512_adds_epi16(words, _mm512_set1_epi16(e.zero));
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  __m256i bytes;
  if (e.is_signed) {
    bytes = _mm512_cvtsepi16_epi8(moved);
    bytes = _mm256_min_epi8(_mm256_max_epi8(bytes, _mm256_set1_epi8(static_cast<char>(e.low))),
                            _mm256_set1_epi8(static_cast<char>(e.high)));
  } else {
    bytes = _mm512_cvtusepi16_epi8(_mm512_max_epi16(moved, _mm512_setzero_si512()));
    bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, _mm256_set1_epi8(static_cast<char>(e.low))),
                            _mm256_set1_epi8(static_cast<char>(e.high)));
  }
  _mm256_mask_storeu_epi8(to, e.mask, _mm256_permutevar8x32_epi32(bytes, order));
}
TW_INLINE void end_one(__m512i a, const ShortEnd& e, std::uint8_t* to) {
  const __m512i whole = _mm512_add_epi32(rounded_product(a, e, 0), _mm512_set1_epi32(e.zero));
  const int low = e.is_signed ? static_cast<std::int8_t>(e.low) : e.low,
            high = e.is_signed ? static_cast<std::int8_t>(e.high) : e.high;
  const __m512i kept = _mm512_min_epi32(_mm512_max_epi32(whole, _mm512_set1_epi32(low)), _mm512_set1_epi32(high));
  _mm_mask_storeu_epi8(to, static_cast<__mmask16>(e.mask), _mm512_cvtepi32_epi8(kept));
}
#endif

inline void finish_whole(const IntegerTile& t, VI bias, int i, std::int64_t left, void* base, const Rows& rows) {
  for (int r = 0; r < t.rows; ++r) {
    std::int32_t* to = static_cast<std::int32_t*>(base) + row_at(rows, t.row + r) + t.column + i;
    const VI v = hn::Add(load(t.sums + r * t.width + i), bias);
    if (left >= lanes) {
      hn::StoreU(v, DI(), to);
    } else {
      alignas(64) std::int32_t part[lanes];
      hn::StoreU(v, DI(), part);
      memcpy(to, part, static_cast<std::size_t>(left) * 4);
    }
  }
}

// One vector of columns, all rows: what belongs to the columns is loaded once.
template <bool shifted, bool residual>
TW_INLINE void finish_column(const IntegerTile& t, const IntegerQuick& q, const VI bias, const V ratio, const V shift,
                             int i, void* base, const Rows& rows) {
  const D d;
  const std::int64_t column = t.column + i, left = t.columns - i;
  for (int r = 0; r < t.rows; ++r) {
    V x = hn::Mul(hn::ConvertTo(d, hn::Add(load(t.sums + r * t.width + i), bias)), ratio);
    if constexpr (shifted) x = hn::Add(x, shift);
    VI v = round_to(x, q.first);
    if constexpr (residual) {
      const auto* p =
          static_cast<const std::uint8_t*>(q.residual->operand) + row_at(q.residual->rows, t.row + r) + column;
      V y = hn::Mul(hn::Sub(hn::ConvertTo(d, v), hn::Set(d, q.from)), hn::Set(d, q.by));
      y = hn::Add(y, load_bytes(*q.residual, p, left));
      y = q.divide ? hn::Div(y, hn::Set(d, q.last)) : hn::Mul(y, hn::Set(d, q.last));
      v = round_to(y, q.second);
    }
    store_bytes(v, q.out, static_cast<std::uint8_t*>(base) + row_at(rows, t.row + r) + column, left);
  }
}

// Whether all of it could be done so: a NaN could come from numbers that are not finite.
inline bool finish_quick(const IntegerTile& t, const IntegerQuick& q, void* base, const Rows& rows) {
  for (int i = 0; i < t.columns; i += lanes) {
    const std::int64_t column = t.column + i, left = t.columns - i;
    VI bias = t.corrections ? load(t.corrections + i) : hn::Zero(DI());
    if (q.bias) bias = hn::Add(bias, integers_at(q.bias + column, left));
    if (q.whole) {
      finish_whole(t, bias, i, left, base, rows);
      continue;
    }
    const V ratio = column_value(q.ratio, column, left);
    const V shift = q.shifted ? column_value(q.shift, column, left) : hn::Zero(D());
    if (!finite(ratio) || !finite(shift)) return false;
    if (q.residual) {
      if (q.shifted)
        finish_column<true, true>(t, q, bias, ratio, shift, i, base, rows);
      else
        finish_column<false, true>(t, q, bias, ratio, shift, i, base, rows);
    } else {
      if (q.shifted)
        finish_column<true, false>(t, q, bias, ratio, shift, i, base, rows);
      else
        finish_column<false, false>(t, q, bias, ratio, shift, i, base, rows);
    }
  }
  return true;
}

// ---- step by step

inline void add_integers(const EpilogueStep& s, const IntegerTile& t) {
  for (int r = 0; r < t.rows; ++r) {
    std::int32_t* x = t.sums + r * t.width;
    const std::int64_t from = s.operand ? row_at(s.rows, t.row + r) + t.column * s.column : 0;
    for (int i = 0; i < t.columns; ++i) {
      const std::uint32_t v = static_cast<std::uint32_t>(
          s.operand ? static_cast<const std::int32_t*>(s.operand)[from + i * s.column] : s.whole);
      const std::uint32_t before = static_cast<std::uint32_t>(x[i]);
      x[i] = static_cast<std::int32_t>(s.op == StepOp::sub ? before - v : before + v);
    }
  }
}

inline void store_tile_bytes(const Tile& t, const Output& out) {
  const float low = least_of(out.dtype), high = most_of(out.dtype);
  for (int r = 0; r < t.rows; ++r) {
    auto* p = static_cast<std::uint8_t*>(out.base) + row_at(out.rows, t.row + r) + t.column * out.column;
    const float* x = t.values + r * t.width;
    for (int i = 0; i < t.columns; i += lanes) {
      const VI v = to_whole(load(x + i), low, high);
      const std::int64_t left = t.columns - i;
      if (out.column == 1) {
        store_bytes(v, out.dtype, p + i, left);
        continue;
      }
      alignas(64) std::uint8_t part[64];
      store_bytes(v, out.dtype, part, lanes);
      for (int k = 0; k < lanes && k < left; ++k) p[(i + k) * out.column] = part[k];
    }
  }
}

inline void store_tile_whole(const IntegerTile& t, const Output& out) {
  for (int r = 0; r < t.rows; ++r) {
    auto* p = static_cast<std::int32_t*>(out.base) + row_at(out.rows, t.row + r) + t.column * out.column;
    for (int i = 0; i < t.columns; ++i) p[i * out.column] = t.sums[r * t.width + i];
  }
}

HWY_NOINLINE void finish_integers(const IntegerTile& t, const IntegerQuick& q, const Epilogue& epilogue,
                                  const Output& out) {
  if (q.possible && finish_quick(t, q, out.base, out.rows)) return;
  if (t.corrections)
    for (int r = 0; r < t.rows; ++r)
      for (int i = 0; i < t.width; i += lanes)
        hn::StoreU(hn::Add(load(t.sums + r * t.width + i), load(t.corrections + i)), DI(), t.sums + r * t.width + i);
  int step = 0;
  for (; step < epilogue.count && epilogue.steps[step].op != StepOp::to_float; ++step)
    add_integers(epilogue.steps[step], t);
  if (step == epilogue.count) return store_tile_whole(t, out);
  float* const values = reinterpret_cast<float*>(t.sums);
  for (int i = 0; i < t.rows * t.width; i += lanes) store(hn::ConvertTo(D(), load(t.sums + i)), values + i);
  const Tile tile{values, t.width, t.rows, t.columns, t.row, t.column, nullptr};
  for (++step; step < epilogue.count; ++step) apply_step(epilogue.steps[step], tile);
  if (out.dtype == DType::u8 || out.dtype == DType::i8)
    store_tile_bytes(tile, out);
  else
    store_tile(tile, {out.base, out.dtype, out.rows, out.column, t.row});
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
