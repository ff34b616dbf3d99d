#include "target/cpu/window_leaf.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

float as_f32(const std::byte* p, DType t) {
  if (t == DType::f32) {
    float v;
    std::memcpy(&v, p, 4);
    return v;
  }
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return t == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

struct Compiler {
  const Program& p;
  const Region& r;
  const Statement& s;
  int statement;
  const std::vector<bool>& tiled;
  const std::vector<std::int64_t>& full_tile;
  WindowLeaf out;
  Strides weights;                                 // empty axis list: none

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  RegionAxis axis(AxisId a) const { return *plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(a)]); }

  std::string choose(const tilewright::Window& w) {
    std::vector<RegionAxis> parallel, taps;
    for (AxisId a : parallel_axes(s))
      if (extent(axis(a)) != 1) parallel.push_back(axis(a));
    for (AxisId a : w.taps) taps.push_back(axis(a));
    std::vector<const Strides*> all = {&out.in_place.strides, &out.copied.strides, &out.c_strides};
    for (const StepOf& step : out.steps) all.push_back(&step.strides);
    if (!weights.axis.empty()) all.push_back(&weights);
    // Lanes: what lies contiguously in data and result and runs through the weights too.
    RegionAxis lane = -1;
    for (RegionAxis a : parallel)
      if (out.in_place.strides[a] == 1 && out.copied.strides[a] == 1 && out.c_strides[a] == 1 &&
          (weights.axis.empty() || weights[a] != 0))
        lane = a;
    if (lane < 0) return "no axis is contiguous in data and result";
    out.lanes = {lane};
    out.lane_extent = extent(lane);
    std::vector<RegionAxis> rows;
    for (RegionAxis a : parallel) {
      if (a == lane) continue;
      (weights.axis.empty() || weights[a] == 0 ? rows : out.far).push_back(a);
    }
    std::stable_sort(rows.begin(), rows.end(), [&](RegionAxis x, RegionAxis y) { return out.c_strides[x] > out.c_strides[y]; });
    out.rows = merge_axes(r, rows, tiled, all);
    out.row_limit = 1;
    for (RegionAxis a : rows) out.row_limit *= full_tile[static_cast<std::size_t>(a)];
    auto table = [&](const Strides& of) {
      std::vector<Run> runs;
      out.taps = 1;
      for (RegionAxis a : taps) {
        runs.push_back({extent(a), of[a]});
        out.taps *= extent(a);
      }
      std::vector<std::int64_t> t(static_cast<std::size_t>(out.taps));
      offsets(runs.data(), runs.size(), t.data());
      return t;
    };
    out.in_place.taps = table(out.in_place.strides);
    out.copied.taps = table(out.copied.strides);
    if (!weights.axis.empty()) weight_taps = table(weights);
    out.image = find_image(*w.data, taps, rows);
    if (out.image) {
      const auto inner = [&](RegionAxis a) { return a == out.image->y.axis || a == out.image->x.axis; };
      for (RegionAxis a : rows)
        if (!inner(a)) out.far.push_back(a);
      std::vector<RegionAxis> both;
      out.row_limit = 1;
      for (const auto& side : {out.image->y, out.image->x})
        if (side.axis >= 0) both.push_back(side.axis), out.row_limit *= full_tile[static_cast<std::size_t>(side.axis)];
      std::vector<const Strides*> operands;
      for (const StepOf& step : out.steps) operands.push_back(&step.strides);
      out.rows = merge_axes(r, both, tiled, operands);
      return {};
    }
    if (w.data->otherwise) {
      // Rows are cut one axis at a time: no merging.
      const auto merged = out.rows;
      out.rows.clear();
      for (RegionAxis a : rows) out.rows.push_back({a});
      find_slides(*w.data, taps);
      if (out.slides.empty()) out.rows = merged;
    }
    return {};
  }
  std::vector<std::int64_t> weight_taps;

  bool is_identity(const ScalarRef& otherwise) const {
    double v = 0;
    if (!otherwise || !is_literal(otherwise, &v)) return false;
    if (s.reducer == Reducer::sum) return v == 0 || (out.integers && std::abs(v) <= 255);
    return std::isinf(v) && (v < 0) == (s.reducer == Reducer::max);
  }

  // The dims that taps slide over, if they are the rows and columns of an image.
  std::optional<WindowLeaf::Image> find_image(const Access& data, const std::vector<RegionAxis>& taps, const std::vector<RegionAxis>& rows) const {
    if (weights.axis.empty() || out.a_type != DType::f32 || taps.empty() || taps.size() > 2) return std::nullopt;
    if (data.otherwise && !is_identity(data.otherwise)) return std::nullopt;
    std::vector<WindowLeaf::Side> sides(taps.size());
    for (std::size_t d = 0; d < data.at.size(); ++d) {
      const std::int64_t dim = p.tensor(data.tensor).dims[d].constant();
      const auto terms = data.at[d].terms;
      std::size_t n = taps.size();
      for (const Index::Term& t : terms)
        if (const auto found = std::find(taps.begin(), taps.end(), axis(std::get<AxisId>(t.of))); found != taps.end())
          n = static_cast<std::size_t>(found - taps.begin());
      if (n == taps.size()) {
        const Interval range = bounds(data.at[d], s.axes);
        if (range.low < 0 || range.high >= dim) return std::nullopt;
        continue;
      }
      WindowLeaf::Side& side = sides[n];
      if (side.stride != 0 || terms.size() > 2) return std::nullopt;
      side.offset = data.at[d].offset.constant(), side.extent = dim, side.taps = extent(taps[n]);
      for (const Index::Term& t : terms) {
        const RegionAxis x = axis(std::get<AxisId>(t.of));
        const std::int64_t c = t.coefficient.constant();
        if (c <= 0) return std::nullopt;
        if (x == taps[n]) side.dilation = c, side.stride = out.in_place.strides[x] / c;
        else if (std::count(rows.begin(), rows.end(), x)) side.axis = x, side.step = c;
        else if (extent(x) != 1) return std::nullopt;
      }
      if (side.stride <= 0 || (side.axis >= 0 && out.in_place.strides[side.axis] != side.step * side.stride)) return std::nullopt;
    }
    WindowLeaf::Image image{taps.size() > 1 ? sides[0] : WindowLeaf::Side{}, sides.back()};
    const bool known = std::all_of(sides.begin(), sides.end(), [](const auto& side) { return side.stride > 0; });
    if (!known || image.x.dilation != 1 || !k::slides(image.x.taps, image.x.step)) return std::nullopt;
    return image;
  }

  // The dims that a window may leave, each by one row axis and one tap axis of its own; none if they do not come in that form.
  void find_slides(const Access& data, const std::vector<RegionAxis>& taps) {
    if (!is_identity(data.otherwise)) return;
    std::vector<WindowLeaf::Slide> found;
    for (std::size_t d = 0; d < data.at.size(); ++d) {
      const std::int64_t dim = p.tensor(data.tensor).dims[d].constant();
      const Interval range = bounds(data.at[d], s.axes);
      if (range.low >= 0 && range.high < dim) continue;
      WindowLeaf::Slide slide{-1, -1, 0, 0, data.at[d].offset.constant(), dim, 1};
      for (const Index::Term& t : data.at[d].terms) {
        const RegionAxis x = axis(std::get<AxisId>(t.of));
        const bool tap = std::count(taps.begin(), taps.end(), x) > 0;
        RegionAxis& place = tap ? slide.tap : slide.row;
        const bool row = std::any_of(out.rows.begin(), out.rows.end(), [&](const auto& g) { return g.size() == 1 && g[0] == x; });
        if (place >= 0 || t.coefficient.constant() <= 0 || !(tap || row)) return;
        place = x;
        (tap ? slide.dilation : slide.stride) = t.coefficient.constant();
      }
      if (slide.row < 0 || slide.tap < 0) return;
      slide.taps = extent(slide.tap);
      for (const auto& other : found)
        if (other.row == slide.row || other.tap == slide.tap) return;
      found.push_back(slide);
    }
    out.slides = std::move(found);
    double outside = 0;
    if (out.integers && is_literal(data.otherwise, &outside)) out.outside = static_cast<std::int32_t>(outside);
    for (const auto& slide : out.slides) {
      std::vector<Run> runs;
      for (RegionAxis a : taps) runs.push_back({extent(a), a == slide.tap ? 1 : 0});
      out.tap_index.emplace_back(static_cast<std::size_t>(out.taps));
      offsets(runs.data(), runs.size(), out.tap_index.back().data());
    }
  }

  void pack(const Tensor& t) {
    const RegionAxis lane = out.lanes[0];
    const std::int64_t each = out.taps * out.lane_extent;
    std::int64_t copies = 1;
    for (RegionAxis a : out.far) {
      out.packed_far.push_back(weights[a] != 0 ? each * copies : 0);
      if (weights[a] != 0) copies *= extent(a);
    }
    const auto packed = std::make_shared<Aligned>(static_cast<std::size_t>(copies * each) * (out.integers ? sizeof(std::int16_t) : sizeof(float)));
    auto* to = reinterpret_cast<float*>(packed->data);
    auto* to16 = reinterpret_cast<std::int16_t*>(packed->data);
    const auto width = static_cast<std::int64_t>(bytes_of(t.dtype));
    for (std::int64_t n = 0; n < copies; ++n) {
      std::int64_t rest = n, from = weights.offset;
      for (std::size_t i = 0; i < out.far.size(); ++i) {
        if (out.packed_far[i] == 0) continue;
        from += rest % extent(out.far[i]) * weights[out.far[i]];
        rest /= extent(out.far[i]);
      }
      for (std::int64_t tap = 0; tap < out.taps; ++tap)
        for (std::int64_t c = 0; c < out.lane_extent; ++c) {
          const std::byte* at = t.data.data() + (from + weight_taps[static_cast<std::size_t>(tap)] + c * weights[lane]) * width;
          if (!out.integers) *to++ = as_f32(at, t.dtype);
          else *to16++ = t.dtype == DType::i8 ? static_cast<std::int8_t>(*at) : static_cast<std::int16_t>(static_cast<std::uint8_t>(*at));
        }
    }
    out.packed = packed;
  }
};

}  // namespace

