// What a printed kernel is compiled with on the host: CUDA's words, and a function for each PTX instruction that translate.cpp leaves a
// call of. What one thread does alone is done here; what threads do together is asked of the machine (machine.h). The target's own
// primitives follow behind this header, as they are printed.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "instructions.h"

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __restrict__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __CUDA_ARCH__ 900
#define TW_INLINE static inline __attribute__((always_inline))

template <class T> TW_INLINE T* tw_aligned(const void* p) {
  tw_align(p, alignof(T));
  return static_cast<T*>(const_cast<void*>(p));
}
struct tw_index { unsigned x; };
#define threadIdx (tw_index{tw_thread()})
#define blockIdx (tw_index{tw_block()})
#define blockDim (tw_index{tw_threads()})
#define gridDim (tw_index{tw_blocks()})

TW_INLINE void __syncthreads() { tw_meet(0, 0); }
TW_INLINE void __syncwarp() { tw_together(32, 0xffffffffu, +[](void* const*, unsigned) {}, nullptr); }
TW_INLINE float __int_as_float(int x) { float r; memcpy(&r, &x, 4); return r; }
TW_INLINE int __float_as_int(float x) { int r; memcpy(&r, &x, 4); return r; }
TW_INLINE double __longlong_as_double(long long x) { double r; memcpy(&r, &x, 8); return r; }
TW_INLINE unsigned __cvta_generic_to_shared(const void* p) { return tw_shared_address(p); }
TW_INLINE int min(int a, int b) { return b < a ? b : a; }
TW_INLINE unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
TW_INLINE int max(int a, int b) { return a < b ? b : a; }
TW_INLINE unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
TW_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
  return c;
}

template <class T> struct tw_exchange { T in, out; int from; };
template <class T> TW_INLINE T tw_shuffle(unsigned mask, T x, int from) {
  tw_exchange<T> mine{x, x, from};
  tw_together(32, mask, +[](void* const* lane, unsigned m) {
    for (int l = 0; l < 32; ++l)
      if (m >> l & 1) {
        auto* to = static_cast<tw_exchange<T>*>(lane[l]);
        if (to->from >= 0 && to->from < 32 && (m >> to->from & 1)) to->out = static_cast<const tw_exchange<T>*>(lane[to->from])->in;
      }
  }, &mine);
  return mine.out;
}
template <class T> TW_INLINE T __shfl_xor_sync(unsigned mask, T x, int other) { return tw_shuffle(mask, x, int(tw_thread() % 32) ^ other); }
template <class T> TW_INLINE T __shfl_sync(unsigned mask, T x, int lane) { return tw_shuffle(mask, x, lane); }
TW_INLINE unsigned __ballot_sync(unsigned mask, bool x) {
  unsigned mine = x;
  tw_together(32, mask, +[](void* const* lane, unsigned m) {
    unsigned all = 0;
    for (int l = 0; l < 32; ++l)
      if (m >> l & 1) all |= *static_cast<const unsigned*>(lane[l]) << l;
    for (int l = 0; l < 32; ++l)
      if (m >> l & 1) *static_cast<unsigned*>(lane[l]) = all;
  }, &mine);
  return mine;
}
TW_INLINE bool __any_sync(unsigned mask, bool x) { return __ballot_sync(mask, x) != 0; }
TW_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }

// ---- numbers

