// The leaves for AVX2 with FMA and F16C: Haswell, Zen and later. Compiled with flags of its own: cmake/isa.cmake.
#define TW_ISA avx2
#include "target/cpu/kernels/table_inl.h"
