// contract and pack_b of one instruction set: compiled once for each (cmake/isa.cmake), as are window.cpp, move.cpp,
// interpreter.cpp and table.cpp.
#include "target/cpu/kernels/contract_inl.h"
#include "target/cpu/kernels/pack_inl.h"
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void contract(const Contract& c) { contract_block(c); }
void pack_b(const PackB& p) { pack_block(p); }

} // namespace tilewright::kernels::TW_ISA
