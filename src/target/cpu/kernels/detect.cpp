// detect of one instruction set.
#include "target/cpu/kernels/detect_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void detect(const Detect& d) { detect_block(d); }

} // namespace tilewright::kernels::TW_ISA
