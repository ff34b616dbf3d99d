// Streams with too few rows to keep a GPU's cores or a CPU's threads busy, in parts: one query's keys are shared out instead of its rows.
#pragma once
#include "law/cascades.h"
#include "plan/plan.h"

namespace tilewright {

// None where no stream of the program gains. known: what is known of streams already.
std::optional<Program> in_parts(const Program&, const Machine&, int threads, KnownStreams* known = nullptr);

}  // namespace tilewright
