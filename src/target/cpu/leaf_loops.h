// What the calls of the leaves share in a tile: rows of merged axes as a stride or a table of offsets, the operands of the
// epilogue, and the loops over the axes that lie around a call.
//
//   rows {y, x}, far {batch}        for batch in low..high: call(rows: table of y * 5600 + x * 50)
#pragma once
#include <array>
#include <cstring>

#include "target/cpu/epilogue.h"

namespace tilewright::cpu {

inline constexpr std::size_t most_steps = 16;

inline bool leaf_type(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

inline bool byte_type(DType t) { return t == DType::i8 || t == DType::u8; }
// What the leaves over integers end in: i32 where the steps stay there, else bytes or a float.
bool ends_well(DType stored, const std::vector<StepOf>&);

struct LeafLoops {
  const std::vector<View>& views;
  const std::vector<std::vector<RegionAxis>>& groups;    // the rows, outermost first
  const std::vector<RegionAxis>& far;
  const std::vector<StepOf>& steps;
  const std::int64_t* low;                               // of the region axes
  const std::int64_t* high;
  std::int64_t* table;                                   // scratch for the rows' tables: steps.size() + 2 of them
  std::array<kernels::EpilogueStep, most_steps> epilogue{};

  std::int64_t extent(RegionAxis x) const { return high[x] - low[x]; }
  std::int64_t row_count() const;
  kernels::Rows rows(const Strides&);                    // takes a table if it needs one
  kernels::Epilogue set_steps(RegionAxis column);

  std::byte* address(BufferId b, const Strides& s, DType t, const std::int64_t* point) const {
    return views[static_cast<std::size_t>(b)].origin + s.at(point) * static_cast<std::int64_t>(bytes_of(t));
  }

  // call(point) at every point of the far axes, the other axes at their low ends; the steps' operands are set before.
  template <class Call> void each(std::size_t axes, Call call) {
    std::int64_t point[32];
    TW_ASSERT(axes <= 32);
    std::memcpy(point, low, axes * sizeof(std::int64_t));
    for (RegionAxis x : far)
      if (extent(x) == 0) return;
    for (bool more = true; more;) {
      for (std::size_t i = 0; i < steps.size(); ++i)
        if (steps[i].buffer >= 0) epilogue[i].operand = address(steps[i].buffer, steps[i].strides, steps[i].dtype, point);
      call(static_cast<const std::int64_t*>(point));
      more = false;
      for (std::size_t i = far.size(); i-- > 0 && !more;) {
        std::int64_t& x = point[far[i]];
        if (++x < high[far[i]]) more = true;
        else x = low[far[i]];
      }
    }
  }
};

}  // namespace tilewright::cpu
