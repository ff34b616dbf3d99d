// Plans for a GPU that are kept on disk, so that a second run of a model does not plan again.
//
//   plans/<key>.plan        "tilewright plan 1 <hash of the rest>\n", then numbers and words: each kernel's statements, schedule, cost
//
// The key is the hash of all that a plan follows from: the normal program with its weights' bytes, the machine, the options, and this
// very build of the library. What cannot be read, or is not what its hash says, is planned anew; what cannot be written is not kept.
#pragma once
#include <optional>
#include <string>

#include "plan/plan.h"

namespace tilewright {

// `extra`: what else the plan follows from (options of sparse tensors). Empty: nothing is kept.
std::string plan_key(const Program& normal, const Machine&, const std::string& machine_as_asked, const PlanOptions&, const std::string& extra);

std::optional<Plan> kept_plan(const std::string& folder, const std::string& key, const std::shared_ptr<const Program>& normal, const Machine&, const PlanOptions&);
// Of a plan whose program is the normal one. False: it is not kept.
bool keep_plan(const std::string& folder, const std::string& key, const std::shared_ptr<const Program>& normal, const Plan&);

}  // namespace tilewright
