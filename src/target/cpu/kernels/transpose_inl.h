// The 4 x 4 transpose that copy and pack_b are made of: in registers for elements of 4 bytes.
#pragma once
#include "target/cpu/kernels/simd_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// dst[c][r] = src[r][c]
template <class T> TW_INLINE void transpose_4x4(const T* src, std::int64_t src_row, T* dst, std::int64_t dst_row) {
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) dst[c * dst_row + r] = src[r * src_row + c];
}
#if HWY_TARGET != HWY_SCALAR
[[maybe_unused]] TW_INLINE void transpose_4x4(const std::uint32_t* src, std::int64_t src_row, std::uint32_t* dst,
                                              std::int64_t dst_row) {
  const hn::Full128<std::uint32_t> d;
  const hn::Full128<std::uint64_t> d2;
  const auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + src_row);
  const auto r2 = hn::LoadU(d, src + 2 * src_row), r3 = hn::LoadU(d, src + 3 * src_row);
  const auto a = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3));
  const auto e = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1)), f = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a, b)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a, b)), d, dst + dst_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, e, f)), d, dst + 2 * dst_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, e, f)), d, dst + 3 * dst_row);
}
#endif

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
