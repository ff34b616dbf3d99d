// Lanes: the evaluator's arithmetic on short vectors of points.
//
// A register of the evaluator holds one value for each of up to `lanes` points. Four kinds of value exist: i32 (also
// i8, u8 and bool, as 0 or 1), i64, f32 (also every narrow float) and f64. The functions here apply one operator to
// whole registers; loops this plain are what the compiler vectorises.
//
//   binary(Op::add, Lane::f32, 256, a, b, out);      out[l] = a[l] + b[l]
//
// What each operator means at its edges is said in evaluate.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "expr/program.h"

namespace tilewright::evaluator {

enum class Lane : std::uint8_t { i32, i64, f32, f64 };
constexpr int lanes = 256;

Lane lane_of(DType); // of its compute type
std::size_t bytes_of(Lane);
DType stored_as(Lane); // the dtype whose bytes a register of this kind holds

void unary(Op, Lane, int n, const void* a, void* out);                          // arithmetic and mathematics
void binary(Op, Lane, int n, const void* a, const void* b, void* out);          // arithmetic, bit and logical operators
void compare(Op, Lane, int n, const void* a, const void* b, std::int32_t* out); // eq .. ge
void classify(Op, Lane, int n, const void* a, std::int32_t* out);               // is_nan, is_inf
void choose(Lane, int n, const std::int32_t* condition, const void* a, const void* b, void* out);
// Where an integer division has no value: a zero divisor, zero to a negative power. `found` or 0.
void undefined(Op, Lane, int n, const void* a, const void* b, std::int32_t found, std::int32_t* out);
void spread(Lane, const void* one, int n, void* out); // the same value in every lane

// acc = reducer(acc, value) in the lanes that are live (null: in all).
void accumulate(Reducer, Lane, int n, void* acc, const void* value, const std::int32_t* live);
// The same for a pair: the value and position of the first winner; seen counts the live points so far.
void accumulate_first(Reducer, Lane, int n, void* best, std::int64_t* at, std::int64_t position,
                      const std::int64_t* seen, const void* value, const std::int32_t* live);
void fill_identity(Reducer, Lane, int n, void* acc);

// ---- conversions
void cast(Lane from, const void* in, DType to, int n, void* out); // into a register: the value after the rounding
// out[l] = the element at base + offset[l] (offset null: base + l), in lane_of(type). Where live is 0: 0, and no load.
void load(DType type, const std::byte* data, std::int64_t base, const std::int64_t* offset, const std::int32_t* live,
          int n, void* out);
void store(DType type, std::byte* data, std::int64_t base, const std::int64_t* offset, int n, Lane from,
           const void* in);

} // namespace tilewright::evaluator
