kernel pair
  for y0, y1 in tiles(0, 14, 4) grid:
    for x0, x1 in tiles(0, 14, 5) grid:
      for f0, f1 in tiles(0, 64, 16) grid:
        load X[0:1, y0-1:y1+1, x0-1:x1+1, 0:48] -> scratch
        load V[0:3, 0:3, 0:48] -> scratch
        load a[0:48] -> scratch
        barrier
        load W[f0:f1, 0:48] -> scratch
        load b[f0:f1] -> scratch
        init D[0:1, y0:y1, x0:x1, 0:48] : f32 for sum
        window D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
        map E[n y x c] : f16 = min(max(D[n y x c] + a[c], 0), 6)
        init Y[0:1, y0:y1, x0:x1, f0:f1] : f32 for sum
        barrier
        contract Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
        map Z[n y x f] : f16 = min(max(Y[n y x f] + b[f], 0), 6)
        store Z[0:1, y0:y1, x0:x1, f0:f1] : f16

extern "C" __global__ void __launch_bounds__(128, 6) pair(const f16* __restrict__ g_X, const f16* __restrict__ g_V, const f16* __restrict__ g_a, const f16* __restrict__ g_W, const f16* __restrict__ g_b, f16* __restrict__ g_Z) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  unsigned block = blockIdx.x;
  const int f_0 = int(block % 4) * 16, f_1 = min(f_0 + 16, 64);
  block /= 4;
  const int x_0 = int(block % 3) * 5, x_1 = min(x_0 + 5, 14);
  block /= 3;
  const int y_0 = int(block % 4) * 4, y_1 = min(y_0 + 4, 14);
  block /= 4;
  f16* const s_X = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_V = reinterpret_cast<f16*>(scratch + 4096);
  f16* const s_a = reinterpret_cast<f16*>(scratch + 4992);
  f16* const s_W = reinterpret_cast<f16*>(scratch + 5120);
  f16* const s_b = reinterpret_cast<f16*>(scratch + 6912);
  f16* const s_E = reinterpret_cast<f16*>(scratch + 7040);
  {
    int from_X, to_X, row_X = 0;  // of this thread's pieces of X
    bool in_X = true;
    {
      unsigned rest = threadIdx.x % 42;
      const int o3 = int(rest % 6) * 8; rest /= 6;
      const int i3 = 0 + o3;
      const int o2 = int(rest % 7); rest /= 7;
      const int i2 = x_0 + -1 + o2;
      const int o1 = threadIdx.x / 42;
      const int i1 = row_X = y_0 + -1 + o1;
      const int o0 = int(rest % 1); rest /= 1;
      const int i0 = 0 + o0;
      from_X = i3 * 1 + i2 * 48 + i1 * 672 + i0 * 9408, to_X = o3 * 1 + o2 * 48 + o1 * 336 + o0 * 2016;
      in_X = unsigned(i2) < 14u && i2 < x_1 + 1;
    }
    if (threadIdx.x < 126)
    #pragma unroll
    for (int pass = 0; pass < 2; ++pass) {  // load X
      const int i1 = row_X + pass * 3;
      const bool inside = in_X && unsigned(i1) < 14u && i1 < y_1 + 1;
      copy_async<16>(s_X + to_X + pass * 1008, g_X + (inside ? from_X + pass * 2016 : 0), inside ? 16 : 0);
    }
  }
  {
    int from_V, to_V, row_V = 0;  // of this thread's pieces of V
    bool in_V = true;
    {
      unsigned rest = threadIdx.x % 18;
      const int o2 = int(rest % 6) * 8; rest /= 6;
      const int i2 = 0 + o2;
      const int o1 = int(rest % 3); rest /= 3;
      const int i1 = 0 + o1;
      const int o0 = threadIdx.x / 18;
      const int i0 = row_V = 0 + o0;
      from_V = i2 * 1 + i1 * 48 + i0 * 144, to_V = o2 * 1 + o1 * 48 + o0 * 144;
    }
    if (threadIdx.x < 126)
    #pragma unroll
    for (int pass = 0; pass < 1; ++pass) {  // load V
      if (threadIdx.x / 18 + pass * 7 >= 3) break;
      copy_async<16>(s_V + to_V + pass * 1008, g_V + (from_V + pass * 1008));
    }
  }
  {
    int from_a, to_a, row_a = 0;  // of this thread's pieces of a
    bool in_a = true;
    {
      unsigned rest = threadIdx.x % 6;
      const int o0 = int(rest % 6) * 8; rest /= 6;
      const int i0 = 0 + o0;
      from_a = i0 * 1, to_a = o0 * 1;
    }
    if (threadIdx.x < 6)
    #pragma unroll
    for (int pass = 0; pass < 1; ++pass) {  // load a
      copy_async<16>(s_a + to_a + pass * 0, g_a + (from_a + pass * 0));
    }
  }
  copies_arrive<0>();
  __syncthreads();
  {
    int from_W, to_W, row_W = 0;  // of this thread's pieces of W
    bool in_W = true;
    {
      unsigned rest = threadIdx.x % 6;
      const int o1 = int(rest % 6) * 8; rest /= 6;
      const int i1 = 0 + o1;
      const int o0 = threadIdx.x / 6;
      const int i0 = row_W = f_0 + o0;
      from_W = i1 * 1 + i0 * 48, to_W = o1 * 1 + o0 * 56;
    }
    if (threadIdx.x < 126)
    #pragma unroll
    for (int pass = 0; pass < 1; ++pass) {  // load W
      if (threadIdx.x / 6 + pass * 21 >= 16) break;
      copy_async<16>(s_W + to_W + pass * 1176, g_W + (from_W + pass * 1008));
    }
  }
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
  // D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
  for (int round = 0; round < 1; ++round) {
    unsigned rest = threadIdx.x + round * 128;
    if (rest < 120) {
      const int base3 = 0 + int(rest % 24 * 2); rest /= 24;
      const int base2 = x_0 + int(rest % 5 * 1); rest /= 5;
      const int base1 = y_0 + int(rest % 1 * 4); rest /= 1;
      const int base0 = 0 + int(rest % 1 * 1); rest /= 1;
      float acc[8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) acc[e] = 0.0f;
      #pragma unroll
      for (int a4_i = 0; a4_i < 3; a4_i += 1) {
        #pragma unroll
        for (int a5_j = 0; a5_j < 3; a5_j += 1) {
          float operand0[8];
          #pragma unroll
          for (int d0 = 0; d0 < 4; d0 += 1) {
            #pragma unroll
            for (int d1 = 0; d1 < 2; d1 += 2) {
              fetch<2>(operand0 + d0 * 2 + d1 * 1, &s_X[(base0) * 2016 + (((base1 + d0) + a4_i + -1) - (y_0 + -1)) * 336 + ((base2 + a5_j + -1) - (x_0 + -1)) * 48 + ((base3 + d1))]);
            }
          }
          float operand1[2];
          #pragma unroll
          for (int d0 = 0; d0 < 2; d0 += 2) {
            fetch<2>(operand1 + d0 * 1, &s_V[(a4_i) * 144 + (a5_j) * 48 + ((base3 + d0))]);
          }
          #pragma unroll
          for (int e = 0; e < 8; ++e) {
            const float v0 = operand0[(e / 2 % 4) * 2 + (e / 1 % 2) * 1] * operand1[(e / 1 % 2) * 1];
            acc[e] = acc[e] + v0;
          }
        }
      }
      #pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const int a3_c = base3 + e / 1 % 2;
        const int a2_x = base2 + e / 2 % 1;
        const int a1_y = base1 + e / 2 % 4;
        const int a0_n = base0 + e / 8 % 1;
        const bool boxed = true;
        const bool live = boxed && a2_x < min(x_1, 14) && a1_y < min(y_1, 14);
        {
          float beside0[2];
          #pragma unroll
          for (int d0 = 0; d0 < 2; d0 += 2) {
            fetch<2>(beside0 + d0 * 1, &s_a[((a3_c + d0))]);
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
          put<2>(&s_E[(a0_n) * 1120 + ((a1_y) - (y_0)) * 280 + ((a2_x) - (x_0)) * 56 + (a3_c)], w_E);
        }
      }
    }
  }
  copies_arrive<0>();
  __syncthreads();
  // Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
  {
    float acc_Y[8];
    #pragma unroll
    for (int e = 0; e < 8; ++e) acc_Y[e] = 0.0f;
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
      const int a4_c = 0;
      const f16* a_row[1];
      #pragma unroll
      for (int m = 0; m < 1; ++m) {
        const int row = min(warp_m * 16 + m * 16 + lane % 16, 19);
        const int a2_x = x_0 + int(unsigned(row) / 1 % 5);
        const int a1_y = y_0 + int(unsigned(row) / 5 % 4);
        const int a0_n = 0 + int(unsigned(row) / 20 % 1);
        a_row[m] = &s_E[(a0_n) * 1120 + ((a1_y) - (y_0)) * 280 + ((a2_x) - (x_0)) * 56 + (a4_c)] + lane / 16 * 8;
      }
      const f16* b_row[1];
      #pragma unroll
      for (int n = 0; n < 1; ++n) {
        const int column = warp_n * 16 + n * 16 + lane / 16 * 8 + lane % 8;
        const int a3_f = f_0 + int(unsigned(column) / 1 % 16);
        b_row[n] = &s_W[((a3_f) - (f_0)) * 56 + (a4_c)] + lane / 8 % 2 * 8;
      }
      unsigned a[2][1][4], b[2][1][4];
      #pragma unroll
      for (int m = 0; m < 1; ++m) load_matrices(a[0][m], a_row[m] + (0));
      #pragma unroll
      for (int n = 0; n < 1; ++n) load_matrices(b[0][n], b_row[n] + (0));
      #pragma unroll
      for (int k = 0; k < 48; k += 16) {
        if (k + 16 < 48) {  // the next products, while these are multiplied
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
}
