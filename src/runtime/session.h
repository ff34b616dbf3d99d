// A session: a plan with packed weights and memory, ready to run. Calls on one session take turns.
//
//   Session s(parse(text, "mlp.tw"), {.threads = 2});
//   s.run(inputs, outputs);         // arrays of the caller, in the order of s.program().inputs and .outputs
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "normal/normal.h"
#include "target/cpu/executor.h"

namespace tilewright {

struct SessionOptions {
  int threads = 0;     // 0: physical cores
  std::string isa;     // empty: the best that this CPU has
  std::string machine; // name or path of the machine to plan for; empty: this CPU
  Binding sizes;
  std::vector<std::string> without; // passes of normal/ to leave out, by name
  std::string plan;                 // a plan file to follow (runtime/plan_file.h); threads and isa that are not given are the file's
  Objective objective = Objective::time; // what kernels and tiles are chosen by
  bool fuse = true;                      // kernels of several reductions, where they pay
  std::map<std::string, std::string> sparse; // tensors that are mostly zeros (runtime/sparse_options.h), by name
  bool recognise = false;                    // and those that programs make so
  bool strict = false;                       // 0 * inf is no number: zeros are not skipped where that could show
  bool keep = false; // every tensor between kernels keeps a place of its own, to be looked at after a run
};

struct Timing { // seconds
  double normalise = 0, plan = 0, pack = 0;
  std::vector<PassTime> passes; // of normalise
};

// Normalised and planned, not yet compiled. Planning is for any machine; only a plan for a CPU can be run.
Plan plan_program(const Program&, const SessionOptions&, Timing* timing = nullptr);

// Memory of the caller: any strides, in elements.
struct Strided {
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, strides;
  std::byte* data = nullptr;
};
Strided dense(const Array&);
std::vector<std::int64_t> dims_of(const Tensor&); // of a tensor whose sizes are fixed

class Session {
public:
  explicit Session(const Program&, const SessionOptions& = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Program& program() const { return *plan_.program; } // normalised, sizes fixed
  const Plan& plan() const { return plan_; }
  const cpu::Executable& executable() const { return executable_; }
  const Timing& timing() const { return timing_; }
  std::int64_t arena_bytes() const { return memory_.bytes; }

  // Error(input) where an array is not what the program declares. Arrays may share memory with each other; what is read
  // is what was there before the call. kernel_seconds: if not null, filled with one a kernel. Returns the dims of each
  // output's results: smaller than the array's where they are counted (expr/results.h); the rest of the array then holds
  // nothing that means anything.
  std::vector<std::vector<std::int64_t>> run(const std::vector<Strided>& in, const std::vector<Strided>& out,
                                             std::vector<double>* kernel_seconds = nullptr,
                                             const std::atomic<bool>* cancelled = nullptr);

  // With `keep`: the value after the last run of a tensor between kernels, row-major; none for one inside a kernel.
  std::optional<Array> intermediate(TensorId) const;

private:
  void check(const Strided&, TensorId, const char* what) const;

  Timing timing_; // first: filled while the plan is made
  Plan plan_;
  cpu::Executable executable_;
  cpu::MemoryPlan memory_;
  Pool pool_;
  struct Call;
  std::vector<std::vector<std::int64_t>> results(const std::vector<Strided>& out, const Call&) const;
  bool kept_ = false;
  std::mutex turn_;
  std::shared_ptr<cpu::Aligned> arena_, scratch_;
};

} // namespace tilewright
