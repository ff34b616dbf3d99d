// Reference functions of opaque statements, by name. A text can only name them; whoever owns one registers it.
//
//   register_reference("top_k", [](std::span<const Array> in, std::span<Array> out) { ... });
//   opaque V[n k] : f32, I[n k] : i64 = top_k(X)
#pragma once
#include <memory>
#include <string>

#include "expr/program.h"

namespace tilewright {

void register_reference(const std::string& name, Reference);                  // replaces one of the same name
std::shared_ptr<const Reference> find_reference(const std::string& name);     // null if there is none; thread-safe

}  // namespace tilewright
