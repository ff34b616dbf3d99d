// The last include of every isa_*.cpp: the table of one instruction set.
#pragma once
#include "target/cpu/kernels/contract_inl.h"
#include "target/cpu/kernels/copy_inl.h"
#include "target/cpu/kernels/pack_inl.h"
#include "target/cpu/kernels/vector_run_inl.h"
#include "target/cpu/kernels/window_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {

extern const Kernels table;
const Kernels table = {.isa = Isa::TW_ISA,
                       .lanes = lanes,
                       .mr = mr,
                       .nr = nr,
                       .contract = contract,
                       .pack_b = pack_b,
                       .window = window,
                       .run = run_code,
                       .copy = copy,
                       .fill = fill,
                       .convert = convert};

} // namespace TW_ISA
} // namespace tilewright::kernels
