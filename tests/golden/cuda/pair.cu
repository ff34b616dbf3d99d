kernel pair
  for y0, y1 in tiles(0, 14, 4) grid:
    for x0, x1 in tiles(0, 14, 5) grid:
      for f0, f1 in tiles(0, 64, 16) grid:
        load b[f0:f1] -> scratch
        init Y[0:1, y0:y1, x0:x1, f0:f1] : f32 for sum
        for c0, c1 in tiles(0, 48, 32) seq:
          load X[0:1, y0-1:y1+1, x0-1:x1+1, c0:c1] -> scratch
          load V[0:3, 0:3, c0:c1] -> scratch
          load a[c0:c1] -> scratch
          barrier
          load W[f0:f1, c0:c1] -> scratch
          init D[0:1, y0:y1, x0:x1, c0:c1] : f32 for sum
          window D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
          map E[n y x c] : f16 = min(max(D[n y x c] + a[c], 0), 6)
          barrier
          contract Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
        map Z[n y x f] : f16 = min(max(Y[n y x f] + b[f], 0), 6)
        store Z[0:1, y0:y1, x0:x1, f0:f1] : f16

extern "C" __global__ void __launch_bounds__(128, 5) pair(const f16* __restrict__ g_X, const f16* __restrict__ g_V, const f16* __restrict__ g_a, const f16* __restrict__ g_W, const f16* __restrict__ g_b, f16* __restrict__ g_Z) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  await_predecessor();
  f16* const s_X = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_V = reinterpret_cast<f16*>(scratch + 2688);
  f16* const s_a = reinterpret_cast<f16*>(scratch + 3328);
  f16* const s_W = reinterpret_cast<f16*>(scratch + 3456);
  f16* const s_b = reinterpret_cast<f16*>(scratch + 4736);
  f16* const s_E = reinterpret_cast<f16*>(scratch + 4864);
  unsigned block = blockIdx.x;
  const int f_0 = int(block % 4) * 16, f_1 = min(f_0 + 16, 64);
  block /= 4;
  const int x_0 = int(block % 3) * 5, x_1 = min(x_0 + 5, 14);
  block /= 3;
  const int y_0 = int(block % 4) * 4, y_1 = min(y_0 + 4, 14);
  block /= 4;
  {
    int from_b, to_b, row_b = 0;  // of this thread's pieces of b
    bool in_b = true;
    {
      unsigned rest = threadIdx.x % 2;
      const int o0 = int(rest % 2) * 8; rest /= 2;
      const int i0 = f_0 + o0;
      from_b = i0 * 1, to_b = o0 * 1;
    }
    if (threadIdx.x < 2)
    #pragma unroll
    for (int pass = 0; pass < 1; ++pass) {  // load b
      copy_async<16>(s_b + to_b + pass * 0, g_b + (from_b + pass * 0));
    }
  }
  float acc_Y[8];
  #pragma unroll
  for (int e = 0; e < 8; ++e) acc_Y[e] = 0.0f;
  for (int c_0 = 0; c_0 < 48; c_0 += 32) {
    const int c_1 = min(c_0 + 32, 48);
    {
      int from_X, to_X, row_X = 0;  // of this thread's pieces of X
      bool in_X = true;
      {
        unsigned rest = threadIdx.x % 28;
        const int o3 = int(rest % 4) * 8; rest /= 4;
        const int i3 = c_0 + o3;
        const int o2 = int(rest % 7); rest /= 7;
        const int i2 = x_0 + -1 + o2;
        const int o1 = threadIdx.x / 28;
        const int i1 = row_X = y_0 + -1 + o1;
        const int o0 = int(rest % 1); rest /= 1;
        const int i0 = 0 + o0;
        from_X = i3 * 1 + i2 * 48 + i1 * 672 + i0 * 9408, to_X = o3 * 1 + o2 * 32 + o1 * 224 + o0 * 1344;
        in_X = unsigned(i3) < 48u && i3 < c_1 && unsigned(i2) < 14u && i2 < x_1 + 1;
      }
      if (threadIdx.x < 112)
      #pragma unroll
      for (int pass = 0; pass < 2; ++pass) {  // load X
        if (threadIdx.x / 28 + pass * 4 >= 6) break;
        const int i1 = row_X + pass * 4;
        const bool inside = in_X && unsigned(i1) < 14u && i1 < y_1 + 1;
        copy_async<16>(s_X + to_X + pass * 896, g_X + (inside ? from_X + pass * 2688 : 0), inside ? 16 : 0);
      }
    }
    {
      int from_V, to_V, row_V = 0;  // of this thread's pieces of V
      bool in_V = true;
      {
        unsigned rest = threadIdx.x % 12;
        const int o2 = int(rest % 4) * 8; rest /= 4;
        const int i2 = c_0 + o2;
        const int o1 = int(rest % 3); rest /= 3;
        const int i1 = 0 + o1;
        const int o0 = threadIdx.x / 12;
        const int i0 = row_V = 0 + o0;
        from_V = i2 * 1 + i1 * 48 + i0 * 144, to_V = o2 * 1 + o1 * 32 + o0 * 96;
        in_V = unsigned(i2) < 48u && i2 < c_1;
      }
      if (threadIdx.x < 120)
      #pragma unroll
      for (int pass = 0; pass < 1; ++pass) {  // load V
        if (threadIdx.x / 12 + pass * 10 >= 3) break;
        const bool inside = in_V;
        copy_async<16>(s_V + to_V + pass * 960, g_V + (inside ? from_V + pass * 1440 : 0), inside ? 16 : 0);
      }
    }
    {
      int from_a, to_a, row_a = 0;  // of this thread's pieces of a
      bool in_a = true;
      {
        unsigned rest = threadIdx.x % 4;
        const int o0 = int(rest % 4) * 8; rest /= 4;
        const int i0 = c_0 + o0;
        from_a = i0 * 1, to_a = o0 * 1;
        in_a = unsigned(i0) < 48u && i0 < c_1;
      }
      if (threadIdx.x < 4)
      #pragma unroll
      for (int pass = 0; pass < 1; ++pass) {  // load a
        const bool inside = in_a;
        copy_async<16>(s_a + to_a + pass * 0, g_a + (inside ? from_a + pass * 0 : 0), inside ? 16 : 0);
      }
    }
    copies_arrive<0>();
    __syncthreads();
    {
      int from_W, to_W, row_W = 0;  // of this thread's pieces of W
      bool in_W = true;
      {
        unsigned rest = threadIdx.x % 4;
        const int o1 = int(rest % 4) * 8; rest /= 4;
        const int i1 = c_0 + o1;
        const int o0 = threadIdx.x / 4;
        const int i0 = row_W = f_0 + o0;
        from_W = i1 * 1 + i0 * 48, to_W = o1 * 1 + o0 * 40;
        in_W = unsigned(i1) < 48u && i1 < c_1;
      }
      #pragma unroll
      for (int pass = 0; pass < 1; ++pass) {  // load W
        if (threadIdx.x / 4 + pass * 32 >= 16) break;
        const bool inside = in_W;
        copy_async<16>(s_W + to_W + pass * 1280, g_W + (inside ? from_W + pass * 1536 : 0), inside ? 16 : 0);
      }
    }
    // D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
    for (int round = 0; round < 2; ++round) {
      unsigned rest = threadIdx.x + round * 128;
      if (rest < 160) {
        const int base3 = c_0 + int(rest % 16 * 2); rest /= 16;
        const int base2 = x_0 + int(rest % 5 * 1); rest /= 5;
        const int base1 = y_0 + int(rest % 2 * 2); rest /= 2;
        const int base0 = 0 + int(rest % 1 * 1); rest /= 1;
        float acc[4];
        #pragma unroll
        for (int e = 0; e < 4; ++e) acc[e] = 0.0f;
        #pragma unroll
        for (int a4_i = 0; a4_i < 3; a4_i += 1) {
          #pragma unroll
          for (int a5_j = 0; a5_j < 3; a5_j += 1) {
            float operand0[4];
            #pragma unroll
            for (int d0 = 0; d0 < 2; d0 += 1) {
              #pragma unroll
              for (int d1 = 0; d1 < 2; d1 += 2) {
                fetch<2>(operand0 + d0 * 2 + d1 * 1, &s_X[(base0) * 1344 + (((base1 + d0) + a4_i + -1) - (y_0 + -1)) * 224 + ((base2 + a5_j + -1) - (x_0 + -1)) * 32 + (((base3 + d1)) - (c_0))]);
              }
            }
            float operand1[2];
            #pragma unroll
            for (int d0 = 0; d0 < 2; d0 += 2) {
              fetch<2>(operand1 + d0 * 1, &s_V[(a4_i) * 96 + (a5_j) * 32 + (((base3 + d0)) - (c_0))]);
            }
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
              const float v0 = operand0[(e / 2 % 2) * 2 + (e / 1 % 2) * 1] * operand1[(e / 1 % 2) * 1];
              acc[e] = acc[e] + v0;
            }
          }
        }
        #pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const int a3_c = base3 + e / 1 % 2;
          const int a2_x = base2 + e / 2 % 1;
          const int a1_y = base1 + e / 2 % 2;
          const int a0_n = base0 + e / 4 % 1;
          const bool boxed = true;
          const bool live = boxed && a3_c < min(c_1, 48) && a2_x < min(x_1, 14) && a1_y < min(y_1, 14);
          {
            float beside0[2];
            #pragma unroll
            for (int d0 = 0; d0 < 2; d0 += 2) {
              fetch<2>(beside0 + d0 * 1, &s_a[(((a3_c + d0)) - (c_0))]);
            }
            float w_E[2];
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
              const float r_D = acc[e + u];
              const float v0 = r_D + beside0[(u) * 1];
              const float v1 = maximum(v0, (0.0f));
              const float v2 = minimum(v1, (6.0f));
              const float r_E = v2;
              w_E[u] = live ? v2 : float(0);
            }
            put<2>(&s_E[(a0_n) * 800 + ((a1_y) - (y_0)) * 200 + ((a2_x) - (x_0)) * 40 + ((a3_c) - (c_0))], w_E);
          }
        }
      }
    }
    copies_arrive<0>();
    __syncthreads();
    // Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
      const int a4_c = c_0;
      const f16* a_row[1];
      #pragma unroll
      for (int m = 0; m < 1; ++m) {
        const int row = min(warp_m * 16 + m * 16 + lane % 16, 19);
        const int a2_x = x_0 + int(unsigned(row) / 1 % 5);
        const int a1_y = y_0 + int(unsigned(row) / 5 % 4);
        const int a0_n = 0 + int(unsigned(row) / 20 % 1);
        a_row[m] = &s_E[(a0_n) * 800 + ((a1_y) - (y_0)) * 200 + ((a2_x) - (x_0)) * 40 + ((a4_c) - (c_0))] + lane / 16 * 8;
      }
      const f16* b_row[1];
      #pragma unroll
      for (int n = 0; n < 1; ++n) {
        const int column = warp_n * 16 + n * 16 + lane / 16 * 8 + lane % 8;
        const int a3_f = f_0 + int(unsigned(column) / 1 % 16);
        b_row[n] = &s_W[((a3_f) - (f_0)) * 40 + ((a4_c) - (c_0))] + lane / 8 % 2 * 8;
      }
      unsigned a[2][1][4], b[2][1][4];
      #pragma unroll
      for (int m = 0; m < 1; ++m) load_matrices(a[0][m], a_row[m] + (0));
      #pragma unroll
      for (int n = 0; n < 1; ++n) load_matrices(b[0][n], b_row[n] + (0));
      #pragma unroll
      for (int k = 0; k < 32; k += 16) {
        if (k + 16 < 32) {  // the next products, while these are multiplied
          #pragma unroll
          for (int m = 0; m < 1; ++m) load_matrices(a[(k / 16 + 1) % 2][m], a_row[m] + (k + 16));
          #pragma unroll
          for (int n = 0; n < 1; ++n) load_matrices(b[(k / 16 + 1) % 2][n], b_row[n] + (k + 16));
        }
        #pragma unroll
        for (int m = 0; m < 1; ++m)
        #pragma unroll
          for (int n = 0; n < 2; ++n) multiply_add<f16>(acc_Y + (m * 2 + n) * 4, a[k / 16 % 2][m], b[k / 16 % 2][n / 2][n % 2 * 2], b[k / 16 % 2][n / 2][n % 2 * 2 + 1]);
      }
    }
  }
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
    float column0[4];
    #pragma unroll
    for (int n = 0; n < 1; ++n)
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int column = warp_n * 16 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
      const int a3_f = f_0 + int(unsigned(column) / 1 % 16);
      column0[n * 4 + u] = load(s_b[((a3_f) - (f_0))]);
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m)
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
      const int row = warp_m * 16 + m * 8 + lane / 4;
      const int a2_x = x_0 + int(unsigned(row) / 1 % 5);
      const int a1_y = y_0 + int(unsigned(row) / 5 % 4);
      const int a0_n = 0 + int(unsigned(row) / 20 % 1);
      const bool boxed = row < 20, row_live = row < 20 && a1_y < min(y_1, 14) && a2_x < min(x_1, 14);
      float w_Z[4] = {};
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int column = warp_n * 16 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
        const int a3_f = f_0 + int(unsigned(column) / 1 % 16);
        if (row_live) {
          const float r_Y = acc_Y[((m / 2 * 2 + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2];
          const float v0 = r_Y + column0[n * 4 + u];
          const float v1 = maximum(v0, (0.0f));
          const float v2 = minimum(v1, (6.0f));
          const float r_Z = v2;
          w_Z[u] = v2;
        }
      }
      {
        const word<8> four = exchange<f16>(w_Z);
        const int column = warp_n * 16 + n * 16 + lane % 2 * 8 + lane / 2 % 2 * 4;
        const int a3_f = f_0 + int(unsigned(column) / 1 % 16);
        if (row_live) *reinterpret_cast<word<8>*>(&g_Z[(a1_y) * 896 + (a2_x) * 64 + (a3_f)]) = four;
      }
    }
  }
}
