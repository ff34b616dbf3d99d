// A GPU for tests: the threads of a block are fibers of one host thread, which change wherever they wait for one another. Every access
// of a kernel is looked at (kernels are compiled with calls to __tsan_read4 and the like, which are defined here), so that a run says
// what a sanitizer of the real one would: out of bounds, never written, a race within a block or between blocks, lanes that meet in
// different instructions, threads that wait for ever. Scratch holds NaNs where nothing was written. Copies arrive as late as they may.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tilewright::emulated {

#pragma GCC visibility push(default)
struct Grid {
  std::int64_t blocks = 1;
  int threads = 1;
  std::int64_t scratch = 0;
  int cluster = 1;
};
// Memory that kernels may touch: NaNs, until somebody writes it.
void* allocate(std::size_t bytes);
void release(void*);
void host_writes(void*, std::size_t bytes);
void code_of(const void* somewhere_in);        // a module's constants may be read

// The kernel's arguments are addresses of values. What was wrong; empty: nothing.
// `blocks`: only so many of them, spread over the grid; 0: all.
std::string run(void (*entry)(void**), void** arguments, const Grid&, std::int64_t blocks = 0);
// Whether kernels have written a byte of memory.
bool was_written(const void*);

// What a map of a tensor (the copy engine's) holds.
struct Map {
  void* base;
  int rank, width;
  std::int64_t dims[5], strides[4];            // elements, innermost first; bytes, of dims 1 and on
  int box[5];
};
#pragma GCC visibility pop

// ---- between the parts of the machine

struct Block;
void touch(const void*, std::size_t bytes, bool writes);      // by the thread that runs
[[noreturn]] void fail(const std::string&);
void forget_products();                        // of groups of four warps, of earlier kernels
bool products_under_way();
unsigned char* own_scratch(unsigned address, std::size_t bytes);        // of the block that runs, whatever block the address names

}  // namespace tilewright::emulated
