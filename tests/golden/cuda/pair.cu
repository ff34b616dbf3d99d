kernel pair
  for y0, y1 in tiles(0, 14, 4) grid:
    for x0, x1 in tiles(0, 14, 4) grid:
      for f0, f1 in tiles(0, 64, 16) grid:
        load b[f0:f1]
        init Y[0:1, y0:y1, x0:x1, f0:f1] : f32 for sum
        barrier
        for c0, c1 in tiles(0, 48, 16) seq, ring of 3:
          barrier, copies of 1 may be under way
          load X[0:1, y0-1:y1+1, x0-1:x1+1, c0:c1] -> scratch, 2 ahead
          load V[0:3, 0:3, c0:c1] -> scratch, 2 ahead
          load a[c0:c1] -> scratch, 2 ahead
          load W[f0:f1, c0:c1] -> scratch, 2 ahead
          init D[0:1, y0:y1, x0:x1, c0:c1] : f32 for sum
          window D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
          map E[n y x c] : f16 = min(max(D[n y x c] + a[c], 0), 6)
          barrier
          contract Y[n y x f] : f32 = sum[c] E[n y x c] * W[f c]
        map Z[n y x f] : f16 = min(max(Y[n y x f] + b[f], 0), 6)
        store Z[0:1, y0:y1, x0:x1, f0:f1] : f16

