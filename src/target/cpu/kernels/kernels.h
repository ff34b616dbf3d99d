// The table of leaves of one instruction set, and the run-time choice among those that were compiled in. Every table
// has the same functions, written once with Highway and compiled once an instruction set (isa_*.cpp); what differs is
// the register tile.
//
//   const Kernels& leaf = kernels_for(detect_isa());
//   std::vector<float> packed(packed_elements(leaf, n, k, taps));
//   leaf.pack_b({.n = n, .k = k, .src = w, .b_k = n, .b_n = 1, .dst = packed.data()});
//   leaf.contract({.m = m, .n = n, .k = k, .a = x, .a_rows = {k}, .b = packed.data(), .c = y, .c_rows = {n}});
//
// The same table and arguments give the same bits. Tables differ in the last bits: base has no fused multiply-add, and
// sums over taps are rounded after each product there.
#pragma once
#include "machine/isa.h"
#include "target/cpu/kernels/leaves.h"
#include "target/cpu/kernels/vector_program.h"
#include <vector>

namespace tilewright::kernels {

struct Kernels {
  Isa isa;
  int lanes;  // floats of a vector
  int mr, nr; // register tile of contract: rows, and columns of a packed panel. Multiples of them make good blocks.
  void (*contract)(const Contract&);
  void (*pack_b)(const PackB&);
  void (*window)(const Window&);
  void (*fold)(const Fold&);
  // Over integers of eight bits; only the outermost of packed bytes is the caller's business.
  void (*contract_integers)(const Contract&);
  void (*pack_integers)(const PackB&);
  std::int64_t (*integer_panel)(std::int64_t depth, DType b); // bytes of nr columns of taps * k = depth elements
  void (*window_integers)(const Window&);
  void (*slide)(const Slide&);                // takes what slides(taps_x, column_step) allows
  void (*run)(const CodeView&, const Frame&); // called through run(leaf, code, frame)
  void (*copy)(const Copy&);
  void (*fill)(const Fill&);
  void (*convert)(const Convert&);
  void (*detect)(const Detect&);
  // The same as contract on a unit that multiplies tiles of bf16, floats being sums of them (split_contract_inl.h): as exact, and
  // faster where rows, columns and products fill its tiles. Null where the CPU has none.
  void (*contract_split)(const Contract&) = nullptr;
  void (*pack_split)(const PackB&) = nullptr;                  // dst_type is src_type
  std::int64_t (*split_panel)(std::int64_t depth, DType b) = nullptr; // bytes of nr columns of taps * k = depth elements
};

// Which tables there are is decided by machine/isa.h (what this CPU runs) and by the build (what was compiled).
bool available(Isa);
std::vector<Isa> available_isas(); // best first, always ends in base
const Kernels& kernels_for(Isa);   // which must be available; with VNNI where this CPU has it
std::vector<const Kernels*> available_tables(); // those of all of them, and the ones without VNNI

// Elements of the buffer that pack_b fills.
inline std::int64_t packed_elements(const Kernels& leaf, std::int64_t n, std::int64_t k, std::int64_t taps = 1) {
  return (n + leaf.nr - 1) / leaf.nr * leaf.nr * k * taps;
}

} // namespace tilewright::kernels