Or<WindowLeaf> compile_window(const k::Kernels&, const Program& p, const Region& r, const Nest& nest, int statement,
                              const std::vector<int>& maps, const std::vector<Stored>& in_place, const std::vector<Stored>& copied,
                              const Stored& stored, const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile) {
  const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
  const Or<tilewright::Window> w = window(p, s);
  if (!w) return Refused{w.reason()};
  for (const Size& e : r.axes)
    if (e.constant() == 0) return Refused{"an axis is empty"};
  for (const Index& i : r.image[static_cast<std::size_t>(statement)])
    if (!plain_axis(i)) return Refused{"an axis of the window is no axis of the region"};
  Compiler c{p, r, s, statement, tiled, full_tile, {}, {}, {}};
  for (AxisId x : w->taps)
    if (tiled[static_cast<std::size_t>(c.axis(x))]) return Refused{"the window is streamed"};
  WindowLeaf& out = c.out;
  const int last = maps.empty() ? statement : maps.back();
  const Statement& final = *p.statement(r.statements[static_cast<std::size_t>(last)]);
  for (std::size_t b = 0; b < nest.buffers.size(); ++b) {
    if (nest.buffers[b].tensor == w->data->tensor) out.a = static_cast<BufferId>(b);
    if (nest.buffers[b].tensor == final.out) out.c = static_cast<BufferId>(b);
  }
  out.a_type = in_place[static_cast<std::size_t>(out.a)].dtype;
  out.c_type = stored.dtype;
  out.integers = byte_type(out.a_type) && s.reducer == Reducer::sum && p.tensor(s.out).dtype == DType::i32;
  if (!out.integers && (!leaf_type(out.a_type) || !leaf_type(out.c_type))) return Refused{fmt::format("the window leaf does not compute {}", name_of(out.a_type))};
  out.reduce = s.reducer == Reducer::max ? k::WindowReduce::max : s.reducer == Reducer::min ? k::WindowReduce::min : k::WindowReduce::sum;
  auto steps = epilogue_steps(p, r, nest, statement, maps, in_place);
  if (!steps) return Refused{steps.reason()};
  out.steps = std::move(*steps);
  if (out.steps.size() > most_steps) return Refused{"more than 16 steps behind the window"};
  if (out.integers && !ends_well(out.c_type, out.steps)) return Refused{fmt::format("a sum of integers does not end in {}", name_of(out.c_type))};
  const auto a = strides_of(p, r, statement, w->data->at, in_place[static_cast<std::size_t>(out.a)]);
  const auto a2 = strides_of(p, r, statement, w->data->at, copied[static_cast<std::size_t>(out.a)]);
  const auto cc = strides_of(p, r, last, final.at, stored);
  if (!a || !a2 || !cc) return Refused{"an index is not affine"};
  out.in_place.strides = *a, out.copied.strides = *a2, out.c_strides = *cc;
  const Tensor* weights = w->weights ? &p.tensor(w->weights->tensor) : nullptr;
  if (weights) {
    if (weights->kind != Kind::weight || weights->data.empty() || (out.integers ? !byte_type(weights->dtype) : !leaf_type(weights->dtype))) return Refused{"the weights are not known before the run"};
    Stored rows{weights->dtype, std::vector<std::int64_t>(weights->dims.size(), 1)};
    for (std::size_t d = weights->dims.size(); d-- > 1;) rows.stride[d - 1] = rows.stride[d] * weights->dims[d].constant();
    const auto found = strides_of(p, r, statement, w->weights->at, rows);
    if (!found) return Refused{"an index of the weights is not affine"};
    c.weights = *found;
  }
  if (std::string why = c.choose(*w); !why.empty()) return Refused{why};
  if (weights) c.pack(*weights);
  return std::move(out);
}

