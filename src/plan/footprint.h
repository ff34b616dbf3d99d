// What one tile of a scheduled region holds at once, in bytes: the boxes of its operands, of the inner results that
// another reduction of the kernel reads, and of what it stores. A value that only maps read lives in registers and is
// not counted.
//
//   pointwise c 64, f 32 then depthwise 3x3, tile f 8, tile y 14, tile x 14 (4 bytes an element)
//     operands  X 64*16*16, W 8*64, V 8*3*3;  inner  Y 8*16*16;  stored  Z 8*14*14
#pragma once
#include "cost/memo.h"
#include "schedule/schedule.h"

namespace tilewright {

class Footprint {
public:
  Footprint(const Program&, const Region&, const Schedule& order);
  struct Bytes {
    std::int64_t held = 0, all = 0;
  };                                                      // operands and inner results; those and what is stored
  Bytes at(const std::vector<std::int64_t>& sizes) const; // one size a step; the largest tile counts

private:
  struct Dim {
    Span span;
    std::int64_t extent;
    std::vector<std::size_t> steps; // that move it
    Memo known = {};
  };
  std::int64_t most(const Dim&, const std::vector<std::int64_t>& sizes) const;
  struct Box {
    std::vector<Dim> dims;
    std::int64_t width;
    bool stored;
  };
  std::vector<Box> boxes_;
  std::vector<std::int64_t> extents_; // of the steps' axes
  mutable Places places_;             // sizes that were asked for
};

} // namespace tilewright
