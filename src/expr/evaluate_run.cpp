#include "expr/evaluate_run.h"

#include "expr/evaluate_block.h"
#include "expr/scalar.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright::evaluator {

namespace {

struct Engine {
  Scope scope;
  Body body;
  Block block;
  std::vector<AxisId> lane_axes; // innermost first; extents above 1
  std::vector<std::int64_t> loops;
  std::int64_t parallel = 1, reduced = 1;
  Affine out;
};

std::int64_t extent_of(const Engine& e, AxisId axis) { return e.scope.extents[static_cast<std::size_t>(axis)]; }

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

Affine zero_form(const Scope& scope) { return {std::vector<std::int64_t>(scope.extents.size(), 0), 0}; }

void add_scaled(Affine& sum, std::int64_t factor, const Affine& form) {
  sum.offset += factor * form.offset;
  for (std::size_t a = 0; a < sum.coefficient.size(); ++a) sum.coefficient[a] += factor * form.coefficient[a];
}

// The element that a read starts from, as far as it is affine; `from` is subtracted from each index first.
Affine address(const Engine& e, const Load& load, const std::vector<std::int64_t>& strides,
               const std::vector<std::int64_t>& from = {}) {
  Affine sum = zero_form(e.scope);
  for (std::size_t d = 0; d < load.dims.size(); ++d) {
    if (load.dims[d].affine < 0) continue;
    add_scaled(sum, strides[d], e.body.affines[static_cast<std::size_t>(load.dims[d].affine)]);
    if (!from.empty()) sum.offset -= strides[d] * from[d];
  }
  return sum;
}

// ---- what the statement is

Scope scope_of(const Program& p, const Statement& s, const Binding& binding, Evaluation mode,
               const std::map<TensorId, Array>& values) {
  Scope scope{p, s, binding, mode, values, {}, {}, 1};
  for (const Size& axis : s.axes) {
    scope.extents.push_back(axis.at(binding));
    if (scope.extents.back() < 0)
      throw Error(Code::size, {}, fmt::format("an axis has the extent {} = {}", axis.text(), scope.extents.back()));
  }
  scope.level.assign(s.axes.size(), 0);
  for (std::size_t p_ = 0; p_ < s.reduced.size(); ++p_)
    scope.level[static_cast<std::size_t>(s.reduced[p_])] = static_cast<int>(p_) + 1;
  for (std::int64_t extent : scope.extents) scope.points *= static_cast<double>(extent);
  return scope;
}

void place_output(Engine& e) {
  const Statement& s = e.scope.statement;
  const Array& array = e.scope.values.at(s.out);
  TW_ASSERT(s.at.size() == array.dims.size());
  std::vector<std::int64_t> strides = row_major(array.dims);
  e.out = zero_form(e.scope);
  for (std::size_t d = 0; d < s.at.size(); ++d) {
    std::optional<Affine> form = affine_form(e.scope, s.at[d]);
    TW_ASSERT(form);
    Interval range = hull(e.scope, *form);
    if (range.low < 0 || range.high >= array.dims[d])
      throw Error(Code::bounds, {},
                  fmt::format("{} is written at {} .. {} of dim {}, whose extent is {}",
                              e.scope.program.tensor(s.out).name, range.low, range.high, d, array.dims[d]));
    add_scaled(e.out, strides[d], *form);
  }
}

// ---- the order of the lanes

bool stageable(const Engine& e, const Step& step, const Load& load) {
  return load.padded || (step.a < 0 && load.all_affine() && worth_staging(e.scope, load, e.body.affines));
}

double cost_of_read(const Engine& e, const Step& step, AxisId axis) {
  const Load& load = e.body.loads[static_cast<std::size_t>(step.detail)];
  if (!load.all_affine()) return 2;
  std::size_t a = static_cast<std::size_t>(axis);
  std::int64_t stride = address(e, load, row_major(e.scope.values.at(load.tensor).dims)).coefficient[a];
  if (stride == 0) return 0.3;
  if (stageable(e, step, load)) {
    bool plain = std::any_of(load.dims.begin(), load.dims.end(), [&](const Load::Dim& d) {
      return e.body.affines[static_cast<std::size_t>(d.affine)].coefficient[a] == 1;
    });
    return plain ? 0.25 : 1;
  }
  return stride == 1 ? 0.25 : std::abs(stride) > 16 ? 2.5 : 1.5;
}

// The innermost axis of the lanes is the one along which the accesses are cheapest; the others follow as in the output.
void order_lanes(Engine& e) {
  for (std::size_t a = 0; a < e.scope.extents.size(); ++a)
    if (e.scope.level[a] == 0 && e.scope.extents[a] > 1) e.lane_axes.push_back(static_cast<AxisId>(a));
  auto stride = [&](AxisId a) { return std::abs(e.out.coefficient[static_cast<std::size_t>(a)]); };
  std::stable_sort(e.lane_axes.begin(), e.lane_axes.end(), [&](AxisId a, AxisId b) { return stride(a) < stride(b); });
  auto best = e.lane_axes.end();
  double least = std::numeric_limits<double>::infinity();
  for (auto axis = e.lane_axes.begin(); axis != e.lane_axes.end(); ++axis) {
    double cost = 8.0 / static_cast<double>(extent_of(e, *axis));
    cost += (stride(*axis) == 1 ? 0.25 : 1.5) / static_cast<double>(std::max<std::int64_t>(e.reduced, 1));
    for (const Step& step : e.body.steps)
      if (step.kind == Step::Kind::load) cost += cost_of_read(e, step, *axis);
    if (cost < least) least = cost, best = axis;
  }
  if (best != e.lane_axes.end()) std::rotate(e.lane_axes.begin(), best, best + 1);
}

// ---- staged copies

struct Copy {
  std::vector<std::int64_t> low, size, strides; // of each dim: what the read touches, and where that lies in the copy
};

Copy copy_of(const Engine& e, const Load& load, AxisId lane_axis) {
  Copy copy;
  std::vector<std::size_t> order; // innermost last
  std::size_t innermost = load.dims.size();
  for (std::size_t d = 0; d < load.dims.size(); ++d) {
    const Affine& form = e.body.affines[static_cast<std::size_t>(load.dims[d].affine)];
    Interval range = hull(e.scope, form);
    copy.low.push_back(range.low);
    copy.size.push_back(range.high - range.low + 1);
    if (lane_axis >= 0 && form.coefficient[static_cast<std::size_t>(lane_axis)] != 0) innermost = d;
  }
  for (std::size_t d = 0; d < load.dims.size(); ++d)
    if (d != innermost) order.push_back(d);
  if (innermost < load.dims.size()) order.push_back(innermost);
  copy.strides.assign(load.dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    copy.strides[order[i]] = stride;
    stride *= copy.size[order[i]];
  }
  return copy;
}

// Copies one row of the tensor, converted; `to` is an element of the copy, `stride` its step in the row.
void copy_row(const Array& array, std::int64_t from, std::int64_t length, std::byte* to, std::int64_t stride) {
  Lane lane = lane_of(array.dtype);
  std::uint64_t chunk[lanes];
  std::int64_t offset[lanes];
  for (std::int64_t done = 0; done < length; done += lanes) {
    int n = static_cast<int>(std::min<std::int64_t>(lanes, length - done));
    load(array.dtype, array.data, from + done, nullptr, nullptr, n, chunk);
    for (int l = 0; l < n; ++l) offset[l] = l * stride;
    store(stored_as(lane), to, done * stride, offset, n, lane, chunk);
  }
}

void stage(const Array& array, const Load& load, const Copy& copy, Source& source) {
  Lane lane = lane_of(array.dtype);
  std::int64_t total = 1;
  for (std::int64_t size : copy.size) total *= size;
  source.staged = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(total) * bytes_of(lane));
  source.data = source.staged.get();
  source.dtype = stored_as(lane);
  if (load.padded)
    for (std::int64_t at = 0; at < total; at += lanes)
      spread(lane, &load.fill, static_cast<int>(std::min<std::int64_t>(lanes, total - at)),
             source.staged.get() + static_cast<std::size_t>(at) * bytes_of(lane));
  std::size_t rank = copy.size.size();
  std::vector<std::int64_t> first(rank), last(rank), strides = row_major(array.dims);
  for (std::size_t d = 0; d < rank; ++d) {
    first[d] = std::max<std::int64_t>(copy.low[d], 0);
    last[d] = std::min(copy.low[d] + copy.size[d], array.dims[d]);
    if (first[d] >= last[d]) return;
  }
  std::vector<std::int64_t> at = first;
  while (true) {
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from += at[d] * strides[d];
      to += (at[d] - copy.low[d]) * copy.strides[d];
    }
    std::int64_t length = rank == 0 ? 1 : last[rank - 1] - first[rank - 1];
    copy_row(array, from, length, source.staged.get() + static_cast<std::size_t>(to) * bytes_of(lane),
             rank == 0 ? 1 : copy.strides[rank - 1]);
    std::size_t d = rank == 0 ? 0 : rank - 1;
    for (; d > 0; --d) {
      if (++at[d - 1] < last[d - 1]) break;
      at[d - 1] = first[d - 1];
    }
    if (d == 0) return;
  }
}

