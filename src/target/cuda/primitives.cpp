#include "target/cuda/source.h"

namespace tilewright::cuda {

// What generated kernels are made of: thin names over PTX and nothing else, so that a run-time compiler needs no header.
std::string_view primitives() {
  return R"cuda(
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
typedef signed char i8;
typedef unsigned char u8;
typedef long long i64;
#define TW_DEVICE static __device__ __forceinline__
// A kernel that was started early: what the kernel in front has written is there behind this; the next one may be started. Every
// block comes here, so that a kernel that has ended stands behind all in front of it.
TW_DEVICE void await_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// An index that the data says, if it lies in its dim; else the first, and `fault` tells it.
TW_DEVICE int in_dim(long long i, int extent, unsigned* fault) {
  if ((unsigned long long)i < (unsigned long long)extent) return int(i);
  if (fault) *fault = 1;
  return 0;
}
TW_DEVICE float inf32() { return __int_as_float(0x7f800000); }
TW_DEVICE float nan32() { return __int_as_float(0x7fffffff); }
TW_DEVICE double inf64() { return __longlong_as_double(0x7ff0000000000000ll); }
TW_DEVICE double nan64() { return __longlong_as_double(0x7fffffffffffffffll); }
TW_DEVICE float load(f16 x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return r; }
TW_DEVICE float load(bf16 x) { return __int_as_float(int(x.bits) << 16); }
TW_DEVICE float load(float x) { return x; }
TW_DEVICE double load(double x) { return x; }
TW_DEVICE int load(i8 x) { return x; }
TW_DEVICE int load(u8 x) { return x; }
TW_DEVICE int load(int x) { return x; }
TW_DEVICE i64 load(i64 x) { return x; }
TW_DEVICE bool load(bool x) { return x; }
// To a stored type: floats to nearest even, integers from floats saturated by the conversion, from integers wrapped.
template <class T> struct rounding { template <class S> TW_DEVICE T to(S x) { return T(x); } };
template <> struct rounding<f16> {
  TW_DEVICE f16 to(float x) { f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r; }
  template <class S> TW_DEVICE f16 to(S x) { return to(float(x)); }
};
template <> struct rounding<bf16> {
  TW_DEVICE bf16 to(float x) { bf16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r; }
  template <class S> TW_DEVICE bf16 to(S x) { return to(float(x)); }
};
template <> struct rounding<i8> {
  TW_DEVICE i8 to(float x) { int r; asm("cvt.rzi.s8.f32 %0, %1;" : "=r"(r) : "f"(x)); return i8(r); }
  template <class S> TW_DEVICE i8 to(S x) { return i8(x); }
};
template <> struct rounding<u8> {
  TW_DEVICE u8 to(float x) { int r; asm("cvt.rzi.u8.f32 %0, %1;" : "=r"(r) : "f"(x)); return u8(r); }
  template <class S> TW_DEVICE u8 to(S x) { return u8(x); }
};
template <class T, class S> TW_DEVICE T round_to(S x) { return rounding<T>::to(x); }
TW_DEVICE float maximum(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
TW_DEVICE float minimum(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
TW_DEVICE double maximum(double a, double b) { return a != a ? a : b != b ? b : a < b ? b : a; }
TW_DEVICE double minimum(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; }
TW_DEVICE int maximum(int a, int b) { return a < b ? b : a; }
TW_DEVICE int minimum(int a, int b) { return b < a ? b : a; }
TW_DEVICE long long maximum(long long a, long long b) { return a < b ? b : a; }
TW_DEVICE long long minimum(long long a, long long b) { return b < a ? b : a; }
template <class T> TW_DEVICE T floor_div(T a, T b) { T q = a / b; return q * b != a && (a < 0) != (b < 0) ? q - 1 : q; }
template <class T> TW_DEVICE T floor_mod(T a, T b) { T r = a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
TW_DEVICE float floor_div(float a, float b) { return floorf(a / b); }
TW_DEVICE float floor_mod(float a, float b) { float r = fmodf(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
// Exponentials by the special unit, whose base is 2: `by` is log2(e), times what the exponent is scaled by.
TW_DEVICE float exp_fast(float x, float by) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * by)); return r; }
TW_DEVICE float exp_difference(float a, float b, float by) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(fmaf(a, by, -(b * by))));
  return r;
}
TW_DEVICE float divide_fast(float a, float b) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
TW_DEVICE int shift_left(int a, int b) { return b < 32 ? a << b : 0; }
TW_DEVICE int shift_right(int a, int b) { return b < 32 ? a >> b : a >> 31; }

// The value of the thread whose number differs by that bit, of `lanes` neighbours that all take part.
template <int lanes, class T> TW_DEVICE T from_lane(T x, int other) {
  const unsigned mask = lanes == 32 ? 0xffffffffu : ((1u << lanes % 32) - 1) << (threadIdx.x % 32 / lanes * lanes);
  return __shfl_xor_sync(mask, x, other);
}
template <int lanes> TW_DEVICE bool from_lane(bool x, int other) { return from_lane<lanes>(int(x), other); }

TW_DEVICE unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
// 4, 8 or 16 bytes of global memory into scratch; only the first `live` are read, zeros follow.
template <int bytes> TW_DEVICE void copy_async(void* to, const void* from, int live = bytes) {
  if constexpr (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(live) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(shared_address(to)), "l"(from), "n"(bytes), "r"(live) : "memory");
}
TW_DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the last `pending` groups of this thread's copies have arrived.
template <int pending> TW_DEVICE void copies_arrive() {
  if constexpr (pending == 0) asm volatile("cp.async.wait_all;" ::: "memory");
  else asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
// W neighbours as one access where that is 4, 8 or 16 bytes, which both ends are aligned to.
template <int bytes> struct word { unsigned char b[bytes]; };
template <> struct word<4> { unsigned a; };
template <> struct __align__(8) word<8> { unsigned a, b; };
template <> struct __align__(16) word<16> { unsigned a, b, c, d; };
template <int W, class T, class C> TW_DEVICE void fetch(C* to, const T* from) {
  T t[W];
  if constexpr (W * sizeof(T) >= 4 && W * sizeof(T) <= 16) {
    const word<W * sizeof(T)> v = *reinterpret_cast<const word<W * sizeof(T)>*>(from);
    memcpy(t, &v, sizeof t);
  } else {
    for (int i = 0; i < W; ++i) t[i] = from[i];
  }
  for (int i = 0; i < W; ++i) to[i] = load(t[i]);
}
template <class T> struct packing { static constexpr bool can = false; };
template <> struct packing<f16> {
  static constexpr bool can = true;
  TW_DEVICE unsigned pair(float low, float high) { unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
};
template <> struct packing<bf16> {
  static constexpr bool can = true;
  TW_DEVICE unsigned pair(float low, float high) { unsigned r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
};
template <int W, class T, class C> TW_DEVICE void put(T* to, const C* from) {
  T t[W];
  if constexpr (packing<T>::can && W % 2 == 0) {
    unsigned pairs[W / 2];
    for (int i = 0; i < W / 2; ++i) pairs[i] = packing<T>::pair(from[2 * i], from[2 * i + 1]);
    memcpy(t, pairs, sizeof t);
  } else {
    for (int i = 0; i < W; ++i) t[i] = round_to<T>(from[i]);
  }
  if constexpr (W * sizeof(T) >= 4 && W * sizeof(T) <= 16) {
    word<W * sizeof(T)> v;
    memcpy(&v, t, sizeof t);
    *reinterpret_cast<word<W * sizeof(T)>*>(to) = v;
  } else {
    for (int i = 0; i < W; ++i) to[i] = t[i];
  }
}
// Four 8 x 8 matrices of 16-bit elements; lane l gives the row l % 8 of matrix l / 8.
TW_DEVICE void load_matrices(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
TW_DEVICE void load_matrices_transposed(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
// Two columns of each of two fragments in, four neighbouring columns out: even lanes of the first fragment, odd ones of the second.
template <class T> TW_DEVICE word<8> exchange(const float (&v)[4]) {
  const unsigned first = packing<T>::pair(v[0], v[1]), second = packing<T>::pair(v[2], v[3]);
  const bool odd = threadIdx.x % 2;
  const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
  return {odd ? other : first, odd ? second : other};
}
// A piece of 16 bytes in panels of rows of 128 bytes, its place in the row exchanged by the row's number.
template <int width, int rows> TW_DEVICE int swizzled(int row, int column) {
  return column / width * (rows * width) + row * width + ((column / (width / 8) ^ row) & 7) * (width / 8);
}
// The copy engine and barriers in scratch, which count arrivals and bytes; each completion turns their phase.
struct __align__(64) tensor_map { unsigned char b[128]; };
TW_DEVICE void barrier_make(unsigned b, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(arrivals) : "memory"); }
TW_DEVICE void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TW_DEVICE void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory"); }
TW_DEVICE void barrier_wait(unsigned b, unsigned phase) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(phase) : "memory");
}
TW_DEVICE void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
// In a block of the cluster, behind reads only: nothing was written that would have to be seen there, and a release of that scope is slow.
TW_DEVICE void barrier_arrive_in(unsigned b, unsigned block) {
  asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r]; }" :: "r"(b), "r"(block) : "memory");
}
TW_DEVICE unsigned cluster_rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
TW_DEVICE void cluster_meet() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
template <int threads> TW_DEVICE void threads_meet() { asm volatile("bar.sync 1, %0;" :: "n"(threads) : "memory"); }
template <int n> TW_DEVICE void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n)); }
template <int n> TW_DEVICE void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n)); }
// Instructions of four warps on swizzled scratch: an operand's description (bytes between panels, between eights of rows), order.
TW_DEVICE unsigned long long operand(unsigned address, int panel, int eight) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(panel >> 4) << 16 | (unsigned long long)(eight >> 4) << 32 | 1ull << 62;
}
TW_DEVICE void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TW_DEVICE void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> TW_DEVICE void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
// Groups take turns: each waits for the one in front, and lets the next one go.
template <int groups> TW_DEVICE void turn_begins() { if constexpr (groups > 1) asm volatile("bar.sync %0, 256;" :: "r"(2 + int(threadIdx.x / 128)) : "memory"); }
template <int groups> TW_DEVICE void turn_ends() { if constexpr (groups > 1) asm volatile("bar.arrive %0, 256;" :: "r"(2 + int(threadIdx.x / 128 + 1) % groups) : "memory"); }
TW_DEVICE void bring_near(const void* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }
TW_DEVICE void scratch_to_group() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Two elements of a row in a register, 0 for one that is not there.
template <class T> TW_DEVICE unsigned two(const T* row, int first, int second, bool has_first, bool has_second) {
  return (has_first ? unsigned(row[first].bits) : 0u) | (has_second ? unsigned(row[second].bits) << 16 : 0u);
}
// c[16 x 8] += a[16 x 16] * b[16 x 8]
template <class T> TW_DEVICE void multiply_add(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1);
template <> __device__ __forceinline__ void multiply_add<f16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply_add<bf16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same where only eight products may be left.
template <class T> TW_DEVICE void multiply_add(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1, bool all);
template <> __device__ __forceinline__ void multiply_add<f16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1, bool all) {
  if (all) return multiply_add<f16>(c, a, b0, b1);
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b0));
}
template <> __device__ __forceinline__ void multiply_add<bf16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1, bool all) {
  if (all) return multiply_add<bf16>(c, a, b0, b1);
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b0));
}
)cuda";
}

}  // namespace tilewright::cuda
