// The table of one instruction set.
#include "target/cpu/kernels/table.h"
#include "target/cpu/kernels/tile_inl.h"

namespace tilewright::kernels::TW_ISA {

const Kernels table = {.isa = Isa::TW_ISA,
                       .lanes = lanes,
                       .mr = mr,
                       .nr = nr,
                       .contract = contract,
                       .pack_b = pack_b,
                       .window = window,
                       .fold = fold,
                       .contract_integers = contract_integers,
                       .pack_integers = pack_integers,
                       .integer_panel = integer_panel,
                       .window_integers = window_integers,
                       .slide = slide,
                       .run = run,
                       .copy = copy,
                       .fill = fill,
                       .convert = convert,
                       .detect = detect};

} // namespace tilewright::kernels::TW_ISA
