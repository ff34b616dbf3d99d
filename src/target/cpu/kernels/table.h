// What the files of one instruction set give each other. TW_ISA is its name and its namespace.
#pragma once
#include "target/cpu/kernels/kernels.h"

namespace tilewright::kernels::TW_ISA {

void contract(const Contract&);
void pack_b(const PackB&);
void window(const Window&);
void fold(const Fold&);
void contract_integers(const Contract&);
void pack_integers(const PackB&);
std::int64_t integer_panel(std::int64_t depth, DType b);
void window_integers(const Window&);
void contract_split(const Contract&);
void pack_split(const PackB&);
std::int64_t split_panel(std::int64_t depth, DType b);
void slide(const Slide&);
void run(const CodeView&, const Frame&);
void copy(const Copy&);
void fill(const Fill&);
void convert(const Convert&);
void detect(const Detect&);

extern const Kernels table;

} // namespace tilewright::kernels::TW_ISA