std::int64_t scratch_bytes(const WindowLeaf& l) {
  return static_cast<std::int64_t>(2 + l.steps.size()) * l.row_limit * 8 + 2 * l.taps * 8 + (l.integers ? l.lane_extent * 4 + 8 : 0);
}

namespace {

// One part of a tile: all its rows see the same taps.
struct Part {
  const k::Kernels& leaf;
  const WindowLeaf& l;
  const std::vector<View>& views;
  const Placement& a;
  const std::byte* a_origin;
  const std::int64_t* low;
  const std::int64_t* high;
  std::int64_t* table;

  // What the taps that are left out add, by lane.
  const std::int32_t* beginning(const k::Window& call) const {
    if (!l.integers || l.outside == 0 || call.taps == l.taps) return nullptr;
    auto* begin = reinterpret_cast<std::int32_t*>(table + static_cast<std::int64_t>(2 + l.steps.size()) * l.row_limit + 2 * l.taps);
    for (std::int64_t c = 0; c < call.c; ++c) {
      auto sum = static_cast<std::int32_t>(l.taps - call.taps);
      if (call.w16) {
        sum = 0;
        for (std::int64_t t = 0; t < l.taps; ++t) sum += call.w16[t * l.lane_extent + c];
        for (std::int64_t t = 0; t < call.taps; ++t) sum -= call.w16[call.weight_offset[t] + c];
      }
      begin[c] = sum * l.outside;
    }
    return begin;
  }

