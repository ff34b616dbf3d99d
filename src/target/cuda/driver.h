// The CUDA driver, found at run time: one binary plans and prints kernels everywhere and runs them where a GPU is.
// Nothing here links against CUDA.
//
//   libcuda: $TILEWRIGHT_CUDA, else the loader's own search
//
//   Device gpu(0);
//   Address x = gpu.allocate(n);  gpu.upload(x, bytes, n);
//   Function f = gpu.load(compile(...), "matmul", scratch);
//   gpu.launch({f, blocks, threads, scratch}, {x, y});  gpu.synchronise();
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/error.h"
#include "target/cuda/compiler.h"
#include "target/cuda/tensor_map.h"

namespace tilewright::cuda {

using Address = std::uint64_t; // of device memory
using Function = void*;
using Stream = void*; // of a caller, as the driver knows it
using Graph = void*;  // ready to be launched

struct Launch {
  Function function = nullptr;
  std::int64_t blocks = 1;
  int threads = 1;
  std::int64_t scratch = 0;              // bytes of dynamic shared memory
  bool early = false;                    // blocks may start before the kernel in front has ended: they wait by themselves
  std::vector<TensorMap> maps = {};      // of arguments that the copy engine reads
};

// What the planner and the compiler need to know of a GPU.
struct Facts {
  std::string name; // "NVIDIA H200"
  std::string arch; // "sm_90a"
  int cores = 0;
  std::int64_t memory = 0;
};

// Error(device) where there is no GPU of that number, or no driver.
void require_gpu(int ordinal);

// One GPU with a stream, memory and modules of its own, in the context that all of this process share. Not for several
// threads at once; each thread that uses it says so first. Throws Error(device): no driver, no such device;
// Error(memory): out of memory; with the driver's words.
class Device {
public:
  explicit Device(int ordinal = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Facts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }
  const std::string& arch() const { return facts_.arch; }
  int ordinal() const { return ordinal_; }
  void use() const; // by the calling thread, from now on

  Address allocate(std::size_t bytes); // freed with the device, or by
  void release(Address);
  void release_memory(); // all of it
  // In the order of the stream. Those of host memory have ended when they return.
  void upload(Address, const void*, std::size_t);
  void download(void*, Address, std::size_t);
  void copy(Address to, Address from, std::size_t);
  void fill(Address, unsigned char, std::size_t);

  using Function = cuda::Function;
  Function load(const Compiled&, const std::string& entry,
                std::int64_t scratch); // scratch: dynamic shared memory it will be given
  void launch(const Launch&, const std::vector<Address>& arguments);
  void synchronise();

  void follow(Stream); // what comes from now on runs behind what is in that stream
  void lead(Stream);   // and what goes into that stream, behind what has been launched here

  // What is launched between the two becomes a graph.
  void begin_capture();
  Graph end_capture();
  void abandon_capture() noexcept;
  void launch(Graph);
  void destroy(Graph) noexcept;
  // Seconds that each of so many launches of the graph takes on the GPU, after three that are not counted; and their
  // median.
  std::vector<double> times(Graph, int runs);
  double seconds(Graph, int runs);

  // Seconds a call of `body` takes on the GPU: `calls` of them captured into one graph.
  template <class Body> double seconds(int calls, int repeats, Body body) {
    begin_capture();
    for (int i = 0; i < calls; ++i) body(i);
    const Graph g = end_capture();
    const double s = seconds(g, repeats) / calls;
    destroy(g);
    return s;
  }

private:
  struct State;
  std::unique_ptr<State> state_;
  Facts facts_;
  int ordinal_ = 0;
};

} // namespace tilewright::cuda
