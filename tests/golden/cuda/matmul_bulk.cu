kernel matmul_bulk
  for m0, m1 in tiles(0, 200, 64) grid:
    init C[m0:m1, 0:128] : f32 for sum
    for k0, k1 in tiles(0, 264, 64) seq, ring of 4:
      copying warps wait until a stage of k is free
      load A[m0:m1, k0:k1] -> scratch, in bulk
      load B[k0:k1, 0:128] -> scratch, in bulk
      computing warps wait for its boxes
      contract C[m n] : f32 = sum[k] A[m k] * B[k n]
      what was read 1 iteration before is free
    map D[m n] : bf16 = C[m n]
    store D[m0:m1, 0:128] : bf16

TW_DEVICE void bulk_copy(void* to, const tensor_map& from, unsigned barrier, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    :: "r"(shared_address(to)), "l"(&from), "r"(c0), "r"(c1), "r"(barrier) : "memory");
}
TW_DEVICE void bulk_copy_to_all(void* to, const tensor_map& from, unsigned barrier, int c0, int c1, int c2, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
    :: "r"(shared_address(to)), "l"(&from), "r"(c0), "r"(c1), "r"(c2), "r"(barrier), "h"(blocks) : "memory");
}
// d[64 x 128] += a[64 x 16] * b[16 x 128]
TW_DEVICE void group_multiply_matmul_bulk(float* d, unsigned long long a, unsigned long long b, int add = 1) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "l"(a), "l"(b), "r"(add));
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1) matmul_bulk(const __grid_constant__ tensor_map m_A, const __grid_constant__ tensor_map m_B, bf16* __restrict__ g_D) {
  extern __shared__ __align__(1024) unsigned char scratch[];
  await_predecessor();
  bf16* const ring_A = reinterpret_cast<bf16*>(scratch + 0);
  bf16* const ring_B = reinterpret_cast<bf16*>(scratch + 32768);
  const unsigned full_k = shared_address(scratch + 98304), free_k = full_k + 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < 4; ++i) barrier_make(full_k + 8 * i, 1), barrier_make(free_k + 8 * i, 8);
  barriers_made();
  cluster_meet();
  if (threadIdx.x >= 128) {  // copies
    registers_down<40>();
    if (threadIdx.x == 128) {
      unsigned stage_k = 0; unsigned phase_k = 0;
      unsigned block = blockIdx.x;
      const int m_0 = int(block % 4) * 64, m_1 = min(m_0 + 64, 200);
      block /= 4;
      #pragma unroll 1
      for (int k_0 = 0; k_0 < 264; k_0 += 64) {
        const int k_1 = min(k_0 + 64, 264);
        barrier_wait(free_k + 8 * stage_k, phase_k ^ 1);
        barrier_expect(full_k + 8 * stage_k, 24576);
        bf16* const s_A = ring_A + stage_k * 4096;
        bf16* const s_B = ring_B + stage_k * 8192;
        bulk_copy(s_A, m_A, full_k + 8 * stage_k, k_0, m_0);
        bulk_copy_to_all(s_B + cluster_rank() * 4096, m_B, full_k + 8 * stage_k, 0, k_0, (0) / 64 + int(cluster_rank()) * 1, 3);
        if (++stage_k == 4) stage_k = 0, phase_k ^= 1;
      }
    }
    __syncwarp();
  } else {  // computes
    registers_up<240>();
    unsigned stage_k = 0; unsigned phase_k = 0;
    unsigned block = blockIdx.x;
    const int m_0 = int(block % 4) * 64, m_1 = min(m_0 + 64, 200);
    block /= 4;
    float acc_C[64];
    #pragma unroll
    for (int e = 0; e < 64; ++e) acc_C[e] = 0.0f;
    for (int k_0 = 0; k_0 < 264; k_0 += 64) {
      const int k_1 = min(k_0 + 64, 264);
      barrier_wait(full_k + 8 * stage_k, phase_k);
      bf16* const s_A = ring_A + stage_k * 4096;
      bf16* const s_B = ring_B + stage_k * 8192;
      // C[m n] : f32 = sum[k] A[m k] * B[k n]
      {
        const int group_m = threadIdx.x / 128 % 1, group_n = threadIdx.x / 128 / 1;
        const unsigned long long rows = operand(shared_address(s_A) + group_m * 8192, 16, 1024);
        const unsigned long long columns = operand(shared_address(s_B) + group_n * 16384, 8192, 1024);
        group_begin();
        #pragma unroll
        for (int k = 0; k < 64; k += 16)
          group_multiply_matmul_bulk(acc_C, rows + k / 8, columns + k * 8);
        group_commit();
        group_wait<1>();
      }
      if (k_0 >= 64) {
        if (threadIdx.x % 32 < 2) barrier_arrive_in(free_k + 8 * (stage_k < 1 ? stage_k + 3 : stage_k - 1), threadIdx.x % 32);
      }
      if (++stage_k == 4) stage_k = 0, phase_k ^= 1;
    }
    group_wait<0>();
    if (threadIdx.x % 32 < 2) barrier_arrive_in(free_k + 8 * (stage_k < 1 ? stage_k + 3 : stage_k - 1), threadIdx.x % 32);
    group_wait<0>();
    {
      const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 4, warp_n = threadIdx.x / 128;
      #pragma unroll
      for (int n = 0; n < 8; ++n) {
        #pragma unroll
        for (int m = 0; m < 2; ++m) {
          const int row = warp_m * 16 + m * 8 + lane / 4;
          const int a0_m = m_0 + int(unsigned(row) / 1 % 64);
          const bool boxed = true, row_live = a0_m < min(m_1, 200);
          float w_D[4] = {};
          #pragma unroll
          for (int u = 0; u < 4; ++u) {
            const int column = warp_n * 128 + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;
            const int a1_n = 0 + int(unsigned(column) / 1 % 128);
            if (row_live) {
              const float r_C = acc_C[((m / 2 * 16 + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2];
              const float r_D = r_C;
              w_D[u] = r_C;
            }
          }
          {
            const word<8> four = exchange<bf16>(w_D);
            const int column = warp_n * 128 + n * 16 + lane % 2 * 8 + lane / 2 % 2 * 4;
            const int a1_n = 0 + int(unsigned(column) / 1 % 128);
            if (row_live) *reinterpret_cast<word<8>*>(&g_D[(a0_m) * 128 + (a1_n)]) = four;
          }
        }
      }
    }
  }
  cluster_meet();  // nobody leaves while others write into its scratch
}
