#include "target/cpu/leaf_loops.h"

#include <algorithm>

namespace tilewright::cpu {

namespace k = kernels;

bool ends_well(DType stored, const std::vector<StepOf>& steps) {
  const bool floats = std::any_of(steps.begin(), steps.end(), [](const StepOf& s) { return s.op == k::StepOp::to_float; });
  return floats ? byte_type(stored) || leaf_type(stored) : stored == DType::i32;
}

std::int64_t LeafLoops::row_count() const {
  std::int64_t n = 1;
  for (const auto& g : groups)
    for (RegionAxis x : g) n *= extent(x);
  return n;
}

k::Rows LeafLoops::rows(const Strides& s) {
  if (groups.empty()) return {0, nullptr};
  if (groups.size() == 1) return {s[groups[0].back()], nullptr};
  // The same for all rows needs no table, and ends in registers.
  if (std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return s[g.back()] == 0; })) return {0, nullptr};
  std::array<Run, 8> runs;
  TW_ASSERT(groups.size() <= runs.size());
  std::int64_t count = 1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    runs[i] = {1, s[groups[i].back()]};
    for (RegionAxis x : groups[i]) runs[i].extent *= extent(x);
    count *= runs[i].extent;
  }
  offsets(runs.data(), groups.size(), table);
  const k::Rows made{0, table};
  table += count;
  return made;
}

k::Epilogue LeafLoops::set_steps(RegionAxis column) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepOf& s = steps[i];
    epilogue[i] = {s.op, nullptr, s.dtype, {}, 0, s.a, s.b, s.whole};
    if (s.buffer < 0) continue;
    epilogue[i].rows = rows(s.strides);
    epilogue[i].column = s.strides[column];
  }
  return {epilogue.data(), static_cast<int>(steps.size())};
}

}  // namespace tilewright::cpu
