#include "target/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

namespace tilewright::cuda {

namespace {

// A shared library and its functions by name.
class Library {
 public:
  explicit Library(const std::vector<std::string>& names) {
    for (const std::string& n : names)
      if (!n.empty() && (handle_ = dlopen(n.c_str(), RTLD_NOW | RTLD_LOCAL))) return;
  }
  bool found() const { return handle_ != nullptr; }
  template <class F> void get(F& to, const char* name) const {
    to = reinterpret_cast<F>(dlsym(handle_, name));
    if (!to) throw Error(Code::device, name, "the CUDA library lacks this function", "install a newer driver");
  }

 private:
  void* handle_ = nullptr;
};

// What is used of the driver's interface; handles are opaque pointers there too.
struct Driver {
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*device_count)(int*);
  int (*device_name)(char*, int, int);
  int (*attribute)(int*, int, int);
  int (*retain)(void**, int);
  int (*release)(int);
  int (*set_current)(void*);
  int (*mem_alloc)(Address*, std::size_t);
  int (*mem_free)(Address);
  int (*to_device)(Address, const void*, std::size_t);
  int (*to_host)(void*, Address, std::size_t);
  int (*memset)(Address, unsigned char, std::size_t);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*set_attribute)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*stream_create)(void**, unsigned);
  int (*stream_destroy)(void*);
  int (*stream_synchronise)(void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*graph_launch)(void*, void*);
  int (*graph_destroy)(void*);
  int (*exec_destroy)(void*);
  int (*event_create)(void**, unsigned);
  int (*event_record)(void*, void*);
  int (*event_synchronise)(void*);
  int (*event_elapsed)(float*, void*, void*);
  int (*event_destroy)(void*);
  int (*error_string)(int, const char**);
  int (*encode_tiled)(void*, int, std::uint32_t, Address, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int, int);
};

const Driver& driver() {
  static const Driver made = [] {
    const Library lib({"libcuda.so.1", "libcuda.so"});
    if (!lib.found()) throw Error(Code::device, "", "no CUDA driver on this machine (libcuda.so.1)", "run on a machine with an NVIDIA GPU, or with --device cpu");
    Driver d{};
    lib.get(d.init, "cuInit");
    lib.get(d.device_get, "cuDeviceGet");
    lib.get(d.device_count, "cuDeviceGetCount");
    lib.get(d.device_name, "cuDeviceGetName");
    lib.get(d.attribute, "cuDeviceGetAttribute");
    lib.get(d.retain, "cuDevicePrimaryCtxRetain");
    lib.get(d.release, "cuDevicePrimaryCtxRelease_v2");
    lib.get(d.set_current, "cuCtxSetCurrent");
    lib.get(d.mem_alloc, "cuMemAlloc_v2");
    lib.get(d.mem_free, "cuMemFree_v2");
    lib.get(d.to_device, "cuMemcpyHtoD_v2");
    lib.get(d.to_host, "cuMemcpyDtoH_v2");
    lib.get(d.memset, "cuMemsetD8_v2");
    lib.get(d.module_load, "cuModuleLoadData");
    lib.get(d.module_unload, "cuModuleUnload");
    lib.get(d.get_function, "cuModuleGetFunction");
    lib.get(d.set_attribute, "cuFuncSetAttribute");
    lib.get(d.launch, "cuLaunchKernel");
    lib.get(d.stream_create, "cuStreamCreate");
    lib.get(d.stream_destroy, "cuStreamDestroy_v2");
    lib.get(d.stream_synchronise, "cuStreamSynchronize");
    lib.get(d.begin_capture, "cuStreamBeginCapture_v2");
    lib.get(d.end_capture, "cuStreamEndCapture");
    lib.get(d.instantiate, "cuGraphInstantiateWithFlags");
    lib.get(d.graph_launch, "cuGraphLaunch");
    lib.get(d.graph_destroy, "cuGraphDestroy");
    lib.get(d.exec_destroy, "cuGraphExecDestroy");
    lib.get(d.event_create, "cuEventCreate");
    lib.get(d.event_record, "cuEventRecord");
    lib.get(d.event_synchronise, "cuEventSynchronize");
    lib.get(d.event_elapsed, "cuEventElapsedTime");
    lib.get(d.event_destroy, "cuEventDestroy_v2");
    lib.get(d.error_string, "cuGetErrorString");
    lib.get(d.encode_tiled, "cuTensorMapEncodeTiled");
    return d;
  }();
  return made;
}

void check(int code, const char* what) {
  if (code == 0) return;
  const char* words = nullptr;
  driver().error_string(code, &words);
  throw Error(Code::device, "", fmt::format("{}: {} (CUDA error {})", what, words ? words : "unknown", code));
}