// ---- forms

Form form_of(const Engine& e, const Affine& affine) {
  Form form;
  form.offset = affine.offset;
  for (AxisId axis : e.lane_axes) form.along.push_back(affine.coefficient[static_cast<std::size_t>(axis)]);
  const std::vector<AxisId>& reduced = e.scope.statement.reduced;
  for (std::size_t p = 0; p < reduced.size(); ++p) {
    std::int64_t step = affine.coefficient[static_cast<std::size_t>(reduced[p])];
    for (std::size_t q = p + 1; q < reduced.size(); ++q)
      step -= affine.coefficient[static_cast<std::size_t>(reduced[q])] * (e.loops[q] - 1);
    form.step.push_back(step);
  }
  return form;
}

Source source_of(Engine& e, const Step& step, Affine& where) {
  const Load& load = e.body.loads[static_cast<std::size_t>(step.detail)];
  const Array& array = e.scope.values.at(load.tensor);
  std::vector<std::int64_t> strides = row_major(array.dims);
  Source source;
  source.data = array.data;
  source.dtype = array.dtype;
  AxisId innermost = e.lane_axes.empty() ? -1 : e.lane_axes.front();
  where = address(e, load, strides);
  std::int64_t stride = innermost < 0 ? 0 : where.coefficient[static_cast<std::size_t>(innermost)];
  bool slow = step.varies && (source.dtype != stored_as(step.result) || (stride != 0 && stride != 1));
  if (load.padded || (slow && stageable(e, step, load))) {
    Copy copy = copy_of(e, load, innermost);
    stage(array, load, copy, source);
    where = address(e, load, copy.strides, copy.low);
  }
  for (std::size_t d = 0; d < load.dims.size(); ++d)
    if (load.dims[d].affine < 0) source.gathers.emplace_back(load.dims[d].step, strides[d]);
  return source;
}

