// The register tile of contract on this instruction set: accumulators, one row of B and a broadcast must fit in the
// registers (32, or 16 on AVX2). A panel of B is nr columns.
#pragma once
#include "target/cpu/kernels/simd_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

constexpr int mr = HWY_TARGET == HWY_AVX3 ? 14 : HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON ? 6 : 4;
constexpr int panel_vectors = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 ? 2 : 4;
constexpr int nr = panel_vectors * lanes;

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
