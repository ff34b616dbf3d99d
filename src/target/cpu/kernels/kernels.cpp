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
#endif
#ifdef TILEWRIGHT_KERNELS_NEON
namespace neon {
extern const Kernels table;
}
#endif

namespace {

const Kernels* compiled(Isa isa) {
  switch (isa) {
  case Isa::base: return &base::table;
#ifdef TILEWRIGHT_KERNELS_X86
  case Isa::avx2: return &avx2::table;
  case Isa::avx512: return &avx512::table;
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

void run(const Kernels& leaf, const VectorCode& code, const Frame& frame) {
  leaf.run({code.instructions.data(), code.setup, code.begin, code.body, code.end, code.block, code.lanes_reduced},
           frame);
}

} // namespace tilewright::kernels