struct Compiler {
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
  int (*code_size)(void*, std::size_t*);
  int (*code)(void*, char*);
  int (*destroy)(void**);
};

const Library& compiler_library() {
  static const Library lib([] {
    std::vector<std::string> names;
    if (const char* given = std::getenv("TILEWRIGHT_NVRTC")) names.emplace_back(given);
    std::vector<std::string> folders = {""};
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* home = std::getenv(variable)) folders.push_back(std::string(home) + "/lib64/");
    folders.emplace_back("/usr/local/cuda/lib64/");
    for (const std::string& f : folders)
      for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) names.push_back(f + n);
    return names;
  }());
  return lib;
}

const Compiler& compiler() {
  static const Compiler made = [] {
    const Library& lib = compiler_library();
    if (!lib.found()) throw Error(Code::device, "", "no run-time compiler on this machine (libnvrtc.so)", "install CUDA or the nvidia-cuda-nvrtc package, or set TILEWRIGHT_NVRTC");
    Compiler c{};
    lib.get(c.create, "nvrtcCreateProgram");
    lib.get(c.compile, "nvrtcCompileProgram");
    lib.get(c.log_size, "nvrtcGetProgramLogSize");
    lib.get(c.log, "nvrtcGetProgramLog");
    lib.get(c.code_size, "nvrtcGetCUBINSize");
    lib.get(c.code, "nvrtcGetCUBIN");
    lib.get(c.destroy, "nvrtcDestroyProgram");
    return c;
  }();
  return made;
}

// The number in front of `words` in the assembler's report, or -1.
int number_before(const std::string& log, const std::string& words) {
  const auto at = log.find(words);
  if (at == std::string::npos) return -1;
  auto from = at;
  while (from > 0 && std::isdigit(static_cast<unsigned char>(log[from - 1]))) --from;
  return from == at ? -1 : std::atoi(log.substr(from, at - from).c_str());
}

}  // namespace

bool compiler_found() { return compiler_library().found(); }

Compiled compile(std::string_view source, const std::string& name, const std::string& arch) {
  const Compiler& c = compiler();
  void* program = nullptr;
  if (c.create(&program, std::string(source).c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr) != 0)
    throw Error(Code::device, name, "the run-time compiler could not be started");
  const std::string target = "--gpu-architecture=" + arch;
  const char* options[] = {target.c_str(), "--std=c++17", "--ptxas-options=-v", "--disable-warnings", "--no-cache"};
  const int failed = c.compile(program, static_cast<int>(std::size(options)), options);
  Compiled out;
  std::size_t size = 0;
  c.log_size(program, &size);
  out.log.resize(size);
  c.log(program, out.log.data());
  if (failed == 0) {
    c.code_size(program, &size);
    out.code.resize(size);
    c.code(program, out.code.data());
  }
  c.destroy(&program);
  if (failed != 0) throw Error(Code::device, name, "the generated kernel does not compile: " + out.log);
  out.registers = number_before(out.log, " registers");
  out.stack = number_before(out.log, " bytes stack frame");
  out.spills = number_before(out.log, " bytes spill stores");
  return out;
}

struct Device::State {
  int device = 0;
  void *context = nullptr, *stream = nullptr;
  std::vector<Address> memory;
  std::vector<void*> modules;
};

Device::Device(int ordinal) : state_(std::make_unique<State>()) {
  const Driver& d = driver();
  check(d.init(0), "the CUDA driver does not start");
  int count = 0;
  check(d.device_count(&count), "no GPU can be counted");
  if (ordinal >= count) throw Error(Code::device, "", fmt::format("no GPU {}: this machine has {}", ordinal, count), "give --device cuda:N with a smaller N");
  check(d.device_get(&state_->device, ordinal), "no GPU");
  char text[256] = {};
  check(d.device_name(text, sizeof text, state_->device), "the GPU has no name");
  name_ = text;
  check(d.retain(&state_->context, state_->device), "no context");
  check(d.set_current(state_->context), "no context");
  check(d.stream_create(&state_->stream, 1), "no stream");
}

Device::~Device() {
  const Driver& d = driver();
  d.set_current(state_->context);
  for (Address a : state_->memory) d.mem_free(a);
  for (void* m : state_->modules) d.module_unload(m);
  d.stream_destroy(state_->stream);
  d.release(state_->device);
}

