// The boxes of an operand as a GPU's copy engine brings them into swizzled scratch: up to five dims, innermost first, rows of 128 bytes.
// What a box asks for outside of the tensor arrives as zeros. Blocks of a cluster that read a box alike bring a part of it each, to all.
//
//   W[k n], chunks of 64 x 256, f16, clusters of 2 along m      dims 64, k, n / 64     box 64, 64, 2     first 0, k_0, n_0 / 64 + rank * 2
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

struct EngineBox {
  struct Dim {
    std::int64_t extent = 1, box = 1, stride = 1;    // elements
    Affine first;                                    // of the box, over `divisor`
    std::int64_t divisor = 1;
  };
  std::vector<Dim> dims;
  int parts = 1;                                     // blocks that bring one each, along
  std::size_t split = 0;                             // this dim
  std::int64_t part_elements = 0;
  int panels = 1;                                    // boxes of rows of 128 bytes, one behind the other; the last is filled up with zeros
  std::int64_t panel_elements = 0;
};

// Elements that arrive for a box of such an operand: rows are filled up to 128 bytes, and tiles that are larger than their axis to their size.
std::int64_t box_elements(const Program&, const Region&, const Schedule&, const ValueAt& at, const std::vector<Span>& box, const std::vector<std::int64_t>& extent);

// The loop along which blocks that follow one another differ; -1: none is tiled.
int cluster_step(const Schedule&);
// `box` and its full `extent`: of an operand that the schedule places `at`, lying in `layout`. Refused with a reason.
Or<EngineBox> engine_box(const Program&, const Region&, const Schedule&, const ValueAt& at, const std::vector<Span>& box, const std::vector<std::int64_t>& extent,
                         const DimOrder& layout);

}  // namespace tilewright