  void run(std::int64_t taps, const std::int64_t* tap_offset, const std::int64_t* weight_offset) {
    LeafLoops loops{views, l.rows, l.far, l.steps, low, high, table};
    k::Window call;
    const RegionAxis lane = l.lanes[0];
    call.x = loops.row_count(), call.c = loops.extent(lane), call.taps = taps, call.reduce = l.reduce;
    if (call.x == 0 || call.c == 0) return;
    call.a_rows = loops.rows(a.strides);
    call.out_rows = loops.rows(l.c_strides);
    call.a_type = l.a_type, call.out_type = l.c_type;
    call.tap_offset = tap_offset;
    call.w_t = l.lane_extent;
    call.weight_offset = weight_offset;
    call.epilogue = loops.set_steps(lane);
    loops.each(l.c_strides.axis.size(), [&](const std::int64_t* point) {
      call.a = a_origin + a.strides.at(point) * static_cast<std::int64_t>(bytes_of(l.a_type));
      call.out = loops.address(l.c, l.c_strides, l.c_type, point);
      if (l.packed) {
        std::int64_t from = low[lane];
        for (std::size_t i = 0; i < l.far.size(); ++i) from += point[l.far[i]] * l.packed_far[i];
        if (l.integers) call.w16 = reinterpret_cast<const std::int16_t*>(l.packed->data) + from;
        else call.w = reinterpret_cast<const float*>(l.packed->data) + from;
      }
      call.begin = beginning(call);
      (l.integers ? leaf.window_integers : leaf.window)(call);
    });
  }
};

// The whole tile as an image.
void run_image(const k::Kernels& leaf, const WindowLeaf& l, const std::vector<View>& views, const std::int64_t* low, const std::int64_t* high,
               std::byte* scratch) {
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, reinterpret_cast<std::int64_t*>(scratch)};
  const WindowLeaf::Side &y = l.image->y, &x = l.image->x;
  const RegionAxis lane = l.lanes[0];
  const auto extent = [&](const WindowLeaf::Side& side) { return side.axis < 0 ? 1 : loops.extent(side.axis); };
  const auto first = [&](const WindowLeaf::Side& side) { return side.offset + (side.axis < 0 ? 0 : side.step * low[side.axis]); };
  k::Slide call;
  call.y = extent(y), call.x = extent(x), call.c = loops.extent(lane);
  if (call.y == 0 || call.x == 0 || call.c == 0) return;
  call.taps_y = y.taps, call.taps_x = x.taps;
  call.row = first(y), call.row_step = y.step, call.row_dilation = y.dilation, call.rows = y.extent;
  call.column = first(x), call.column_step = x.step, call.columns = x.extent;
  call.a_row = y.stride, call.a_column = x.stride;
  call.w_tap = l.lane_extent;
  call.out_type = l.c_type;
  call.out_row = y.axis < 0 ? 0 : l.c_strides[y.axis], call.out_column = x.axis < 0 ? 0 : l.c_strides[x.axis];
  call.epilogue = loops.set_steps(lane);
  const std::int64_t to_image = call.row * call.a_row + call.column * call.a_column;
  loops.each(l.c_strides.axis.size(), [&](const std::int64_t* point) {
    call.a = reinterpret_cast<const float*>(views[static_cast<std::size_t>(l.a)].origin) + (l.in_place.strides.at(point) - to_image);
    call.out = loops.address(l.c, l.c_strides, l.c_type, point);
    std::int64_t from = low[lane];
    for (std::size_t i = 0; i < l.far.size(); ++i) from += point[l.far[i]] * l.packed_far[i];
    call.w = reinterpret_cast<const float*>(l.packed->data) + from;
    leaf.slide(call);
  });
}

