// contract of integers of eight bits, exact in i32: C[m, n] = sum over (tap, k) of A * B.
//
// The micro-kernel is that of the floats with groups of k instead of single ones: a group of A is four bytes,
// broadcast, and meets four bytes of each column of B. Two kinds of groups:
//
//   dots    4 x (u8 of A) times 4 x (i8 of B), where the CPU has an instruction for it (VNNI); A of i8 is read as A +
//   128, and
//           what that adds, 128 times the sum of each column, is taken away at the end
//   pairs   2 x i16 of A times 2 x i16 of B: products of any two bytes, summed in pairs, fit into i32
//
// No sum of two products is ever held in 16 bits. A panel is [nr corrections in i32][groups][nr][4 bytes]. Rows of A
// are read in place where their bytes are whole groups; else a tile of rows is copied, a range of the sum at a time.
#pragma once
#include "target/cpu/kernels/integer_epilogue_inl.h"
#include "target/cpu/kernels/tile_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// ---- one vector of i32

#if HWY_TARGET == HWY_AVX3
using Wide = __m512i;
TW_INLINE Wide wide_zero() { return _mm512_setzero_si512(); }
TW_INLINE Wide wide_load(const void* p) { return _mm512_loadu_si512(p); }
TW_INLINE void wide_store(Wide v, void* p) { _mm512_storeu_si512(p, v); }
TW_INLINE Wide wide_splat(std::int32_t v) { return _mm512_set1_epi32(v); }
TW_INLINE Wide wide_xor(Wide a, Wide b) { return _mm512_xor_si512(a, b); }
TW_INLINE Wide add_pairs(Wide sum, Wide a, Wide b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
#elif HWY_TARGET == HWY_AVX2
using Wide = __m256i;
TW_INLINE Wide wide_zero() { return _mm256_setzero_si256(); }
TW_INLINE Wide wide_load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
TW_INLINE void wide_store(Wide v, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
TW_INLINE Wide wide_splat(std::int32_t v) { return _mm256_set1_epi32(v); }
TW_INLINE Wide wide_xor(Wide a, Wide b) { return _mm256_xor_si256(a, b); }
TW_INLINE Wide add_pairs(Wide sum, Wide a, Wide b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
#else
struct Wide {
  std::int32_t v[lanes];
};
TW_INLINE Wide wide_zero() { return {}; }
TW_INLINE Wide wide_load(const void* p) {
  Wide w;
  memcpy(&w, p, sizeof w);
  return w;
}
TW_INLINE void wide_store(const Wide& w, void* p) { memcpy(p, &w, sizeof w); }
TW_INLINE Wide wide_splat(std::int32_t v) {
  Wide w;
  for (int i = 0; i < lanes; ++i) w.v[i] = v;
  return w;
}
TW_INLINE Wide wide_xor(Wide a, const Wide& b) {
  for (int i = 0; i < lanes; ++i) a.v[i] ^= b.v[i];
  return a;
}
TW_INLINE Wide add_pairs(Wide sum, const Wide& a, const Wide& b) {
  for (int i = 0; i < lanes; ++i) {
    std::int16_t x[2], y[2];
    memcpy(x, &a.v[i], 4);
    memcpy(y, &b.v[i], 4);
    const std::int32_t pair = x[0] * y[0] + x[1] * y[1];
    sum.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum.v[i]) + static_cast<std::uint32_t>(pair));
  }
  return sum;
}
#endif

#if HWY_TARGET == HWY_AVX3 && defined(__AVX512VNNI__)
constexpr bool has_dots = true;
TW_INLINE Wide add_dots(Wide sum, Wide a, Wide b) { return _mm512_dpbusd_epi32(sum, a, b); }
TW_INLINE Wide add_pairs_of(Wide sum, Wide a, Wide b) { return _mm512_dpwssd_epi32(sum, a, b); }
#else
constexpr bool has_dots = false;
TW_INLINE Wide add_dots(Wide sum, Wide, Wide) { return sum; }
TW_INLINE Wide add_pairs_of(Wide sum, Wide a, Wide b) { return add_pairs(sum, a, b); }
#endif

TW_INLINE bool as_dots(DType b) { return has_dots && b == DType::i8; }
constexpr int wide_bytes = 4 * lanes;

// ---- the micro-kernel

struct IntegerStep {
  const std::uint8_t* a[mr];
  const std::int64_t* tap; // offsets in bytes; null: 0
  std::int64_t taps, groups;
  const std::uint8_t* b;
  bool begin;            // at 0, not at the sums
  std::int32_t flip;     // dots: 0x80808080 where A is i8
  std::int32_t* sums;    // [rows][nr]
  const ShortEnd* end;   // not null: the sums end in registers
  std::uint8_t* out[mr]; // then, at column `column`
  std::int64_t column;
};

template <int rows, int vectors, bool dots> HWY_NOINLINE void integer_micro_kernel(const IntegerStep& s) {
  Wide sum[rows][vectors];
  unroll<rows>(TW_UNROLLED(r) {
    unroll<vectors>(TW_UNROLLED(i) {
      sum[r.value][i.value] = s.begin ? wide_zero() : wide_load(s.sums + r.value * nr + i.value * lanes);
    });
  });
  const std::uint8_t* a[rows];
  unroll<rows>(TW_UNROLLED(r) { a[r.value] = s.a[r.value]; });
  const std::uint8_t* b = s.b;
  const Wide flip = wide_splat(s.flip);
  for (std::int64_t t = 0; t < s.taps; ++t) {
    std::int64_t at = s.tap ? s.tap[t] : 0;
    for (std::int64_t g = 0; g < s.groups; ++g, at += 4, b += 4 * nr) {
      Wide column[vectors];
      unroll<vectors>(TW_UNROLLED(i) { column[i.value] = wide_load(b + i.value * wide_bytes); });
      unroll<rows>(TW_UNROLLED(r) {
        std::int32_t four;
        memcpy(&four, a[r.value] + at, 4);
        Wide x = wide_splat(four);
        if constexpr (dots) x = wide_xor(x, flip);
        unroll<vectors>(TW_UNROLLED(i) {
          Wide& to = sum[r.value][i.value];
          to = dots ? add_dots(to, x, column[i.value]) : add_pairs_of(to, x, column[i.value]);
        });
      });
    }
  }
#if HWY_TARGET == HWY_AVX3
  if (s.end) {
    unroll<rows>(TW_UNROLLED(r) {
      std::uint8_t* const to = s.out[r.value] + s.column;
      if constexpr (vectors == 2)
        end_two(sum[r.value][0], sum[r.value][1], *s.end, to);
      else
        end_one(sum[r.value][0], *s.end, to);
    });
    return;
  }
#endif
  unroll<rows>(TW_UNROLLED(r) {
    unroll<vectors>(TW_UNROLLED(i) { wide_store(sum[r.value][i.value], s.sums + r.value * nr + i.value * lanes); });
  });
}

using IntegerKernel = void (*)(const IntegerStep&);
struct IntegerKernels {
  IntegerKernel dots[panel_vectors][mr], pairs[panel_vectors][mr];
};
template <int rows> constexpr void fill_integer_rows(IntegerKernels& table) {
  unroll<panel_vectors>([&](auto v) {
    constexpr int vectors = decltype(v)::value + 1;
    if constexpr (has_dots) table.dots[vectors - 1][rows - 1] = integer_micro_kernel<rows, vectors, true>;
    table.pairs[vectors - 1][rows - 1] = integer_micro_kernel<rows, vectors, false>;
  });
  if constexpr (rows > 1) fill_integer_rows<rows - 1>(table);
}
constexpr IntegerKernels make_integer_kernels() {
  IntegerKernels table{};
  fill_integer_rows<mr>(table);
  return table;
}
constexpr IntegerKernels integer_kernels = make_integer_kernels();

// ---- the driver

constexpr int staged_bytes = 2048, integer_slots = 16, most_runs = 64;

// Bytes that lie side by side in a row of A.
struct ByteRun {
  std::int64_t from, count;
};

struct IntegerRows {
  alignas(64) std::int32_t sums[integer_slots][mr * nr];
  alignas(64) std::uint8_t staged[mr * staged_bytes];
  ByteRun run[most_runs]; // of the flattened (tap, k), where those are few
  int runs;
};

TW_INLINE std::int64_t group_of(bool dots) { return dots ? 4 : 2; }
#if defined(__AMX_INT8__)
constexpr std::int64_t groups_together = 16; // a tile of them is read at once
#else
constexpr std::int64_t groups_together = 1;
#endif
TW_INLINE std::int64_t panel_bytes(std::int64_t depth, bool dots) {
  const std::int64_t whole = group_of(dots) * groups_together;
  return 4 * nr + (depth + whole - 1) / whole * groups_together * 4 * nr;
}

TW_INLINE void put_group(std::uint8_t v, bool is_signed, bool dots, std::uint8_t* to, std::int64_t at) {
  if (dots) {
    to[at] = v;
  } else {
    const auto wide = static_cast<std::int16_t>(is_signed ? static_cast<std::int16_t>(static_cast<std::int8_t>(v)) : v);
    memcpy(to + 2 * at, &wide, 2);
  }
}

// Elements [from, from + count) of one row's flattened (tap, k), as groups; zeros fill the last one.
inline void stage_integers(const Contract& c, std::int64_t row, std::int64_t from, std::int64_t count, bool dots,
                           std::uint8_t* to) {
  const bool is_signed = c.a_type == DType::i8;
  const std::uint8_t* const a = static_cast<const std::uint8_t*>(c.a) + row_at(c.a_rows, row);
  std::int64_t at = from, tap = from / c.k, k = from % c.k;
  for (const std::int64_t end = from + count; at < end;) {
    const std::int64_t run = least(c.k - k, end - at);
    const std::uint8_t* p = a + (c.tap_offset ? c.tap_offset[tap] : 0) + k * c.a_k;
    const std::int64_t first = at - from;
    if (dots && c.a_k == 1 && run >= 16)
      memcpy(to + first, p, static_cast<std::size_t>(run));
    else
      for (std::int64_t i = 0; i < run; ++i) put_group(p[i * c.a_k], is_signed, dots, to, first + i);
    at += run, ++tap, k = 0;
  }
  const std::int64_t group = group_of(dots);
  for (std::int64_t i = count; i % group != 0; ++i) put_group(0, is_signed, dots, to, i);
}

// Whether rows are copied run by run, which are then listed: taps that follow each other in memory are one run.
inline bool list_runs(const Contract& c, IntegerRows& t) {
  t.runs = 0;
  if (c.a_k != 1) return false;
  for (std::int64_t tap = 0; tap < c.taps; ++tap) {
    const std::int64_t from = c.tap_offset ? c.tap_offset[tap] : 0;
    if (t.runs > 0 && t.run[t.runs - 1].from + t.run[t.runs - 1].count == from) {
      t.run[t.runs - 1].count += c.k;
      continue;
    }
    if (t.runs == most_runs) return false;
    t.run[t.runs++] = {from, c.k};
  }
  return true;
}

template <class T> TW_INLINE void copy_ends(const std::uint8_t* from, std::uint8_t* to, std::int64_t n) {
  T first, last;
  memcpy(&first, from, sizeof(T));
  memcpy(&last, from + n - static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  memcpy(to, &first, sizeof(T));
  memcpy(to + n - static_cast<std::int64_t>(sizeof(T)), &last, sizeof(T));
}
TW_INLINE void copy_run(const std::uint8_t* from, std::uint8_t* to, std::int64_t n) {
  if (n > 16)
    memcpy(to, from, static_cast<std::size_t>(n));
  else if (n >= 8)
    copy_ends<std::uint64_t>(from, to, n);
  else if (n >= 4)
    copy_ends<std::uint32_t>(from, to, n);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}

inline void copy_runs(const Contract& c, const IntegerRows& t, std::int64_t row, std::int64_t depth, std::uint8_t* to) {
  const std::uint8_t* const a = static_cast<const std::uint8_t*>(c.a) + row_at(c.a_rows, row);
  std::uint8_t* at = to;
  for (int i = 0; i < t.runs; ++i) {
    copy_run(a + t.run[i].from, at, t.run[i].count);
    at += t.run[i].count;
  }
  for (std::int64_t i = depth; i % 4 != 0; ++i) *at++ = 0;
}

inline void contract_integer_block(const Contract& c) {
  if (c.m <= 0 || c.n <= 0) return;
  const bool dots = as_dots(c.b_type), direct = dots && c.a_k == 1 && c.k % 4 == 0;
  const std::int64_t group = group_of(dots), depth = c.taps * c.k;
  const std::int64_t range = direct ? depth : least<std::int64_t>(depth, staged_bytes / 4 * group);
  const std::int64_t panel = c.b_panel ? c.b_panel : panel_bytes(depth, dots), panels = (c.n + nr - 1) / nr;
  const std::int64_t cache = 512 * 1024, fitting = panel >= cache ? 1 : cache / panel;
  const std::int64_t together = direct ? fitting : least<std::int64_t>(fitting, integer_slots);
  const std::int64_t tiles = (c.m + mr - 1) / mr;
  const IntegerQuick quick = integer_quick(c.epilogue, c.c_type, c.c_n);
  const Output out{c.c, c.c_type, c.c_rows, c.c_n, 0};
  IntegerRows t;
  ShortEnd end;
  const bool listed = dots && !direct && depth <= range && list_runs(c, t);
  IntegerStep s;
  s.flip = dots && c.a_type == DType::i8 ? static_cast<std::int32_t>(0x80808080u) : 0;
  for (std::int64_t first = 0; first < panels; first += together)
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t row = i * c.m / tiles;
      const int rows = static_cast<int>((i + 1) * c.m / tiles - row);
      for (std::int64_t from = 0; from == 0 || from < depth; from += range + (range == 0)) {
        const std::int64_t count = least(range, depth - from);
        for (int r = 0; r < rows; ++r) {
          s.out[r] = static_cast<std::uint8_t*>(c.c) + row_at(c.c_rows, row + r); // read only where C is of bytes
          if (direct) {
            s.a[r] = static_cast<const std::uint8_t*>(c.a) + row_at(c.a_rows, row + r);
          } else {
            if (listed)
              copy_runs(c, t, row + r, depth, t.staged + r * staged_bytes);
            else
              stage_integers(c, row + r, from, count, dots, t.staged + r * staged_bytes);
            s.a[r] = t.staged + r * staged_bytes;
          }
        }
        s.tap = direct ? c.tap_offset : nullptr;
        s.taps = direct ? c.taps : 1;
        s.groups = direct ? c.k / 4 : (count + group - 1) / group;
        s.begin = from == 0;
        for (std::int64_t j = first; j < least(first + together, panels); ++j) {
          const auto* b = static_cast<const std::uint8_t*>(c.b) + j * panel;
          const int columns = static_cast<int>(least<std::int64_t>(nr, c.n - j * nr)),
                    vectors = (columns + lanes - 1) / lanes;
          s.sums = t.sums[direct ? 0 : j - first];
          s.b = b + 4 * nr + from / group * 4 * nr;
          const bool last = from + range >= depth;
          const auto* corrections = s.flip ? reinterpret_cast<const std::int32_t*>(b) : nullptr;
          s.column = j * nr;
          s.end = last && short_end(quick, s.column, columns, corrections, &end) ? &end : nullptr;
          (dots ? integer_kernels.dots : integer_kernels.pairs)[vectors - 1][rows - 1](s);
          if (!last || s.end) continue;
          finish_integers({s.sums, nr, rows, columns, row, j * nr, corrections}, quick, c.epilogue, out);
        }
      }
    }
}

// ---- packing

inline void pack_integer_block(const PackB& p) {
  const bool dots = as_dots(p.src_type), is_signed = p.src_type == DType::i8;
  const std::int64_t depth = p.taps * p.k, group = group_of(dots), panel = panel_bytes(depth, dots);
  auto* dst = static_cast<std::uint8_t*>(p.dst);
  for (std::int64_t n = 0; n < p.n; n += nr, dst += panel) {
    memset(dst, 0, static_cast<std::size_t>(panel));
    for (std::int64_t j = 0; j < nr && n + j < p.n; ++j) {
      std::int64_t q = 0;
      std::uint32_t sum = 0;
      for (std::int64_t t = 0; t < p.taps; ++t) {
        const auto* src =
            static_cast<const std::uint8_t*>(p.src) + (p.tap_offset ? p.tap_offset[t] : 0) + (n + j) * p.b_n;
        for (std::int64_t k = 0; k < p.k; ++k, ++q) {
          const std::uint8_t v = src[k * p.b_k];
          sum += static_cast<std::uint32_t>(is_signed ? static_cast<std::int8_t>(v) : v);
          put_group(v, is_signed, dots, dst + 4 * nr + (q / group * nr + j) * 4, q % group);
        }
      }
      const std::uint32_t correction = 0u - 128u * sum;
      memcpy(dst + 4 * j, &correction, 4);
    }
  }
}

inline std::int64_t packed_panel(std::int64_t depth, DType b) { return panel_bytes(depth, as_dots(b)); }

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
