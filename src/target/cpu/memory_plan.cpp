#include <algorithm>
#include <map>

#include "target/cpu/executor.h"

namespace tilewright::cpu {

namespace {

struct Life { TensorId tensor; std::int64_t bytes; int first, last; };

std::vector<Life> lifetimes(const Plan& plan, const RowLengths& rows) {
  const Program& p = *plan.program;
  std::map<TensorId, Life> lives;
  auto touch = [&](TensorId t, int step) {
    const Tensor& tensor = p.tensor(t);
    if (tensor.kind != Kind::intermediate) return;
    std::vector<std::int64_t> dims;
    for (const Size& d : tensor.dims) dims.push_back(d.constant());
    const auto at = static_cast<std::size_t>(t);
    const std::int64_t elements = elements_of_rows(dims, plan.layouts[at], at < rows.size() ? rows[at] : 0);
    const std::int64_t n = checked_mul(elements, static_cast<std::int64_t>(bytes_of(tensor.dtype)));
    const auto [it, isnew] = lives.try_emplace(t, Life{t, n, step, step});
    it->second.last = step;
  };
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const int step = static_cast<int>(k);
    if (plan.kernels[k].region) {
      const Boundary b = boundary(p, *plan.kernels[k].region);
      for (TensorId t : b.inputs) touch(t, step);
      for (TensorId t : b.outputs) touch(t, step);
    } else {
      const Opaque& o = std::get<Opaque>(p.nodes[static_cast<std::size_t>(plan.kernels[k].opaque)]);
      for (TensorId t : o.in) touch(t, step);
      for (TensorId t : o.out) touch(t, step);
    }
  }
  for (TensorId t : p.results())                       // what counts the rows of an output is read when all has run
    if (auto found = lives.find(t); found != lives.end()) found->second.last = static_cast<int>(plan.kernels.size());
  std::vector<Life> list;
  for (const auto& [t, life] : lives)
    if (std::find(p.outputs.begin(), p.outputs.end(), t) == p.outputs.end()) list.push_back(life);
  // Largest first; each goes to the lowest place that is free for its whole life.
  std::stable_sort(list.begin(), list.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  return list;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan, const RowLengths& rows) {
  MemoryPlan out;
  out.offset.assign(plan.program->tensors.size(), -1);
  std::vector<std::pair<Life, std::int64_t>> placed;
  for (const Life& life : lifetimes(plan, rows)) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const auto& [other, at] : placed)
      if (other.first <= life.last && life.first <= other.last) taken.emplace_back(at, at + other.bytes);
    std::sort(taken.begin(), taken.end());
    std::int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (from >= at + life.bytes) break;
      at = std::max(at, (to + 127) / 64 * 64);      // a line between, for loads that run over an end
    }
    placed.emplace_back(life, at);
    out.offset[static_cast<std::size_t>(life.tensor)] = at;
    out.bytes = std::max(out.bytes, at + life.bytes);
  }
  return out;
}

}  // namespace tilewright::cpu
