// The leaves for AVX-512 (F, BW, CD, DQ, VL): Skylake-X, Ice Lake, Zen 4 and later. Compiled with flags of its own:
// cmake/isa.cmake.
#define TW_ISA avx512
#include "target/cpu/kernels/table_inl.h"
