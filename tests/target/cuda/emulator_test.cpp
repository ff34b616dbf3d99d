// The machine that runs printed kernels in tests: what it must notice.
#ifdef TILEWRIGHT_EMULATED
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "target/cuda/emulated.h"

namespace tilewright {
namespace {

// A kernel of 64 threads that reads X[64] and writes Y[64], f32.
class Machine : public ::testing::Test {
 protected:
  std::string run(const std::string& body, std::int64_t blocks = 1) {
    cuda::Source s;
    s.name = "probe";
    s.text = "extern \"C\" __global__ void __launch_bounds__(64) probe(const float* __restrict__ g_X, float* __restrict__ g_Y) {\n"
             "  extern __shared__ __align__(1024) unsigned char scratch[];\n  float* const s_X = reinterpret_cast<float*>(scratch);\n" +
             body + "}\n";
    static emulated::Kernels kernels;
    const std::size_t k = kernels.add(s);
    kernels.compile();
    void *x = emulated::allocate(256), *y = emulated::allocate(256);
    for (int i = 0; i < 64; ++i) static_cast<float*>(x)[i] = static_cast<float>(i);
    emulated::host_writes(x, 256);
    void* arguments[] = {&x, &y};
    const std::string problem = emulated::run(kernels.entry(k), arguments, {blocks, 64, 256, 1});
    std::memcpy(y_, y, sizeof y_);
    emulated::release(x), emulated::release(y);
    return problem;
  }
  void expect(const std::string& body, const std::string& words, std::int64_t blocks = 1) {
    const std::string problem = run(body, blocks);
    EXPECT_NE(problem.find(words), std::string::npos) << body << "\nis said to have: " << problem;
  }
  float y_[64] = {};
};

TEST_F(Machine, RunsWhatIsRight) {
  EXPECT_EQ(run("  s_X[threadIdx.x] = g_X[threadIdx.x];\n  __syncthreads();\n  g_Y[threadIdx.x] = s_X[63 - threadIdx.x] + from_lane<4>(g_X[threadIdx.x], 2);\n"), "");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y_[i], static_cast<float>(63 - i + (i ^ 2)));
  EXPECT_EQ(run("  copy_async<4>(s_X + threadIdx.x, g_X + threadIdx.x, threadIdx.x == 5 ? 0 : 4);\n  copies_arrive<0>();\n  __syncthreads();\n  g_Y[threadIdx.x] = s_X[63 - threadIdx.x];\n"), "");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y_[i], i == 58 ? 0.0f : static_cast<float>(63 - i));
}

TEST_F(Machine, NoticesRaces) {
  expect("  s_X[threadIdx.x] = g_X[threadIdx.x];\n  g_Y[threadIdx.x] = s_X[63 - threadIdx.x];\n", "a race");
  expect("  s_X[threadIdx.x] = 1;\n  __syncthreads();\n  g_Y[threadIdx.x] = s_X[63 - threadIdx.x];\n  s_X[threadIdx.x] = 2;\n", "a race");
  expect("  s_X[threadIdx.x / 2] = 1;\n", "a race");
  expect("  g_Y[threadIdx.x] = 1;\n  if (threadIdx.x == 5) g_Y[4] = 2;\n", "a race");
  expect("  g_Y[threadIdx.x] = float(blockIdx.x);\n", "two blocks", 2);
}

TEST_F(Machine, NoticesWhatIsOutOfBounds) {
  expect("  g_Y[threadIdx.x] = g_X[threadIdx.x + 1];\n", "beyond the end of a tensor");
  expect("  g_Y[threadIdx.x] = g_X[int(threadIdx.x) - 1];\n", "nothing");
  expect("  s_X[threadIdx.x + 8] = 1;\n", "beyond the end of scratch");
  expect("  if (threadIdx.x == 1) copy_async<16>(s_X + 1, g_X);\n", "not aligned");
  expect("  float v[2]; fetch<2>(v, g_X + 1); g_Y[threadIdx.x] = v[1];\n", "not aligned");
}

TEST_F(Machine, NoticesWhatIsNotThere) {
  expect("  if (threadIdx.x < 32) g_Y[threadIdx.x] = g_Y[threadIdx.x + 32];\n", "nobody has written");
  EXPECT_EQ(run("  g_Y[threadIdx.x] = s_X[threadIdx.x];\n"), "");
  EXPECT_TRUE(std::isnan(y_[7]));
  // A copy that nobody waits for.
  EXPECT_EQ(run("  copy_async<4>(s_X + threadIdx.x, g_X + threadIdx.x);\n  __syncthreads();\n  g_Y[threadIdx.x] = s_X[63 - threadIdx.x];\n"), "");
  EXPECT_TRUE(std::isnan(y_[7]));
}

TEST_F(Machine, NoticesThreadsThatDoNotMeet) {
  expect("  if (threadIdx.x < 32) threads_meet<64>();\n", "wait for ever");
  expect("  if (threadIdx.x % 32 < 16) __syncwarp(); else g_Y[threadIdx.x] = from_lane<32>(1.0f, 16);\n", "different instructions");
  expect("  const unsigned b = shared_address(scratch);\n  if (threadIdx.x == 0) barrier_make(b, 65);\n  __syncthreads();\n  barrier_arrive(b);\n  barrier_wait(b, 0);\n", "wait for ever");
}

// 64 threads begin with 240 each.
TEST_F(Machine, NoticesRolesThatAskForMoreThanThereIs) {
  EXPECT_EQ(run("  if (threadIdx.x < 32) registers_down<224>(); else registers_up<256>();\n"), "");
  expect("  if (threadIdx.x < 32) registers_down<232>(); else registers_up<256>();\n", "256 registers more than block 0 began with");
}

}  // namespace
}  // namespace tilewright
#endif
