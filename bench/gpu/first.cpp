// Kernels on a GPU: right against the CPU target that runs the same nest, and timed. Prints one line a kernel.
//   bench_gpu [check|time|small]      small: the kernels that a sanitizer can go through
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "machine/isa.h"
#include "target/cpu/execute.h"
#include "target/cuda/cases.h"
#include "target/cuda/driver.h"

namespace {

using namespace tilewright;
using tilewright::testing::GpuCase;

float element(const Array& a, std::int64_t i) {
  return a.dtype == DType::f32 ? a.as<float>()[i] : a.dtype == DType::f16 ? f16_to_f32(a.as<std::uint16_t>()[i]) : bf16_to_f32(a.as<std::uint16_t>()[i]);
}

void fill(Array& a, bool weight, std::uint64_t seed) {
  const float scale = weight && a.dims.size() > 1 ? 2.0f / std::sqrt(static_cast<float>(a.dims.back())) : 1.0f;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const float v = scale * (static_cast<float>(seed >> 40) / 8388608.0f - 1.0f);
    if (a.dtype == DType::f32) a.as<float>()[i] = v;
    else a.as<std::uint16_t>()[i] = a.dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
  }
}

double multiply_adds(const GpuCase& c) {
  double n = 0;
  for (StatementId id : c.region.statements) {
    const Statement& s = *c.program->statement(id);
    if (s.reduced.empty()) continue;
    double points = 1;
    for (const Size& e : s.axes) points *= static_cast<double>(e.constant());
    n += points;
  }
  return n;
}

bool run(cuda::Device& device, const GpuCase& c, bool check, bool time) {
  const Program& p = *c.program;
  const auto source = cuda::source_of(p, c.region, c.schedule, specialise(p, c.nest), c.layouts);
  if (!source) {
    std::printf("%-24s refused: %s\n", c.name.c_str(), source.reason().c_str());
    return false;
  }
  const cuda::Compiled code = cuda::compile(std::string(cuda::primitives()) + source->text, c.name, device.arch());
  const auto function = device.load(code, source->name, source->scratch);
  Values given;
  std::vector<std::vector<cuda::Address>> sets;      // several sets of buffers, so that nothing stays in a cache by chance
  const int copies = time ? 8 : 1;
  const TensorId out = p.outputs[0];
  std::size_t out_bytes = 0;
  for (int n = 0; n < copies; ++n) {
    std::vector<cuda::Address> arguments;
    for (TensorId t : source->arguments) {
      Array a = testing::empty_of(p, t);
      const cuda::Address at = device.allocate(a.bytes());
      if (t == out) {
        device.fill(at, 0xff, a.bytes());
        out_bytes = a.bytes();
      } else {
        fill(a, p.tensor(t).kind == Kind::weight, 17 + static_cast<std::uint64_t>(t));
        device.upload(at, a.data, a.bytes());
        given[t] = a;
      }
      arguments.push_back(at);
    }
    sets.push_back(std::move(arguments));
  }
  device.launch(function, source->blocks, source->threads, source->scratch, sets[0]);
  device.synchronise();
  std::string verdict = "not checked";
  bool right = true;
  if (check) {
    Array got = testing::empty_of(p, out);
    device.download(got.data, sets[0].back(), out_bytes);
    PlannedKernel k;
    k.name = c.name, k.region = c.region, k.schedule = c.schedule;
    const bool wide = std::string(name_of(detect_isa())) == "avx512";
    Plan plan;
    plan.program = c.program, plan.machine = machine_named("generic-avx2"), plan.kernels = {k}, plan.layouts = c.layouts;
    plan.options.threads = 16, plan.options.isa = wide ? "avx512" : "avx2", plan.options.leaf_rows = 6, plan.options.leaf_columns = 16, plan.options.lanes = 8;
    const Values want = testing::execute(plan, given);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < got.count(); ++i) {
      const double w = element(want.at(out), i), g = element(got, i);
      difference += (w - g) * (w - g), norm += w * w;
    }
    const double error = std::sqrt(difference / norm);
    const DType t = p.tensor(out).dtype;
    right = error < (t == DType::f32 ? 1e-6 : t == DType::f16 ? 5e-4 : 4e-3) && norm > 0;
    verdict = fmt::format("{} {:.1e}", right ? "right" : "WRONG", error);
  }
  std::string timing;
  if (time) {
    const int calls = 40;
    const double seconds = device.seconds(calls, 15, [&](int i) { device.launch(function, source->blocks, source->threads, source->scratch, sets[static_cast<std::size_t>(i % copies)]); });
    timing = fmt::format("{:9.2f} us {:7.1f} TFLOP/s", seconds * 1e6, 2e-12 * multiply_adds(c) / seconds);
  }
  std::printf("%-24s %-16s %s  %s; %lld blocks x %d, %lld KiB scratch, %d registers, stack %d, spills %d\n", c.name.c_str(), verdict.c_str(), timing.c_str(),
              text(c.region, c.schedule).c_str(), static_cast<long long>(source->blocks), source->threads, static_cast<long long>(source->scratch / 1024), code.registers, code.stack,
              code.spills);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool small = mode == "small", check = mode != "time", time = mode.empty() || mode == "time";
  try {
    cuda::Device device;
    const Machine h200 = machine_named("h200");
    std::printf("%s, %s\n", device.name().c_str(), device.arch().c_str());
    bool right = true;
    using testing::depthwise_pointwise;
    using testing::matmul;
    for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
             {"pair 13x13x40-48 n2 f16", depthwise_pointwise(2, 13, 40, 48, 1, "f16")},
             {"pair 9x9x20-24 f32", depthwise_pointwise(1, 9, 20, 24, 1, "f32")},
             {"pair 16x16x32-48 s2 bf16", depthwise_pointwise(1, 16, 32, 48, 2, "bf16")},
             {"pair 112x112x32-64 n32", depthwise_pointwise(32, 112, 32, 64, 1, "f16")},
             {"pair 56x56x128-128 n32", depthwise_pointwise(32, 56, 128, 128, 1, "f16")},
             {"pair 28x28x256-256 n32", depthwise_pointwise(32, 28, 256, 256, 1, "f16")},
             {"pair 14x14x512-512 n32", depthwise_pointwise(32, 14, 512, 512, 1, "f16")},
             {"pair 14x14x512-512 n1", depthwise_pointwise(1, 14, 512, 512, 1, "f16")},
             {"pair 56x56x128-128 n1 f32", depthwise_pointwise(1, 56, 128, 128, 1, "f32")},
             {"matmul 150x96x100 f16", matmul(150, 96, 100, "f16")},
             {"matmul 4096 f16", matmul(4096, 4096, 4096, "f16")},
             {"matmul 1024 f32", matmul(1024, 1024, 1024, "f32")}})
      if (!small || (name.find("n32") == std::string::npos && name.find("4096") == std::string::npos && name.find("1024") == std::string::npos))
        right &= run(device, testing::gpu_case(name, text, h200), check, time);
    return right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 4;
  }
}
