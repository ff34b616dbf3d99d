// A session: a plan with packed weights and memory, ready to run. Calls on one session take turns.
//
//   Session s(parse(text, "mlp.tw"), {.threads = 2});
//   s.run(inputs, outputs);                     // arrays of the caller, in the order of s.program().inputs and .outputs
#pragma once
#include <mutex>

#include "target/cpu/executor.h"

namespace tilewright {

struct SessionOptions {
  int threads = 0;                             // 0: physical cores
  std::string isa;                             // empty: the best that this CPU has
  Binding sizes;
  std::vector<std::string> without;            // passes of normal/ to leave out, by name
};

// Memory of the caller: any strides, in elements.
struct Strided {
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, strides;
  std::byte* data = nullptr;
};
Strided dense(const Array&);

struct Timing { double load = 0, normalise = 0, plan = 0, pack = 0; };          // seconds

class Session {
 public:
  explicit Session(Program, const SessionOptions& = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Program& program() const { return *plan_.program; }                      // normalised, sizes fixed
  const Plan& plan() const { return plan_; }
  const cpu::Executable& executable() const { return executable_; }
  const Timing& timing() const { return timing_; }
  std::int64_t arena_bytes() const { return memory_.bytes; }

  // Error(input) where an array is not what the program declares. kernel_seconds: if not null, filled with one a kernel.
  void run(const std::vector<Strided>& in, const std::vector<Strided>& out, std::vector<double>* kernel_seconds = nullptr,
           const std::atomic<bool>* cancelled = nullptr);

 private:
  void check(const Strided&, TensorId, const char* what) const;

  Plan plan_;
  cpu::Executable executable_;
  cpu::MemoryPlan memory_;
  Timing timing_;
  Pool pool_;
  std::mutex turn_;
  std::shared_ptr<cpu::Aligned> arena_, scratch_;
};

}  // namespace tilewright
