// lists: rows of a product that each have a list of terms of their own:
//
//   C[r, n] = sum over t < count[r] of values[value[r] + t] * B[taps[tap[r] + t], n]
//
// Where lists are short and differ from row to row, a call of `contract` a row costs more than its sums. All in f32 and
// without an ending; terms are taken in order, as contract takes them.
#pragma once
#include "target/cpu/kernels/kernels.h"

namespace tilewright::kernels {

struct Lists {
  std::int64_t rows = 0, n = 0;                        // columns; of the last panel only some may count
  const std::int64_t *count = nullptr, *tap = nullptr; // of each row: terms, and where its list begins
  const std::int64_t* value = nullptr;                 // where its values begin
  const std::int64_t* taps = nullptr;                  // offsets into a panel of B
  const float *values = nullptr, *b = nullptr;
  std::int64_t b_panel = 0; // elements from a panel to the next
  float* c = nullptr;
  const std::int64_t* c_rows = nullptr; // columns lie side by side
};

using ListsLeaf = void (*)(const Lists&);
ListsLeaf lists_for(const Kernels&);

} // namespace tilewright::kernels
