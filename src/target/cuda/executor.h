// Runs a built plan on one GPU. Runs of kernels between two steps on the CPU are launched one by one the first time
// that they meet a set of addresses, and are a graph from then on.
//
//   kernels 0-11  |  3 on the CPU: NonZero  |  kernels 12-30        two graphs, and copies of what the middle one reads
//   and writes
//
// Weights are on the device once; what lies between kernels shares one arena by liveness.
#pragma once
#include <atomic>

#include "plan/memory_plan.h"
#include "support/threads.h"
#include "target/cuda/build.h"
#include "target/cuda/driver.h"

namespace tilewright::cuda {

class Executor {
public:
  // The weights' bytes are not needed any more afterwards, except those that `keeps`.
  Executor(Device&, const Plan&, const Built&, const MemoryPlan&, int threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  bool keeps(TensorId weight) const; // on the CPU, for a step there
  std::size_t steps_on_cpu() const;
  std::int64_t weight_bytes() const;

  // Where a tensor lies now: fixed for weights and what is in the arena, else what was placed last; 0: nowhere.
  Address address(TensorId) const;
  void place(TensorId, Address); // an input or output, dense, aligned to 16 bytes
  // Launches everything; what it has written is there when the stream has come so far. Throws what a step on the CPU
  // throws, and Error(interrupted).
  void run(const std::atomic<bool>* cancelled = nullptr);
  // Waits; a failure tells the kernels that may be to blame. Error(bounds) where an element of an index tensor was out
  // of range.
  void finish();

  // Seconds on the GPU of each of so many whole runs; and of each kernel, over and over at the same place, the median.
  // Of a step on the CPU with its copies. Only after a run.
  std::vector<double> seconds(int runs);
  std::vector<double> kernel_seconds(int repeats);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tilewright::cuda
