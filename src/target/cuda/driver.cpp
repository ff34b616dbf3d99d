#include "target/cuda/driver.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "target/cuda/library.h"

namespace tilewright::cuda {

namespace {

// As the driver's header declares them.
struct LaunchAttribute {
  int id = 6; // programmatic stream serialisation
  char pad[4] = {};
  alignas(8) union {
    char bytes[64];
    int allowed;
  } value = {};
};
struct LaunchConfig {
  unsigned grid[3], block[3], scratch;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};

// What is used of the driver's interface; handles are opaque pointers there too.
struct Driver {
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*device_count)(int*);
  int (*device_name)(char*, int, int);
  int (*device_memory)(std::size_t*, int);
  int (*attribute)(int*, int, int);
  int (*retain)(void**, int);
  int (*release)(int);
  int (*set_current)(void*);
  int (*mem_alloc)(Address*, std::size_t);
  int (*mem_free)(Address);
  int (*to_device)(Address, const void*, std::size_t, void*);
  int (*to_host)(void*, Address, std::size_t, void*);
  int (*within)(Address, Address, std::size_t, void*);
  int (*memset)(Address, unsigned char, std::size_t, void*);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*set_attribute)(void*, int, int);
  int (*launch)(const LaunchConfig*, void*, void**, void**);
  int (*stream_create)(void**, unsigned);
  int (*stream_destroy)(void*);
  int (*stream_synchronise)(void*);
  int (*stream_wait)(void*, void*, unsigned);
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

std::vector<std::string> library_names() {
  if (const char* given = std::getenv("TILEWRIGHT_CUDA")) return {given};
  return {"libcuda.so.1", "libcuda.so"};
}

const Driver& driver() {
  static const Driver made = [] {
    const Library lib(library_names());
    if (!lib.found())
      throw Error(Code::device, "", fmt::format("no CUDA driver on this machine ({})", library_names()[0]),
                  "run on a machine with an NVIDIA GPU, or with --device cpu");
    Driver d{};
    lib.get(d.init, "cuInit");
    lib.get(d.device_get, "cuDeviceGet");
    lib.get(d.device_count, "cuDeviceGetCount");
    lib.get(d.device_name, "cuDeviceGetName");
    lib.get(d.device_memory, "cuDeviceTotalMem_v2");
    lib.get(d.attribute, "cuDeviceGetAttribute");
    lib.get(d.retain, "cuDevicePrimaryCtxRetain");
    lib.get(d.release, "cuDevicePrimaryCtxRelease_v2");
    lib.get(d.set_current, "cuCtxSetCurrent");
    lib.get(d.mem_alloc, "cuMemAlloc_v2");
    lib.get(d.mem_free, "cuMemFree_v2");
    lib.get(d.to_device, "cuMemcpyHtoDAsync_v2");
    lib.get(d.to_host, "cuMemcpyDtoHAsync_v2");
    lib.get(d.within, "cuMemcpyDtoDAsync_v2");
    lib.get(d.memset, "cuMemsetD8Async");
    lib.get(d.module_load, "cuModuleLoadData");
    lib.get(d.module_unload, "cuModuleUnload");
    lib.get(d.get_function, "cuModuleGetFunction");
    lib.get(d.set_attribute, "cuFuncSetAttribute");
    lib.get(d.launch, "cuLaunchKernelEx");
    lib.get(d.stream_create, "cuStreamCreate");
    lib.get(d.stream_destroy, "cuStreamDestroy_v2");
    lib.get(d.stream_synchronise, "cuStreamSynchronize");
    lib.get(d.stream_wait, "cuStreamWaitEvent");
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
    lib.find(d.encode_tiled, "cuTensorMapEncodeTiled");      // came with the copy engine
    return d;
  }();
  return made;
}

constexpr int out_of_memory = 2;

void check(int code, const std::string& what) {
  if (code == 0) return;
  const char* words = nullptr;
  driver().error_string(code, &words);
  throw Error(code == out_of_memory ? Code::memory : Code::device, "",
              fmt::format("{}: {} (CUDA error {})", what, words ? words : "unknown", code));
}

// The instructions of an architecture that later ones do not have are asked for where it has any.
std::string arch_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

} // namespace

