// Sessions on a GPU as far as they can be seen without one: a driver whose kernels do nothing
// (tests/target/cuda/fake_driver.cpp) writes down what it is asked. Results are right where no kernel of the GPU is
// needed: that is what steps on the CPU are tested by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "expr/opaque.h"
#include "expr/text.h"
#include "runtime/backend.h"
#include "runtime/open.h"
#include "runtime/sessions.h"
#include "target/cuda/compiler.h"
#include "target/cuda/executor.h"
#include "target/cuda/kernel_cache.h"

namespace tilewright {
namespace {

constexpr const char* chain = R"(program chain(n=40, k=24, m=32)
input A[n k] : f32
weight B[k m], W[m k] : f32
C[n m] = sum[k] A[n k] * B[k m]
D[n k] = sum[m] C[n m] * W[m k]
output D
)";

// An opaque node between two kernels.
constexpr const char* split = R"(program split(n=8, m=4)
input X[n m] : f32
opaque Y[n m] : f32 = doubled_for_test(X)
Z[n m] = Y[n m] + 1
opaque U[n m] : f32 = doubled_for_test(Y)
output Z, U
)";

class CudaSession : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tilewright_cuda_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("TILEWRIGHT_CUDA", TILEWRIGHT_FAKE_CUDA, 1);
    ::setenv("TILEWRIGHT_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    ::setenv("FAKE_CUDA_LOG", (folder_ / "log").c_str(), 1);
    for (const char* name :
         {"FAKE_CUDA_FAIL", "FAKE_CUDA_NAME", "FAKE_CUDA_DEVICES", "TILEWRIGHT_JIT", "TILEWRIGHT_CUDA_SYNC"})
      ::unsetenv(name);
    register_reference("doubled_for_test", [](std::span<const Array> in, std::span<Array> out) {
      for (std::int64_t i = 0; i < in[0].count(); ++i) out[0].as<float>()[i] = 2 * in[0].as<float>()[i];
    });
    if (!cuda::compiler_found()) GTEST_SKIP() << "no run-time compiler here";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string log() {
    std::ifstream file(folder_ / "log");
    std::stringstream text;
    text << file.rdbuf();
    std::filesystem::remove(folder_ / "log");
    return text.str();
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }

  static Array filled(const std::vector<std::int64_t>& dims) {
    Array a = Array::make(DType::f32, dims);
    for (std::int64_t i = 0; i < a.count(); ++i) a.as<float>()[i] = static_cast<float>(i % 7) - 3;
    return a;
  }
  static Program program(const char* text) {
    Program p = fix_sizes(parse(text, "test.tw"), {});
    std::map<std::string, Array> constants;
    for (const Tensor& t : p.tensors)
      if (t.kind == Kind::weight) constants.emplace(t.name, filled(dims_of(t)));
    bind_constants(p, constants);
    return p;
  }
  static SessionOptions on_gpu() {
    SessionOptions o;
    o.device = "cuda", o.threads = 2, o.fuse = false;
    return o;
  }
  static std::string refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(CudaSession, LaunchesFirstAndThenRecordsAGraph) {
  {
    Session s(program(chain), on_gpu());
    EXPECT_EQ(s.gpu(), 0);
    EXPECT_EQ(s.executable(), nullptr);
    EXPECT_EQ(s.plan().machine.name, "h200");
    EXPECT_TRUE(s.notes().empty()) << s.notes()[0];
    const Array a = filled({40, 24}), d = Array::make(DType::f32, {40, 24});
    log();
    s.run({dense(a)}, {dense(d)});
    const std::string first = log();
    EXPECT_EQ(count(first, "launch "), 2u) << first;
    EXPECT_EQ(count(first, " early"), 1u) << first; // behind a copy nothing starts early
    s.run({dense(a)}, {dense(d)});
    const std::string second = log();
    EXPECT_EQ(count(second, "record "), 2u) << second;
    EXPECT_EQ(count(second, "graph\n"), 1u) << second;
    s.run({dense(a)}, {dense(d)});
    EXPECT_EQ(log(), "graph\n");
    EXPECT_EQ(s.device_seconds(5), std::vector<double>(5, 0.25e-3));
    std::vector<double> seconds;
    s.run({dense(a)}, {dense(d)}, {&seconds, nullptr, nullptr});
    EXPECT_EQ(seconds.size(), 2u);
    log();
  }
  const std::string last = log();
  EXPECT_NE(last.find("graph destroyed, 0 left"), std::string::npos) << last;
  EXPECT_NE(last.find("release, 0 blocks of memory left"), std::string::npos) << last;
}

TEST_F(CudaSession, ArraysOnTheGpuAreUsedWhereTheyLie) {
  Session s(program(chain), on_gpu());
  const Array a = filled({40, 24}), d = Array::make(DType::f32, {40, 24});
  Strided in = dense(a), out = dense(d);
  in.gpu = out.gpu = 0;
  int stream = 0;
  log();
  for (int i = 0; i < 3; ++i) s.run({in}, {out}, {nullptr, nullptr, &stream});
  const std::string text = log();
  EXPECT_EQ(count(text, "wait\n"), 6u) << text; // for the caller's stream, and it for us
  EXPECT_EQ(count(text, "copy"), 0u) << text;
  EXPECT_EQ(count(text, "graph\n"), 2u) << text;
  // Elsewhere: a graph of its own. Not aligned to 16 bytes: through memory of ours. The same array in and out: a copy
  // behind.
  const Array other = Array::make(DType::f32, {41, 24});
  Strided moved = dense(other);
  moved.dims[0] = 40, moved.gpu = 0, moved.data += 4;
  s.run({in}, {moved});
  EXPECT_EQ(count(log(), "copy"), 1u);
  s.run({in}, {in});
  EXPECT_EQ(count(log(), "copy"), 1u);
  in.gpu = 1;
  EXPECT_NE(refusal([&] { s.run({in}, {out}); }).find("on GPU 1"), std::string::npos);
  in.gpu = 0, in.strides = {1, 40};
  EXPECT_NE(refusal([&] { s.run({in}, {out}); }).find("contiguous"), std::string::npos);
  Session cpu(program(chain));
  EXPECT_NE(refusal([&] { cpu.run({out}, {out}); }).find("the session on the CPU"), std::string::npos);
}

TEST_F(CudaSession, WhatHasNoKernelRunsOnTheCpu) {
  SessionOptions o = on_gpu();
  o.keep = true;
  Session s(program(split), o);
  ASSERT_EQ(s.notes().size(), 1u);
  EXPECT_NE(s.notes()[0].find("2 of 3 kernels run on the CPU"), std::string::npos) << s.notes()[0];
  const Array x = filled({8, 4}), z = Array::make(DType::f32, {8, 4}), u = Array::make(DType::f32, {8, 4});
  for (int i = 0; i < 3; ++i) {
    s.run({dense(x)}, {dense(z), dense(u)});
    for (std::int64_t n = 0; n < x.count(); ++n) EXPECT_EQ(u.as<float>()[n], 4 * x.as<float>()[n]);
  }
  for (std::size_t t = 0; t < s.program().tensors.size(); ++t)
    if (s.program().tensors[t].name == "Y") {
      const auto y = s.intermediate(static_cast<TensorId>(t));
      ASSERT_TRUE(y);
      for (std::int64_t n = 0; n < x.count(); ++n) EXPECT_EQ(y->as<float>()[n], 2 * x.as<float>()[n]);
    }
}

TEST_F(CudaSession, FailuresTellWhatFailed) {
  const Array a = filled({40, 24}), d = Array::make(DType::f32, {40, 24});
  ::setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2:1", 1);
  EXPECT_NE(refusal([&] { Session(program(chain), on_gpu()); }).find("E0602"), std::string::npos);
  ::setenv("FAKE_CUDA_FAIL", "cuLaunchKernelEx:700:2", 1);
  const std::string launch = refusal([&] { Session(program(chain), on_gpu()).run({dense(a)}, {dense(d)}); });
  for (const char* part : {"E0601 kernel 1 'D'", "tile", "blocks of", "an illegal memory access", "CUDA error 700"})
    EXPECT_NE(launch.find(part), std::string::npos) << launch;
  ::unsetenv("FAKE_CUDA_FAIL");
  Session s(program(chain), on_gpu());
  ::setenv("FAKE_CUDA_FAIL", "cuStreamSynchronize:700:2", 1); // the first is the input's copy
  const std::string later = refusal([&] { s.run({dense(a)}, {dense(d)}); });
  EXPECT_NE(later.find("TILEWRIGHT_CUDA_SYNC=1"), std::string::npos) << later;
  ::setenv("TILEWRIGHT_CUDA_SYNC", "1", 1);
  ::setenv("FAKE_CUDA_FAIL", "cuStreamSynchronize:700:3", 1);
  const std::string found = refusal([&] { s.run({dense(a)}, {dense(d)}); });
  EXPECT_NE(found.find("kernel 1 'D'"), std::string::npos) << found;
  ::setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_NE(refusal([&] { Session(program(chain), on_gpu()); }).find("this machine has 0"), std::string::npos);
  EXPECT_NE(refusal([&] { Sessions(program(chain), on_gpu()); }).find("this machine has 0"), std::string::npos);
}

TEST_F(CudaSession, KernelsAreKeptOnDisk) {
  Session(program(chain), on_gpu());
  const auto kernels = folder_ / "cache" / "kernels";
  std::vector<std::filesystem::path> files;
  for (const auto& f : std::filesystem::directory_iterator(kernels)) files.push_back(f.path());
  ASSERT_EQ(files.size(), 2u);
  ::setenv("TILEWRIGHT_JIT", "off", 1);
  EXPECT_EQ(refusal([&] { Session(program(chain), on_gpu()); }), "");
  std::filesystem::resize_file(files[0], std::filesystem::file_size(files[0]) - 1); // what is damaged is not there
  EXPECT_NE(refusal([&] { Session(program(chain), on_gpu()); }).find("TILEWRIGHT_JIT=off"), std::string::npos);
  ::unsetenv("TILEWRIGHT_JIT");
  EXPECT_EQ(refusal([&] { Session(program(chain), on_gpu()); }), "");
  EXPECT_TRUE(cuda::read_cached(folder_ / "cache", files[0].stem()));
  ::setenv("TILEWRIGHT_CACHE_DIR", "/proc/nowhere", 1);
  Session s(program(chain), on_gpu());
  ASSERT_EQ(s.notes().size(), 1u);
  EXPECT_NE(s.notes()[0].find("cannot be kept in /proc/nowhere"), std::string::npos);
}

// An index tensor's element out of range is told by a word of its kernel, which the driver of the tests may set.
TEST_F(CudaSession, IndicesAreLookedAt) {
  const char* text =
      "program g(n=6, v=10, c=4)\ninput T[v c] : f32\ninput I[n] : i64\nY[n c] : f32 = T[I[n], c] + 1\noutput Y\n";
  Session s(program(text), on_gpu());
  const Array t = filled({10, 4}), i = Array::make(DType::i64, {6}), y = Array::make(DType::f32, {6, 4});
  s.run({dense(t), dense(i)}, {dense(y)});
  ::setenv("FAKE_CUDA_FAULT", "1", 1);
  const std::string told = refusal([&] { s.run({dense(t), dense(i)}, {dense(y)}); });
  ::unsetenv("FAKE_CUDA_FAULT");
  EXPECT_NE(told.find("E0105 Y: an element of an index tensor is out of range"), std::string::npos) << told;
  EXPECT_EQ(refusal([&] { s.run({dense(t), dense(i)}, {dense(y)}); }), "");
}

// The planner says in which order a weight's elements lie on the GPU.
TEST_F(CudaSession, WeightsLieAsThePlanSays) {
  SessionOptions o = on_gpu();
  o.machine = "h200";
  Program p = fix_sizes(parse("program w(n=3, a=4, b=5, c=6)\ninput X[n a] : f32\nweight W[a b c] : f32\nY[n b c] = "
                              "sum[a] X[n a] * W[a b c]\noutput Y\n",
                              "w.tw"),
                        {});
  Array w = Array::make(DType::f32, {4, 5, 6});
  for (std::int64_t i = 0; i < w.count(); ++i) w.as<float>()[i] = static_cast<float>(i);
  bind_constants(p, {{"W", w}});
  Plan plan = plan_program(p, o);
  TensorId id = 0;
  while (plan.program->tensor(id).kind != Kind::weight) ++id;
  const auto dims = dims_of(plan.program->tensor(id));
  for (DimOrder order = row_major(dims.size());;) {
    plan.layouts[static_cast<std::size_t>(id)] = order;
    cuda::Device gpu;
    const cuda::Built built = cuda::build(plan, gpu.arch(), {});
    const cuda::Executor e(gpu, plan, built, plan_memory(plan, 256), 1);
    ASSERT_TRUE(built.kernels[0].code) << built.kernels[0].why;
    const auto to = dense_strides(dims, order), from = dense_strides(dims, row_major(dims.size()));
    const float* there = reinterpret_cast<const float*>(e.address(id)); // the heap's, as this driver has it
    for (std::int64_t i = 0; i < w.count(); ++i) {
      std::int64_t rest = i, place = 0;
      for (std::size_t d = 0; d < dims.size(); ++d) place += rest / from[d] * to[d], rest %= from[d];
      ASSERT_EQ(there[place], static_cast<float>(i));
    }
    if (!std::next_permutation(order.begin(), order.end())) break;
  }
}

TEST(CudaDevice, NamesAndMachines) {
  EXPECT_EQ(parse_device("cpu"), -1);
  EXPECT_EQ(parse_device("cuda"), 0);
  EXPECT_EQ(parse_device("cuda:3"), 3);
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda1", "cuda:99999999999"})
    EXPECT_THROW(parse_device(bad), Error) << bad;
  const auto machine = [](const char* name, const char* arch, int cores, bool told) {
    std::string note;
    const Machine m = machine_for({name, arch, cores, 0}, note);
    EXPECT_EQ(!note.empty(), told) << name << ": " << note;
    return m.name;
  };
  EXPECT_EQ(machine("NVIDIA H200", "sm_90a", 132, false), "h200");
  EXPECT_EQ(machine("NVIDIA H100 80GB HBM3", "sm_90a", 132, false), "h100");
  EXPECT_EQ(machine("NVIDIA A100-SXM4-80GB", "sm_80", 108, false), "a100");
  EXPECT_EQ(machine("NVIDIA GeForce GTX 1660", "sm_75", 22, false), "gtx1660");
  EXPECT_EQ(machine("NVIDIA RTX A4000", "sm_86", 48, false), "rtxa4000");
  EXPECT_EQ(machine("Orin", "sm_87", 16, false), "orin");
  EXPECT_EQ(machine("NVIDIA L4", "sm_89", 58, true), "rtxa4000");
  EXPECT_EQ(machine("NVIDIA B200", "sm_100a", 148, true), "a100"); // instructions of sm_90a are no other's
  std::string note;
  EXPECT_THROW(machine_for({"Tesla P100", "sm_60", 56, 0}, note), Error);
}

} // namespace
} // namespace tilewright
