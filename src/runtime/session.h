// A session: a plan with packed weights and memory, ready to run. Calls on one session take turns.
//
//   Session s(parse(text, "mlp.tw"), {.threads = 2});
//   s.run(inputs, outputs);         // arrays of the caller, in the order of s.program().inputs and .outputs
//
// On a GPU (device "cuda" or "cuda:1") the plan is for the machine that the GPU is, kernels are compiled for it,
// weights lie on it. Arrays may be in the memory of either.
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "normal/normal.h"
#include "plan/memory_plan.h"
#include "target/cpu/executor.h"

namespace tilewright {

struct SessionOptions {
  std::string device = "cpu"; // or "cuda", "cuda:N"
  int threads = 0;            // 0: physical cores
  std::string isa;            // empty: the best that this CPU has
  std::string machine;        // name or path of the machine to plan for; empty: this CPU
  Binding sizes;
  std::vector<std::string> without; // passes of normal/ to leave out, by name
  std::string plan; // a plan file to follow (runtime/plan_file.h); threads and isa that are not given are the file's
  Objective objective = Objective::time; // what kernels and tiles are chosen by
  std::optional<bool> fuse; // kernels of several reductions, where they pay; if nothing is said, yes
  PlanRules rules = {};
  std::map<std::string, std::string> sparse; // tensors that are mostly zeros (runtime/sparse_options.h), by name
  bool recognise = false;                    // and those that programs make so
  bool strict = false;                       // 0 * inf is no number: zeros are not skipped where that could show
  bool kept_plans = false; // a plan that is kept on disk is taken, and a new one kept: what a session on a GPU does
  bool keep = false; // every tensor between kernels keeps a place of its own, to be looked at after a run
};

struct Timing {                             // seconds
  double normalise = 0, plan = 0, pack = 0; // pack: for a GPU, what is left of making it ready
  double device = 0, compile = 0;           // of a GPU: to reach it; schedules, sources and machine code
  std::vector<PassTime> passes;             // of normalise
};

// "cpu": -1; "cuda": 0; "cuda:N": N. Error(option) at `option` for anything else.
int parse_device(const std::string&, const std::string& option = "device");

// Normalised and planned, not yet compiled. Planning is for any machine; only a plan for a CPU can be run.
Plan plan_program(const Program&, const SessionOptions&, Timing* timing = nullptr);

// Memory of the caller: any strides, in elements.
struct Strided {
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, strides;
  std::byte* data = nullptr;
  int gpu = -1; // in whose memory it is; -1: the CPU's
};
Strided dense(const Array&);
std::vector<std::int64_t> dims_of(const Tensor&); // of a tensor whose sizes are fixed

// What a run may be told beside its arrays.
struct RunOptions {
  std::vector<double>* kernel_seconds = nullptr; // filled with one a kernel
  const std::atomic<bool>* cancelled = nullptr;
  // Of a GPU's driver: the run comes behind what is in that stream, and what the caller puts there later behind the
  // run. Where all arrays are on the GPU, the call then returns before it has run. Without one the call returns when
  // all is done.
  void* stream = nullptr;
};

// What a session has on its device.
class Backend {
public:
  virtual ~Backend() = default;
  using Dims = std::vector<std::vector<std::int64_t>>;
  virtual Dims run(const std::vector<Strided>& in, const std::vector<Strided>& out, const RunOptions&) = 0;
  virtual std::vector<double> device_seconds(int) { return {}; }
  virtual std::optional<Array> intermediate(TensorId) const = 0;
  virtual const cpu::Executable* executable() const { return nullptr; }
  virtual int gpu() const { return -1; }
};

class Session {
public:
  explicit Session(const Program&, const SessionOptions& = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Program& program() const { return *plan_.program; } // normalised, sizes fixed
  const Plan& plan() const { return plan_; }
  const cpu::Executable* executable() const { return backend_->executable(); } // null on a GPU
  const Timing& timing() const { return timing_; }
  const std::vector<std::string>& notes() const { return notes_; } // what a user of a GPU should know
  std::int64_t arena_bytes() const { return memory_.bytes; }
  int gpu() const { return backend_->gpu(); } // which; -1: the CPU

  // Error(input) where an array is not what the program declares. Arrays may share memory with each other; what is read
  // is what was there before the call. Returns the dims of each output's results: smaller than the array's where they
  // are counted (expr/results.h); the rest of the array then holds nothing that means anything.
  std::vector<std::vector<std::int64_t>> run(const std::vector<Strided>& in, const std::vector<Strided>& out,
                                             const RunOptions& = {});

  // Of a GPU, after a run: seconds of each of so many runs without copies of inputs and outputs, by the GPU's own
  // clock.
  std::vector<double> device_seconds(int runs);

  // With `keep`: the value after the last run of a tensor between kernels, row-major; none for one inside a kernel.
  std::optional<Array> intermediate(TensorId) const;

private:
  void check(const Strided&, TensorId, const char* what) const;

  Timing timing_; // first: filled while the plan is made
  std::vector<std::string> notes_;
  Plan plan_;
  MemoryPlan memory_;
  bool kept_ = false;
  std::mutex turn_;
  std::unique_ptr<Backend> backend_;
};

} // namespace tilewright
