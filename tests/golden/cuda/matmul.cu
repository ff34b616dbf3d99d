kernel matmul
  for m0, m1 in tiles(0, 150, 64) grid:
    for n0, n1 in tiles(0, 96, 16) grid:
      init C[m0:m1, n0:n1] : f32 for sum
      for k0, k1 in tiles(0, 100, 64) seq:
        barrier
        load A[m0:m1, k0:k1] -> scratch
        load B[k0:k1, n0:n1] -> scratch
        barrier
        contract C[m n] : f32 = sum[k] A[m k] * B[k n]
      map D[m n] : f16 = C[m n]
      store D[m0:m1, n0:n1] : f16

extern "C" __global__ void __launch_bounds__(128, 8) matmul(const f16* __restrict__ g_A, const f16* __restrict__ g_B, f16* __restrict__ g_D) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  await_predecessor();
  f16* const s_A = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_B = reinterpret_cast<f16*>(scratch + 9216);
  unsigned block = blockIdx.x;
  const int n_0 = int(block % 6) * 16, n_1 = min(n_0 + 16, 96);
  block /= 6;
  const int m_0 = int(block % 3) * 64, m_1 = min(m_0 + 64, 150);
  block /= 3;
  float acc_C[8];
  #pragma unroll
  for (int e = 0; e < 8; ++e) acc_C[e] = 0.0f;
  int from_B, to_B, row_B = 0;  // of this thread's pieces of B
  bool in_B = true;
  {
    unsigned rest = threadIdx.x % 2;
    const int o1 = int(rest % 2) * 8; rest /= 2;
    const int i1 = n_0 + o1;
    const int o0 = threadIdx.x / 2;
    const int i0 = row_B = 0 + o0;
    from_B = i1 * 1 + i0 * 96, to_B = o1 * 1 + o0 * 24;
  }
  for (int k_0 = 0; k_0 < 100; k_0 += 64) {
    const int k_1 = min(k_0 + 64, 100);
    __syncthreads();
    {
      int from_A, to_A, row_A = 0;  // of this thread's pieces of A
      bool in_A = true;
      {
        unsigned rest = threadIdx.x % 16;
        const int o1 = int(rest % 16) * 4; rest /= 16;
        const int i1 = k_0 + o1;
        const int o0 = threadIdx.x / 16;
        const int i0 = row_A = m_0 + o0;
        from_A = i1 * 1 + i0 * 100, to_A = o1 * 1 + o0 * 72;
        in_A = unsigned(i1) < 100u && i1 < k_1;
      }
      #pragma unroll
      for (int pass = 0; pass < 8; ++pass) {  // load A
        const int i0 = row_A + pass * 8;
        const bool inside = in_A && unsigned(i0) < 150u && i0 < m_1;
        copy_async<8>(s_A + to_A + pass * 576, g_A + (inside ? from_A + pass * 800 : 0), inside ? 8 : 0);
      }
    }
    #pragma unroll
    for (int pass = 0; pass < 1; ++pass) {  // load B
      const int i0 = row_B + pass * 64 + k_0 * 1;
      const bool inside = unsigned(i0) < 100u && i0 < k_1;
      copy_async<16>(s_B + to_B + pass * 1536, g_B + (inside ? from_B + pass * 6144 + k_0 * 96 : 0), inside ? 16 : 0);
    }
    copies_arrive<0>();
    __syncthreads();
    // C[m n] : f32 = sum[k] A[m k] * B[k n]
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
      const int a2_k = k_0;
      const f16* a_row[1];
      #pragma unroll
      for (int m = 0; m < 1; ++m) {
        const int row = min(warp_m * 16 + m * 16 + lane % 16, 63);
        const int a0_m = m_0 + int(unsigned(row) / 1 % 64);
        a_row[m] = &s_A[((a0_m) - (m_0)) * 72 + ((a2_k) - (k_0))] + lane / 16 * 8;
      }
      const f16* b_row[1];
      #pragma unroll
      for (int n = 0; n < 1; ++n) {
        const int column = warp_n * 16 + n * 16 + lane / 16 * 8;
        const int a1_n = n_0 + int(unsigned(column) / 1 % 16);
        b_row[n] = &s_B[((a2_k) - (k_0)) * 24 + ((a1_n) - (n_0))] + lane / 8 % 2 * 192 + lane % 8 * 24;
      }
      unsigned a[2][1][4], b[2][1][4];
      #pragma unroll
      for (int m = 0; m < 1; ++m) load_matrices(a[0][m], a_row[m] + (0));
      #pragma unroll
      for (int n = 0; n < 1; ++n) load_matrices_transposed(b[0][n], b_row[n] + (0) * 24);
      #pragma unroll
      for (int k = 0; k < 64; k += 16) {
        if (k + 16 < 64) {  // the next products, while these are multiplied
          #pragma unroll
          for (int m = 0; m < 1; ++m) load_matrices(a[(k / 16 + 1) % 2][m], a_row[m] + (k + 16));
          #pragma unroll
          for (int n = 0; n < 1; ++n) load_matrices_transposed(b[(k / 16 + 1) % 2][n], b_row[n] + (k + 16) * 24);
        }
        #pragma unroll
        for (int m = 0; m < 1; ++m)
        #pragma unroll
          for (int n = 0; n < 2; ++n) multiply_add<f16>(acc_C + (m * 2 + n) * 4, a[k / 16 % 2][m], b[k / 16 % 2][n / 2][n % 2 * 2], b[k / 16 % 2][n / 2][n % 2 * 2 + 1]);
      }
    }
  }
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
    #pragma unroll
    for (int m = 0; m < 2; ++m)
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
      const int row = warp_m * 16 + m * 8 + lane / 4;
      const int a0_m = m_0 + int(unsigned(row) / 1 % 64);
      const bool boxed = true, row_live = a0_m < min(m_1, 150);
      float w_D[4] = {};
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int column = warp_n * 16 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
        const int a1_n = n_0 + int(unsigned(column) / 1 % 16);
        if (row_live) {
          const float r_C = acc_C[((m / 2 * 2 + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2];
          const float r_D = r_C;
          w_D[u] = r_C;
        }
      }
      {
        const word<8> four = exchange<f16>(w_D);
        const int column = warp_n * 16 + n * 16 + lane % 2 * 8 + lane / 2 % 2 * 4;
        const int a1_n = n_0 + int(unsigned(column) / 1 % 16);
        if (row_live) *reinterpret_cast<word<8>*>(&g_D[(a0_m) * 96 + (a1_n)]) = four;
      }
    }
  }
}
