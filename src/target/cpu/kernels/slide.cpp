// slide of one instruction set.
#include "target/cpu/kernels/slide_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void slide(const Slide& s) { slide_block(s); }

} // namespace tilewright::kernels::TW_ISA
