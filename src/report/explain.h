// Why a plan is what it is: for each kernel its statements, what may be done along each axis and why not, what was not
// folded into it and why, its loops, and the leaves that run them.
#pragma once
#include "target/cpu/executor.h"

namespace tilewright {

// executable: null where the plan is not for this machine; then no leaves are told.
std::string explain_kernel(const Plan&, std::size_t kernel, const cpu::Executable*);
std::string explain(const Plan&, const cpu::Executable*);

// The kernels that a user means by "3" or by a part of a name; Error(option) if there is none.
std::vector<std::size_t> kernels_named(const Plan&, const std::string& name_or_number);

// The laws of an axis by name: allowed, or the reason why not.
std::vector<std::pair<std::string, Or<bool>>> laws_by_name(const Program&, const Region&, RegionAxis);
std::string role_text(const Role&); // "parallel, plain", "reduced with sum, windowed"

} // namespace tilewright
