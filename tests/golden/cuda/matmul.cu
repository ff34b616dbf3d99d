kernel matmul
  for m0, m1 in tiles(0, 150, 64) grid:
    for n0, n1 in tiles(0, 96, 16) grid:
      init C[m0:m1, n0:n1] : f32 for sum
      for k0, k1 in tiles(0, 100, 16) seq:
        barrier
        load A[m0:m1, k0:k1] -> scratch
        load B[k0:k1, n0:n1] -> scratch
        barrier
        contract C[m n] : f32 = sum[k] A[m k] * B[k n]
      map D[m n] : f16 = C[m n]
      store D[m0:m1, n0:n1] : f16

extern "C" __global__ void __launch_bounds__(256) matmul(const f16* __restrict__ g_A, const f16* __restrict__ g_B, f16* __restrict__ g_D) {
  extern __shared__ __align__(128) unsigned char scratch[];
  int block = blockIdx.x;
  const int n_0 = block % 6 * 16, n_1 = min(n_0 + 16, 96); block /= 6;
  const int m_0 = block % 3 * 64, m_1 = min(m_0 + 64, 150); block /= 3;
  f16* const s_A = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_B = reinterpret_cast<f16*>(scratch + 3072);
  float acc_C[8];
  #pragma unroll
  for (int e = 0; e < 8; ++e) acc_C[e] = 0.0f;
  for (int k_0 = 0; k_0 < 100; k_0 += 16) {
    const int k_1 = min(k_0 + 16, 100);
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 256) {  // load A
      int rest = i;
      const int o1 = rest % 16; rest /= 16;
      const int i1 = k_0 + o1;
      const int o0 = rest % 64; rest /= 64;
      const int i0 = m_0 + o0;
      const bool inside = unsigned(i1) < 100u && i1 < k_1 && unsigned(i0) < 150u && i0 < m_1;
      s_A[o1 * 1 + o0 * 24] = inside ? g_A[i0 * 100 + i1 * 1] : round_to<f16>(0.0f);
    }
    for (int i = threadIdx.x; i < 32; i += 256) {  // load B
      int rest = i;
      const int o1 = rest % 2 * 8; rest /= 2;
      const int i1 = n_0 + o1;
      const int o0 = rest % 16; rest /= 16;
      const int i0 = k_0 + o0;
      const bool inside = unsigned(i1) < 96u && i1 < n_1 && unsigned(i0) < 100u && i0 < k_1;
      copy_async(s_B + o1 * 1 + o0 * 24, g_B + (inside ? i0 * 96 + i1 * 1 : 0), inside ? 16 : 0);
    }
    copies_arrive();
    __syncthreads();
    // C[m n] : f32 = sum[k] A[m k] * B[k n]
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 8, warp_n = threadIdx.x / 32 / 8;
      const int a2_k = max(k_0, 0);
      const f16* a_row[1];
      #pragma unroll
      for (int m = 0; m < 1; ++m) {
        const int row = min(warp_m * 16 + m * 16 + lane % 16, 63);
        const int a0_m = max(m_0, 0) + row / 1 % 64;
        a_row[m] = &s_A[((a0_m) - (m_0)) * 24 + ((a2_k) - (k_0))] + lane / 16 * 8;
      }
      const f16* b_row[1];
      #pragma unroll
      for (int n = 0; n < 1; ++n) {
        const int column = warp_n * 16 + n * 16 + lane / 16 * 8;
        const int a1_n = max(n_0, 0) + column / 1 % 16;
        b_row[n] = &s_B[((a2_k) - (k_0)) * 24 + ((a1_n) - (n_0))] + lane / 8 % 2 * 192 + lane % 8 * 24;
      }
      #pragma unroll
      for (int k = 0; k < 16; k += 16) {
        unsigned a[1][4], b[1][4];
        #pragma unroll
        for (int m = 0; m < 1; ++m) load_matrices(a[m], a_row[m] + k);
        #pragma unroll
        for (int n = 0; n < 1; ++n) load_matrices_transposed(b[n], b_row[n] + k * 24);
        #pragma unroll
        for (int m = 0; m < 1; ++m)
        #pragma unroll
          for (int n = 0; n < 2; ++n) multiply_add<f16>(acc_C + (m * 2 + n) * 4, a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
      }
    }
  }
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 8, warp_n = threadIdx.x / 32 / 8;
    #pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int row = warp_m * 16 + e / 8 * 16 + lane / 4 + e / 2 % 2 * 8;
      const int column = warp_n * 16 + e / 4 % 2 * 8 + lane % 4 * 2 + e % 2;
      const int a0_m = max(m_0, 0) + row / 1 % 64;
      const int a1_n = max(n_0, 0) + column / 1 % 16;
      const bool boxed = row < 64;
      const bool live = boxed && a0_m < min(m_1, 150) && a1_n < min(n_1, 96);
      if (live) {
        const float r_C = acc_C[e];
        const float r_D = load(round_to<f16>(r_C));
        g_D[(a0_m) * 96 + (a1_n)] = round_to<f16>(r_D);
      }
    }
  }
}
