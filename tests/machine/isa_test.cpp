#include "machine/isa.h"

#include <gtest/gtest.h>

#include "support/error.h"

using namespace tilewright;

namespace {

// cpuid words of processors that exist, as far as they matter here.
constexpr std::uint32_t avx_fma_f16c_osxsave = (1u << 12) | (1u << 27) | (1u << 28) | (1u << 29);
constexpr std::uint32_t bmi_avx2 = (1u << 3) | (1u << 5) | (1u << 8);
constexpr std::uint32_t avx512 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30) | (1u << 31);
constexpr X86Leaves zen4{avx_fma_f16c_osxsave, bmi_avx2 | avx512, 1u << 11, 1u << 5, 0xe7};

TEST(Isa, FollowsCpuidAndTheOperatingSystem) {
  EXPECT_EQ(features_of(zen4), (CpuFeatures{Isa::avx512, true, true}));
  EXPECT_EQ(features_of({}), CpuFeatures{}) << "an old CPU";
  X86Leaves leaves = zen4;
  leaves.xcr0 = 0x07; // the system saves ymm, not zmm: extensions of 512 bits are out of reach too
  EXPECT_EQ(features_of(leaves), (CpuFeatures{Isa::avx2, false, false}));
  for (std::uint64_t partial : {0x27ull, 0x67ull, 0xc7ull, 0xa7ull}) {
    leaves.xcr0 = partial;
    EXPECT_EQ(features_of(leaves).isa, Isa::avx2) << partial;
  }
  leaves.xcr0 = 0x03; // not even ymm
  EXPECT_EQ(features_of(leaves).isa, Isa::base);
  leaves = zen4;
  leaves.xcr0 = 0;
  EXPECT_EQ(features_of(leaves).isa, Isa::base) << "no OSXSAVE";
}

TEST(Isa, EveryBitOfABundleCounts) {
  for (int bit = 0; bit < 32; bit++) {
    X86Leaves leaves = zen4;
    leaves.leaf1_ecx &= ~(1u << bit);
    EXPECT_EQ(features_of(leaves).isa, (avx_fma_f16c_osxsave >> bit & 1) ? Isa::base : Isa::avx512) << bit;
    leaves = zen4;
    leaves.leaf7_ebx &= ~(1u << bit);
    const Isa expected = (bmi_avx2 >> bit & 1) ? Isa::base : (avx512 >> bit & 1) ? Isa::avx2 : Isa::avx512;
    EXPECT_EQ(features_of(leaves).isa, expected) << bit;
  }
}

TEST(Isa, ExtensionsAreTheirOwnBits) {
  X86Leaves sapphire_rapids = zen4;
  sapphire_rapids.leaf7_edx = 1u << 22 | 1u << 24 | 1u << 25;
  EXPECT_FALSE(features_of(sapphire_rapids).tiles) << "the operating system does not save tiles";
  sapphire_rapids.xcr0 |= 3u << 17;
  EXPECT_EQ(features_of(sapphire_rapids), (CpuFeatures{Isa::avx512, true, true, true}));
  X86Leaves skylake_x = zen4;
  skylake_x.leaf7_ecx = skylake_x.leaf7_1_eax = 0;
  EXPECT_EQ(features_of(skylake_x), (CpuFeatures{Isa::avx512, false, false}));
  X86Leaves ice_lake = zen4;
  ice_lake.leaf7_1_eax = 0;
  EXPECT_EQ(features_of(ice_lake), (CpuFeatures{Isa::avx512, true, false}));
}

TEST(Isa, OfThisCpuAgreesWithTheCompilersRuntime) {
  EXPECT_EQ(cpu_features(), cpu_features());
  EXPECT_EQ(detect_isa(), cpu_features().isa);
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512bw = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  EXPECT_EQ(detect_isa(), avx512bw ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::base);
  EXPECT_EQ(cpu_features().vnni, avx512bw && __builtin_cpu_supports("avx512vnni"));
#elif defined(__aarch64__)
  EXPECT_EQ(detect_isa(), Isa::neon);
#endif
  EXPECT_FALSE(cpu_model().empty());
}

TEST(Isa, RunnableOnesEndInThePlainForm) {
  const std::vector<Isa> isas = runnable_isas();
  EXPECT_EQ(isas.front(), detect_isa());
  EXPECT_EQ(isas.back(), Isa::base);
  int runnable = 0;
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512, Isa::neon}) runnable += runs(isa);
  EXPECT_EQ(runnable, static_cast<int>(isas.size()));
  for (std::size_t i = 1; i < isas.size(); i++) EXPECT_GE(vector_bytes(isas[i - 1]), vector_bytes(isas[i]));
}

TEST(Isa, Names) {
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512, Isa::neon}) {
    EXPECT_EQ(isa_named(name_of(isa)), isa);
    if (runs(isa)) {
      EXPECT_EQ(parse_isa(name_of(isa)), isa);
    } else {
      EXPECT_THROW(parse_isa(name_of(isa)), Error);
    }
  }
  EXPECT_FALSE(isa_named("AVX2"));
  try {
    parse_isa("avx3");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::option);
    EXPECT_NE(std::string(error.what()).find("base"), std::string::npos) << "lists what this CPU runs";
  }
}

} // namespace
