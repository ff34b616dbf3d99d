#include <algorithm>
#include <numeric>

#include "schedule/made_box.h"

namespace tilewright {

namespace {

void add(Affine& to, const Affine& from, std::int64_t factor) {
  to.offset += factor * from.offset;
  for (const auto& [v, c] : from.terms) {
    const auto it = std::lower_bound(to.terms.begin(), to.terms.end(), v, [](const auto& t, int x) { return t.first < x; });
    if (it != to.terms.end() && it->first == v) {
      if ((it->second += factor * c) == 0) to.terms.erase(it);
    } else {
      to.terms.insert(it, {v, factor * c});
    }
  }
}

Span whole(const Size& extent) { return {.low = {}, .high = {extent.constant(), {}}}; }

// The innermost loop that the box depends on; every tile of the grid loads for itself.
int depth_of(const std::vector<Span>& box, const Schedule& s) {
  int depth = 0;
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::tile) depth = static_cast<int>(i) + 1;
  for (const Span& span : box)
    for (const Affine* bound : {&span.low, &span.high})
      for (const auto& [v, c] : bound->terms) depth = std::max(depth, v / 2 + 1);
  return depth;
}

// What one of several spans needs again in the next turn of a walk: all below where this turn ends. Where two of them move with the
// walk, what is new is no box.
void keep_between_turns(std::vector<Span>& box, int walk) {
  if (walk < 0) return;
  Span* moving = nullptr;
  for (Span& span : box) {
    bool moves = false;
    for (const Affine* bound : {&span.low, &span.high})
      for (const auto& term : bound->terms) moves |= term.first / 2 == walk;
    if (!moves) continue;
    if (moving) return;
    moving = &span;
  }
  if (!moving) return;
  Affine kept{moving->high.offset, {}};
  for (const auto& [v, c] : moving->high.terms) add(kept, {0, {{v == 2 * walk + 1 ? 2 * walk : v, 1}}}, c);
  if (kept.terms != moving->low.terms || kept.offset <= moving->low.offset) return;
  kept.offset = moving->low.offset + ceil_div_i64(kept.offset - moving->low.offset, moving->step) * moving->step;
  moving->walk = walk;
  moving->kept = std::move(kept);
}

bool same_bound(const Affine& a, const Affine& b) { return a.offset == b.offset && a.terms == b.terms; }

// The hull of two boxes of one tensor; bounds that cannot be compared (different variables) widen to the whole dim.
void widen(std::vector<Span>& box, const std::vector<Span>& other, const Tensor& t) {
  for (std::size_t d = 0; d < box.size(); ++d) {
    if (box[d].low.terms != other[d].low.terms || box[d].high.terms != other[d].high.terms) {
      if (!same_bound(box[d].low, other[d].low) || !same_bound(box[d].high, other[d].high)) box[d] = whole(t.dims[d]);
      continue;
    }
    const std::int64_t shift = box[d].low.offset - other[d].low.offset;
    box[d].step = std::gcd(std::gcd(box[d].step, other[d].step), shift);
    box[d].floor = std::min(box[d].floor, other[d].floor);
    box[d].ceiling = std::max(box[d].ceiling, other[d].ceiling);
    box[d].low.offset = std::min(box[d].low.offset, other[d].low.offset);
    box[d].high.offset = std::max(box[d].high.offset, other[d].high.offset);
  }
}

}  // namespace

std::int64_t Affine::at(const std::int64_t* variables) const {
  std::int64_t value = offset;
  for (const auto& [v, c] : terms) value += c * variables[v];
  return value;
}

std::int64_t Span::from(const std::int64_t* variables) const {
  const std::int64_t begin = low.at(variables);
  return walk < 0 || variables[2 * walk] == 0 ? begin : std::max(begin, kept.at(variables));
}

std::int64_t Span::count(const std::int64_t* variables, std::int64_t dim, std::int64_t* first) const {
  std::int64_t lo = std::max(from(variables), floor);
  const std::int64_t hi = std::min({high.at(variables), ceiling, dim});
  if (lo < 0) lo += ceil_div_i64(-lo, step) * step;
  if (first) *first = lo;
  return hi <= lo ? 0 : ceil_div_i64(hi - lo, step);
}

namespace {

// c * max(low, floor) + rest = max(c * low + rest, c * floor + rest), where only one term is not constant.
void clip(Span& span, const Index& index, const std::vector<Span>& axis_ranges) {
  std::int64_t rest_low = index.offset.constant(), rest_high = index.offset.constant(), c = 0;
  const Span* moving = nullptr;
  for (const Index::Term& t : index.terms) {
    const Span& r = axis_ranges[static_cast<std::size_t>(std::get<AxisId>(t.of))];
    const std::int64_t k = t.coefficient.constant();
    if (!r.low.terms.empty() || !r.high.terms.empty()) {
      if (r.floor == INT64_MIN || r.ceiling == INT64_MAX) return;
      moving = &r, c = k;
      continue;
    }
    rest_low += k * (k > 0 ? r.low.offset : r.high.offset - 1);
    rest_high += k * (k > 0 ? r.high.offset - 1 : r.low.offset);
  }
  span.floor = rest_low + c * (c > 0 ? moving->floor : moving->ceiling - 1);
  span.ceiling = rest_high + c * (c > 0 ? moving->ceiling - 1 : moving->floor) + 1;
}

}  // namespace

