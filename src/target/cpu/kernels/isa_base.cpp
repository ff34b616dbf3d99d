// The leaves for no vectors but those that the compiler makes of plain loops: runs everywhere, and is what the others
// are compared with. Compiled with flags of its own: cmake/isa.cmake.
#define HWY_COMPILE_ONLY_SCALAR
#define TW_ISA base
#include "target/cpu/kernels/table_inl.h"
