// The two kinds of a session's backend, and how a GPU is found for a plan.
#pragma once
#include "runtime/session.h"
#include "target/cpu/row_lengths.h"
#include "target/cuda/build.h"
#include "target/cuda/driver.h"

namespace tilewright {

// Weights that are packed or uploaded give up their bytes.
std::unique_ptr<Backend> cpu_backend(Program& own, const Plan&, const MemoryPlan&, const cpu::RowLengths&);
std::unique_ptr<Backend> cuda_backend(std::unique_ptr<cuda::Device>, Program& own, const Plan&, const cuda::Built&, const MemoryPlan&, int threads);

// The shipped machine that a GPU is, by its name; else the one nearest to it whose code it runs, and `note` says so.
Machine machine_for(const cuda::Facts&, std::string& note);

// The dims of results whose rows a count tells; `count` reads it.
std::vector<std::vector<std::int64_t>> counted_dims(const Program&, const std::vector<Strided>& out,
                                                    const std::function<std::int64_t(TensorId)>& count);

} // namespace tilewright
