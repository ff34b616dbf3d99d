#include "machine/isa.h"

#include <fstream>

#include "support/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tilewright {
namespace {

bool all_of(std::uint64_t word, std::uint64_t bits) { return (word & bits) == bits; }

constexpr std::uint32_t bit(int n) { return 1u << n; }

#if defined(__x86_64__)
X86Leaves read_leaves() {
  X86Leaves leaves;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) leaves.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    leaves.leaf7_ebx = b;
    leaves.leaf7_ecx = c;
    leaves.leaf7_edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) leaves.leaf7_1_eax = a;
  }
  if (leaves.leaf1_ecx & bit(27)) { // OSXSAVE: without it xgetbv itself traps
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    leaves.xcr0 = (static_cast<std::uint64_t>(high) << 32) | low;
  }
  return leaves;
}
#endif

#if defined(__x86_64__)
// Linux keeps the tiles' registers of a process's threads only once it has asked.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr int request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}
#endif

CpuFeatures read_features() {
#if defined(__x86_64__)
  CpuFeatures features = features_of(read_leaves());
  features.tiles = features.tiles && may_use_tiles();
  return features;
#elif defined(__aarch64__)
  CpuFeatures features{Isa::neon, false, false, false};
#if defined(__linux__)
  features.vnni = getauxval(AT_HWCAP) & (1ul << 20);  // HWCAP_ASIMDDP
  features.bf16 = getauxval(AT_HWCAP2) & (1ul << 14); // HWCAP2_BF16
#endif
  return features;
#else
  return {};
#endif
}

} // namespace

CpuFeatures features_of(const X86Leaves& leaves) {
  constexpr std::uint32_t fma_osxsave_avx_f16c = bit(12) | bit(27) | bit(28) | bit(29);
  constexpr std::uint32_t bmi1_avx2_bmi2 = bit(3) | bit(5) | bit(8);
  constexpr std::uint32_t f_dq_cd_bw_vl = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);
  constexpr std::uint64_t ymm_state = 0x06, zmm_state = 0xe6; // SSE, AVX; and opmask, both halves of the zmm file
  CpuFeatures features;
  if (!all_of(leaves.leaf1_ecx, fma_osxsave_avx_f16c) || !all_of(leaves.leaf7_ebx, bmi1_avx2_bmi2) ||
      !all_of(leaves.xcr0, ymm_state))
    return features;
  features.isa = Isa::avx2;
  if (!all_of(leaves.leaf7_ebx, f_dq_cd_bw_vl) || !all_of(leaves.xcr0, zmm_state)) return features;
  features.isa = Isa::avx512;
  features.vnni = leaves.leaf7_ecx & bit(11);
  features.bf16 = leaves.leaf7_1_eax & bit(5);
  constexpr std::uint32_t amx_bf16_tile_int8 = bit(22) | bit(24) | bit(25);
  constexpr std::uint64_t tile_state = 0x60000;
  features.tiles = all_of(leaves.leaf7_edx, amx_bf16_tile_int8) && all_of(leaves.xcr0, tile_state) && features.vnni;
  return features;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = read_features();
  return features;
}

Isa detect_isa() { return cpu_features().isa; }

std::vector<Isa> runnable_isas() {
  switch (detect_isa()) {
  case Isa::avx512: return {Isa::avx512, Isa::avx2, Isa::base};
  case Isa::avx2: return {Isa::avx2, Isa::base};
  case Isa::neon: return {Isa::neon, Isa::base};
  case Isa::base: break;
  }
  return {Isa::base};
}

bool runs(Isa isa) {
  for (Isa i : runnable_isas())
    if (i == isa) return true;
  return false;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
  case Isa::base: return "base";
  case Isa::avx2: return "avx2";
  case Isa::avx512: return "avx512";
  case Isa::neon: return "neon";
  }
  return "base";
}

std::optional<Isa> isa_named(std::string_view name) {
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512, Isa::neon})
    if (name == name_of(isa)) return isa;
  return std::nullopt;
}

Isa parse_isa(std::string_view name) {
  std::string can;
  for (Isa isa : runnable_isas()) can += (can.empty() ? "" : ", ") + std::string(name_of(isa));
  const std::optional<Isa> isa = isa_named(name);
  if (!isa)
    throw Error(Code::option, "", "unknown instruction set '" + std::string(name) + "'", "this CPU runs " + can);
  if (!runs(*isa))
    throw Error(Code::device, "", "this CPU does not run " + std::string(name) + " kernels", "this CPU runs " + can);
  return *isa;
}

int vector_bytes(Isa isa) { return isa == Isa::avx512 ? 64 : isa == Isa::avx2 ? 32 : 16; }

int vector_registers(Isa isa) { return isa == Isa::avx512 || isa == Isa::neon ? 32 : 16; }

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const std::size_t from = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (from == std::string::npos) continue;
    const std::string value = line.substr(from, line.find_last_not_of(" \t") - from + 1);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value; // ARM has no names, only numbers
    if (line.starts_with("CPU part")) part = value;
  }
  return implementer.empty() ? "unknown" : "ARM " + implementer + " " + part;
}

} // namespace tilewright
