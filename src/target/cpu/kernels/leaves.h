// Arguments of the leaves: raw pointers, strides and counts. A leaf knows no tensor, program or nest; whoever calls it
// has already chosen a block of some 5-50 us and turned indices into offsets. Strides and offsets count elements, not
// bytes.
//
//   contract   C[m, n]   (+)= sum over taps t and k of A[row(m) + tap_offset[t] + k * a_k] * B[t, k, n]
//   window     out[x, c]  =  reduce over taps t of A[row(x) + tap_offset[t] + c] (* W[weight(t) + c])
//   fold       y[r, c] = steps(x[r, c]), and what y is reduced to over its rows or its columns
//   slide      out[y, x, c] = sum over i, j of A[y * step + i, x * step + j, c] * W[i, j, c], edges left out
//   they end in an epilogue: a list of steps applied in order to the fp32 result before it is rounded and stored
//
// Example: a 3x3 convolution, channels last, one image row of 112 pixels, 32 channels in and 64 out, stride 1, then
// ReLU:
//
//   contract{.m = 112, .n = 64, .k = 32, .taps = 9, .a = &x[y][0][0], .a_rows = {32}, .tap_offset = {(i*W + j)*32 ...},
//            .b = packed, .c = &out[y][0][0], .c_rows = {64}, .epilogue = {bias, max(0)}}
//
// Everything is computed in fp32. A, B, C and operands of the epilogue may be stored as f32, f16 or bf16. The same two
// over integers (contract_integers, window_integers): A and B of i8 or u8, sums exact in i32, which stay so (C of i32) or
// become floats on their way through the epilogue (C of i8, u8 or a float). Leaves do not throw, do not allocate, and
// never touch an element that the sums above do not name.
#pragma once
#include "support/dtype.h"
#include <cstdint>

