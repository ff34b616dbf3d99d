// The vector instruction set of the running CPU: what kernels may be chosen, decided once, here.
//
//   Isa isa = detect_isa();                       // avx512 on a Zen 4, avx2 on a Zen 3, neon on every 64-bit ARM
//   for (Isa i : runnable_isas()) ...             // {avx512, avx2, base}: best first, always ends in base
//
// A level is a bundle, so that a kernel file needs one set of compiler flags and one test at run time:
//
//   base     what the compiler may assume anyway (x86-64: SSE2; elsewhere: plain C++)
//   avx2     AVX2, FMA, F16C, BMI1, BMI2             -mavx2 -mfma -mf16c -mbmi -mbmi2      (Haswell, Zen)
//   avx512   avx2 and AVX-512 F, BW, CD, DQ, VL      -mavx512{f,bw,cd,dq,vl} and the above (Skylake-X, Zen 4)
//   neon     Advanced SIMD of ARMv8-A                none needed
//
// Not part of a bundle, asked for separately: avx512_vnni (int8 dot products), avx512_bf16 and amx (products of tiles). A bit of cpuid alone is
// not enough: the operating system must save the wide registers (XCR0), or the first instruction traps.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

enum class Isa : std::uint8_t { base, avx2, avx512, neon };

struct CpuFeatures {
  Isa isa = Isa::base;
  bool vnni = false; // AVX512_VNNI with 512-bit registers usable; on ARM the dot product extension
  bool bf16 = false; // AVX512_BF16; on ARM the BF16 extension
  bool tiles = false; // AMX with tiles of bf16 and of bytes, which the operating system lets this process use
  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

// The words of cpuid that decide, and the register state that the operating system saves (0 without OSXSAVE).
struct X86Leaves {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_1_eax = 0;
  std::uint64_t xcr0 = 0;
  std::uint32_t leaf7_edx = 0;
};
CpuFeatures features_of(const X86Leaves&); // pure, so that tests can play any processor

const CpuFeatures& cpu_features(); // of this CPU, read once
Isa detect_isa();                  // cpu_features().isa
bool runs(Isa);                    // whether this CPU can execute kernels of that level
std::vector<Isa> runnable_isas();  // best first

std::string_view name_of(Isa); // "base", "avx2", "avx512", "neon"
std::optional<Isa> isa_named(std::string_view);
Isa parse_isa(std::string_view); // Error(option) that lists the names; also if this CPU cannot run it
int vector_bytes(Isa);           // 16, 32, 64, 16
int vector_registers(Isa);       // 16, 16, 32, 32
std::string cpu_model();         // "AMD EPYC 9654", or "unknown"

} // namespace tilewright
