// The CUDA driver and the run-time compiler, found at run time: one binary plans and prints kernels everywhere and runs them where
// a GPU is. Nothing here links against CUDA.
//
//   NVRTC: $TILEWRIGHT_NVRTC, then the loader's own search, $CUDA_HOME/lib64, /usr/local/cuda/lib64
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"
#include "target/cuda/tensor_map.h"

namespace tilewright::cuda {

// A kernel as machine code, and what the compiler said about it.
struct Compiled {
  std::string code;                      // a cubin for one architecture
  std::string log;
  int registers = -1, stack = -1, spills = -1;   // a thread; bytes for the last two; -1: not said
};
bool compiler_found();
Compiled compile(std::string_view source, const std::string& name, const std::string& arch);   // Error(device) if it does not compile

using Address = std::uint64_t;           // of device memory

// One GPU with a context of its own. Throws Error(device): no driver, no such device, out of memory; with the driver's words.
class Device {
 public:
  explicit Device(int ordinal = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  std::string arch() const;              // "sm_90a"
  Address allocate(std::size_t bytes);   // freed with the device, or by
  void release_memory();                 // all of it
  void upload(Address, const void*, std::size_t);
  void download(void*, Address, std::size_t);
  void fill(Address, unsigned char, std::size_t);

  using Function = void*;
  Function load(const Compiled&, const std::string& entry, std::int64_t scratch);   // scratch: dynamic shared memory it will be given
  void launch(Function, std::int64_t blocks, int threads, std::int64_t scratch, const std::vector<Address>& arguments, const std::vector<TensorMap>& maps = {});
  void synchronise();
  // Seconds a call of `body` takes on the GPU: `calls` of them captured into one graph, median over `repeats` replays.
  template <class Body> double seconds(int calls, int repeats, Body body) {
    begin_capture();
    for (int i = 0; i < calls; ++i) body(i);
    return end_capture(repeats) / calls;
  }

 private:
  void begin_capture();
  double end_capture(int repeats);
  struct State;
  std::unique_ptr<State> state_;
  std::string name_;
};

}  // namespace tilewright::cuda
