// Registers of a thread where four warps beside the others ask for copies. A block begins with the same number for every thread, a
// multiple of 8; from then on the roles only exchange what it began with. To ask for one more than that waits for ever:
//
//   256 threads that compute: 65536 / 384 = 168 each, 64512 in all = 256 * 240 + 128 * 24        (with 32 for those that copy: 65536)
#pragma once
#include <algorithm>

namespace tilewright {

struct RoleRegisters {
  int start, copying, computing;
};

// fragments: what computes keeps rows in registers, and what copies is a loop of one thread.
inline RoleRegisters role_registers(int threads, int resident, bool fragments, int core_registers) {
  const int all = threads + 128, start = std::min(core_registers / std::max(1, resident) / all / 8 * 8, 240), copying = fragments ? 24 : 40;
  return {start, copying, std::min((start * all - 128 * copying) / threads / 8 * 8, 240)};
}

}  // namespace tilewright
