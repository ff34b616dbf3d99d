// A plan as a table: for each kernel what is folded into it, its tiles, its bytes, and the time that the model
// predicts.
//
//   #  kernel  statements  schedule             tiles  loaded   stored   compulsory  above  predicted  bound
//   0  conv1            3  tile y 14, tile f 32     8  1.2 MiB  0.8 MiB     1.4 MiB   +43%     120 us  fma
#pragma once
#include "target/cpu/executor.h"

namespace tilewright {

struct PlanTotals {
  std::int64_t loaded = 0, stored = 0, compulsory = 0, multiply_adds = 0;
  std::size_t statements = 0, opaque = 0;
  double seconds = 0;
};
PlanTotals totals(const Plan&);

// How much more a kernel moves than each of its tensors once; rounded to a tenth.
double percent_above(const Cost&);

std::string plan_headline(const Plan&); // "66 kernels of 152 statements for AMD EPYC (2 threads, avx512): ..."

// measured: seconds a kernel, shown beside the prediction; empty: none. At most `most` rows, the slowest kept.
struct PlanTable {
  std::vector<double> measured;
  std::size_t most = SIZE_MAX;
};
std::string plan_table(const Plan&, const PlanTable& = {});

// What was looked at and not chosen for a kernel's groups, with its numbers: "A + B: 1.2 MiB, apart 1.1 MiB: saves nothing".
std::vector<std::string> not_chosen(const Plan&, const PlannedKernel&);
std::string price_text(const Plan&, std::int64_t price); // "1.2 MiB" or "12.3 us"

std::string label_of(const Plan&,
                     const PlannedKernel&); // the definition or node that a kernel's last reduction is from

} // namespace tilewright
