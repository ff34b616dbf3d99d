// Plans that are given back: JSON as `tilewright plan -o` writes it, perhaps edited by hand.
//
//   const PlanFile file = read_plan_file("plan.json");      // made for 2 threads and avx2, 65 kernels
//   plan = make_plan(...);                                  // for the same program
//   apply(file, plan, machine);                             // the file's steps instead of our own; costs are computed anew
//
// Of a kernel its statements and its schedule are read: {"axis": "y", "how": "tile", "size": 14}, outermost loop first. Kernels
// may hold other statements than in the plan that is made here: each statement stands in one, and each is a region.
// What is not legal is Error(option), with the place in the file and the reason. Everything else in the file (costs, leaves,
// refusals) is there to be read by people.
#pragma once
#include <string>

#include "plan/plan.h"

namespace tilewright {

struct PlanFile {
  struct Step {
    std::string axis, place;             // place: "plan.json#/kernels/3/schedule/0"
    AxisStep::How how = AxisStep::How::tile;
    std::int64_t size = 1;
  };
  struct Kernel {
    std::string name, place;
    bool opaque = false;
    std::vector<std::string> statements; // the tensors that they write
    std::vector<Step> steps;
  };
  std::string path, program, machine, isa;
  int threads = 1;
  std::vector<Kernel> kernels;
};

PlanFile read_plan_file(const std::string& path);
PlanFile parse_plan(std::string_view json, const std::string& path);
void apply(const PlanFile&, Plan&, const Machine&);

}  // namespace tilewright
