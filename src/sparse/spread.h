// Patterns spread through a program: what is made of a sparse tensor is often sparse in the same places.
//
//   input X[b s k] sparse(lengths L)      Y = sum[k] X * W      Y has X's rows                 lengths L
//   H = max(U, 0)                                               zeros are made here (asked for) zeros
//   G = H * P                                                   zero wherever H is             zeros, H's micro-tiles
//   Z = Y + bias                                                bias where Y is zero           nothing
//
// The laws decide (law/skip.h): a statement keeps a pattern if its result is 0 at all points whose operands lie in
// skipped slices. Statements stand in the order in which they run, so that one pass is a fixed point.
#pragma once
#include "expr/program.h"

namespace tilewright {

struct SpreadOptions {
  bool recognise =
      false;           // also where zeros are made: max(x, 0), what a mask or a guard leaves out, rows behind a length
  bool strict = false; // 0 * inf is no number
};
// Sets `sparse` of intermediate tensors that have none. Returns what was found, a line each.
std::vector<std::string> spread_patterns(Program&, const SpreadOptions& = {});

// The same on elements of one product, C = A B, all of them known: what lives in C, and which elements of A and B can
// change a live element of C at all. 0 or 1, row-major.
struct LiveProduct {
  std::int64_t m = 0, k = 0, n = 0;
  std::vector<std::uint8_t> a, b, c;
};
LiveProduct live_product(std::int64_t m, std::int64_t k, std::int64_t n, std::vector<std::uint8_t> a,
                         std::vector<std::uint8_t> b);

} // namespace tilewright
