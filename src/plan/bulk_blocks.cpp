#include <algorithm>

#include "plan/block_price.h"
#include "plan/bulk_boxes.h"
#include "schedule/engine_box.h"

namespace tilewright {

namespace {

std::int64_t extent_of(const Region& r, const AxisStep& step) { return r.axes[static_cast<std::size_t>(step.axis)].constant(); }

std::vector<std::int64_t> tiles_of(const Region& r, const Schedule& s) {
  std::vector<std::int64_t> list;
  for (const AxisStep& step : s.steps)
    if (step.how == AxisStep::How::tile) list.push_back(ceil_div_i64(extent_of(r, step), step.size));
  return list;
}

// Extents of a transfer's box where every tile is full.
std::vector<std::int64_t> full_box(const Region& r, const Schedule& s, const Transfer& t) {
  std::vector<std::int64_t> v(2 * s.steps.size() + 2, 0), extent;
  for (std::size_t i = 0; i < s.steps.size(); ++i) v[2 * i + 1] = std::min(s.steps[i].size, extent_of(r, s.steps[i]));
  for (const Span& span : t.box) extent.push_back(span.high.at(v.data()) - span.low.at(v.data()));
  return extent;
}
const ValueAt* value_of(const Schedule& s, TensorId t) {
  const auto at = std::find_if(s.values.begin(), s.values.end(), [&](const ValueAt& value) { return value.tensor == t; });
  return at == s.values.end() ? nullptr : &*at;
}

// Leaves find an operand where its box begins. A box around what several of them read (three slices of one product, say) begins elsewhere.
bool read_in_one_place(const Program& p, const Region& r, const Schedule& s, const Transfer& t) {
  const auto equal = [](const Affine& a, const Affine& b) { return a.offset == b.offset && a.terms == b.terms; };
  bool one = true;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const auto axes = ranges(p, r, s, static_cast<int>(i));
    for_each_access(*p.statement(r.statements[i]), [&](const Access& a) {
      for (std::size_t d = 0; a.tensor == t.tensor && d < a.at.size(); ++d) {
        const Span own = hull(a.at[d], axes, p.tensor(t.tensor).dims[d]);
        one &= equal(own.low, t.box[d].low) && equal(own.high, t.box[d].high);
      }
    });
  }
  return one;
}

}  // namespace

bool in_clusters(const Region& r, Schedule& s, int cluster) {
  const auto tiles = tiles_of(r, s);
  if (tiles.empty()) return false;
  s.cluster = cluster;
  const bool bands = s.band > 1 && tiles.size() > 1;
  if (bands) s.band = std::max<std::int64_t>(s.band - s.band % cluster, cluster);
  return (bands ? tiles[tiles.size() - 2] : tiles.back()) % cluster == 0;
}

bool comes_in_boxes(const Program& p, const Region& r, const Schedule& s, const std::vector<DimOrder>& layouts) {
  std::size_t fit = 0;
  for (const Transfer& t : transfers(p, r, s)) {
    const ValueAt* at = value_of(s, t.tensor);
    if (t.store || !at) continue;
    const bool turn = t.depth == static_cast<int>(s.steps.size());
    if ((turn && at->stages < 2) || !read_in_one_place(p, r, s, t) || !engine_box(p, r, s, *at, t.box, full_box(r, s, t), layouts[static_cast<std::size_t>(t.tensor)])) return false;
    ++fit;
  }
  return fit > 0 && fit == s.values.size();
}

std::int64_t scratch_of_boxes(const Program& p, const Region& r, const Schedule& s) {
  std::int64_t total = 0;
  for (const Transfer& t : transfers(p, r, s)) {
    const ValueAt* at = value_of(s, t.tensor);
    if (t.store || !at) continue;
    const std::int64_t bytes = static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype)) * box_elements(p, r, s, *at, t.box, full_box(r, s, t));
    total += at->stages * (ceil_div_i64(bytes, 1024) * 1024 + 32);
  }
  return total;
}

std::vector<Schedule> bulk_variants(const Program& p, const Region& r, const Schedule& s, const Machine& m, const std::vector<DimOrder>& layouts) {
  std::vector<Schedule> list;
  const bool group = std::any_of(s.leaves.begin(), s.leaves.end(), [](const LeafAt& l) { return l.group; });
  if (!group || s.resident != 1 || s.threads + 128 > m.core.block_threads) return list;
  std::int64_t tiles = 1;
  for (std::int64_t n : tiles_of(r, s)) tiles *= n;
  for (int cluster : {1, 2}) {
    Schedule bulk = s;
    // What is read behind the contraction does not come through scratch then: its bytes are few, and threads that compute never copy.
    std::erase_if(bulk.values, [](const ValueAt& v) { return !v.swizzled; });
    for (ValueAt& v : bulk.values) v.bulk = true;
    if ((cluster > 1 && !in_clusters(r, bulk, cluster)) || !comes_in_boxes(p, r, bulk, layouts)) continue;
    const std::int64_t cores = m.core.count / cluster * cluster;
    if (tiles > cores) bulk.blocks = cores;
    list.push_back(std::move(bulk));
  }
  return list;
}

}  // namespace tilewright
