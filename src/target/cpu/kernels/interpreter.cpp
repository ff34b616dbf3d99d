// The block-vector interpreter of one instruction set.
#include "target/cpu/kernels/table.h"
#include "target/cpu/kernels/vector_run_inl.h"

namespace tilewright::kernels::TW_ISA {

void run(const CodeView& code, const Frame& frame) { run_code(code, frame); }

} // namespace tilewright::kernels::TW_ISA
