#include "normal/normal.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "expr/text.h"
#include "normal/passes.h"
#include "support/error.h"

namespace tilewright {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"simplify", "scalar identities of the spellings that exporters use", simplify_scalars},
      {"constants", "statements of weights become weights, but for what widens bytes to floats", fold_constants_but_bytes},
      {"masks", "masks written as values become guards", masks_to_guards, masks_left},
      {"views", "statements that only move elements are read through", inline_views},
      {"refine", "axes are split at the divisors in indices", [](Program p) { return refine(std::move(p)); }},
      {"integers", "float sums of scaled integers become scaled sums of integers", sum_integers},
      {"factors", "factors that do not run with a sum are multiplied in behind it", hoist_factors},
      {"zero points", "zero points come out of sums of integer products", distribute_zero_points},
      {"scales", "per-column scales go into known weights", fold_scales},
      {"scales ahead", "per-column scales ahead of a contraction go into its known weights", fold_scales_ahead},
      {"constants again", "what the passes made of weights becomes weights", fold_constants},
      {"roundings", "what lies between an integer sum and a rounding becomes one scale", gather_roundings},
      {"coalesce", "axes that travel together in every access are one", coalesce},
      {"unused", "results that nobody needs go", drop_unused},
  };
  return list;
}

Program normalise(Program p, const std::vector<std::string>& without, std::vector<std::string>* log, std::vector<PassTime>* times) {
  for (const std::string& name : without)
    if (std::none_of(passes().begin(), passes().end(), [&](const Pass& pass) { return name == pass.name; }))
      throw Error(Code::option, "", fmt::format("there is no pass named {}", name), "explain lists them");
  for (const Pass& pass : passes()) {
    if (std::find(without.begin(), without.end(), pass.name) != without.end()) continue;
    const std::size_t before = p.nodes.size();
    const std::vector<std::string> refusals = log && pass.refusals ? pass.refusals(p) : std::vector<std::string>{};
    const auto start = std::chrono::steady_clock::now();
    p = pass.run(std::move(p));
    if (times) times->push_back({pass.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
#ifndef NDEBUG
    verify(p);
#endif
    if (log) log->insert(log->end(), refusals.begin(), refusals.end());
    if (log && p.nodes.size() != before) log->push_back(fmt::format("{}: {} statements, before {}", pass.name, p.nodes.size(), before));
  }
  return p;
}

Program normalise(Program p, const std::vector<std::string>& without) { return normalise(std::move(p), without, nullptr); }

}  // namespace tilewright