Span hull(const Index& index, const std::vector<Span>& axis_ranges, const Size& dim) {
  if (!is_affine(index)) return whole(dim);
  int clipped = 0, varying = 0;                     // terms with a floor or ceiling; terms that move with a loop
  Span span{.low = {index.offset.constant(), {}}, .high = {index.offset.constant() + 1, {}}, .step = 0};
  for (const Index::Term& t : index.terms) {
    const auto a = static_cast<std::size_t>(std::get<AxisId>(t.of));
    const std::int64_t c = t.coefficient.constant();
    const Span& r = axis_ranges[a];
    Affine last = r.high;
    last.offset -= 1;
    add(span.low, c > 0 ? r.low : last, c);
    add(span.high, c > 0 ? last : r.low, c);
    clipped += r.floor != INT64_MIN || r.ceiling != INT64_MAX;
    varying += !r.low.terms.empty() || !r.high.terms.empty();
    const bool single = r.low.terms.empty() && r.high.terms.empty() && r.high.offset - r.low.offset <= 1;
    if (!single) span.step = std::gcd(span.step, c * r.step);
  }
  if (span.step == 0) span.step = 1;
  // A bound of one moving term carries over; of a sum of several there is none.
  if (clipped == 1 && varying == 1) clip(span, index, axis_ranges);
  return span;
}

std::vector<Span> ranges(const Program& p, const Region& r, const Schedule& s, int statement) {
  std::vector<Span> region_ranges;
  for (const Size& e : r.axes) region_ranges.push_back(whole(e));
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    Span& span = region_ranges[static_cast<std::size_t>(s.steps[i].axis)];
    span = {.low = {0, {{static_cast<int>(2 * i), 1}}}, .high = {0, {{static_cast<int>(2 * i) + 1, 1}}}};
  }
  const Statement& st = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
  std::vector<Span> out;
  for (std::size_t a = 0; a < st.axes.size(); ++a) {
    out.push_back(hull(r.image[static_cast<std::size_t>(statement)][a], region_ranges, st.axes[a]));
    out.back().step = 1;
    Span& range = out.back();
    if (range.low.terms.empty()) range.low.offset = std::max<std::int64_t>(range.low.offset, 0);
    if (range.high.terms.empty()) range.high.offset = std::min(range.high.offset, st.axes[a].constant());
    if (!range.low.terms.empty() || !range.high.terms.empty()) range.floor = 0, range.ceiling = st.axes[a].constant();
  }
  keep_between_turns(out, walked_loop(s));
  return out;
}

int walked_loop(const Schedule& s) {
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::walk) return static_cast<int>(i);
  return -1;
}

std::vector<Depth> depths(const Program& p, const Region& r, const Schedule& s) {
  const int grid = static_cast<int>(std::count_if(s.steps.begin(), s.steps.end(), [](const AxisStep& x) { return x.how == AxisStep::How::tile; }));
  std::vector<Depth> list;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& st = *p.statement(r.statements[i]);
    Depth at{grid, grid};
    for (const Span& span : ranges(p, r, s, static_cast<int>(i)))
      for (const Affine* bound : {&span.low, &span.high})
        for (const auto& term : bound->terms) at.points = std::max(at.points, term.first / 2 + 1);
    for (int step = grid; step < at.points; ++step) {
      const RegionAxis axis = s.steps[static_cast<std::size_t>(step)].axis;
      const bool own = std::any_of(st.reduced.begin(), st.reduced.end(), [&](AxisId x) { return plain_axis(r.image[i][static_cast<std::size_t>(x)]) == axis; });
      if (!own) at.result = step + 1;
    }
    list.push_back(at);
  }
  return list;
}

std::vector<Transfer> transfers(const Program& p, const Region& r, const Schedule& s) {
  const Boundary b = boundary(p, r);
  std::vector<Transfer> list;
  auto box_of = [&](const std::vector<Index>& at, const Tensor& t, const std::vector<Span>& axis_ranges) {
    std::vector<Span> box;
    for (std::size_t d = 0; d < at.size(); ++d) box.push_back(hull(at[d], axis_ranges, t.dims[d]));
    return box;
  };
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& st = *p.statement(r.statements[i]);
    const auto axis_ranges = ranges(p, r, s, static_cast<int>(i));
    for_each_access(st, [&](const Access& a) {
      if (std::find(b.inputs.begin(), b.inputs.end(), a.tensor) == b.inputs.end()) return;
      auto box = box_of(a.at, p.tensor(a.tensor), axis_ranges);
      const auto seen = std::find_if(list.begin(), list.end(), [&](const Transfer& t) { return t.tensor == a.tensor && !t.store; });
      if (seen == list.end()) list.push_back({a.tensor, 0, std::move(box), false});
      else widen(seen->box, box, p.tensor(a.tensor));
    });
  }
  for (Transfer& t : list) {
    t.depth = depth_of(t.box, s);
    keep_between_turns(t.box, walked_loop(s));
  }
  const auto places = depths(p, r, s);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& st = *p.statement(r.statements[i]);
    if (std::find(b.outputs.begin(), b.outputs.end(), st.out) == b.outputs.end()) continue;
    list.push_back({st.out, places[i].result, made_box(p, st, ranges(p, r, s, static_cast<int>(i))), true});
  }
  return list;
}

}  // namespace tilewright
