#include "target/cuda/source.h"

namespace tilewright::cuda {

// What generated kernels are made of: thin names over PTX and nothing else, so that a run-time compiler needs no header.
std::string_view primitives() {
  return R"cuda(
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
#define TW_DEVICE static __device__ __forceinline__
TW_DEVICE float inf32() { return __int_as_float(0x7f800000); }
TW_DEVICE float nan32() { return __int_as_float(0x7fffffff); }
TW_DEVICE double inf64() { return __longlong_as_double(0x7ff0000000000000ll); }
TW_DEVICE double nan64() { return __longlong_as_double(0x7fffffffffffffffll); }
TW_DEVICE float load(f16 x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return r; }
TW_DEVICE float load(bf16 x) { return __int_as_float(int(x.bits) << 16); }
TW_DEVICE float load(float x) { return x; }
TW_DEVICE double load(double x) { return x; }
TW_DEVICE int load(signed char x) { return x; }
TW_DEVICE int load(unsigned char x) { return x; }
TW_DEVICE int load(int x) { return x; }
TW_DEVICE long long load(long long x) { return x; }
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
TW_DEVICE int shift_left(int a, int b) { return b < 32 ? a << b : 0; }
TW_DEVICE int shift_right(int a, int b) { return b < 32 ? a >> b : a >> 31; }

TW_DEVICE unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
// 16 bytes of global memory into scratch; only the first `bytes` are read, zeros follow.
TW_DEVICE void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
TW_DEVICE void copies_arrive() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Four 8 x 8 matrices of 16-bit elements; lane l gives the row l % 8 of matrix l / 8.
TW_DEVICE void load_matrices(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
TW_DEVICE void load_matrices_transposed(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
// c[16 x 8] += a[16 x 16] * b[16 x 8]
template <class T> TW_DEVICE void multiply_add(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1);
template <> __device__ __forceinline__ void multiply_add<f16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply_add<bf16>(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)cuda";
}

}  // namespace tilewright::cuda
