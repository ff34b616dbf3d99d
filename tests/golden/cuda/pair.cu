kernel pair
  for y0, y1 in tiles(0, 14, 4) grid:
    for x0, x1 in tiles(0, 14, 4) grid:
      for f0, f1 in tiles(0, 64, 16) grid:
        load b[f0:f1]
        init Y[0:1, y0:y1, x0:x1, f0:f1] : f32 for sum
        for c0, c1 in tiles(0, 48, 16) seq:
          load X[0:1, y0-1:y1+1, x0-1:x1+1, c0:c1] -> scratch
          load V[0:3, 0:3, c0:c1]
          load a[c0:c1]
          barrier
          load W[f0:f1, c0:c1] -> scratch
          init D[0:1, y0:y1, x0:x1, c0:c1] : f32 for sum
          window D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
          map E[n y x c] : f16 = min(max(D[n y x c] + a[c], 0), 6)
          barrier
          contract Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
        map Z[n y x f] : f16 = min(max(Y[n y x f] + b[f], 0), 6)
        store Z[0:1, y0:y1, x0:x1, f0:f1] : f16

extern "C" __global__ void __launch_bounds__(256) pair(const f16* __restrict__ g_X, const f16* __restrict__ g_V, const f16* __restrict__ g_a, const f16* __restrict__ g_W, const f16* __restrict__ g_b, f16* __restrict__ g_Z) {
  extern __shared__ __align__(128) unsigned char scratch[];
  int block = blockIdx.x;
  const int f_0 = block % 4 * 16, f_1 = min(f_0 + 16, 64); block /= 4;
  const int x_0 = block % 4 * 4, x_1 = min(x_0 + 4, 14); block /= 4;
  const int y_0 = block % 4 * 4, y_1 = min(y_0 + 4, 14); block /= 4;
  f16* const s_X = reinterpret_cast<f16*>(scratch + 0);
  f16* const s_W = reinterpret_cast<f16*>(scratch + 1152);
  f16* const s_E = reinterpret_cast<f16*>(scratch + 1920);
  float acc_Y[8];
  #pragma unroll
  for (int e = 0; e < 8; ++e) acc_Y[e] = 0.0f;
  for (int c_0 = 0; c_0 < 48; c_0 += 16) {
    const int c_1 = min(c_0 + 16, 48);
    for (int i = threadIdx.x; i < 72; i += 256) {  // load X
      int rest = i;
      const int o3 = rest % 2 * 8; rest /= 2;
      const int i3 = c_0 + o3;
      const int o2 = rest % 6; rest /= 6;
      const int i2 = x_0 + -1 + o2;
      const int o1 = rest % 6; rest /= 6;
      const int i1 = y_0 + -1 + o1;
      const int o0 = rest % 1; rest /= 1;
      const int i0 = 0 + o0;
      const bool inside = unsigned(i3) < 48u && i3 < c_1 && unsigned(i2) < 14u && i2 < x_1 + 1 && unsigned(i1) < 14u && i1 < y_1 + 1 && unsigned(i0) < 1u && i0 < 1;
      copy_async(s_X + o3 * 1 + o2 * 16 + o1 * 96 + o0 * 576, g_X + (inside ? i0 * 9408 + i1 * 672 + i2 * 48 + i3 * 1 : 0), inside ? 16 : 0);
    }
    copies_arrive();
    __syncthreads();
    for (int i = threadIdx.x; i < 32; i += 256) {  // load W
      int rest = i;
      const int o1 = rest % 2 * 8; rest /= 2;
      const int i1 = c_0 + o1;
      const int o0 = rest % 16; rest /= 16;
      const int i0 = f_0 + o0;
      const bool inside = unsigned(i1) < 48u && i1 < c_1 && unsigned(i0) < 64u && i0 < f_1;
      copy_async(s_W + o1 * 1 + o0 * 24, g_W + (inside ? i0 * 48 + i1 * 1 : 0), inside ? 16 : 0);
    }
    // D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
    for (int round = 0; round < 1; ++round) {
      int rest = threadIdx.x + round * 256;
      if (rest < 64) {
        const int base3 = max(c_0, 0) + rest % 16 * 1; rest /= 16;
        const int base2 = max(x_0, 0) + rest % 1 * 4; rest /= 1;
        const int base1 = max(y_0, 0) + rest % 4 * 1; rest /= 4;
        const int base0 = 0 + rest % 1 * 1; rest /= 1;
        float acc[4];
        #pragma unroll
        for (int e = 0; e < 4; ++e) acc[e] = 0.0f;
        #pragma unroll
        for (int a4_i = 0; a4_i < 3; ++a4_i) {
          #pragma unroll
          for (int a5_j = 0; a5_j < 3; ++a5_j) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int a3_c = base3 + e / 1 % 1;
              const int a2_x = base2 + e / 1 % 4;
              const int a1_y = base1 + e / 4 % 1;
              const int a0_n = base0 + e / 4 % 1;
              const bool boxed = true;
              const bool live = boxed && a3_c < min(c_1, 48) && a2_x < min(x_1, 14) && a1_y < min(y_1, 14) && a0_n < 1;
              if (live) {
                const float v0 = load(s_X[(a0_n) * 576 + ((a1_y + a4_i + -1) - (y_0 + -1)) * 96 + ((a2_x + a5_j + -1) - (x_0 + -1)) * 16 + ((a3_c) - (c_0))]);
                const float v1 = load(g_V[(a4_i) * 144 + (a5_j) * 48 + (a3_c)]);
                const float v2 = v0 * v1;
                acc[e] = acc[e] + v2;
              }
            }
          }
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int a3_c = base3 + e / 1 % 1;
          const int a2_x = base2 + e / 1 % 4;
          const int a1_y = base1 + e / 4 % 1;
          const int a0_n = base0 + e / 4 % 1;
          const bool boxed = true;
          const bool live = boxed && a3_c < min(c_1, 48) && a2_x < min(x_1, 14) && a1_y < min(y_1, 14) && a0_n < 1;
          if (live) {
            const float r_D = acc[e];
            const float v0 = load(g_a[(a3_c)]);
            const float v1 = r_D + v0;
            const float v2 = maximum(v1, (0.0f));
            const float v3 = minimum(v2, (6.0f));
            const float r_E = load(round_to<f16>(v3));
            s_E[(a0_n) * 384 + ((a1_y) - (y_0)) * 96 + ((a2_x) - (x_0)) * 24 + ((a3_c) - (c_0))] = round_to<f16>(r_E);
          } else if (boxed) {
            s_E[(a0_n) * 384 + ((a1_y) - (y_0)) * 96 + ((a2_x) - (x_0)) * 24 + ((a3_c) - (c_0))] = round_to<f16>(float(0));
          }
        }
      }
    }
    copies_arrive();
    __syncthreads();
    // Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 8, warp_n = threadIdx.x / 32 / 8;
      const int a4_c = max(c_0, 0);
      const f16* a_row[1];
      #pragma unroll
      for (int m = 0; m < 1; ++m) {
        const int row = min(warp_m * 16 + m * 16 + lane % 16, 15);
        const int a2_x = max(x_0, 0) + row / 1 % 4;
        const int a1_y = max(y_0, 0) + row / 4 % 4;
        const int a0_n = 0 + row / 16 % 1;
        a_row[m] = &s_E[(a0_n) * 384 + ((a1_y) - (y_0)) * 96 + ((a2_x) - (x_0)) * 24 + ((a4_c) - (c_0))] + lane / 16 * 8;
      }
      const f16* b_row[1];
      #pragma unroll
      for (int n = 0; n < 1; ++n) {
        const int column = warp_n * 16 + n * 16 + lane / 16 * 8 + lane % 8;
        const int a3_f = max(f_0, 0) + column / 1 % 16;
        b_row[n] = &s_W[((a3_f) - (f_0)) * 24 + ((a4_c) - (c_0))] + lane / 8 % 2 * 8;
      }
      #pragma unroll
      for (int k = 0; k < 16; k += 16) {
        unsigned a[1][4], b[1][4];
        #pragma unroll
        for (int m = 0; m < 1; ++m) load_matrices(a[m], a_row[m] + k);
        #pragma unroll
        for (int n = 0; n < 1; ++n) load_matrices(b[n], b_row[n] + k * 1);
        #pragma unroll
        for (int m = 0; m < 1; ++m)
        #pragma unroll
          for (int n = 0; n < 2; ++n) multiply_add<f16>(acc_Y + (m * 2 + n) * 4, a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
      }
    }
  }
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 8, warp_n = threadIdx.x / 32 / 8;
    #pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int row = warp_m * 16 + e / 8 * 16 + lane / 4 + e / 2 % 2 * 8;
      const int column = warp_n * 16 + e / 4 % 2 * 8 + lane % 4 * 2 + e % 2;
      const int a2_x = max(x_0, 0) + row / 1 % 4;
      const int a1_y = max(y_0, 0) + row / 4 % 4;
      const int a0_n = 0 + row / 16 % 1;
      const int a3_f = max(f_0, 0) + column / 1 % 16;
      const bool boxed = row < 16;
      const bool live = boxed && a0_n < 1 && a1_y < min(y_1, 14) && a2_x < min(x_1, 14) && a3_f < min(f_1, 64);
      if (live) {
        const float r_Y = acc_Y[e];
        const float v0 = load(g_b[(a3_f)]);
        const float v1 = r_Y + v0;
        const float v2 = maximum(v1, (0.0f));
        const float v3 = minimum(v2, (6.0f));
        const float r_Z = load(round_to<f16>(v3));
        g_Z[(a1_y) * 896 + (a2_x) * 64 + (a3_f)] = round_to<f16>(r_Z);
      }
    }
  }
}
