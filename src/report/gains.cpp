#include "report/gains.h"

#include <map>
#include <set>

namespace tilewright {

namespace {

std::set<std::string> written(const Plan& plan, const PlannedKernel& k) {
  std::set<std::string> names;
  if (k.region)
    for (StatementId id : k.region->statements) names.insert(plan.program->tensor(plan.program->statement(id)->out).name);
  return names;
}

}  // namespace

std::vector<JoinedGain> joined_gains(const Plan& plan, const std::vector<double>& seconds, const Plan& apart,
                                     const std::vector<double>& apart_seconds) {
  std::vector<std::set<std::string>> theirs;
  std::map<std::string, std::size_t> writer;
  for (std::size_t k = 0; k < apart.kernels.size(); ++k) {
    theirs.push_back(written(apart, apart.kernels[k]));
    for (const std::string& name : theirs.back()) writer[name] = k;
  }
  std::vector<JoinedGain> list;
  for (std::size_t k = 0; k < plan.kernels.size() && k < seconds.size(); ++k) {
    if (plan.kernels[k].groups < 2) continue;
    const auto names = written(plan, plan.kernels[k]);
    std::set<std::size_t> parts;
    std::size_t found = 0;
    for (const std::string& name : names)
      if (const auto at = writer.find(name); at != writer.end()) parts.insert(at->second);
    JoinedGain gain{plan.kernels[k].name, seconds[k], 0, parts.size()};
    for (std::size_t part : parts) gain.apart += apart_seconds.at(part), found += theirs[part].size();
    if (found == names.size()) list.push_back(std::move(gain));
  }
  return list;
}

}  // namespace tilewright
