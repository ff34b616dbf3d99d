// Fibers: stacks of their own, and a switch from one to another.
#pragma once
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#include <memory>
#include <vector>
#endif

namespace tilewright::emulated {

constexpr std::size_t stack_bytes = std::size_t{1} << 17;

// Stacks side by side, each behind a page that nobody may touch.
class Stacks {
 public:
  unsigned char* at(std::size_t i) {
    if (!base_) {
      base_ = static_cast<unsigned char*>(mmap(nullptr, most * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    for (; guarded_ <= i; ++guarded_) mprotect(base_ + guarded_ * stack_bytes, 4096, PROT_NONE);
    return base_ + i * stack_bytes;
  }
  bool holds(std::uintptr_t a) const { return a - reinterpret_cast<std::uintptr_t>(base_) < most * stack_bytes; }

 private:
  static constexpr std::size_t most = 8 * 1024;
  unsigned char* base_ = nullptr;
  std::size_t guarded_ = 0;
};

#if defined(__x86_64__)
// Saves what a function must keep, and goes on where `to` was saved.
extern "C" void tw_switch(void** from, void* to);

struct Fiber {
  void* at = nullptr;
  void start(unsigned char* stack, void (*body)()) {
    auto** top = reinterpret_cast<void**>(stack + stack_bytes - 64);
    *--top = nullptr;                                  // where `body` would return to: it does not
    *--top = reinterpret_cast<void*>(body);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    at = top;
  }
};
inline void go(Fiber& from, Fiber& to) { tw_switch(&from.at, to.at); }
#else
struct Fiber {
  ucontext_t at{};
  void start(unsigned char* stack, void (*body)()) {
    getcontext(&at);
    at.uc_stack.ss_sp = stack + 4096, at.uc_stack.ss_size = stack_bytes - 4096, at.uc_link = nullptr;
    makecontext(&at, body, 0);
  }
};
inline void go(Fiber& from, Fiber& to) { swapcontext(&from.at, &to.at); }
#endif

}  // namespace tilewright::emulated
