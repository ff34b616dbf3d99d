#include "schedule/pieces.h"

#include "schedule/bounds.h"

namespace tilewright {

namespace {

std::int64_t inner_dim(const Program& p, const ValueAt& v) {
  return p.tensor(v.tensor).dims[static_cast<std::size_t>(v.order.back())].constant();
}
bool whole_rows(const Program& p, const ValueAt& v, const Span& span) {
  return span.step == 1 && span.floor <= 0 && span.ceiling >= inner_dim(p, v);
}
Affine less(Affine a, std::int64_t by) {
  a.offset -= by;
  return a;
}

}  // namespace

std::int64_t brought_by_pieces(const ValueAt& v, std::int64_t extent, std::int64_t width) {
  return width == 1 ? extent : ceil_div_i64(v.lead + extent, width) * width;
}

std::int64_t piece_width(const Program& p, const Schedule& s, const ValueAt& v, const std::vector<Span>& box, const std::vector<std::int64_t>& extent) {
  if (v.order.empty()) return 1;
  const auto d = static_cast<std::size_t>(v.order.back());
  if (!whole_rows(p, v, box[d])) return 1;
  for (std::int64_t bytes : {16, 8, 4}) {
    const std::int64_t width = bytes / static_cast<std::int64_t>(bytes_of(p.tensor(v.tensor).dtype));
    if (width < 1) break;
    const std::int64_t row = v.lead + extent[d] + v.pad;
    const bool fits = v.swizzled ? extent[d] % width == 0 : row % width == 0 && brought_by_pieces(v, extent[d], width) <= row;
    if (fits && inner_dim(p, v) % width == 0 && multiple_of(s, less(box[d].low, v.lead), width)) return width;
  }
  return 1;
}

void align_to_pieces(const Program& p, const Schedule& s, ValueAt& v, const std::vector<Span>& box, const std::vector<std::int64_t>& extent) {
  if (v.order.empty() || v.swizzled || v.bulk || piece_width(p, s, v, box, extent) > 1) return;
  const auto d = static_cast<std::size_t>(v.order.back());
  const std::int64_t width = 16 / static_cast<std::int64_t>(bytes_of(p.tensor(v.tensor).dtype));
  if (width < 2 || extent[d] < 2 || !whole_rows(p, v, box[d])) return;
  ValueAt aligned = v;
  aligned.lead = floor_mod_i64(box[d].low.offset, width);
  aligned.pad = brought_by_pieces(aligned, extent[d], width) - aligned.lead - extent[d];
  if (piece_width(p, s, aligned, box, extent) == width) v = aligned;
}

}  // namespace tilewright