void prepare(Engine& e) {
  Block& block = e.block;
  block.body = &e.body;
  for (AxisId axis : e.lane_axes) block.extents.push_back(extent_of(e, axis));
  for (const Affine& affine : e.body.affines) block.forms.push_back(form_of(e, affine));
  block.sources.resize(e.body.loads.size());
  for (const Step& step : e.body.steps) {
    if (step.kind == Step::Kind::affine) block.forms[static_cast<std::size_t>(step.detail)].used = true;
    if (step.kind == Step::Kind::in_bounds)
      for (const Test& t : e.body.bounds[static_cast<std::size_t>(step.detail)].tests)
        if (t.affine >= 0) block.forms[static_cast<std::size_t>(t.affine)].used = true;
    if (step.kind != Step::Kind::load) continue;
    Affine where;
    Source& source = block.sources[static_cast<std::size_t>(step.detail)];
    source = source_of(e, step, where);
    source.form = static_cast<int>(block.forms.size());
    block.forms.push_back(form_of(e, where));
    block.forms.back().used = true;
  }
  block.forms.push_back(form_of(e, e.out));
  block.forms.back().used = true;
  merge_lane_axes(block);
  prepare_registers(block, static_cast<int>(e.loops.size()));
}

// ---- failures

std::string point_text(const Engine& e, const Bounds& bounds, int l) {
  const Block& block = e.block;
  const Tensor& tensor = e.scope.program.tensor(bounds.tensor);
  for (const Test& test : bounds.tests) {
    std::int64_t v = 0;
    if (test.affine >= 0) {
      const Form& form = block.forms[static_cast<std::size_t>(test.affine)];
      v = form.base + form.lane[static_cast<std::size_t>(l)];
    } else {
      bool varies = e.body.steps[static_cast<std::size_t>(test.step)].varies;
      v = block.as<std::int64_t>(test.step)[varies ? l : 0];
    }
    if (v < 0 || v >= test.extent)
      return fmt::format("index {} of {} is out of range: dim {} has the extent {}", v, tensor.name, test.dim,
                         test.extent);
  }
  return fmt::format("an index of {} is out of range", tensor.name);
}

