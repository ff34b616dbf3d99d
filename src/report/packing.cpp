#include "report/packing.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "expr/text.h"
#include "law/permute.h"
#include "law/skip.h"

namespace tilewright {

namespace {

std::string names_of(const Region& r, const std::vector<RegionAxis>& axes) {
  std::string out;
  for (RegionAxis a : axes) out += (out.empty() ? "" : " ") + r.names[static_cast<std::size_t>(a)];
  return out;
}

std::string permuted_text(const Program& p, const Region& r) {
  std::vector<RegionAxis> plain, rounded, carried;
  for (RegionAxis a = 0; a < static_cast<RegionAxis>(r.axes.size()); ++a)
    if (const auto law = permutable(p, r, a)) (law->carried ? carried : law->exact ? plain : rounded).push_back(a);
  std::vector<std::string> parts;
  if (!plain.empty()) parts.push_back(names_of(r, plain));
  if (!rounded.empty()) parts.push_back("up to rounding " + names_of(r, rounded));
  if (!carried.empty()) parts.push_back("with its value carried along " + names_of(r, carried));
  return parts.empty() ? "" : fmt::format("permuted    {}", fmt::join(parts, "; "));
}

std::string use_text(const Program& p, const SkippedUse& use) {
  const Statement& s = *p.statement(use.statement);
  const std::string &axis = s.names[static_cast<std::size_t>(use.axis)], &out = p.tensor(s.out).name;
  if (!use.law) return fmt::format("along {} not skipped: {}", axis, use.law.reason());
  if (!use.law->value) return fmt::format("along {} nothing is left in {}", axis, out);
  if (use.law->constant) return fmt::format("along {} {} is {}", axis, out, *use.law->constant);
  return fmt::format("along {} {} is {}", axis, out, print(p, use.law->value, s.names));
}

void add_sparse(const Program& p, const Region& r, std::vector<std::string>& lines) {
  for (TensorId t : boundary(p, r).inputs) {
    const Tensor& tensor = p.tensor(t);
    if (!tensor.sparse) continue;
    std::vector<std::string> uses;
    for (std::size_t d = 0; d < tensor.dims.size(); ++d)
      for (const SkippedUse& use : skipped_uses(p, t, d, 0))
        if (r.position(use.statement) >= 0) uses.push_back(use_text(p, use));
    lines.push_back(fmt::format("{} sparse: {}", tensor.name, fmt::join(uses, "; ")));
  }
}

} // namespace

std::vector<std::string> packing_text(const Program& p, const Region& r) {
  std::vector<std::string> lines;
  if (std::string text = permuted_text(p, r); !text.empty()) lines.push_back(std::move(text));
  std::vector<std::string> groups;
  for (const auto& g : permutable_together(p, r))
    if (g.size() > 1) groups.push_back(names_of(r, g));
  if (!groups.empty()) lines.push_back(fmt::format("as one      {}", fmt::join(groups, "; ")));
  for (const Bucket& b : buckets(p, r))
    lines.push_back(fmt::format("in buckets  {} by {}, each with a slice of {}", names_of(r, b.axes),
                                p.tensor(b.key.tensor).name, p.tensor(b.operand).name));
  add_sparse(p, r, lines);
  return lines;
}

namespace {

// Of covered elements those that do not live, where cells of the declared micro-tile live at random.
double waste_of(const GatheredPlan& g, double elements) {
  const Estimate& e = g.selection.best;
  const double covered = e.micro_tiles * static_cast<double>(e.unit_m * e.unit_k);
  return covered <= 0 ? 0 : std::max(0.0, 1 - g.live * elements / covered);
}

} // namespace

std::vector<std::string> gathered_text(const Program& p, const Region& r, const PlannedKernel& k) {
  std::vector<std::string> lines;
  for (const GatheredPlan& g : k.gathered) {
    const Estimate &best = g.selection.best, &dense = g.selection.dense;
    const std::string head = fmt::format("{} at {:.3g} % live: ", p.tensor(g.view.tensor).name, 100 * g.live);
    const std::string searched = fmt::format("searched in {:.2f} ms", g.seconds * 1e3);
    if (best.along == Along::none) {
      lines.push_back(head + fmt::format("dense, {}; {}", g.selection.reason, searched));
      continue;
    }
    double elements = 1;
    for (const Size& d : p.tensor(g.view.tensor).dims) elements *= static_cast<double>(d.constant());
    lines.push_back(
        head +
        fmt::format("{} in micro-tiles of {} x {}, {:.0f} of them, waste {:.0f} %; {:.4g} ms, dense {:.4g} ms; {}",
                    name_of(best.along), best.unit_m, best.unit_k, best.micro_tiles, 100 * waste_of(g, elements),
                    best.seconds * 1e3, dense.seconds * 1e3, searched));
  }
  (void)r;
  return lines;
}

} // namespace tilewright
