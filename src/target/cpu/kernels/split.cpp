// contract and pack_b on the unit that multiplies tiles of bf16, of one instruction set.
#include "target/cpu/kernels/split_contract_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void contract_split(const Contract& c) { contract_split_block(c); }
void pack_split(const PackB& p) { pack_split_block(p); }
std::int64_t split_panel(std::int64_t depth, DType b) { return bytes_of_split_panel(depth, b); }

} // namespace tilewright::kernels::TW_ISA
