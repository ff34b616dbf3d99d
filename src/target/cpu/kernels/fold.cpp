// fold of one instruction set.
#include "target/cpu/kernels/fold_chains_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void fold(const Fold& f) { fold_block(f); }

} // namespace tilewright::kernels::TW_ISA
