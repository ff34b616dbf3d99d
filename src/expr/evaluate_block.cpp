#include "expr/evaluate_block.h"

#include "support/error.h"

#include <algorithm>

namespace tilewright::evaluator {

namespace {

using Wrap = std::uint64_t; // sums of garbage in lanes that are not live must not trap

void run_bounds(Block& block, const Step& step, int id, int n) {
  auto* out = reinterpret_cast<std::int32_t*>(block.own(id));
  std::fill_n(out, n, 1);
  bool all = true;
  for (const Test& test : block.body->bounds[static_cast<std::size_t>(step.detail)].tests) {
    Wrap extent = static_cast<Wrap>(test.extent);
    if (test.affine < 0) {
      const auto* index = block.as<std::int64_t>(test.step);
      for (int l = 0; l < n; ++l) out[l] &= static_cast<Wrap>(index[l]) < extent;
      all = false;
      continue;
    }
    const Form& form = block.forms[static_cast<std::size_t>(test.affine)];
    if (form.base + form.low >= 0 && form.base + form.high < test.extent) continue;
    for (int l = 0; l < n; ++l)
      out[l] &= static_cast<Wrap>(form.base + form.lane[static_cast<std::size_t>(l)]) < extent;
    all = false;
  }
  block.all[static_cast<std::size_t>(id)] = all;
}

// Elements that lie one after the other, or are the same, along each run of lanes.
void load_runs(const Block& block, const Source& source, const Form& form, Lane lane, std::byte* out) {
  for (std::size_t r = 0; r + 1 < block.runs.size(); ++r) {
    int first = block.runs[r], length = block.runs[r + 1] - first;
    std::byte* to = out + static_cast<std::size_t>(first) * bytes_of(lane);
    std::int64_t from = form.base + form.lane[static_cast<std::size_t>(first)];
    load(source.dtype, source.data, from, nullptr, nullptr, form.along[0] == 0 ? 1 : length, to);
    if (form.along[0] == 0) spread(lane, to, length, to);
  }
}

void run_load(Block& block, const Step& step, int id, int n) {
  const Source& source = block.sources[static_cast<std::size_t>(step.detail)];
  const Form& form = block.forms[static_cast<std::size_t>(source.form)];
  std::byte* out = block.own(id);
  bool everywhere = step.a < 0 || block.all[static_cast<std::size_t>(step.a)];
  if (everywhere && source.gathers.empty()) {
    if (form.same) {
      load(source.dtype, source.data, form.base, nullptr, nullptr, 1, out);
      if (n > 1) spread(step.result, out, n, out);
    } else if (form.dense && source.dtype == stored_as(step.result)) {
      block.reg[static_cast<std::size_t>(id)] =
          source.data + form.base * static_cast<std::int64_t>(bytes_of(step.result));
      return;
    } else if (n > 1 && (form.along[0] == 0 || form.along[0] == 1) &&
               block.runs.size() * 8 <= static_cast<std::size_t>(n)) {
      load_runs(block, source, form, step.result, out);
    } else {
      load(source.dtype, source.data, form.base, form.lane.data(), nullptr, n, out);
    }
    block.reg[static_cast<std::size_t>(id)] = out;
    return;
  }
  std::int64_t address[lanes];
  std::copy_n(form.lane.data(), n, address);
  for (auto [index_step, stride] : source.gathers) {
    const auto* index = block.as<std::int64_t>(index_step);
    for (int l = 0; l < n; ++l)
      address[l] = static_cast<std::int64_t>(static_cast<Wrap>(address[l]) +
                                             static_cast<Wrap>(stride) * static_cast<Wrap>(index[l]));
  }
  const std::int32_t* live = everywhere ? nullptr : block.as<std::int32_t>(step.a);
  load(source.dtype, source.data, form.base, address, live, n, out);
  block.reg[static_cast<std::size_t>(id)] = out;
}

void run_failure(Block& block, const Step& step, int id, int n) {
  auto* out = reinterpret_cast<std::int32_t*>(block.own(id));
  auto in = [&](int s) { return block.as<std::int32_t>(s); };
  if (step.kind == Step::Kind::out_of_bounds) {
    const std::int32_t* inside = in(step.a);
    for (int l = 0; l < n; ++l) out[l] = inside[l] ? 0 : id + 1;
  } else if (step.kind == Step::Kind::either) {
    const std::int32_t *a = in(step.a), *b = in(step.b);
    for (int l = 0; l < n; ++l) out[l] = a[l] ? a[l] : b[l];
  } else {
    static const std::int32_t none[lanes] = {};
    const std::int32_t *which = in(step.a), *a = step.b < 0 ? none : in(step.b), *b = step.c < 0 ? none : in(step.c);
    choose(Lane::i32, n, which, a, b, out);
  }
}

void run_step(Block& block, const Step& step, int id) {
  int n = step.varies ? block.n : 1;
  std::byte* out = block.own(id);
  auto* flags = reinterpret_cast<std::int32_t*>(out);
  const void* a = step.a < 0 ? nullptr : block.as<void>(step.a);
  const void* b = step.b < 0 ? nullptr : block.as<void>(step.b);
  switch (step.kind) {
  case Step::Kind::constant:
    spread(step.result, &block.body->constants[static_cast<std::size_t>(step.detail)], n, out);
    break;
  case Step::Kind::affine: {
    const Form& form = block.forms[static_cast<std::size_t>(step.detail)];
    auto* values = reinterpret_cast<std::int64_t*>(out);
    for (int l = 0; l < n; ++l) values[l] = form.base + form.lane[static_cast<std::size_t>(l)];
    break;
  }
  case Step::Kind::unary: unary(step.op, step.lane, n, a, out); break;
  case Step::Kind::binary: binary(step.op, step.lane, n, a, b, out); break;
  case Step::Kind::compare: compare(step.op, step.lane, n, a, b, flags); break;
  case Step::Kind::classify: classify(step.op, step.lane, n, a, flags); break;
  case Step::Kind::choose:
    choose(step.lane, n, static_cast<const std::int32_t*>(a), b, block.as<void>(step.c), out);
    break;
  case Step::Kind::cast: cast(step.lane, a, step.to, n, out); break;
  case Step::Kind::in_bounds: run_bounds(block, step, id, n); break;
  case Step::Kind::load: run_load(block, step, id, n); break;
  case Step::Kind::undefined: undefined(step.op, step.lane, n, a, b, id + 1, flags); break;
  case Step::Kind::out_of_bounds:
  case Step::Kind::either:
  case Step::Kind::failed_choice: run_failure(block, step, id, n); break;
  }
  if (!step.varies && step.spread && block.n > 1) spread(step.result, block.as<void>(id), block.n, out);
}

} // namespace

void prepare_registers(Block& block, int levels) {
  const std::vector<Step>& steps = block.body->steps;
  block.storage.resize(steps.size() * lanes * 8);
  block.all.assign(steps.size(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    block.order.push_back(static_cast<int>(i));
    block.reg.push_back(block.own(static_cast<int>(i)));
  }
  auto level = [&](int i) { return steps[static_cast<std::size_t>(i)].level; };
  std::stable_sort(block.order.begin(), block.order.end(), [&](int a, int b) { return level(a) < level(b); });
  for (int l = 0; l <= levels; ++l) {
    auto from = std::find_if(block.order.begin(), block.order.end(), [&](int i) { return level(i) >= l; });
    block.first.push_back(static_cast<std::size_t>(from - block.order.begin()));
  }
  for (Form& form : block.forms) form.lane.assign(form.used ? lanes : 0, 0);
}

void merge_lane_axes(Block& block) {
  for (std::size_t k = 0; k + 1 < block.extents.size();) {
    bool even = std::all_of(block.forms.begin(), block.forms.end(),
                            [&](const Form& f) { return !f.used || f.along[k + 1] == f.along[k] * block.extents[k]; });
    if (!even) {
      ++k;
      continue;
    }
    block.extents[k] *= block.extents[k + 1];
    block.extents.erase(block.extents.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    for (Form& f : block.forms) f.along.erase(f.along.begin() + static_cast<std::ptrdiff_t>(k) + 1);
  }
}

namespace {

std::int64_t at_point(const Form& form, const std::vector<std::int64_t>& point) {
  std::int64_t v = 0;
  for (std::size_t k = 0; k < point.size(); ++k) v += form.along[k] * point[k];
  return v;
}

// Lanes l .. l+length-1 lie one after the other along the innermost lane axis, from `point` on.
void place_run(Form& form, const std::vector<std::int64_t>& point, int l, int length) {
  std::int64_t stride = form.along.empty() ? 0 : form.along[0];
  std::int64_t from = form.offset + at_point(form, point) - form.base, last = from + stride * (length - 1);
  for (int i = 0; i < length; ++i) form.lane[static_cast<std::size_t>(l + i)] = from + stride * i;
  form.low = std::min({form.low, from, last});
  form.high = std::max({form.high, from, last});
  form.same = form.same && from == 0 && last == 0;
  form.dense = form.dense && from == l && (stride == 1 || length == 1);
}

} // namespace

void place(Block& block, std::int64_t start) {
  std::vector<std::int64_t> point;
  for (std::int64_t extent : block.extents) {
    point.push_back(start % extent);
    start /= extent;
  }
  for (Form& form : block.forms) {
    form.base = form.offset + at_point(form, point);
    form.low = form.high = 0;
    form.same = form.dense = true;
  }
  block.runs.assign(1, 0);
  for (int l = 0; l < block.n;) {
    std::int64_t row = block.extents.empty() ? 1 : block.extents[0] - point[0];
    int length = static_cast<int>(std::min<std::int64_t>(row, block.n - l));
    for (Form& form : block.forms)
      if (form.used) place_run(form, point, l, length);
    block.runs.push_back(l += length);
    for (std::size_t k = 0; k < point.size(); ++k) {
      point[k] += k == 0 ? length : 1;
      if (point[k] < block.extents[k]) break;
      point[k] = 0;
    }
  }
}

void advance(Block& block, std::size_t loop) {
  for (Form& form : block.forms) form.base += form.step[loop];
}

void run_steps(Block& block, std::size_t level) {
  for (std::size_t i = block.first[level]; i < block.order.size(); ++i) {
    int id = block.order[i];
    run_step(block, block.body->steps[static_cast<std::size_t>(id)], id);
  }
}

} // namespace tilewright::evaluator
