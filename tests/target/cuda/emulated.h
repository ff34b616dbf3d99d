// Printed kernels run on the host: their text is translated (emulator/translate.h), compiled by the system's compiler, many kernels at
// once, and run by a machine that looks at every access (emulator/machine.h).
//
//   const Plan plan = make_plan(program, machine_named("h200"), {});
//   emulated::Kernels kernels;
//   emulated::Planned planned(plan, kernels);                     // prints; several plans may share `kernels`
//   kernels.compile();                                            // a second or so for some twenty kernels
//   Values got = planned.run(given);                              // every tensor that leaves a kernel, row-major; `given`: row-major too
//   EXPECT_EQ(planned.problem, "");                               // what a sanitizer would say, with the kernel's name
//
// A kernel alone: index = kernels.add(source); after compile(): emulated::run(kernels.entry(index), addresses of arguments, grid).
// What has no printed form is computed by the evaluator, and counted in `planned.elsewhere`.
#pragma once
#include <string>
#include <vector>

#include "expr/evaluate.h"
#include "plan/plan.h"
#include "target/cuda/emulator/machine.h"
#include "target/cuda/build.h"
#include "target/cuda/source.h"

namespace tilewright::emulated {

class Kernels {
 public:
  Kernels();
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  std::size_t add(const cuda::Source&);        // the same text twice is one kernel
  void compile();                              // what was added since the last time; throws with the compiler's words
  void (*entry(std::size_t) const)(void**);

 private:
  struct State;
  State* state_;
};

class Planned {
 public:
  Planned(const Plan&, Kernels&);              // both outlive it
  Values run(const Values& given);
  // One kernel on values of everything that it reads (the evaluator's), in so many blocks (0: all): how far what they have written is
  // from the values of what it makes.
  double apart(std::size_t kernel, const Values& values, std::int64_t blocks);
  std::string problem;                         // of the last run
  int elsewhere = 0;
  std::vector<std::string> why;                // one a kernel that has none, or not that of its schedule
  std::vector<Schedule> schedules;             // that were printed
  std::vector<cuda::Source> sources;           // one a kernel; without text: computed by the evaluator
  std::vector<std::shared_ptr<const cuda::Tables>> tables;      // one a kernel, of its loop through slots; null: it has none

 private:
  std::vector<std::vector<std::size_t>> ahead_;
  const Plan& plan_;
  Kernels& kernels_;
  std::vector<std::size_t> index_;
};

}  // namespace tilewright::emulated
