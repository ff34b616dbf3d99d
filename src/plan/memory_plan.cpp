#include "plan/memory_plan.h"

#include <algorithm>
#include <map>

namespace tilewright {

namespace {

struct Life { TensorId tensor; std::int64_t bytes; int first, last; };

std::int64_t bytes_of_tensor(const Tensor& t) {
  auto n = static_cast<std::int64_t>(bytes_of(t.dtype));
  for (const Size& d : t.dims) n = checked_mul(n, d.constant());
  return n;
}

std::vector<Life> lifetimes(const Plan& plan, const std::vector<std::int64_t>& bytes) {
  const Program& p = *plan.program;
  std::map<TensorId, Life> lives;
  auto touch = [&](TensorId t, int step) {
    if (p.tensor(t).kind != Kind::intermediate) return;
    const std::int64_t n = bytes.empty() ? bytes_of_tensor(p.tensor(t)) : bytes[static_cast<std::size_t>(t)];
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

MemoryPlan plan_memory(const Plan& plan, std::int64_t granule, const std::vector<std::int64_t>& bytes) {
  MemoryPlan out;
  out.offset.assign(plan.program->tensors.size(), -1);
  std::vector<std::pair<Life, std::int64_t>> placed;
  for (const Life& life : lifetimes(plan, bytes)) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const auto& [other, at] : placed)
      if (other.first <= life.last && life.first <= other.last) taken.emplace_back(at, at + other.bytes);
    std::sort(taken.begin(), taken.end());
    std::int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (from >= at + life.bytes) break;
      at = std::max(at, (to + 2 * granule - 1) / granule * granule);      // room between, for loads that run over an end
    }
    placed.emplace_back(life, at);
    out.offset[static_cast<std::size_t>(life.tensor)] = at;
    out.bytes = std::max(out.bytes, at + life.bytes);
  }
  return out;
}

MemoryPlan apart(MemoryPlan shared, const Program& p, std::int64_t granule) {
  shared.bytes = 0;
  for (std::size_t t = 0; t < shared.offset.size(); ++t) {
    if (shared.offset[t] < 0) continue;
    shared.offset[t] = shared.bytes;
    shared.bytes = checked_add(shared.bytes, ceil_div_i64(checked_add(bytes_of_tensor(p.tensors[t]), granule), granule) * granule);
  }
  return shared;
}

}  // namespace tilewright
