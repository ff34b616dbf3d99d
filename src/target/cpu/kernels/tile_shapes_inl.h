// What the unit that multiplies tiles (AMX) is told before its first product: eight tiles of 16 rows of 64 bytes.
#pragma once
#include <immintrin.h>

#include "target/cpu/kernels/simd_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t columns[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
