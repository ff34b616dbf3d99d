#include "schedule/engine_box.h"

#include <algorithm>

#include <fmt/format.h>

#include "schedule/bounds.h"

namespace tilewright {

namespace {

// Blocks that follow one another differ in their place along one axis of the grid only: whether a box is the same for all of them.
bool read_alike(const Schedule& s, const std::vector<Span>& box) {
  const int step = cluster_step(s);
  for (const Span& span : box)
    for (const Affine* bound : {&span.low, &span.high})
      for (const auto& term : bound->terms)
        if (term.first / 2 == step) return false;
  return true;
}

// Equal parts of whole eights of rows, along the outermost dim that has any.
std::string share(EngineBox& box, int parts, std::int64_t width) {
  box.split = box.dims.size() - 1;
  while (box.split > 1 && box.dims[box.split].box == 1) --box.split;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i <= box.split; ++i) elements *= box.dims[i].box;
  if (box.dims[box.split].box % parts || elements / parts * width % 1024) return "does not fall into equal parts for a cluster";
  box.parts = parts, box.part_elements = elements / parts;
  box.dims[box.split].box /= parts;
  return {};
}

// A tile may be larger than its axis, as instructions that take so many rows want it.
std::int64_t filled(const Region& r, const Schedule& s, const Span& span, std::int64_t extent) {
  for (const auto& [v, c] : span.low.terms) {
    const AxisStep& step = s.steps[static_cast<std::size_t>(v / 2)];
    if (c == 1 && step.size > r.axes[static_cast<std::size_t>(step.axis)].constant()) extent = std::max(extent, step.size);
  }
  return extent;
}

// Whether what a box holds beyond the points that the statement has lies beyond the tensor too, in every tile: then it arrives as zeros.
//
//   A[64*h + d + 768] of 1152, tiles of one h: low is in [768, 1088], 64 from there end at the ceiling
bool owned(const Region& r, const Schedule& s, const Span& span, std::int64_t extent, std::int64_t dim) {
  const auto low = range_of(r, s, span.low);
  return (span.floor <= 0 || low.first >= span.floor) && (span.ceiling >= dim || low.second + extent <= span.ceiling);
}

}  // namespace

std::int64_t box_elements(const Program& p, const Region& r, const Schedule& s, const ValueAt& at, const std::vector<Span>& box, const std::vector<std::int64_t>& extent) {
  const std::int64_t row = 128 / static_cast<std::int64_t>(bytes_of(p.tensor(at.tensor).dtype));
  std::int64_t n = 1;
  for (std::size_t d = 0; d < extent.size(); ++d) n *= static_cast<int>(d) == at.order.back() ? ceil_div_i64(extent[d], row) * row : filled(r, s, box[d], extent[d]);
  return n;
}

int cluster_step(const Schedule& s) {
  std::vector<int> tiles;
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::tile) tiles.push_back(static_cast<int>(i));
  return tiles.empty() ? -1 : s.band > 1 && tiles.size() > 1 ? tiles[tiles.size() - 2] : tiles.back();
}

Or<EngineBox> engine_box(const Program& p, const Region& r, const Schedule& s, const ValueAt& at, const std::vector<Span>& box, const std::vector<std::int64_t>& extent,
                         const DimOrder& layout) {
  const Tensor& t = p.tensor(at.tensor);
  const auto width = static_cast<std::int64_t>(bytes_of(t.dtype)), row = 128 / width;
  if (!at.swizzled || at.order != layout || layout.empty()) return Refused{t.name + " is not brought in the order in which it lies, swizzled"};
  std::vector<std::int64_t> dims;
  for (const Size& d : t.dims) dims.push_back(d.constant());
  const auto stride = dense_strides(dims, layout);
  EngineBox out;
  for (std::size_t i = layout.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(layout[i]);
    const Span& span = box[d];
    if (span.step != 1 || !owned(r, s, span, filled(r, s, span, extent[d]), dims[d])) return Refused{t.name + " is not read in whole boxes"};
    if (ragged(r, s, span) && range_of(r, s, span.high).second < dims[d]) return Refused{t.name + " ends within a box"};
    const bool inner = i + 1 == layout.size(), fills = dims[d] % row == 0 && extent[d] % row == 0 && multiple_of(s, span.low, row);
    if (inner && !fills && extent[d] == dims[d] && dims[d] * width % 16 == 0) {
      out.dims.push_back({dims[d], row, 1, {}, 1}), out.panels = static_cast<int>(ceil_div_i64(dims[d], row));
      out.panel_elements = row;
      continue;
    }
    if (!inner || extent[d] <= row) out.dims.push_back({dims[d], inner ? extent[d] : filled(r, s, span, extent[d]), stride[d], span.low, 1});
    else if (!fills) return Refused{t.name + " does not fill panels of 128 bytes"};
    else out.dims.push_back({row, row, 1, {}, 1});
  }
  for (std::size_t i = 1; i < out.dims.size(); ++i) out.panel_elements *= out.dims[i].box;
  const auto inner = static_cast<std::size_t>(layout.back());
  if (extent[inner] > row && out.panels == 1) out.dims.push_back({dims[inner] / row, extent[inner] / row, row, box[inner].low, row});
  if (out.dims[0].box != row) return Refused{t.name + " does not fill rows of 128 bytes"};
  if (out.dims.size() > 5 || out.dims.size() < 2) return Refused{fmt::format("{}: boxes of {} dims", t.name, out.dims.size())};
  for (const EngineBox::Dim& d : out.dims)
    if (d.box < 1 || d.box > 256 || (&d != &out.dims[0] && d.stride * width % 16)) return Refused{t.name + ": a box of more than 256 along a dim, or rows that do not begin on 16 bytes"};
  if (s.cluster > 1 && read_alike(s, box))
    if (std::string why = share(out, s.cluster, width); !why.empty()) return Refused{t.name + " " + why};
  return out;
}

}  // namespace tilewright