TW_INLINE float tw_f16(unsigned short bits) { _Float16 h; memcpy(&h, &bits, 2); return float(h); }
TW_INLINE unsigned short tw_to_f16(float x) { const _Float16 h = _Float16(x); unsigned short r; memcpy(&r, &h, 2); return r; }
TW_INLINE float tw_bf16(unsigned short bits) { return __int_as_float(int(unsigned(bits) << 16)); }
TW_INLINE unsigned short tw_to_bf16(float x) {
  const unsigned b = unsigned(__float_as_int(x));
  return x != x ? 0x7fff : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
template <class T> TW_INLINE T tw_saturated(float x, float low, float high) { return x != x ? T(0) : T(x < low ? low : x > high ? high : x); }

TW_INLINE void ptx_griddepcontrol_wait() {}
TW_INLINE void ptx_griddepcontrol_launch_dependents() {}
TW_INLINE void ptx_cvt_f32_f16(float& r, unsigned short x) { r = tw_f16(x); }
TW_INLINE void ptx_cvt_rn_f16_f32(unsigned short& r, float x) { r = tw_to_f16(x); }
TW_INLINE void ptx_cvt_rn_bf16_f32(unsigned short& r, float x) { r = tw_to_bf16(x); }
TW_INLINE void ptx_cvt_rn_f16x2_f32(unsigned& r, float high, float low) { r = unsigned(tw_to_f16(high)) << 16 | tw_to_f16(low); }
TW_INLINE void ptx_cvt_rn_bf16x2_f32(unsigned& r, float high, float low) { r = unsigned(tw_to_bf16(high)) << 16 | tw_to_bf16(low); }
TW_INLINE void ptx_cvt_rzi_s8_f32(int& r, float x) { r = tw_saturated<signed char>(x, -128.0f, 127.0f); }
TW_INLINE void ptx_cvt_rzi_u8_f32(int& r, float x) { r = tw_saturated<unsigned char>(x, 0.0f, 255.0f); }
TW_INLINE void ptx_cvt_rna_tf32_f32(unsigned& r, float x) { r = (unsigned(__float_as_int(x)) + 0x1000u) & ~0x1fffu; }
TW_INLINE void ptx_max_NaN_f32(float& r, float a, float b) { r = a != a ? a : b != b ? b : a < b ? b : a; }
TW_INLINE void ptx_min_NaN_f32(float& r, float a, float b) { r = a != a ? a : b != b ? b : b < a ? b : a; }
TW_INLINE void ptx_ex2_approx_ftz_f32(float& r, float x) { r = exp2f(x); if (r < 1.17549435e-38f) r = 0; }
TW_INLINE void ptx_div_full_f32(float& r, float a, float b) { r = a / b; }

// ---- copies, barriers, scratch

TW_INLINE void ptx_cp_async_cg_shared_global_16(unsigned to, const void* from, int live) { tw_copy_async(tw_shared(to), from, 16, live); }
TW_INLINE void ptx_cp_async_ca_shared_global(unsigned to, const void* from, int bytes, int live) { tw_copy_async(tw_shared(to), from, bytes, live); }
TW_INLINE void ptx_cp_async_commit_group() { tw_copies_commit(); }
TW_INLINE void ptx_cp_async_wait_all() { tw_copies_commit(), tw_copies_wait(0); }
TW_INLINE void ptx_cp_async_wait_group(int pending) { tw_copies_wait(pending); }
TW_INLINE void ptx_mbarrier_init_shared_cta_b64(unsigned b, int arrivals) { tw_barrier_make(b, arrivals); }
TW_INLINE void ptx_fence_mbarrier_init_release_cluster() {}
TW_INLINE void ptx_mbarrier_arrive_expect_tx_shared_cta_b64(unsigned b, int bytes) { tw_barrier_expect(b, bytes), tw_barrier_arrive(b); }
TW_INLINE void ptx_mbarrier_try_wait(unsigned& done, unsigned b, unsigned phase) { done = tw_barrier_wait(b, phase); }
TW_INLINE void ptx_mbarrier_arrive_shared_cta_b64(unsigned b) { tw_barrier_arrive(b); }
TW_INLINE void ptx_mbarrier_arrive_in_cluster(unsigned b, unsigned block) { tw_barrier_arrive((b & 0xffffffu) | block << 24); }
TW_INLINE void ptx_mov_u32_cluster_ctarank(unsigned& r) { r = tw_rank(); }
TW_INLINE void ptx_barrier_cluster_arrive_release_aligned_barrier_cluster_wait_acquire_aligned() { tw_cluster_meet(); }
TW_INLINE void ptx_bar_sync_1(int threads) { tw_meet(1, threads); }
TW_INLINE void ptx_bar_sync_256(int barrier) { tw_meet(barrier, 256); }
TW_INLINE void ptx_bar_arrive_256(int barrier) { tw_arrive(barrier, 256); }
TW_INLINE void ptx_setmaxnreg_dec_sync_aligned_u32(int n) { tw_registers(n); }
TW_INLINE void ptx_setmaxnreg_inc_sync_aligned_u32(int n) { tw_registers(n); }
TW_INLINE void ptx_fence_proxy_async_shared_cta() {}
TW_INLINE void ptx_prefetch_global_L2(const void*) {}
// A box of a tensor into scratch; or to all blocks of the cluster that the mask names.
template <int dims, bool to_all, class... Rest> TW_INLINE void ptx_box(unsigned to, const void* map, Rest... rest) {
  const long long list[] = {(long long)rest...};
  int at[dims];
  for (int i = 0; i < dims; ++i) at[i] = int(list[i]);
  tw_box(to, map, dims, at, unsigned(list[dims]), to_all ? unsigned(list[dims + 1]) : 0u);
}

// ---- matrices

struct tw_rows { unsigned row[4]; unsigned r[4]; };
template <bool transposed> TW_INLINE void tw_matrices(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, unsigned address) {
  tw_rows mine;
  memcpy(mine.row, tw_shared(address), 16);
  tw_together(32, 0xffffffffu, +[](void* const* lane, unsigned) {
    for (int l = 0; l < 32; ++l)
      for (int m = 0; m < 4; ++m) {
        unsigned short pair[2];
        for (int i = 0; i < 2; ++i) {
          const int row = transposed ? l % 4 * 2 + i : l / 4, column = transposed ? l / 4 : l % 4 * 2 + i;
          memcpy(&pair[i], reinterpret_cast<const char*>(static_cast<const tw_rows*>(lane[m * 8 + row])->row) + column * 2, 2);
        }
        memcpy(&static_cast<tw_rows*>(lane[l])->r[m], pair, 4);
      }
  }, &mine);
  r0 = mine.r[0], r1 = mine.r[1], r2 = mine.r[2], r3 = mine.r[3];
}
TW_INLINE void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, unsigned address) { tw_matrices<false>(r0, r1, r2, r3, address); }
TW_INLINE void ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, unsigned address) { tw_matrices<true>(r0, r1, r2, r3, address); }

