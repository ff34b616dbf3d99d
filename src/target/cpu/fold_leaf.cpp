#include "target/cpu/fold_leaf.h"

#include <algorithm>

#include <fmt/format.h>

#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

constexpr std::int64_t turned_rows = 64;          // of a block that is turned
constexpr std::size_t most_bounds = 8;

struct Compiler {
  const Program& p;
  const Region& r;
  const Nest& nest;
  int statement;
  const std::vector<Stored>& in_place;
  const std::vector<bool>& tiled;
  const std::vector<std::int64_t>& full_tile;
  FoldLeaf out{};

  const Statement& s() const { return *p.statement(r.statements[static_cast<std::size_t>(statement)]); }
  BufferId buffer_of(TensorId t) const {
    for (std::size_t b = 0; b < nest.buffers.size(); ++b)
      if (nest.buffers[b].tensor == t) return static_cast<BufferId>(b);
    return -1;
  }
  std::vector<RegionAxis> axes(bool reduced) const {
    std::vector<RegionAxis> list;
    for (AxisId a = 0; a < static_cast<AxisId>(s().axes.size()); ++a) {
      const auto axis = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(a)]);
      const bool is_reduced = std::find(s().reduced.begin(), s().reduced.end(), a) != s().reduced.end();
      if (axis && is_reduced == reduced && full(*axis) != 1) list.push_back(*axis);
    }
    return list;
  }

  // What must be at least 0 where a condition on indices holds; false: it is no such condition.
  bool bound(const ScalarRef& c, bool holds = true) {
    if (c->op == Op::logical_not) return bound(c->args[0], !holds);
    if (c->op == (holds ? Op::logical_and : Op::logical_or)) return bound(c->args[0], holds) && bound(c->args[1], holds);
    const auto a = c->args.size() == 2 ? linear(c->args[0]) : std::nullopt, b = a ? linear(c->args[1]) : std::nullopt;
    if (!b) return false;
    const bool equal = c->op == (holds ? Op::eq : Op::ne);
    const bool less = equal || c->op == (holds ? Op::le : Op::gt) || c->op == (holds ? Op::lt : Op::ge);
    const bool more = equal || c->op == (holds ? Op::ge : Op::lt) || c->op == (holds ? Op::gt : Op::le);
    const bool strict = c->op == (holds ? Op::lt : Op::ge) || c->op == (holds ? Op::gt : Op::le);
    if (less) add_bound(*b, *a, strict);
    if (more) add_bound(*a, *b, strict);
    return less || more;
  }
  // first - second >= 0, or 1.
  void add_bound(const Strides& first, const Strides& second, bool strict) {
    Strides d = first;
    d.offset -= second.offset + strict;
    for (std::size_t a = 0; a < d.axis.size(); ++a) d.axis[a] -= second.axis[a];
    out.bounds.push_back(std::move(d));
  }
  std::optional<Strides> linear(const ScalarRef& v) const {
    Strides sum{0, std::vector<std::int64_t>(r.axes.size(), 0)};
    double n = 0;
    if (!is_integer(v->dtype)) return std::nullopt;
    if (is_literal(v, &n)) {
      sum.offset = static_cast<std::int64_t>(n);
      return sum;
    }
    if (v->op == Op::axis) {
      const auto axis = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(std::get<AxisId>(v->leaf))]);
      if (!axis) return std::nullopt;
      sum.axis[static_cast<std::size_t>(*axis)] = 1;
      return sum;
    }
    if (v->op == Op::cast) return linear(v->args[0]);
    const bool scaled = v->op == Op::mul && (is_literal(v->args[0], &n) || is_literal(v->args[1], &n));
    if (!scaled && v->op != Op::add && v->op != Op::sub && v->op != Op::neg) return std::nullopt;
    auto a = linear(v->args[scaled && is_literal(v->args[0]) ? 1 : 0]);
    const auto b = v->op == Op::add || v->op == Op::sub ? linear(v->args[1]) : std::optional(sum);
    if (!a || !b) return std::nullopt;
    const std::int64_t by = scaled ? static_cast<std::int64_t>(n) : v->op == Op::neg ? -1 : 1, plus = v->op == Op::sub ? -1 : 1;
    a->offset = by * a->offset + plus * b->offset;
    for (std::size_t i = 0; i < a->axis.size(); ++i) a->axis[i] = by * a->axis[i] + plus * b->axis[i];
    return a;
  }

  // The access that has all of the statement's axes, and what is done to it.
  bool choose_source(std::string* why) {
    std::vector<const Access*> reads;
    for_each_access(s().body, [&](const Access& a) { reads.push_back(&a); });
    *why = "no operand has all of its axes";
    for (const Access* a : reads) {
      const BufferId b = buffer_of(a->tensor);
      if (a->otherwise || b < 0 || !leaf_type(in_place[static_cast<std::size_t>(b)].dtype)) continue;
      const auto strides = strides_of(p, r, statement, a->at, in_place[static_cast<std::size_t>(b)]);
      if (!strides) continue;
      bool all = true;
      for (bool reduced : {false, true})
        for (RegionAxis axis : axes(reduced)) all &= (*strides)[axis] != 0;
      if (!all) continue;
      auto steps = chain_steps(p, r, nest, statement, a->tensor, in_place);
      if (!steps) {
        *why = steps.reason();
        continue;
      }
      out.x = b, out.x_type = in_place[static_cast<std::size_t>(b)].dtype, out.x_strides = *strides, out.steps = std::move(*steps);
      return true;
    }
    return false;
  }

  // The columns lie side by side in the source; what is left are rows, and loops around the call.
  bool choose_axes(bool reduces, const Strides& result, std::string* why) {
    const std::vector<RegionAxis> parallel = axes(false), reduced = axes(true);
    for (const auto* list : {&parallel, &reduced})
      for (RegionAxis a : *list)
        if (out.x_strides[a] == 1) out.column = a;
    if (out.column < 0) return *why = "nothing lies side by side in its operand", false;
    const bool columns_meet = std::find(reduced.begin(), reduced.end(), out.column) != reduced.end();
    out.down = !columns_meet;
    std::vector<RegionAxis> rows;
    for (RegionAxis a : reduces && !columns_meet ? reduced : parallel)
      if (a != out.column) rows.push_back(a);
    for (RegionAxis a : reduces ? (columns_meet ? reduced : parallel) : std::vector<RegionAxis>{})
      if (a != out.column) out.far.push_back(a);
    if (!columns_meet && out.column >= 0 && result[out.column] != 1) {
      if (reduces) return *why = "its results do not lie side by side", false;
      out.turned = true;
    }
    std::stable_sort(rows.begin(), rows.end(), [&](RegionAxis x, RegionAxis y) { return out.x_strides[x] > out.x_strides[y]; });
    if (out.turned) {
      // Its rows lie side by side in the result; every other axis is a loop around.
      const auto row = std::find_if(rows.begin(), rows.end(), [&](RegionAxis a) { return result[a] == 1; });
      if (row == rows.end()) return *why = "its results do not lie side by side", false;
      if (!out.bounds.empty()) return *why = "its results do not lie side by side", false;
      const RegionAxis kept = *row;
      for (RegionAxis a : rows)
        if (a != kept) out.far.push_back(a);
      rows = {kept};
    }
    if (!out.bounds.empty() && rows.size() > 1) {
      const auto longest = std::max_element(rows.begin(), rows.end(), [&](RegionAxis x, RegionAxis y) { return full(x) < full(y); });
      const RegionAxis kept = *longest;
      for (RegionAxis a : rows)
        if (a != kept) out.far.push_back(a);
      rows = {kept};
    }
    std::vector<const Strides*> all = {&out.x_strides, &result};
    for (const StepOf& step : out.steps) all.push_back(&step.strides);
    out.rows = merge_axes(r, rows, tiled, all);
    for (RegionAxis a : rows) out.row_limit *= full(a);
    if (out.column >= 0) out.column_limit = full(out.column);
    return true;
  }
  std::int64_t full(RegionAxis a) const { return full_tile[static_cast<std::size_t>(a)]; }
};

}  // namespace