std::string Device::arch() const {
  int major = 0, minor = 0;
  check(driver().attribute(&major, 75, state_->device), "no compute capability");
  check(driver().attribute(&minor, 76, state_->device), "no compute capability");
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

Address Device::allocate(std::size_t bytes) {
  Address a = 0;
  check(driver().mem_alloc(&a, std::max<std::size_t>(bytes, 16)), fmt::format("{} bytes of device memory", bytes).c_str());
  state_->memory.push_back(a);
  return a;
}
void Device::release_memory() {
  for (Address a : state_->memory) driver().mem_free(a);
  state_->memory.clear();
}
void Device::upload(Address to, const void* from, std::size_t bytes) { check(driver().to_device(to, from, bytes), "copy to the device"); }
void Device::download(void* to, Address from, std::size_t bytes) { check(driver().to_host(to, from, bytes), "copy from the device"); }
void Device::fill(Address a, unsigned char value, std::size_t bytes) { check(driver().memset(a, value, bytes), "fill"); }

Device::Function Device::load(const Compiled& code, const std::string& entry, std::int64_t scratch) {
  void *module = nullptr, *function = nullptr;
  check(driver().module_load(&module, code.code.data()), ("module " + entry).c_str());
  state_->modules.push_back(module);
  check(driver().get_function(&function, module, entry.c_str()), ("kernel " + entry).c_str());
  if (scratch > 48 * 1024) check(driver().set_attribute(function, 8, static_cast<int>(scratch)), ("shared memory of " + entry).c_str());
  return function;
}

namespace {

// 128 bytes that only the driver can write.
struct alignas(64) Described { unsigned char bytes[128]; };

Described describe(const TensorMap& map, Address at) {
  static const std::map<DType, int> types = {{DType::u8, 0}, {DType::i8, 0}, {DType::i32, 3}, {DType::f16, 6}, {DType::f32, 7}, {DType::bf16, 9}};
  const auto type = types.find(map.dtype);
  if (type == types.end() || at % 16) throw Error(Code::device, "", fmt::format("no boxes of {} at address {:#x}", name_of(map.dtype), at), "give tensors that begin on 16 bytes");
  std::vector<std::uint64_t> dims(map.dims.begin(), map.dims.end()), strides(map.strides.begin(), map.strides.end());
  std::vector<std::uint32_t> box(map.box.begin(), map.box.end()), steps(map.box.size(), 1);
  Described out;
  constexpr int swizzle_128 = 3, promotion_256 = 3;
  check(driver().encode_tiled(&out, type->second, static_cast<std::uint32_t>(dims.size()), at, dims.data(), strides.data(), box.data(), steps.data(), 0, swizzle_128, promotion_256, 0),
        "description of a box");
  return out;
}

}  // namespace

void Device::launch(Function f, std::int64_t blocks, int threads, std::int64_t scratch, const std::vector<Address>& arguments, const std::vector<TensorMap>& maps) {
  std::vector<void*> pointers;
  for (const Address& a : arguments) pointers.push_back(const_cast<Address*>(&a));
  std::vector<Described> described;
  for (const TensorMap& map : maps) described.push_back(describe(map, arguments[static_cast<std::size_t>(map.argument)]));
  for (std::size_t i = 0; i < maps.size(); ++i) pointers[static_cast<std::size_t>(maps[i].argument)] = &described[i];
  check(driver().launch(f, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1, static_cast<unsigned>(scratch), state_->stream, pointers.data(), nullptr),
        "launch");
}

void Device::synchronise() { check(driver().stream_synchronise(state_->stream), "a kernel failed"); }

void Device::begin_capture() { check(driver().begin_capture(state_->stream, 1), "capture"); }

double Device::end_capture(int repeats) {
  const Driver& d = driver();
  void *graph = nullptr, *exec = nullptr, *from = nullptr, *to = nullptr;
  check(d.end_capture(state_->stream, &graph), "capture");
  check(d.instantiate(&exec, graph, 0), "graph");
  check(d.event_create(&from, 0), "event");
  check(d.event_create(&to, 0), "event");
  std::vector<double> list;
  for (int i = 0; i < repeats + 3; ++i) {
    check(d.event_record(from, state_->stream), "event");
    check(d.graph_launch(exec, state_->stream), "graph launch");
    check(d.event_record(to, state_->stream), "event");
    check(d.event_synchronise(to), "a kernel failed");
    float ms = 0;
    check(d.event_elapsed(&ms, from, to), "event");
    if (i >= 3) list.push_back(ms * 1e-3);
  }
  std::sort(list.begin(), list.end());
  d.event_destroy(from), d.event_destroy(to), d.exec_destroy(exec), d.graph_destroy(graph);
  return list[list.size() / 2];
}

}  // namespace tilewright::cuda
