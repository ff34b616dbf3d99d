// The end of sums of integers: what is done to a tile of i32 before it is stored as i32, in eight bits, or as a float.
//
// Steps on integers first (add, sub), then `to_float`, then those on floats. The common ending - a bias per column, a ratio, round,
// the zero point, limits; eight bits out, columns adjacent - goes row by row in registers: IntegerQuick. Everything else runs step
// by step over the tile, as for sums of floats.
#pragma once
#include "target/cpu/kernels/epilogue_inl.h"

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

struct IntegerQuick {
  bool possible = false, whole = false; // whole: i32 out
  const std::int32_t* bias = nullptr;
  PerColumn ratio, shift;
  bool shifted = false;
  float zero = 0, low = 0, high = 0;
  DType out = DType::u8;
};

TW_INLINE bool per_column(const EpilogueStep& s, DType type) {
  return s.operand && s.dtype == type && s.column == 1 && !s.rows.table && s.rows.stride == 0;
}
TW_INLINE bool is_constant(const EpilogueStep& s) { return !s.operand && s.a == s.a; }

TW_INLINE bool column_or_constant(const EpilogueStep& s, PerColumn* to) {
  if (per_column(s, DType::f32)) to->of = static_cast<const float*>(s.operand);
  else if (is_constant(s)) to->constant = s.a;
  else return false;
  return true;
}

inline IntegerQuick integer_quick(const Epilogue& epilogue, DType out, std::int64_t column) {
  IntegerQuick q{};
  const EpilogueStep* s = epilogue.steps;
  const EpilogueStep* const end = s + epilogue.count;
  q.out = out;
  if (s != end && s->op == StepOp::add && per_column(*s, DType::i32)) q.bias = static_cast<const std::int32_t*>((s++)->operand);
  if (column != 1) return q;
  if (s == end) {
    q.possible = q.whole = out == DType::i32;
    return q;
  }
  if ((s++)->op != StepOp::to_float || (out != DType::u8 && out != DType::i8)) return q;
  if (s == end || s->op != StepOp::mul || !column_or_constant(*s, &q.ratio)) return q;
  ++s;
  if (s != end && s->op == StepOp::add && column_or_constant(*s, &q.shift)) q.shifted = true, ++s;
  if (s == end || s->op != StepOp::rint) return q;
  ++s;
  if (s != end && s->op == StepOp::add && is_constant(*s)) q.zero = (s++)->a;
  q.low = least_of(out);
  q.high = most_of(out);
  if (s != end && is_limit(*s, StepOp::max)) q.low = s->a > q.low ? s->a : q.low, ++s;
  if (s != end && is_limit(*s, StepOp::min)) q.high = s->a < q.high ? s->a : q.high, ++s;
  q.possible = s == end && q.low <= q.high;
  return q;
}

// The first `count` lanes as bytes; they lie within the type.
TW_INLINE void store_bytes(VI v, DType type, void* to, std::int64_t count) {
  std::uint8_t* const p = static_cast<std::uint8_t*>(to);
  alignas(64) std::uint8_t part[64];
  const bool all = count >= lanes;
  if (type == DType::u8) {
    const hn::Rebind<std::uint8_t, DI> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, all ? p : part);
  } else {
    const hn::Rebind<std::int8_t, DI> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<std::int8_t*>(all ? p : part));
  }
  if (!all) memcpy(p, part, static_cast<std::size_t>(count));
}

TW_INLINE V column_value(const PerColumn& p, std::int64_t column, std::int64_t left) {
  if (!p.of) return hn::Set(D(), p.constant);
  return left >= lanes ? load(p.of + column) : load_part(p.of + column, left);
}

TW_INLINE VI integers_at(const std::int32_t* p, std::int64_t left) {
  if (left >= lanes) return load(p);
  alignas(64) std::int32_t part[lanes] = {};
  memcpy(part, p, static_cast<std::size_t>(left) * 4);
  return load(part);
}

// One vector of columns, all rows: what belongs to the columns is loaded once.
inline void finish_quick(const IntegerTile& t, const IntegerQuick& q, void* base, const Rows& rows) {
  const DI di;
  const D d;
  for (int i = 0; i < t.columns; i += lanes) {
    const std::int64_t column = t.column + i, left = t.columns - i;
    VI bias = t.corrections ? load(t.corrections + i) : hn::Zero(di);
    if (q.bias) bias = hn::Add(bias, integers_at(q.bias + column, left));
    if (q.whole) {
      for (int r = 0; r < t.rows; ++r) {
        std::int32_t* to = static_cast<std::int32_t*>(base) + row_at(rows, t.row + r) + column;
        const VI v = hn::Add(load(t.sums + r * t.width + i), bias);
        if (left >= lanes) {
          hn::StoreU(v, di, to);
        } else {
          alignas(64) std::int32_t part[lanes];
          hn::StoreU(v, di, part);
          memcpy(to, part, static_cast<std::size_t>(left) * 4);
        }
      }
      continue;
    }
    const V ratio = column_value(q.ratio, column, left), zero = hn::Set(d, q.zero);
    const V shift = q.shifted ? column_value(q.shift, column, left) : hn::Zero(d);
    for (int r = 0; r < t.rows; ++r) {
      V x = hn::Mul(hn::ConvertTo(d, hn::Add(load(t.sums + r * t.width + i), bias)), ratio);
      if (q.shifted) x = hn::Add(x, shift);
      x = hn::Add(nearest(x), zero);
      store_bytes(to_whole(x, q.low, q.high), q.out, static_cast<std::uint8_t*>(base) + row_at(rows, t.row + r) + column, left);
    }
  }
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

HWY_NOINLINE void finish_integers(const IntegerTile& t, const IntegerQuick& q, const Epilogue& epilogue, const Output& out) {
  if (q.possible) return finish_quick(t, q, out.base, out.rows);
  if (t.corrections)
    for (int r = 0; r < t.rows; ++r)
      for (int i = 0; i < t.width; i += lanes)
        hn::StoreU(hn::Add(load(t.sums + r * t.width + i), load(t.corrections + i)), DI(), t.sums + r * t.width + i);
  int step = 0;
  for (; step < epilogue.count && epilogue.steps[step].op != StepOp::to_float; ++step) add_integers(epilogue.steps[step], t);
  if (step == epilogue.count) return store_tile_whole(t, out);
  float* const values = reinterpret_cast<float*>(t.sums);
  for (int i = 0; i < t.rows * t.width; i += lanes) store(hn::ConvertTo(D(), load(t.sums + i)), values + i);
  const Tile tile{values, t.width, t.rows, t.columns, t.row, t.column};
  for (++step; step < epilogue.count; ++step) apply_step(epilogue.steps[step], tile);
  if (out.dtype == DType::u8 || out.dtype == DType::i8) store_tile_bytes(tile, out);
  else store_tile(tile, out);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