// The taps of a slide that lie inside at one row: [first, last).
std::pair<std::int64_t, std::int64_t> inside(const WindowLeaf::Slide& s, std::int64_t row) {
  const std::int64_t start = s.stride * row + s.offset;
  const std::int64_t first = std::max<std::int64_t>(0, ceil_div_i64(-start, s.dilation));
  const std::int64_t last = std::min(s.taps, floor_div_i64(s.extent - 1 - start, s.dilation) + 1);
  return {first, std::max(first, last)};
}

// Cuts the rows of slide n where their taps change, and runs the parts, slide by slide.
void cut(const Part& whole, std::size_t n, std::int64_t* low, std::int64_t* high, std::vector<std::pair<std::int64_t, std::int64_t>>& taps) {
  const WindowLeaf& l = whole.l;
  if (n == l.slides.size()) {
    std::int64_t* tap_offset = whole.table + static_cast<std::int64_t>(2 + l.steps.size()) * l.row_limit;
    std::int64_t* weight_offset = tap_offset + l.taps;
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < l.taps; ++t) {
      bool in = true;
      for (std::size_t i = 0; i < l.slides.size(); ++i) {
        const std::int64_t at = l.tap_index[i][static_cast<std::size_t>(t)];
        in &= at >= taps[i].first && at < taps[i].second;
      }
      if (!in) continue;
      tap_offset[count] = whole.a.taps[static_cast<std::size_t>(t)];
      weight_offset[count++] = t * l.lane_extent;
    }
    Part part = whole;
    part.low = low, part.high = high;
    part.run(count, tap_offset, l.packed ? weight_offset : nullptr);
    return;
  }
  const WindowLeaf::Slide& s = l.slides[n];
  const std::int64_t from = low[s.row], to = high[s.row];
  for (std::int64_t row = from; row < to;) {
    taps[n] = inside(s, row);
    low[s.row] = row;
    for (++row; row < to && inside(s, row) == taps[n];) ++row;
    high[s.row] = row;
    cut(whole, n + 1, low, high, taps);
  }
  low[s.row] = from, high[s.row] = to;
}

}  // namespace

void run_window(const k::Kernels& leaf, const WindowLeaf& l, const std::vector<View>& views, const std::byte* a_copy, const std::int64_t* low,
                const std::int64_t* high, std::byte* scratch) {
  if (l.image) return run_image(leaf, l, views, low, high, scratch);
  const Placement& a = a_copy ? l.copied : l.in_place;
  const std::byte* origin = a_copy ? a_copy : views[static_cast<std::size_t>(l.a)].origin;
  Part part{leaf, l, views, a, origin, low, high, reinterpret_cast<std::int64_t*>(scratch)};
  if (l.slides.empty()) return part.run(l.taps, a.taps.data(), nullptr);
  std::int64_t lows[32], highs[32];
  const std::size_t axes = l.c_strides.axis.size();
  TW_ASSERT(axes <= 32);
  std::memcpy(lows, low, axes * sizeof(std::int64_t));
  std::memcpy(highs, high, axes * sizeof(std::int64_t));
  thread_local std::vector<std::pair<std::int64_t, std::int64_t>> taps;
  taps.assign(l.slides.size(), {0, 0});
  cut(part, 0, lows, highs, taps);
}

}  // namespace tilewright::cpu
