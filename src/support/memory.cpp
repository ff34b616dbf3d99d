#include "support/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/error.h"

namespace tilewright {

namespace {

constexpr std::size_t line = 64;            // one cache line, and the widest vector
constexpr std::size_t large = 1 << 18;

[[noreturn]] void too_much(std::size_t bytes) {
  throw Error(Code::memory, "", "an array of " + std::to_string(bytes) + " bytes cannot be had");
}

}  // namespace

std::shared_ptr<std::byte[]> zeroed_bytes(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4) too_much(bytes);
  if (bytes >= large) {
    void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) too_much(bytes);
    return {static_cast<std::byte*>(pages), [bytes](std::byte* p) { ::munmap(p, bytes); }};
  }
  void* memory = std::aligned_alloc(line, (bytes + line) / line * line);
  if (!memory) too_much(bytes);
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace tilewright
