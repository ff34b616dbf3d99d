kernel matmul_group
  for m0, m1 in tiles(0, 128, 64) grid:
    init C[m0:m1, 0:64] : f32 for sum
    for k0, k1 in tiles(0, 136, 64) seq:
      barrier
      load A[m0:m1, k0:k1] -> scratch
      load B[k0:k1, 0:64] -> scratch
      barrier
      contract C[m n] : f32 = sum[k] A[m k] * B[k n]
    map D[m n] : f16 = C[m n]
    store D[m0:m1, 0:64] : f16

// d[64 x 64] += a[64 x 16] * b[16 x 64]
TW_DEVICE void group_multiply_matmul_group(float* d, unsigned long long a, unsigned long long b, int add = 1) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b), "r"(add));
}
extern "C" __global__ void __launch_bounds__(128, 7) matmul_group(const f16* __restrict__ g_A, const f16* __restrict__ g_B, f16* __restrict__ g_D) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  await_predecessor();
  f16* const s_A = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_B = reinterpret_cast<f16*>(scratch + 8192);
  unsigned block = blockIdx.x;
  const int m_0 = int(block % 2) * 64, m_1 = min(m_0 + 64, 128);
  block /= 2;
  float acc_C[32];
  #pragma unroll
  for (int e = 0; e < 32; ++e) acc_C[e] = 0.0f;
  int from_B, to_B, row_B = 0;  // of this thread's pieces of B
  bool in_B = true;
  {
    unsigned rest = threadIdx.x % 8;
    const int o1 = int(rest % 8) * 8; rest /= 8;
    const int i1 = 0 + o1;
    const int o0 = threadIdx.x / 8;
    const int i0 = row_B = 0 + o0;
    from_B = i1 * 1 + i0 * 64, to_B = swizzled<64, 64>(o0 * 1, o1);
  }
  for (int k_0 = 0; k_0 < 136; k_0 += 64) {
    const int k_1 = min(k_0 + 64, 136);
    scratch_to_group();
    __syncthreads();
    {
      int from_A, to_A, row_A = 0;  // of this thread's pieces of A
      bool in_A = true;
      {
        unsigned rest = threadIdx.x % 8;
        const int o1 = int(rest % 8) * 8; rest /= 8;
        const int i1 = k_0 + o1;
        const int o0 = threadIdx.x / 8;
        const int i0 = row_A = m_0 + o0;
        from_A = i1 * 1 + i0 * 136, to_A = swizzled<64, 64>(o0 * 1, o1);
        in_A = unsigned(i1) < 136u && i1 < k_1;
      }
      #pragma unroll
      for (int pass = 0; pass < 4; ++pass) {  // load A
        const bool inside = in_A;
        copy_async<16>(s_A + to_A + pass * 1024, g_A + (inside ? from_A + pass * 2176 : 0), inside ? 16 : 0);
      }
    }
    #pragma unroll
    for (int pass = 0; pass < 4; ++pass) {  // load B
      const int i0 = row_B + pass * 16 + k_0 * 1;
      const bool inside = unsigned(i0) < 136u && i0 < k_1;
      copy_async<16>(s_B + to_B + pass * 1024, g_B + (inside ? from_B + pass * 1024 + k_0 * 64 : 0), inside ? 16 : 0);
    }
    copies_arrive<0>();
    scratch_to_group();
    __syncthreads();
    // C[m n] : f32 = sum[k] A[m k] * B[k n]
    {
      const int group_m = threadIdx.x / 128 % 1, group_n = threadIdx.x / 128 / 1;
      const unsigned long long rows = operand(shared_address(s_A) + group_m * 8192, 16, 1024);
      const unsigned long long columns = operand(shared_address(s_B) + group_n * 8192, 8192, 1024);
      group_begin();
      #pragma unroll
      for (int k = 0; k < 64; k += 16)
        group_multiply_matmul_group(acc_C, rows + k / 8, columns + k * 8);
      group_commit();
      group_wait<0>();
    }
  }
  group_wait<0>();
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int row = warp_m * 16 + m * 8 + lane / 4;
        const int a0_m = m_0 + int(unsigned(row) / 1 % 64);
        const bool boxed = true, row_live = true;
        float w_D[4] = {};
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
          const int column = warp_n * 64 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
          const int a1_n = 0 + int(unsigned(column) / 1 % 64);
          if (row_live) {
            const float r_C = acc_C[((m / 2 * 8 + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2];
            const float r_D = r_C;
            w_D[u] = r_C;
          }
        }
        {
          const word<8> four = exchange<f16>(w_D);
          const int column = warp_n * 64 + n * 16 + lane % 2 * 8 + lane / 2 % 2 * 4;
          const int a1_n = 0 + int(unsigned(column) / 1 % 64);
          if (row_live) *reinterpret_cast<word<8>*>(&g_D[(a0_m) * 64 + (a1_n)]) = four;
        }
      }
    }
  }
}
