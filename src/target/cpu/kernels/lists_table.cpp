#include "target/cpu/kernels/lists.h"

#include "support/error.h"

namespace tilewright::kernels {

namespace base {
void lists(const Lists&);
}
#ifdef TILEWRIGHT_KERNELS_X86
namespace avx2 {
void lists(const Lists&);
}
namespace avx512 {
void lists(const Lists&);
}
#endif
#ifdef TILEWRIGHT_KERNELS_NEON
namespace neon {
void lists(const Lists&);
}
#endif

ListsLeaf lists_for(const Kernels& k) {
  switch (k.isa) {
#ifdef TILEWRIGHT_KERNELS_X86
  case Isa::avx2: return avx2::lists;
  case Isa::avx512: return avx512::lists;
#endif
#ifdef TILEWRIGHT_KERNELS_NEON
  case Isa::neon: return neon::lists;
#endif
  default: return base::lists;
  }
}

} // namespace tilewright::kernels
