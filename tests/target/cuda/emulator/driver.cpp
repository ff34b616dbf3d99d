// The emulated GPU behind the names of the CUDA driver and of NVRTC, for what runs above them: sessions, graphs, the tool.
//
//   export TILEWRIGHT_CUDA=build/libemulated_cuda.so TILEWRIGHT_NVRTC=build/libemulated_cuda.so TILEWRIGHT_CACHE_DIR=$(mktemp -d)
//   tilewright verify small.onnx --device cuda --fuse on
//
// EMULATED_CUDA_NAME and EMULATED_CUDA_CAPABILITY say which GPU it takes itself for (NVIDIA H200, 90). Machine code is a shared library.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "target/cuda/emulator/compile.h"
#include "target/cuda/emulator/machine.h"
#include "target/cuda/emulator/translate.h"
#include "target/cuda/source.h"

namespace {

using namespace tilewright;

std::string problem = "made up";                       // of the last launch that failed
constexpr int launch_failed = 719;
std::mutex working;

struct Folder {
  std::string name = (std::filesystem::temp_directory_path() / "tilewright_emulated_XXXXXX").string();
  bool ready = false;
  int files = 0;
  Folder() {
    if (!mkdtemp(name.data())) std::abort();
  }
  ~Folder() { std::filesystem::remove_all(name); }
  std::string next() { return fmt::format("{}/{}", name, files++); }
} folder;

struct Compilation {
  std::string source, log, code;
};
struct Kernel {
  void (*entry)(void**) = nullptr;
  std::vector<int> sizes;                              // bytes of its arguments
  int cluster = 1;
};
struct Recorded {
  Kernel* kernel;
  emulated::Grid grid;
  std::vector<std::vector<unsigned char>> arguments;
};
using Graph = std::vector<Recorded>;
Graph* recording = nullptr;

int start(const Kernel& k, const emulated::Grid& grid, void** arguments) {
  const std::string what = emulated::run(k.entry, arguments, grid);
  if (what.empty()) return 0;
  problem = what;
  return launch_failed;
}

// A file's bytes.
std::string bytes_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace

#define EMULATED extern "C" __attribute__((visibility("default"))) int

// ---- the compiler

EMULATED nvrtcVersion(int* major, int* minor) { return *major = 0, *minor = 1, 0; }
EMULATED nvrtcCreateProgram(Compilation** out, const char* source, const char*, int, const char* const*, const char* const*) { return *out = new Compilation{source, "", ""}, 0; }
EMULATED nvrtcCompileProgram(Compilation* p, int, const char* const*) {
  std::string header, base;
  try {
    {
      const std::lock_guard lock(working);
      if (!folder.ready) emulated::make_header(folder.name), folder.ready = true;
      base = folder.next();
    }
    const std::string text = p->source.substr(cuda::primitives().size());
    std::smatch found;
    static const std::regex entry("extern \"C\" __global__ void [^{]*?([A-Za-z_0-9]+)\\((const |[a-z0-9_ ]+\\* ?)");
    if (!std::regex_search(text, found, entry)) throw std::runtime_error("no kernel in the source");
    {
      std::ofstream out(base + ".cpp");
      out << emulated::host_kernel(text, found[1], 0);
    }
    emulated::make_module(folder.name, base);
    p->code = bytes_of(base + ".so");
    p->log = "ptxas info    : Used 32 registers, 0 bytes stack frame, 0 bytes spill stores";
    return 0;
  } catch (const std::exception& e) {
    p->log = e.what();
    return 6;
  }
}
EMULATED nvrtcGetProgramLogSize(Compilation* p, std::size_t* n) { return *n = p->log.size() + 1, 0; }
EMULATED nvrtcGetProgramLog(Compilation* p, char* to) { return std::memcpy(to, p->log.c_str(), p->log.size() + 1), 0; }
// The length comes first: whoever loads the code is not told it.
EMULATED nvrtcGetCUBINSize(Compilation* p, std::size_t* n) { return *n = p->code.size() + sizeof(std::size_t), 0; }
EMULATED nvrtcGetCUBIN(Compilation* p, char* to) {
  const std::size_t n = p->code.size();
  std::memcpy(to, &n, sizeof n);
  return std::memcpy(to + sizeof n, p->code.data(), n), 0;
}
EMULATED nvrtcDestroyProgram(Compilation** p) { return delete *p, 0; }

// ---- the driver

EMULATED cuInit(unsigned) { return 0; }
EMULATED cuDeviceGet(int* out, int ordinal) { return *out = ordinal, 0; }
EMULATED cuDeviceGetCount(int* out) { return *out = 1, 0; }
EMULATED cuDeviceGetName(char* out, int size, int) {
  const char* name = std::getenv("EMULATED_CUDA_NAME");
  return std::snprintf(out, static_cast<std::size_t>(size), "%s", name ? name : "NVIDIA H200"), 0;
}
EMULATED cuDeviceTotalMem_v2(std::size_t* out, int) { return *out = std::size_t{1} << 36, 0; }
EMULATED cuDeviceGetAttribute(int* out, int what, int) {
  const char* text = std::getenv("EMULATED_CUDA_CAPABILITY");
  const int capability = text ? std::atoi(text) : 90;
  return *out = what == 75 ? capability / 10 : what == 76 ? capability % 10 : what == 16 ? 132 : 0, 0;
}
EMULATED cuDevicePrimaryCtxRetain(void** out, int) { return *out = &problem, 0; }
EMULATED cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EMULATED cuCtxSetCurrent(void*) { return 0; }
EMULATED cuMemAlloc_v2(void** out, std::size_t bytes) {
  const std::lock_guard lock(working);
  return *out = emulated::allocate(bytes), 0;
}
EMULATED cuMemFree_v2(void* p) {
  const std::lock_guard lock(working);
  return emulated::release(p), 0;
}
EMULATED cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t n, void*) {
  const std::lock_guard lock(working);
  return std::memcpy(to, from, n), emulated::host_writes(to, n), 0;
}
EMULATED cuMemcpyDtoHAsync_v2(void* to, const void* from, std::size_t n, void*) { return std::memcpy(to, from, n), 0; }
EMULATED cuMemcpyDtoDAsync_v2(void* to, const void* from, std::size_t n, void*) {
  const std::lock_guard lock(working);
  return std::memmove(to, from, n), emulated::host_writes(to, n), 0;
}
EMULATED cuMemsetD8Async(void* p, unsigned char v, std::size_t n, void*) {
  const std::lock_guard lock(working);
  return std::memset(p, v, n), emulated::host_writes(p, n), 0;
}
EMULATED cuModuleLoadData(Kernel** out, const char* code) {
  const std::lock_guard lock(working);
  const std::string path = folder.next() + ".so";
  std::size_t n = 0;
  std::memcpy(&n, code, sizeof n);
  std::ofstream(path, std::ios::binary).write(code + sizeof n, static_cast<std::streamsize>(n)).flush();
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) return problem = dlerror(), launch_failed;
  auto* k = new Kernel;
  k->entry = reinterpret_cast<void (*)(void**)>(dlsym(module, "tw_run_0"));
  k->sizes.resize(64);
  k->sizes.resize(static_cast<std::size_t>(reinterpret_cast<int (*)(int*)>(dlsym(module, "tw_sizes_0"))(k->sizes.data())));
  k->cluster = *static_cast<const int*>(dlsym(module, "tw_cluster_0"));
  emulated::code_of(reinterpret_cast<const void*>(k->entry));
  return *out = k, 0;
}
EMULATED cuModuleUnload(Kernel*) { return 0; }
EMULATED cuModuleGetFunction(Kernel** out, Kernel* module, const char*) { return *out = module, 0; }
EMULATED cuFuncSetAttribute(void*, int, int) { return 0; }
struct Config {
  unsigned grid[3], block[3], scratch;
  void *stream, *attributes;
  unsigned count;
};
EMULATED cuLaunchKernelEx(const Config* c, Kernel* k, void** arguments, void**) {
  const std::lock_guard lock(working);
  const emulated::Grid grid{c->grid[0], static_cast<int>(c->block[0]), c->scratch, k->cluster};
  if (!recording) return start(*k, grid, arguments);
  recording->push_back({k, grid, {}});
  for (std::size_t i = 0; i < k->sizes.size(); ++i) {
    const auto* from = static_cast<const unsigned char*>(arguments[i]);
    recording->back().arguments.emplace_back(from, from + k->sizes[i]);
  }
  return 0;
}
EMULATED cuStreamCreate(void** out, unsigned) { return *out = &problem, 0; }
EMULATED cuStreamDestroy_v2(void*) { return 0; }
EMULATED cuStreamSynchronize(void*) { return 0; }
EMULATED cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
EMULATED cuStreamBeginCapture_v2(void*, int) { return recording = new Graph, 0; }
EMULATED cuStreamEndCapture(void*, Graph** out) { return *out = recording, recording = nullptr, 0; }
EMULATED cuGraphInstantiateWithFlags(Graph** out, Graph* g, unsigned long long) { return *out = new Graph(*g), 0; }
EMULATED cuGraphLaunch(Graph* g, void*) {
  const std::lock_guard lock(working);
  for (Recorded& r : *g) {
    std::vector<void*> arguments;
    for (auto& a : r.arguments) arguments.push_back(a.data());
    if (const int code = start(*r.kernel, r.grid, arguments.data())) return code;
  }
  return 0;
}
EMULATED cuGraphDestroy(Graph* g) { return delete g, 0; }
EMULATED cuGraphExecDestroy(Graph* g) { return delete g, 0; }
EMULATED cuEventCreate(void** out, unsigned) { return *out = &problem, 0; }
EMULATED cuEventRecord(void*, void*) { return 0; }
EMULATED cuEventSynchronize(void*) { return 0; }
EMULATED cuEventElapsedTime(float* out, void*, void*) { return *out = 0.25f, 0; }
EMULATED cuEventDestroy_v2(void*) { return 0; }
EMULATED cuGetErrorString(int code, const char** out) { return *out = code == launch_failed ? problem.c_str() : "made up", 0; }
EMULATED cuTensorMapEncodeTiled(void* to, int type, unsigned rank, void* base, const std::uint64_t* dims, const std::uint64_t* strides, const std::uint32_t* box,
                                const std::uint32_t*, int, int, int, int) {
  const int width = type == 0 ? 1 : type == 3 || type == 7 ? 4 : 2;
  emulated::Map map{base, static_cast<int>(rank), width, {}, {}, {}};
  for (unsigned i = 0; i < rank; ++i) map.dims[i] = static_cast<std::int64_t>(dims[i]), map.box[i] = static_cast<int>(box[i]);
  for (unsigned i = 0; i + 1 < rank; ++i) map.strides[i] = static_cast<std::int64_t>(strides[i]);
  return std::memcpy(to, &map, sizeof map), 0;
}
