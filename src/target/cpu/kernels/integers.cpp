// contract, pack_b and window over integers of eight bits, of one instruction set.
#include "target/cpu/kernels/integer_window_inl.h"
#if defined(__AMX_INT8__)
#include "target/cpu/kernels/integer_tiles_inl.h"
#endif
#include "target/cpu/kernels/table.h"

namespace tilewright::kernels::TW_ISA {

void contract_integers(const Contract& c) {
#if defined(__AMX_INT8__)
  if (fills_tiles(c)) return contract_byte_tiles(c);
#endif
  contract_integer_block(c);
}
void pack_integers(const PackB& p) { pack_integer_block(p); }
std::int64_t integer_panel(std::int64_t depth, DType b) { return packed_panel(depth, b); }
void window_integers(const Window& w) { window_integer_block(w); }

} // namespace tilewright::kernels::TW_ISA
