// The leaves for Advanced SIMD, which every 64-bit ARM has. Compiled with flags of its own: cmake/isa.cmake.
#define TOOLCHAIN_MISS_SYS_AUXV_H // keeps Highway from asking for the optional crypto instructions
#define TW_ISA neon
#include "target/cpu/kernels/table_inl.h"