extern "C" __global__ void __launch_bounds__(256) pair(const f16* __restrict__ g_X, const f16* __restrict__ g_V, const f16* __restrict__ g_a, const f16* __restrict__ g_W, const f16* __restrict__ g_b, f16* __restrict__ g_Z) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  int block = blockIdx.x;
  const int f_0 = block % 4 * 16, f_1 = min(f_0 + 16, 64); block /= 4;
  const int x_0 = block % 4 * 4, x_1 = min(x_0 + 4, 14); block /= 4;
  const int y_0 = block % 4 * 4, y_1 = min(y_0 + 4, 14); block /= 4;
  f16* const ring_X = reinterpret_cast<f16*>(scratch + 0);
  f16* const ring_V = reinterpret_cast<f16*>(scratch + 5376);
  f16* const ring_a = reinterpret_cast<f16*>(scratch + 6912);
  f16* const ring_W = reinterpret_cast<f16*>(scratch + 7296);
  f16* const s_E = reinterpret_cast<f16*>(scratch + 9600);
  float acc_Y[8];
  #pragma unroll
  for (int e = 0; e < 8; ++e) acc_Y[e] = 0.0f;
  __syncthreads();
  // ring of 3: copies of 2 iterations are under way
  #pragma unroll
  for (int early = 0; early < 2; ++early) {
    if (const int ahead_c = early * 16; ahead_c < 48) {
      const int c_0 = ahead_c, c_1 = min(c_0 + 16, 48);
      f16* const s_X = ring_X + early * 896;
      f16* const s_V = ring_V + early * 256;
      f16* const s_a = ring_a + early * 64;
      f16* const s_W = ring_W + early * 384;
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load X
        int rest = threadIdx.x + round * 256;
        if (rest >= 72) break;
        const int o3 = rest % 2 * 8; rest /= 2;
        const int i3 = c_0 + o3;
        const int o2 = rest % 6; rest /= 6;
        const int i2 = x_0 + -1 + o2;
        const int o1 = rest % 6; rest /= 6;
        const int i1 = y_0 + -1 + o1;
        const int o0 = rest; rest /= 1;
        const int i0 = 0 + o0;
        const bool inside = unsigned(i2) < 14u && i2 < x_1 + 1 && unsigned(i1) < 14u && i1 < y_1 + 1;
        copy_async<16>(s_X + o3 * 1 + o2 * 24 + o1 * 144 + o0 * 864, g_X + (inside ? i3 * 1 + i2 * 48 + i1 * 672 + i0 * 9408 : 0), inside ? 16 : 0);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load V
        int rest = threadIdx.x + round * 256;
        if (rest >= 18) break;
        const int o2 = rest % 2 * 8; rest /= 2;
        const int i2 = c_0 + o2;
        const int o1 = rest % 3; rest /= 3;
        const int i1 = 0 + o1;
        const int o0 = rest; rest /= 3;
        const int i0 = 0 + o0;
        copy_async<16>(s_V + o2 * 1 + o1 * 24 + o0 * 72, g_V + i2 * 1 + i1 * 48 + i0 * 144);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load a
        int rest = threadIdx.x + round * 256;
        if (rest >= 2) break;
        const int o0 = rest * 8; rest /= 2;
        const int i0 = c_0 + o0;
        copy_async<16>(s_a + o0 * 1, g_a + i0 * 1);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load W
        int rest = threadIdx.x + round * 256;
        if (rest >= 32) break;
        const int o1 = rest % 2 * 8; rest /= 2;
        const int i1 = c_0 + o1;
        const int o0 = rest; rest /= 16;
        const int i0 = f_0 + o0;
        copy_async<16>(s_W + o1 * 1 + o0 * 24, g_W + i1 * 1 + i0 * 48);
      }
    }
    copies_commit();
  }
  int stage_c = 0;
  for (int c_0 = 0; c_0 < 48; c_0 += 16) {
    const int c_1 = min(c_0 + 16, 48);
    f16* const s_X = ring_X + stage_c * 896;
    f16* const s_V = ring_V + stage_c * 256;
    f16* const s_a = ring_a + stage_c * 64;
    f16* const s_W = ring_W + stage_c * 384;
    copies_arrive<1>();
    __syncthreads();
    if (const int ahead_c = c_0 + 32; ahead_c < 48) {
      const int c_0 = ahead_c, c_1 = min(c_0 + 16, 48);
      f16* const s_X = ring_X + (stage_c < 1 ? stage_c + 2 : stage_c - 1) * 896;
      f16* const s_V = ring_V + (stage_c < 1 ? stage_c + 2 : stage_c - 1) * 256;
      f16* const s_a = ring_a + (stage_c < 1 ? stage_c + 2 : stage_c - 1) * 64;
      f16* const s_W = ring_W + (stage_c < 1 ? stage_c + 2 : stage_c - 1) * 384;
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load X
        int rest = threadIdx.x + round * 256;
        if (rest >= 72) break;
        const int o3 = rest % 2 * 8; rest /= 2;
        const int i3 = c_0 + o3;
        const int o2 = rest % 6; rest /= 6;
        const int i2 = x_0 + -1 + o2;
        const int o1 = rest % 6; rest /= 6;
        const int i1 = y_0 + -1 + o1;
        const int o0 = rest; rest /= 1;
        const int i0 = 0 + o0;
        const bool inside = unsigned(i2) < 14u && i2 < x_1 + 1 && unsigned(i1) < 14u && i1 < y_1 + 1;
        copy_async<16>(s_X + o3 * 1 + o2 * 24 + o1 * 144 + o0 * 864, g_X + (inside ? i3 * 1 + i2 * 48 + i1 * 672 + i0 * 9408 : 0), inside ? 16 : 0);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load V
        int rest = threadIdx.x + round * 256;
        if (rest >= 18) break;
        const int o2 = rest % 2 * 8; rest /= 2;
        const int i2 = c_0 + o2;
        const int o1 = rest % 3; rest /= 3;
        const int i1 = 0 + o1;
        const int o0 = rest; rest /= 3;
        const int i0 = 0 + o0;
        copy_async<16>(s_V + o2 * 1 + o1 * 24 + o0 * 72, g_V + i2 * 1 + i1 * 48 + i0 * 144);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load a
        int rest = threadIdx.x + round * 256;
        if (rest >= 2) break;
        const int o0 = rest * 8; rest /= 2;
        const int i0 = c_0 + o0;
        copy_async<16>(s_a + o0 * 1, g_a + i0 * 1);
      }
      #pragma unroll
      for (int round = 0; round < 1; ++round) {  // load W
        int rest = threadIdx.x + round * 256;
        if (rest >= 32) break;
        const int o1 = rest % 2 * 8; rest /= 2;
        const int i1 = c_0 + o1;
        const int o0 = rest; rest /= 16;
        const int i0 = f_0 + o0;
        copy_async<16>(s_W + o1 * 1 + o0 * 24, g_W + i1 * 1 + i0 * 48);
      }
    }
    copies_commit();
    // D[n y x c] : f32 = sum[i j] X[n, y+i-1, x+j-1, c else 0] * V[i j c]
    for (int round = 0; round < 1; ++round) {
      int rest = threadIdx.x + round * 256;
      if (rest < 64) {
        const int base3 = max(c_0, 0) + rest % 8 * 2; rest /= 8;
        const int base2 = max(x_0, 0) + rest % 2 * 2; rest /= 2;
        const int base1 = max(y_0, 0) + rest % 4 * 1; rest /= 4;
        const int base0 = 0 + rest % 1 * 1; rest /= 1;
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
                fetch<2>(operand0 + d0 * 2 + d1 * 1, &s_X[(base0) * 864 + ((base1 + a4_i + -1) - (y_0 + -1)) * 144 + (((base2 + d0) + a5_j + -1) - (x_0 + -1)) * 24 + (((base3 + d1)) - (c_0))]);
              }
            }
            float operand1[2];
            #pragma unroll
            for (int d0 = 0; d0 < 2; d0 += 2) {
              fetch<2>(operand1 + d0 * 1, &s_V[(a4_i) * 72 + (a5_j) * 24 + (((base3 + d0)) - (c_0))]);
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
          const int a2_x = base2 + e / 2 % 2;
          const int a1_y = base1 + e / 4 % 1;
          const int a0_n = base0 + e / 4 % 1;
          const bool boxed = true;
          const bool live = boxed && a2_x < min(x_1, 14) && a1_y < min(y_1, 14);
          if (live) {
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
              const float r_E = load(round_to<f16>(v2));
              w_E[u] = v2;
            }
            put<2>(&s_E[(a0_n) * 384 + ((a1_y) - (y_0)) * 96 + ((a2_x) - (x_0)) * 24 + ((a3_c) - (c_0))], w_E);
          } else if (boxed) {
            const float zero[2] = {}; put<2>(&s_E[(a0_n) * 384 + ((a1_y) - (y_0)) * 96 + ((a2_x) - (x_0)) * 24 + ((a3_c) - (c_0))], zero);
          }
        }
      }
    }
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
      unsigned a[2][1][4], b[2][1][4];
      #pragma unroll
      for (int m = 0; m < 1; ++m) load_matrices(a[0][m], a_row[m] + 0);
      #pragma unroll
      for (int n = 0; n < 1; ++n) load_matrices(b[0][n], b_row[n] + 0);
      #pragma unroll
      for (int k = 0; k < 16; k += 16) {
        #pragma unroll
        for (int m = 0; m < 1; ++m)
        #pragma unroll
          for (int n = 0; n < 2; ++n) multiply_add<f16>(acc_Y + (m * 2 + n) * 4, a[k / 16 % 2][m], b[k / 16 % 2][n / 2][n % 2 * 2], b[k / 16 % 2][n / 2][n % 2 * 2 + 1]);
      }
    }
    stage_c = stage_c == 2 ? 0 : stage_c + 1;
  }
  {
    const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 8, warp_n = threadIdx.x / 32 / 8;
    float column0[4];
    #pragma unroll
    for (int n = 0; n < 1; ++n)
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int column = warp_n * 16 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
      const int a3_f = max(f_0, 0) + column / 1 % 16;
      column0[n * 4 + u] = load(g_b[(a3_f)]);
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m)
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
      const int row = warp_m * 16 + m * 8 + lane / 4;
      const int a2_x = max(x_0, 0) + row / 1 % 4;
      const int a1_y = max(y_0, 0) + row / 4 % 4;
      const int a0_n = 0 + row / 16 % 1;
      const bool boxed = row < 16, row_live = row < 16 && a1_y < min(y_1, 14) && a2_x < min(x_1, 14);
      float w_Z[4] = {};
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int column = warp_n * 16 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
        const int a3_f = max(f_0, 0) + column / 1 % 16;
        if (row_live) {
          const float r_Y = acc_Y[((m / 2 * 2 + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2];
          const float v0 = r_Y + column0[n * 4 + u];
          const float v1 = maximum(v0, (0.0f));
          const float v2 = minimum(v1, (6.0f));
          const float r_Z = load(round_to<f16>(v2));
          w_Z[u] = v2;
        }
      }
      {
        const word<8> four = exchange<f16>(w_Z);
        const int column = warp_n * 16 + n * 16 + lane % 2 * 8 + lane / 2 % 2 * 4;
        const int a3_f = max(f_0, 0) + column / 1 % 16;
        if (row_live) *reinterpret_cast<word<8>*>(&g_Z[(a1_y) * 896 + (a2_x) * 64 + (a3_f)]) = four;
      }
    }
  }
}
