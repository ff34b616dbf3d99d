// What there is to know about a plan, a program and an error, as JSON text. Names that are no UTF-8 are repaired.
#pragma once
#include "law/stream.h"
#include "law/stream_forms.h"
#include "runtime/session.h"

namespace tilewright {

std::string plan_json(const Plan&, const cpu::Executable* executable, int indent = -1); // indent -1: one line
std::string explain_json(const Plan&, const cpu::Executable*, int indent = -1); // a kernel's roles, laws and refusals
std::string streams_json(const Program&, const std::vector<Stream>&, const std::vector<StreamRefusal>&, int indent = -1);
std::string tensors_json(const Program&,
                         const std::vector<TensorId>&); // [{"name", "type", "shape"}]; free sizes are text
std::string error_json(const Error&);                   // {"code", "kind", "status", "where", "message", "hint"}

} // namespace tilewright