Or<FoldLeaf> compile_fold(const Program& p, const Region& r, const Nest& nest, int statement, const std::vector<Stored>& in_place, const Stored& stored,
                          const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile, BufferId accumulator) {
  Compiler c{p, r, nest, statement, in_place, tiled, full_tile};
  const Statement& s = c.s();
  FoldLeaf& out = c.out;
  const bool reduces = accumulator >= 0;
  if (reduces == s.reduced.empty()) return Refused{"a reduction that is made in one go"};
  if (s.body->dtype != DType::f32 && !leaf_type(s.body->dtype)) return Refused{fmt::format("it computes {}", name_of(s.body->dtype))};
  for (const Size& e : r.axes)
    if (e.constant() == 0) return Refused{"an axis is empty"};
  for (const Index& i : r.image[static_cast<std::size_t>(statement)])
    if (!plain_axis(i)) return Refused{"an axis of it is no axis of the region"};
  if (reduces) {
    if (s.reducer != Reducer::sum && s.reducer != Reducer::max && s.reducer != Reducer::min) return Refused{fmt::format("the reducer is {}", name_of(s.reducer))};
    out.reduce = s.reducer == Reducer::sum ? k::FoldReduce::sum : s.reducer == Reducer::max ? k::FoldReduce::max : k::FoldReduce::min;
  }
  if (!leaf_type(stored.dtype) || (reduces && stored.dtype != DType::f32)) return Refused{fmt::format("its result is {}", name_of(stored.dtype))};
  if (s.guard && (!c.bound(s.guard) || out.bounds.size() > most_bounds)) return Refused{"its guard is no interval of a row"};
  std::string why;
  if (!c.choose_source(&why)) return Refused{why};
  if (out.steps.size() > most_steps) return Refused{"more than 16 steps"};
  const auto result = strides_of(p, r, statement, s.at, stored);
  if (!result) return Refused{"an index is not affine"};
  if (!c.choose_axes(reduces, *result, &why)) return Refused{why};
  if (reduces) {
    out.acc = accumulator, out.acc_strides = *result;
  } else {
    out.y = c.buffer_of(s.out), out.y_type = stored.dtype, out.y_strides = *result;
  }
  return std::move(out);
}