namespace tilewright::kernels {

// Where rows lie: row r starts at table[r] if there is a table, else at r * stride. A table serves rows that are pixels
// of several image rows, or gathered rows.
struct Rows {
  std::int64_t stride = 0;
  const std::int64_t* table = nullptr;
};

// x is the value so far, v the operand's element (or the constant a where there is no operand). Plain IEEE fp32; max
// and min propagate NaN.
enum class StepOp : std::uint8_t {
  add,         // x + v
  sub,         // x - v
  rsub,        // v - x
  mul,         // x * v
  div,         // x / v
  rdiv,        // v / x
  max,         // max(x, v)
  min,         // min(x, v)
  leaky,       // x < 0 ? v * x : x        (also PReLU: v per column)
  elu,         // x < 0 ? v * (exp(x) - 1) : x
  neg,         // -x
  abs,         // |x|
  square,      // x * x
  sqrt,        // sqrt(x)
  exp,         // exp(x)
  log,         // log(x)
  sigmoid,     // 1 / (1 + exp(-x))
  silu,        // x * sigmoid(x)
  hardsigmoid, // max(0, min(1, a * x + b))
  hardswish,   // x * max(0, min(1, a * x + b))
  tanh,        // tanh(x)
  erf,         // erf(x)
  gated_erf,   // x * 0.5 * (1 + erf(x / sqrt(2)))
  softplus,    // log(1 + exp(x))
  round,       // to the storage type `dtype` (f16, bf16, i8 or u8) and back: a rounding point
  rint,        // to a whole number, half to even
  gate,        // v == 0 ? 0 : x * v           (also where x is no number)
  to_float     // of sums of integers: i32 to f32; before it add and sub, of i32; everything behind it is of floats
};

struct EpilogueStep {
  StepOp op = StepOp::add;
  const void* operand = nullptr; // null: the constant a
  DType dtype = DType::f32;      // of the operand (f32, f16, bf16; i32 before to_float), or the type of a round. Of i8 and u8
                                 // the operand's element v is (v - a) * b
  Rows rows = {};                // stride 0: the same for all rows (a bias)
  std::int64_t column = 1;       // stride along columns; 0: one value a row
  float a = 0, b = 0;
  std::int32_t whole = 0; // the constant of a step before to_float
};

struct Epilogue {
  const EpilogueStep* steps = nullptr;
  int count = 0;
};

struct Contract {
  std::int64_t m = 0, n = 0, k = 0; // m rows, n columns, k products a tap
  std::int64_t taps = 1;
  const void* a = nullptr;
  DType a_type = DType::f32;
  Rows a_rows = {};
  std::int64_t a_k = 1;
  const std::int64_t* tap_offset = nullptr; // [taps]; null: all 0
  const void* b = nullptr;                  // packed by pack_b, same taps and k; the first panel of this block
  std::int64_t b_k = 0;                     // elements from one k to the next in a panel; 0: as packed. Else B is read where it lies, in
                                            // f32, its columns adjacent: up to a half vector behind them may be loaded
  const std::int64_t* b_offset = nullptr;   // [taps]: where in its panel tap t lies, of one k; null: one after the other
  DType b_type = DType::f32;                // as packed
  std::int64_t b_panel = 0;                 // elements (of integers: bytes) from a panel to the next; 0: as packed
  void* c = nullptr;
  DType c_type = DType::f32;
  Rows c_rows = {};
  std::int64_t c_n = 1;
  bool accumulate = false; // onto C (its stored values), before the epilogue
  const std::uint32_t* b_wild = nullptr; // of contract_split: what pack_split said
  Epilogue epilogue = {};
};

// Packs B[t, k, n] = src[tap_offset[t] + k * b_k + n * b_n] into panels [ceil(n / nr)][taps * k][nr] with zeros after
// n, where nr is the table's. A block may start at any panel: advance the pointer by panels * taps * k * nr. An aligned
// (64 bytes) dst is faster. pack_integers makes panels of Kernels::integer_panel bytes; its dst_type is src_type.
struct PackB {
  std::int64_t n = 0, k = 0, taps = 1;
  const void* src = nullptr;
  DType src_type = DType::f32;
  std::int64_t b_k = 0, b_n = 0;
  const std::int64_t* tap_offset = nullptr; // [taps]; null: all 0
  void* dst = nullptr;
  DType dst_type = DType::f32; // f32, f16 or bf16
  std::uint32_t* wild = nullptr; // of pack_split: 1 where some element is not finite, else 0
};

enum class WindowReduce : std::uint8_t { sum, max, min };

struct Window {
  std::int64_t x = 0, c = 0, taps = 0;
  WindowReduce reduce = WindowReduce::sum;
  const void* a = nullptr;
  DType a_type = DType::f32;
  Rows a_rows = {};
  const std::int64_t* tap_offset = nullptr;    // [taps]
  const float* w = nullptr;                    // null: no weights; only of sums
  const std::int16_t* w16 = nullptr;           // the same of integers
  const std::int32_t* begin = nullptr;         // of integers: what each channel's sum begins with; null: 0
  std::int64_t w_t = 0;                        // W[t * w_t + c]
  const std::int64_t* weight_offset = nullptr; // [taps], instead of t * w_t: windows at an edge skip taps
  void* out = nullptr;
  DType out_type = DType::f32;
  Rows out_rows = {};
  Epilogue epilogue = {};
};

// A weighted window that slides over the rows and columns of an image. Rows and columns outside contribute nothing:
//
//   out[y, x, c] = sum over i, j of A[row + y * row_step + i * row_dilation, column + x * column_step + j, c] * W[i, j,
//   c]
struct Slide {
  std::int64_t y = 0, x = 0, c = 0; // outputs
  std::int64_t taps_y = 0, taps_x = 0;
  std::int64_t row = 0, row_step = 1, row_dilation = 1, rows = 0; // of A; row: of the first tap of the first output
  std::int64_t column = 0, column_step = 1, columns = 0;
  const float* a = nullptr; // at row 0, column 0
  std::int64_t a_row = 0, a_column = 0;
  const float* w = nullptr;
  std::int64_t w_tap = 0; // W[(i * taps_x + j) * w_tap + c]
  void* out = nullptr;
  DType out_type = DType::f32;
  std::int64_t out_row = 0, out_column = 0;
  Epilogue epilogue = {}; // output (y, x) is row y * Slide::x + x
};
constexpr bool slides(std::int64_t taps_x, std::int64_t column_step) {
  return (taps_x == 3 || taps_x == 5 || taps_x == 7) && (column_step == 1 || column_step == 2);
}

// A map over rows and adjacent columns, and its reduction: y[r, c] = steps(x[r, c]) at the points that live, 0 at others, which
// are not reduced either. `down`: the rows meet, acc[c * acc_step]; else the columns do, acc[row of acc_rows].
enum class FoldReduce : std::uint8_t { none, sum, max, min };
struct FoldBound {
  std::int64_t row = 0, column = 0, offset = 0; // a point lives where row * r + column * c + offset >= 0
};
struct Fold {
  std::int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  DType x_type = DType::f32;
  Rows x_rows = {};
  void* y = nullptr; // null: not stored. May be x
  DType y_type = DType::f32;
  Rows y_rows = {};
  FoldReduce reduce = FoldReduce::none;
  bool down = true;
  float* acc = nullptr;
  Rows acc_rows = {}; // of columns that meet
  const FoldBound* bounds = nullptr;
  int bound_count = 0;
  Epilogue steps = {};
};

// dst[r * dst_row + c * dst_column] = src[r * src_row + c * src_column]; elements of 1, 2, 4 or 8 bytes. No overlap.
struct Copy {
  std::int64_t rows = 0, columns = 0;
  int bytes = 4;
  const void* src = nullptr;
  std::int64_t src_row = 0, src_column = 1;
  void* dst = nullptr;
  std::int64_t dst_row = 0, dst_column = 1;
};

// Sets dst[r * dst_row + c * dst_column] to the `bytes` low bytes of value.
struct Fill {
  std::int64_t rows = 0, columns = 0;
  int bytes = 4;
  std::uint64_t value = 0;
  void* dst = nullptr;
  std::int64_t dst_row = 0, dst_column = 1;
};

// Contiguous conversion among f32, f16 and bf16; to nearest even, overflow to infinity, NaN stays NaN.
struct Convert {
  std::int64_t count = 0;
  const void* src = nullptr;
  DType src_type = DType::f32;
  void* dst = nullptr;
  DType dst_type = DType::f32;
};

// marks[c / unit] |= whether any of rows x columns elements in column c is not a zero. Elements of 1, 2, 4 or 8 bytes, with a sign bit
// that does not count or without.
struct Detect {
  std::int64_t rows = 0, columns = 0, unit = 1;
  int bytes = 4;
  bool sign = true;
  const void* src = nullptr;
  std::int64_t row = 0, column = 1; // elements between rows, between columns
  std::uint8_t* marks = nullptr;    // [ceil(columns / unit)], 0 or 1
};

} // namespace tilewright::kernels
