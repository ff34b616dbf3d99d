// Runs a plan on given values and returns every tensor that left a kernel, for comparison with the evaluator.
#pragma once
#include <cstring>

#include "expr/evaluate.h"
#include "target/cpu/executor.h"

namespace tilewright::testing {

inline Array empty_of(const Program& p, TensorId t) {
  std::vector<std::int64_t> dims;
  for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
  return Array::make(p.tensor(t).dtype, dims);
}

// Brings an array that lies in the layout of the plan into row-major order.
inline Array row_major_of(const Array& a, const DimOrder& order, std::int64_t row = 0) {
  Array out = Array::make(a.dtype, a.dims);
  const auto from = cpu::strides_of_rows(a.dims, order, row), to = dense_strides(a.dims, row_major(a.dims.size()));
  const auto width = static_cast<std::int64_t>(bytes_of(a.dtype));
  std::vector<std::int64_t> point(a.dims.size(), 0);
  for (std::int64_t n = a.count(); n-- > 0;) {
    std::int64_t f = 0, t = 0;
    for (std::size_t d = 0; d < point.size(); ++d) f += point[d] * from[d], t += point[d] * to[d];
    std::memcpy(out.data + t * width, a.data + f * width, static_cast<std::size_t>(width));
    for (std::size_t d = point.size(); d-- > 0;) {
      if (++point[d] < a.dims[d]) break;
      point[d] = 0;
    }
  }
  return out;
}

// change: what is compiled, before it runs.
inline Values execute(const Plan& plan, const Values& given, const std::function<void(const cpu::Executable&)>& change = {}) {
  const Program& p = *plan.program;
  // Some rows are followed by gaps.
  cpu::RowLengths rows(p.tensors.size(), 0);
  const auto gaps = cpu::may_have_gaps(plan);
  for (std::size_t t = 0; t < rows.size(); ++t)
    if (gaps[t] && t % 2) rows[t] = p.tensors[t].dims[static_cast<std::size_t>(plan.layouts[t].back())].constant() + static_cast<std::int64_t>(t % 5);
  const cpu::Executable exe = cpu::compile(plan, {}, rows);
  if (change) change(exe);
  Pool pool(plan.options.threads);
  Values held;
  std::vector<std::byte*> base(p.tensors.size(), nullptr);
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    const auto it = given.find(id);
    if (it != given.end())
      base[t] = it->second.data;
    else if (!p.tensors[t].data.empty())
      base[t] = const_cast<std::byte*>(p.tensors[t].data.data());
    else
      held[id] = empty_of(p, id);
  }
  std::vector<cpu::Aligned> places;
  for (auto& [id, a] : held) {
    const auto t = static_cast<std::size_t>(id);
    const std::int64_t n = cpu::elements_of_rows(a.dims, plan.layouts[t], rows[t]);
    places.emplace_back(static_cast<std::size_t>(n) * bytes_of(a.dtype) + 64);
    base[t] = a.data = places.back().data;
  }
  cpu::Aligned scratch(static_cast<std::size_t>(exe.scratch * pool.size()) + 64);
  cpu::run(plan, exe, pool, base.data(), scratch.data);
  Values out;
  for (const PlannedKernel& k : plan.kernels)
    if (k.region)
      for (TensorId t : boundary(p, *k.region).outputs)
        out[t] = row_major_of(held[t], plan.layouts[static_cast<std::size_t>(t)], rows[static_cast<std::size_t>(t)]);
  return out;
}

} // namespace tilewright::testing
