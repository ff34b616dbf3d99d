// CUDA C++ as it is printed becomes C++ for the host: each assembly statement a call of the function that has its name in prelude.h.
//
//   asm volatile("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));      ->      ptx_cvt_rn_f16_f32(r.bits, x);
#pragma once
#include <string>

namespace tilewright::emulated {

std::string without_assembly(const std::string& text);
// A kernel in a namespace of its own, with a function that takes its arguments' addresses (tw_run_<number>), one that says how large they
// are, and the number of blocks in a cluster.
std::string host_kernel(const std::string& text, const std::string& name, std::size_t number);

}  // namespace tilewright::emulated