std::int64_t scratch_bytes(const FoldLeaf& l) {
  const auto tables = static_cast<std::int64_t>(2 + l.steps.size()) * l.row_limit * 8;
  const std::int64_t turned = l.turned ? std::min(l.row_limit, turned_rows) * l.column_limit * static_cast<std::int64_t>(bytes_of(l.y_type)) + 64 : 0;
  return (l.rows.size() > 1 ? tables : 0) + turned;
}

namespace {

// A block of rows beside, then turned into its place.
void run_turned(const k::Kernels& leaf, const FoldLeaf& l, k::Fold call, std::byte* to, const k::Epilogue& steps, std::byte* scratch) {
  const auto width = static_cast<std::int64_t>(bytes_of(l.y_type));
  const RegionAxis row = l.rows[0].back();
  const std::int64_t rows = call.rows;
  k::EpilogueStep moved[most_steps];
  const auto* x = static_cast<const std::byte*>(call.x);
  for (std::int64_t first = 0; first < rows; first += turned_rows) {
    call.rows = std::min(turned_rows, rows - first);
    for (int i = 0; i < steps.count; ++i) {
      moved[i] = steps.steps[i];
      if (moved[i].operand)
        moved[i].operand = static_cast<const std::byte*>(moved[i].operand) + first * moved[i].rows.stride * static_cast<std::int64_t>(bytes_of(moved[i].dtype));
    }
    call.steps = {moved, steps.count};
    call.x = x + first * call.x_rows.stride * static_cast<std::int64_t>(bytes_of(l.x_type));
    call.y = scratch, call.y_rows = {call.columns};
    leaf.fold(call);
    leaf.copy({.rows = call.columns,
               .columns = call.rows,
               .bytes = static_cast<int>(width),
               .src = scratch,
               .src_row = 1,
               .src_column = call.columns,
               .dst = to + first * width,
               .dst_row = l.y_strides[l.column],
               .dst_column = l.y_strides[row]});
  }
}

}  // namespace

void run_fold(const k::Kernels& leaf, const FoldLeaf& l, const std::vector<View>& views, const std::int64_t* low, const std::int64_t* high, std::byte* scratch) {
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, reinterpret_cast<std::int64_t*>(scratch)};
  k::Fold call;
  call.rows = loops.row_count();
  call.columns = loops.extent(l.column);
  if (call.rows == 0 || call.columns == 0) return;
  call.x_type = l.x_type, call.y_type = l.y_type;
  call.reduce = l.reduce, call.down = l.down;
  call.x_rows = loops.rows(l.x_strides);
  if (l.y >= 0) call.y_rows = loops.rows(l.y_strides);
  if (l.acc >= 0) call.acc_rows = loops.rows(l.acc_strides);
  call.steps = loops.set_steps(l.column);
  const RegionAxis row = l.rows.empty() ? -1 : l.rows[0].back();
  k::FoldBound bounds[most_bounds];
  call.bounds = bounds;
  loops.each(l.x_strides.axis.size(), [&](const std::int64_t* point) {
    call.x = loops.address(l.x, l.x_strides, l.x_type, point);
    if (l.acc >= 0) call.acc = reinterpret_cast<float*>(loops.address(l.acc, l.acc_strides, DType::f32, point));
    // A bound that holds at both ends of the rows and columns holds everywhere.
    call.bound_count = 0;
    for (const Strides& s : l.bounds) {
      const k::FoldBound b = {row < 0 ? 0 : s[row], s[l.column], s.at(point)};
      if (b.offset + std::min<std::int64_t>(0, b.row * (call.rows - 1)) + std::min<std::int64_t>(0, b.column * (call.columns - 1)) < 0) bounds[call.bound_count++] = b;
    }
    std::byte* const to = l.y >= 0 ? loops.address(l.y, l.y_strides, l.y_type, point) : nullptr;
    if (l.turned) return run_turned(leaf, l, call, to, call.steps, scratch);
    call.y = to;
    leaf.fold(call);
  });
}

}  // namespace tilewright::cpu
