// Runs a whole plan on this CPU: kernels in order inside one parallel region, tiles cut into equal runs a thread, a barrier
// between kernels; opaque nodes run on the calling thread.
#pragma once
#include <atomic>

#include "loop/nest.h"
#include "plan/plan.h"
#include "support/threads.h"
#include "target/cpu/kernel.h"

namespace tilewright::cpu {

struct Executable {
  const kernels::Kernels* leaf = nullptr;
  std::vector<Kernel> kernels;                       // one a planned kernel; empty name: opaque
  std::int64_t scratch = 0;                          // bytes a worker needs
  std::int64_t packed_bytes = 0;
};
// packed: called for each weight whose bytes no kernel reads any more, once they are packed. Without row lengths all tensors are dense.
Executable compile(const Plan&, const std::function<void(TensorId)>& packed = {}, const RowLengths& = {});

// What the last run decided for operands that are read through slots, a line each: "A: columns of 32 x 1, 5.1 % live; 9 % of
// the dense time expected; 2 searches, the last in 0.41 ms".
std::vector<std::string> decisions_text(const Plan&, const Executable&);


// tensors: base addresses by tensor id of everything that is read or written. scratch: pool.size() times executable.scratch
// bytes, aligned to 64. seconds: if not null, one a kernel. Throws Error(bounds) for an element of an index tensor that is out of
// range, Error(interrupted) soon after `cancelled` is set, and what an opaque node's reference throws.
void run(const Plan&, const Executable&, Pool&, std::byte* const* tensors, std::byte* scratch, double* seconds = nullptr,
         const std::atomic<bool>* cancelled = nullptr);

}  // namespace tilewright::cpu
