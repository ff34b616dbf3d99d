// Depthwise convolutions and pools as calls of the window leaf: lanes are an axis that lies contiguously in data and result,
// rows the axes that the window slides over, taps the reduced axes.
//
// Where a window hangs over an edge and the value outside is the reducer's identity, nothing is copied: the rows are cut where the
// set of taps inside changes (two or three cuts an edge), and each part is called with its taps. A weighted sum whose taps slide over
// the rows and columns of an image is one call of the slide leaf, which knows where the image ends. Sums of integers begin with what
// the taps outside add, which is known: the value there times their weights.
#pragma once
#include "target/cpu/contract_leaf.h"

namespace tilewright::cpu {

struct WindowLeaf {
  BufferId a = -1, c = -1;
  DType a_type = DType::f32, c_type = DType::f32;
  kernels::WindowReduce reduce = kernels::WindowReduce::sum;
  Placement in_place, copied;                     // of the data
  Strides c_strides;
  std::vector<RegionAxis> lanes;                  // merged; the last has stride 1
  std::vector<std::vector<RegionAxis>> rows;
  std::vector<RegionAxis> far;
  std::int64_t taps = 1, lane_extent = 1;
  // stride * row + dilation * tap + offset must lie in [0, extent).
  struct Slide { RegionAxis row, tap; std::int64_t stride, dilation, offset, extent, taps; };
  std::vector<Slide> slides;
  std::vector<std::vector<std::int64_t>> tap_index; // [slide][tap]: the value of the slide's tap axis
  // One dim of the data that taps slide over; an axis may be missing (-1).
  struct Side { RegionAxis axis = -1; std::int64_t step = 1, dilation = 1, offset = 0, extent = 1, taps = 1, stride = 0; };
  struct Image { Side y, x; };
  std::optional<Image> image;                     // for the slide leaf; then `rows` are its y and x
  std::vector<StepOf> steps;
  std::shared_ptr<const Aligned> packed;          // weights as f32, of integers as i16 [far axes of the weights][taps][lanes], or null
  bool integers = false;                          // of eight bits, summed in i32
  std::int32_t outside = 0;                       // of integers: what is read where the data end
  std::vector<std::int64_t> packed_far;
  std::int64_t row_limit = 0;
};

Or<WindowLeaf> compile_window(const kernels::Kernels&, const Program&, const Region&, const Nest&, int statement, const std::vector<int>& maps,
                              const std::vector<Stored>& in_place, const std::vector<Stored>& copied, const Stored& out,
                              const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile);
std::int64_t scratch_bytes(const WindowLeaf&);
void run_window(const kernels::Kernels&, const WindowLeaf&, const std::vector<View>&, const std::byte* a_copy, const std::int64_t* low,
                const std::int64_t* high, std::byte* scratch);

}  // namespace tilewright::cpu
