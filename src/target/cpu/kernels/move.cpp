// copy, fill and convert of one instruction set.
#include "target/cpu/kernels/copy_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void copy(const Copy& c) { copy_block(c); }
void fill(const Fill& f) { fill_block(f); }
void convert(const Convert& c) { convert_block(c); }

} // namespace tilewright::kernels::TW_ISA
