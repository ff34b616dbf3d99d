// The kernels of a plan as machine code for one architecture. Needs a compiler and no GPU. Equal regions share one
// kernel; what is new is scheduled, printed and compiled on several threads, what is in the cache is read.
//
//   64 planned kernels  ->  22 distinct ones, 20 of them cached;  kernel 3 runs code 1 on its own tensors
//
// A region whose schedule cannot be printed gets the next one, in the end the plain form. What even that cannot say,
// and opaque nodes, have no code: they run on the CPU, and `why` says so.
#pragma once
#include <array>
#include <functional>
#include <memory>

#include "plan/plan.h"
#include "target/cuda/compiler.h"
#include "target/cuda/detector.h"
#include "target/cuda/source.h"

namespace tilewright::cuda {

// What a kernel with a loop through slots reads, and the kernels that make it. Kernels whose operands have equal patterns
// share them: the first one makes them.
struct Tables {
  enum Part { slot, count, tile, marks, parts, all };
  TensorId source = -1;
  std::array<std::int64_t, all> bytes{};
  std::vector<Ahead> kernels;
  std::vector<std::shared_ptr<const Compiled>> code; // one a kernel
};

struct BuiltKernel {
  std::shared_ptr<const Compiled> code; // null: runs on the CPU
  Source source;                        // its arguments are tensors of this kernel; the text is kept once a code
  std::shared_ptr<const Tables> tables; // null: none. An argument behind all tensors of the program is one of their parts
  Schedule schedule;                    // of the blocks
  double predicted = 0;                 // seconds; 0: not priced
  std::string why;                      // there is no code, or not that of the first schedule
};

// What a kernel is before it is compiled: the first of its schedules that can be printed. `why`: not the planned one, or none.
bool print_kernel(const Plan&, const PlannedKernel&, BuiltKernel& out);

// Joined kernels that cannot be printed are taken apart again: as single ones they can.
Plan printable(const Plan&);

struct Built {
  std::vector<BuiltKernel> kernels; // one a planned kernel
  std::size_t distinct = 0, cached = 0;
  double seconds = 0;
  std::string warning; // of the cache; empty: none
};

struct BuildOptions {
  int threads = 1;
  std::string cache;   // folder; empty: none
  bool compile = true; // else what is not in the cache is an error
};
Built build(const Plan&, const std::string& arch, const BuildOptions&);

} // namespace tilewright::cuda