#define TW_PRODUCT(name, brain)                                                                                                                                       \
  TW_INLINE void ptx_mma_sync_aligned_m16n8k16_row_col_f32_##name##_##name##_f32(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2,    \
                                                                                  unsigned a3, unsigned b0, unsigned b1) {                                            \
    tw_product mine{{&c0, &c1, &c2, &c3}, {a0, a1, a2, a3}, {b0, b1}, 16, brain};                                                                                     \
    tw_together(32, 0xffffffffu, tw_multiply, &mine);                                                                                                                 \
  }                                                                                                                                                                   \
  TW_INLINE void ptx_mma_sync_aligned_m16n8k8_row_col_f32_##name##_##name##_f32(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned b0) {   \
    tw_product mine{{&c0, &c1, &c2, &c3}, {a0, a1}, {b0}, 8, brain};                                                                                                  \
    tw_together(32, 0xffffffffu, tw_multiply, &mine);                                                                                                                 \
  }
TW_PRODUCT(f16, false)
TW_PRODUCT(bf16, true)

TW_INLINE void ptx_wgmma_fence_sync_aligned() {}
TW_INLINE void ptx_wgmma_commit_group_sync_aligned() { tw_together(128, 0xffffffffu, tw_group_commit, nullptr); }
TW_INLINE void ptx_wgmma_wait_group_sync_aligned(int pending) { tw_together(128, 0xffffffffu, tw_group_wait, &pending); }
template <int n> struct tw_floats { float* at[n]; };
template <int n, bool brain, bool transposed, bool turned> TW_INLINE void ptx_wgmma(tw_floats<n / 2> d, unsigned long long a, unsigned long long b, int add) {
  tw_group_product mine{d.at, n, brain, false, transposed, turned, {}, a, b, add};
  tw_together(128, 0xffffffffu, tw_group_multiply, &mine);
}
template <int n, bool brain, bool transposed, bool turned> TW_INLINE void ptx_wgmma(tw_floats<n / 2> d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned long long b, int add) {
  tw_group_product mine{d.at, n, brain, true, transposed, turned, {a0, a1, a2, a3}, 0, b, add};
  tw_together(128, 0xffffffffu, tw_group_multiply, &mine);
}

// A kernel as something that takes the addresses of its arguments.
template <class... A, int... i> __attribute__((no_sanitize("thread"))) static void tw_call(void (*kernel)(A...), void** arguments, std::integer_sequence<int, i...>) {
  kernel(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
}
template <class... A> __attribute__((no_sanitize("thread"))) static void tw_start(void (*kernel)(A...), void** arguments) {
  tw_call(kernel, arguments, std::make_integer_sequence<int, int(sizeof...(A))>());
}
template <class... A> __attribute__((no_sanitize("thread"))) static int tw_sizes(void (*)(A...), int* to) {
  const int list[] = {int(sizeof(A))...};
  for (unsigned i = 0; i < sizeof...(A); ++i) to[i] = list[i];
  return int(sizeof...(A));
}