void require_gpu(int ordinal) {
  check(driver().init(0), "the CUDA driver does not start");
  int count = 0;
  check(driver().device_count(&count), "no GPU can be counted");
  if (ordinal < 0 || ordinal >= count)
    throw Error(Code::device, "", fmt::format("there is no GPU {}: this machine has {}", ordinal, count),
                count > 0 ? "count from 0: --device cuda:0" : "run with --device cpu");
}

struct Device::State {
  int device = 0;
  void *context = nullptr, *stream = nullptr, *order = nullptr, *from = nullptr,
       *to = nullptr; // the last three are events
  std::vector<Address> memory;
  std::vector<void*> modules;
};

Device::Device(int ordinal) : state_(std::make_unique<State>()), ordinal_(ordinal) {
  const Driver& d = driver();
  State& s = *state_;
  require_gpu(ordinal);
  check(d.device_get(&s.device, ordinal), "no GPU");
  char text[256] = {};
  check(d.device_name(text, sizeof text, s.device), "the GPU has no name");
  int major = 0, minor = 0;
  std::size_t memory = 0;
  check(d.attribute(&major, 75, s.device), "no compute capability");
  check(d.attribute(&minor, 76, s.device), "no compute capability");
  check(d.attribute(&facts_.cores, 16, s.device), "no multiprocessor count");
  check(d.device_memory(&memory, s.device), "no memory size");
  facts_.name = text, facts_.arch = arch_of(major, minor), facts_.memory = static_cast<std::int64_t>(memory);
  check(d.retain(&s.context, s.device), "no context on the GPU");
  use();
  check(d.stream_create(&s.stream, 1), "no stream");
  check(d.event_create(&s.order, 2), "no event"); // without a clock
  check(d.event_create(&s.from, 0), "no event");
  check(d.event_create(&s.to, 0), "no event");
}

Device::~Device() {
  const Driver& d = driver();
  State& s = *state_;
  if (!s.context) return;
  d.set_current(s.context);
  if (s.stream) d.stream_synchronise(s.stream);
  for (Address a : s.memory) d.mem_free(a);
  for (void* m : s.modules) d.module_unload(m);
  for (void* e : {s.order, s.from, s.to})
    if (e) d.event_destroy(e);
  if (s.stream) d.stream_destroy(s.stream);
  d.release(s.device);
}

void Device::use() const { check(driver().set_current(state_->context), "no context on the GPU"); }

Address Device::allocate(std::size_t bytes) {
  Address a = 0;
  check(driver().mem_alloc(&a, std::max<std::size_t>(bytes, 16)),
        fmt::format("{} bytes of memory on {}", bytes, name()));
  state_->memory.push_back(a);
  return a;
}
void Device::release(Address a) {
  synchronise();
  driver().mem_free(a);
  std::erase(state_->memory, a);
}
void Device::release_memory() {
  synchronise();
  for (Address a : state_->memory) driver().mem_free(a);
  state_->memory.clear();
}
void Device::upload(Address to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(driver().to_device(to, from, bytes, state_->stream), "a copy to the GPU");
  synchronise();
}
void Device::download(void* to, Address from, std::size_t bytes) {
  if (bytes == 0) return;
  check(driver().to_host(to, from, bytes, state_->stream), "a copy from the GPU");
  synchronise();
}
void Device::copy(Address to, Address from, std::size_t bytes) {
  if (bytes > 0) check(driver().within(to, from, bytes, state_->stream), "a copy on the GPU");
}
void Device::fill(Address a, unsigned char value, std::size_t bytes) {
  check(driver().memset(a, value, bytes, state_->stream), "fill");
}

