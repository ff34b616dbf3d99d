#include "target/cpu/kernels/kernels.h"

#include "support/error.h"

namespace tilewright::kernels {

// The tables of the isa_*.cpp files that cmake/isa.cmake compiled for this architecture.
namespace base {
extern const Kernels table;
}
#ifdef TILEWRIGHT_KERNELS_X86
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
// Only the leaves over integers differ.
namespace avx512vnni {
void contract_integers(const Contract&);
void pack_integers(const PackB&);
std::int64_t integer_panel(std::int64_t depth, DType b);
void window_integers(const Window&);
} // namespace avx512vnni
namespace avx512amx {
void contract_integers(const Contract&);
void pack_integers(const PackB&);
std::int64_t integer_panel(std::int64_t depth, DType b);
void window_integers(const Window&);
void contract_split(const Contract&);
void pack_split(const PackB&);
std::int64_t split_panel(std::int64_t depth, DType b);
} // namespace avx512amx
#endif
#ifdef TILEWRIGHT_KERNELS_NEON
namespace neon {
extern const Kernels table;
}
#endif

namespace {

#ifdef TILEWRIGHT_KERNELS_X86
Kernels with_tiles(Kernels t) {
  t.contract_integers = avx512amx::contract_integers;
  t.pack_integers = avx512amx::pack_integers;
  t.integer_panel = avx512amx::integer_panel;
  t.window_integers = avx512amx::window_integers;
  t.contract_split = avx512amx::contract_split;
  t.pack_split = avx512amx::pack_split;
  t.split_panel = avx512amx::split_panel;
  return t;
}
const Kernels& vnni_table() {
  static const Kernels table = [] {
    Kernels t = avx512::table;
    t.contract_integers = avx512vnni::contract_integers;
    t.pack_integers = avx512vnni::pack_integers;
    t.integer_panel = avx512vnni::integer_panel;
    t.window_integers = avx512vnni::window_integers;
    return t;
  }();
  return table;
}
// With all that this CPU has.
const Kernels& full_table() {
  static const Kernels table = with_tiles(avx512::table);
  return cpu_features().tiles ? table : cpu_features().vnni ? vnni_table() : avx512::table;
}
#endif

const Kernels* compiled(Isa isa) {
  switch (isa) {
  case Isa::base: return &base::table;
#ifdef TILEWRIGHT_KERNELS_X86
  case Isa::avx2: return &avx2::table;
  case Isa::avx512: return &full_table();
#endif
#ifdef TILEWRIGHT_KERNELS_NEON
  case Isa::neon: return &neon::table;
#endif
  default: return nullptr;
  }
}

} // namespace

bool available(Isa isa) { return compiled(isa) && runs(isa); }

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (Isa isa : runnable_isas())
    if (compiled(isa)) isas.push_back(isa);
  return isas;
}

const Kernels& kernels_for(Isa isa) {
  TW_ASSERT(available(isa));
  return *compiled(isa);
}

std::vector<const Kernels*> available_tables() {
  std::vector<const Kernels*> tables;
  for (Isa isa : available_isas()) {
    tables.push_back(&kernels_for(isa));
#ifdef TILEWRIGHT_KERNELS_X86
    if (isa != Isa::avx512) continue;
    if (cpu_features().tiles && cpu_features().vnni) tables.push_back(&vnni_table());
    if (tables.back() != &avx512::table) tables.push_back(&avx512::table);
#endif
  }
  return tables;
}

void run(const Kernels& leaf, const VectorCode& code, const Frame& frame) {
  leaf.run({code.instructions.data(), code.setup, code.begin, code.body, code.end, code.block, code.lanes_reduced},
           frame);
}

} // namespace tilewright::kernels
