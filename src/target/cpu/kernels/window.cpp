// window of one instruction set.
#include "target/cpu/kernels/table.h"
#include "target/cpu/kernels/window_inl.h"

namespace tilewright::kernels::TW_ISA {

void window(const Window& w) { window_block(w); }

} // namespace tilewright::kernels::TW_ISA
