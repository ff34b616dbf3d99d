#include "target/cpu/strides.h"

#include <algorithm>

namespace tilewright::cpu {

std::optional<Strides> strides_of(const Program& p, const Region& r, int statement, const std::vector<Index>& at, const Stored& stored) {
  Strides s{0, std::vector<std::int64_t>(r.axes.size(), 0)};
  for (std::size_t d = 0; d < at.size(); ++d) {
    const Index i = substitute(p, at[d], r.image[static_cast<std::size_t>(statement)]);
    if (!is_affine(i)) return std::nullopt;
    s.offset += i.offset.constant() * stored.stride[d];
    for (const Index::Term& t : i.terms)
      s.axis[static_cast<std::size_t>(std::get<AxisId>(t.of))] += t.coefficient.constant() * stored.stride[d];
  }
  return s;
}

std::vector<std::vector<RegionAxis>> merge_axes(const Region& r, std::vector<RegionAxis> axes, const std::vector<bool>& tiled,
                                                const std::vector<const Strides*>& strides) {
  std::vector<std::vector<RegionAxis>> groups;
  for (RegionAxis a : axes) groups.push_back({a});
  auto extent = [&](const std::vector<RegionAxis>& g) {
    std::int64_t n = 1;
    for (RegionAxis a : g) n *= r.axes[static_cast<std::size_t>(a)].constant();
    return n;
  };
  auto continues = [&](const std::vector<RegionAxis>& outer, const std::vector<RegionAxis>& inner) {
    for (RegionAxis a : inner)
      if (tiled[static_cast<std::size_t>(a)]) return false;
    return std::all_of(strides.begin(), strides.end(), [&](const Strides* s) { return (*s)[outer.back()] == extent(inner) * (*s)[inner.back()]; });
  };
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t x = 0; x < groups.size() && !merged; ++x)
      for (std::size_t y = 0; y < groups.size() && !merged; ++y)
        if (x != y && continues(groups[x], groups[y])) {
          groups[x].insert(groups[x].end(), groups[y].begin(), groups[y].end());
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(y));
          merged = true;
        }
  }
  return groups;
}

void offsets(const Run* runs, std::size_t count, std::int64_t* out) {
  if (count == 0) {
    *out = 0;
    return;
  }
  std::int64_t inner = 1;
  for (std::size_t i = 1; i < count; ++i) inner *= runs[i].extent;
  if (runs[0].extent == 0) return;
  offsets(runs + 1, count - 1, out);
  for (std::int64_t n = 1; n < runs[0].extent; ++n)
    for (std::int64_t i = 0; i < inner; ++i) out[n * inner + i] = out[i] + n * runs[0].stride;
}

}  // namespace tilewright::cpu
