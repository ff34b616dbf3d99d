// The run-time compiler (NVRTC), found at run time: $TILEWRIGHT_NVRTC, then the loader's own search, $CUDA_HOME/lib64,
// /usr/local/cuda/lib64. Nothing here links against CUDA, and nothing needs a GPU.
//
//   Compiled k = compile(source, "matmul", "sm_90a");       a cubin; k.registers, k.spills: what the assembler said
#pragma once
#include <string>
#include <string_view>

#include "support/error.h"

namespace tilewright::cuda {

// A kernel as machine code, and what the compiler said about it.
struct Compiled {
  std::string code; // a cubin for one architecture
  std::string log;
  int registers = -1, stack = -1, spills = -1; // a thread; bytes for the last two; -1: not said
};
bool compiler_found();
std::string compiler_version(); // "13.0"
std::string compiler_options(); // beside the architecture: what a cached kernel depends on
Compiled compile(std::string_view source, const std::string& name,
                 const std::string& arch); // Error(internal) if it does not compile

} // namespace tilewright::cuda