[[noreturn]] void fail(const Engine& e, int failure, int l) {
  const Step& step = e.body.steps[static_cast<std::size_t>(failure - 1)];
  std::string written = e.scope.program.tensor(e.scope.statement.out).name;
  if (step.kind == Step::Kind::undefined)
    throw Error(Code::input, {}, fmt::format("{}: an integer is divided by zero ({})", written, name_of(step.op)),
                "leave such points out with `where`, or choose with `select`");
  const Step& inside = e.body.steps[static_cast<std::size_t>(step.a)];
  throw Error(Code::bounds, {},
              written + ": " + point_text(e, e.body.bounds[static_cast<std::size_t>(inside.detail)], l),
              "give the access an `else` value");
}

void check_failures(const Engine& e) {
  const Block& block = e.block;
  const std::int32_t* live = e.body.guard < 0 ? nullptr : block.as<std::int32_t>(e.body.guard);
  if (e.body.guard_failure >= 0) {
    const std::int32_t* failure = block.as<std::int32_t>(e.body.guard_failure);
    for (int l = 0; l < block.n; ++l)
      if (failure[l]) fail(e, failure[l], l);
  }
  if (e.body.value_failure < 0) return;
  const std::int32_t* failure = block.as<std::int32_t>(e.body.value_failure);
  for (int l = 0; l < block.n; ++l)
    if (failure[l] && (!live || live[l])) fail(e, failure[l], l);
}

// ---- the loops

struct Accumulators {
  alignas(64) std::byte value[lanes * 8];
  std::int64_t position[lanes] = {}, seen[lanes] = {};
};

bool is_pair(Reducer r) { return r == Reducer::argmax || r == Reducer::argmin; }
bool counts_points(Reducer r) { return is_pair(r) || r == Reducer::max || r == Reducer::min; }

void add_points(Engine& e, Accumulators& acc, std::int64_t position) {
  const Block& block = e.block;
  Reducer reducer = e.scope.statement.reducer;
  const std::int32_t* live = e.body.guard < 0 ? nullptr : block.as<std::int32_t>(e.body.guard);
  const void* value = block.as<void>(e.body.value);
  if (is_pair(reducer))
    accumulate_first(reducer, e.body.lane, block.n, acc.value, acc.position, position, acc.seen, value, live);
  else
    accumulate(reducer, e.body.lane, block.n, acc.value, value, live);
  if (counts_points(reducer))
    for (int l = 0; l < block.n; ++l) acc.seen[l] += live ? live[l] : 1;
}