Function Device::load(const Compiled& code, const std::string& entry, std::int64_t scratch) {
  void *module = nullptr, *function = nullptr;
  check(driver().module_load(&module, code.code.data()), "the machine code of " + entry);
  state_->modules.push_back(module);
  check(driver().get_function(&function, module, entry.c_str()), "kernel " + entry);
  if (scratch > 48 * 1024)
    check(driver().set_attribute(function, 8, static_cast<int>(scratch)), "shared memory of " + entry);
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
  if (!driver().encode_tiled) throw Error(Code::device, "cuTensorMapEncodeTiled", "the CUDA library lacks this function", "install a newer driver");
  Described out;
  constexpr int swizzle_128 = 3, promotion_256 = 3;
  check(driver().encode_tiled(&out, type->second, static_cast<std::uint32_t>(dims.size()), at, dims.data(), strides.data(), box.data(), steps.data(), 0, swizzle_128, promotion_256, 0),
        "description of a box");
  return out;
}

}  // namespace

void Device::launch(const Launch& l, const std::vector<Address>& arguments) {
  std::vector<void*> pointers;
  for (const Address& a : arguments) pointers.push_back(const_cast<Address*>(&a));
  std::vector<Described> described;
  for (const TensorMap& map : l.maps) described.push_back(describe(map, arguments[static_cast<std::size_t>(map.argument)]));
  for (std::size_t i = 0; i < described.size(); ++i) pointers[static_cast<std::size_t>(l.maps[i].argument)] = &described[i];
  LaunchAttribute early;
  early.value.allowed = 1;
  const LaunchConfig config{{static_cast<unsigned>(l.blocks), 1, 1},
                            {static_cast<unsigned>(l.threads), 1, 1},
                            static_cast<unsigned>(l.scratch),
                            state_->stream,
                            &early,
                            l.early ? 1u : 0u};
  check(driver().launch(&config, l.function, pointers.data(), nullptr), "a launch");
}

void Device::synchronise() { check(driver().stream_synchronise(state_->stream), "what ran on the GPU failed"); }

void Device::follow(Stream other) {
  check(driver().event_record(state_->order, other), "the caller's stream");
  check(driver().stream_wait(state_->stream, state_->order, 0), "the caller's stream");
}
void Device::lead(Stream other) {
  check(driver().event_record(state_->order, state_->stream), "the caller's stream");
  check(driver().stream_wait(other, state_->order, 0), "the caller's stream");
}

void Device::begin_capture() { check(driver().begin_capture(state_->stream, 1), "recording a graph"); }

Graph Device::end_capture() {
  const Driver& d = driver();
  void *graph = nullptr, *exec = nullptr;
  check(d.end_capture(state_->stream, &graph), "recording a graph");
  const int code = d.instantiate(&exec, graph, 0);
  d.graph_destroy(graph);
  check(code, "making a graph");
  return exec;
}

void Device::abandon_capture() noexcept {
  void* graph = nullptr;
  if (driver().end_capture(state_->stream, &graph) == 0 && graph) driver().graph_destroy(graph);
}

void Device::launch(Graph g) { check(driver().graph_launch(g, state_->stream), "launching a graph"); }

void Device::destroy(Graph g) noexcept {
  if (g) driver().exec_destroy(g);
}

std::vector<double> Device::times(Graph g, int runs) {
  constexpr int warm = 3;
  const Driver& d = driver();
  std::vector<double> list;
  for (int i = 0; i < runs + warm; ++i) {
    check(d.event_record(state_->from, state_->stream), "a clock");
    launch(g);
    check(d.event_record(state_->to, state_->stream), "a clock");
    check(d.event_synchronise(state_->to), "what ran on the GPU failed");
    float ms = 0;
    check(d.event_elapsed(&ms, state_->from, state_->to), "a clock");
    if (i >= warm) list.push_back(ms * 1e-3);
  }
  return list;
}

double Device::seconds(Graph g, int runs) {
  std::vector<double> list = times(g, runs);
  std::sort(list.begin(), list.end());
  return list[list.size() / 2];
}

} // namespace tilewright::cuda
