// A CUDA driver without a GPU, for tests of what stands around kernels: memory is the heap's, kernels do nothing, and
// every launch is written down. What it should claim or fail at is told by variables of the environment, read at each
// call:
//
//   FAKE_CUDA_NAME=NVIDIA A100 80GB  FAKE_CUDA_CAPABILITY=80  FAKE_CUDA_CORES=108  FAKE_CUDA_DEVICES=1
//   FAKE_CUDA_FAIL=cuLaunchKernelEx:700:3          the third call of it from now on returns this error
//   FAKE_CUDA_FAULT=1                              every launch leaves a fault in the word behind three tensors
//   FAKE_CUDA_LOG=FILE                             a line a call that a test may want to see
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* v = std::getenv(name);
  return v ? v : otherwise;
}

struct State {
  std::map<std::string, int> calls;
  std::set<unsigned long long> memory;
  std::string failing;
  int graphs = 0, capturing = 0;
} state;

void log(const std::string& line) {
  const std::string path = variable("FAKE_CUDA_LOG", "");
  if (path.empty()) return;
  if (FILE* f = std::fopen(path.c_str(), "a")) {
    std::fprintf(f, "%s\n", line.c_str());
    std::fclose(f);
  }
}

int result(const char* name) {
  const std::string fail = variable("FAKE_CUDA_FAIL", "");
  if (fail != state.failing) state.failing = fail, state.calls.clear();
  const int call = ++state.calls[name];
  char which[64] = {};
  int code = 0, at = 1;
  if (std::sscanf(fail.c_str(), "%63[^:]:%d:%d", which, &code, &at) >= 2 && std::string(which) == name && call == at)
    return code;
  return 0;
}

} // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int

FAKE cuInit(unsigned) { return result("cuInit"); }
FAKE cuDeviceGet(int* out, int ordinal) { return *out = ordinal, 0; }
FAKE cuDeviceGetCount(int* out) { return *out = std::atoi(variable("FAKE_CUDA_DEVICES", "1").c_str()), 0; }
FAKE cuDeviceGetName(char* out, int size, int) {
  return std::snprintf(out, static_cast<std::size_t>(size), "%s", variable("FAKE_CUDA_NAME", "NVIDIA H200").c_str()), 0;
}
FAKE cuDeviceTotalMem_v2(std::size_t* out, int) { return *out = std::size_t{1} << 36, 0; }
FAKE cuDeviceGetAttribute(int* out, int what, int) {
  const int capability = std::atoi(variable("FAKE_CUDA_CAPABILITY", "90").c_str());
  *out = what == 75   ? capability / 10
         : what == 76 ? capability % 10
         : what == 16 ? std::atoi(variable("FAKE_CUDA_CORES", "132").c_str())
                      : 0;
  return 0;
}
FAKE cuDevicePrimaryCtxRetain(void** out, int) { return *out = &state, result("cuDevicePrimaryCtxRetain"); }
FAKE cuDevicePrimaryCtxRelease_v2(int) {
  log("release, " + std::to_string(state.memory.size()) + " blocks of memory left");
  return 0;
}
FAKE cuCtxSetCurrent(void*) { return 0; }
FAKE cuMemAlloc_v2(unsigned long long* out, std::size_t bytes) {
  if (const int code = result("cuMemAlloc_v2")) return code;
  *out = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(reinterpret_cast<void*>(*out), 0xff, bytes);
  state.memory.insert(*out);
  return 0;
}
FAKE cuMemFree_v2(unsigned long long a) {
  if (!state.memory.erase(a)) return 1;
  std::free(reinterpret_cast<void*>(a));
  return 0;
}
FAKE cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t n, void*) {
  return std::memcpy(reinterpret_cast<void*>(to), from, n), result("cuMemcpyHtoDAsync_v2");
}
FAKE cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t n, void*) {
  return std::memcpy(to, reinterpret_cast<void*>(from), n), result("cuMemcpyDtoHAsync_v2");
}
FAKE cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t n, void*) {
  log("copy on the GPU");
  return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n), 0;
}
FAKE cuMemsetD8Async(unsigned long long a, unsigned char v, std::size_t n, void*) {
  return std::memset(reinterpret_cast<void*>(a), v, n), 0;
}
FAKE cuModuleLoadData(void** out, const void*) { return *out = &state, result("cuModuleLoadData"); }
FAKE cuModuleUnload(void*) { return 0; }
FAKE cuModuleGetFunction(void** out, void*, const char* name) { return *out = strdup(name), 0; }
FAKE cuFuncSetAttribute(void*, int, int) { return 0; }
struct Config {
  unsigned grid[3], block[3], scratch;
  void *stream, *attributes;
  unsigned count;
};
FAKE cuLaunchKernelEx(const Config* c, void* function, void** arguments, void**) {
  if (const int code = result("cuLaunchKernelEx")) return code;
  if (std::getenv("FAKE_CUDA_FAULT")) **static_cast<unsigned**>(arguments[3]) = 1;
  log(std::string(state.capturing ? "record " : "launch ") + static_cast<const char*>(function) +
      (c->count ? " early" : ""));
  return c->grid[0] == 0 || c->block[0] == 0 || c->block[0] > 1024 || c->scratch > 227 * 1024 ? 1 : 0;
}
FAKE cuStreamCreate(void** out, unsigned) { return *out = &state, 0; }
FAKE cuStreamDestroy_v2(void*) { return 0; }
FAKE cuStreamSynchronize(void*) { return result("cuStreamSynchronize"); }
FAKE cuStreamWaitEvent(void*, void*, unsigned) {
  log("wait");
  return 0;
}
FAKE cuStreamBeginCapture_v2(void*, int) { return state.capturing = 1, 0; }
FAKE cuStreamEndCapture(void*, void** out) { return state.capturing = 0, *out = &state, 0; }
FAKE cuGraphInstantiateWithFlags(void** out, void*, unsigned long long) { return ++state.graphs, *out = &state, 0; }
FAKE cuGraphLaunch(void*, void*) {
  log("graph");
  return result("cuGraphLaunch");
}
FAKE cuGraphDestroy(void*) { return 0; }
FAKE cuGraphExecDestroy(void*) {
  log("graph destroyed, " + std::to_string(--state.graphs) + " left");
  return 0;
}
FAKE cuEventCreate(void** out, unsigned) { return *out = &state, 0; }
FAKE cuEventRecord(void*, void*) { return 0; }
FAKE cuEventSynchronize(void*) { return 0; }
FAKE cuEventElapsedTime(float* out, void*, void*) { return *out = 0.25f, 0; }
FAKE cuEventDestroy_v2(void*) { return 0; }
FAKE cuGetErrorString(int code, const char** out) {
  *out = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : "made up";
  return 0;
}