// All points of the reduced axes, in order.
void reduce(Engine& e, Accumulators& acc) {
  Block& block = e.block;
  fill_identity(e.scope.statement.reducer, e.body.lane, block.n, acc.value);
  if (e.reduced == 0) return;
  std::vector<std::int64_t> at(e.loops.size(), 0);
  std::size_t level = 0;
  while (true) {
    run_steps(block, level);
    check_failures(e);
    add_points(e, acc, at.empty() ? 0 : at[0]);
    std::size_t p = at.size();
    for (; p > 0; --p) {
      if (++at[p - 1] < e.loops[p - 1]) break;
      at[p - 1] = 0;
    }
    if (p == 0) return;
    advance(block, p - 1);
    level = p;
  }
}

// A maximum of nothing is the least value of the declared dtype.
void store_extreme(const Engine& e, const Array& out, const Form& form, int l) {
  double value = e.scope.statement.reducer == Reducer::max ? -std::numeric_limits<double>::infinity()
                                                           : std::numeric_limits<double>::infinity();
  if (out.dtype == DType::boolean) value = value > 0;
  store(out.dtype, out.data, form.base + form.lane[static_cast<std::size_t>(l)], nullptr, 1, Lane::f64, &value);
}

void store_reduced(Engine& e, const Array& out, const Form& form, std::int64_t base, Accumulators& acc) {
  Reducer reducer = e.scope.statement.reducer;
  int n = e.block.n;
  for (int l = 0; is_pair(reducer) && l < n; ++l)
    if (acc.seen[l] == 0)
      throw Error(
          Code::bounds, {},
          fmt::format("{}: the {} of nothing", e.scope.program.tensor(e.scope.statement.out).name, name_of(reducer)),
          "every point needs at least one element that `where` leaves");
  if (is_pair(reducer))
    store(out.dtype, out.data, base, form.lane.data(), n, Lane::i64, acc.position);
  else
    store(out.dtype, out.data, base, form.lane.data(), n, e.body.lane, acc.value);
  for (int l = 0; counts_points(reducer) && l < n; ++l)
    if (acc.seen[l] == 0) store_extreme(e, out, form, l);
}

void store_map(Engine& e, const Array& out, const Form& form) {
  Block& block = e.block;
  run_steps(block, 0);
  check_failures(e);
  const void* value = block.as<void>(e.body.value);
  alignas(64) std::byte live[lanes * 8];
  if (e.body.guard >= 0) {
    static const std::byte zeros[lanes * 8] = {};
    choose(e.body.lane, block.n, block.as<std::int32_t>(e.body.guard), value, zeros, live);
    value = live;
  }
  store(out.dtype, out.data, form.base, form.lane.data(), block.n, e.body.lane, value);
}

void run_blocks(Engine& e, const Array& out) {
  const Form& form = e.block.forms.back();
  for (std::int64_t start = 0; start < e.parallel; start += lanes) {
    e.block.n = static_cast<int>(std::min<std::int64_t>(lanes, e.parallel - start));
    place(e.block, start);
    if (e.scope.statement.reducer == Reducer::none) {
      store_map(e, out, form);
      continue;
    }
    Accumulators acc;
    reduce(e, acc);
    store_reduced(e, out, form, form.base, acc);
  }
}

} // namespace

void run(const Program& p, const Statement& s, const Binding& binding, Evaluation mode,
         std::map<TensorId, Array>& values) {
  TW_ASSERT((s.reducer == Reducer::none) == s.reduced.empty() || s.reducer != Reducer::none);
  TW_ASSERT(!is_pair(s.reducer) || s.reduced.size() == 1);
  Engine e{scope_of(p, s, binding, mode, values), {}, {}, {}, {}, 1, 1, {}};
  for (AxisId axis : s.reduced) {
    e.loops.push_back(extent_of(e, axis));
    e.reduced = checked_mul(e.reduced, e.loops.back());
  }
  for (std::size_t a = 0; a < e.scope.extents.size(); ++a)
    if (e.scope.level[a] == 0) e.parallel = checked_mul(e.parallel, e.scope.extents[a]);
  if (e.parallel == 0) return;
  place_output(e);
  if (e.reduced > 0) e.body = compile(e.scope);
  order_lanes(e);
  prepare(e);
  run_blocks(e, values.at(s.out));
}

} // namespace tilewright::evaluator
