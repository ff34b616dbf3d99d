#include "support/memory.h"

#include <malloc.h>

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
constexpr std::size_t huge = 2 << 20;       // a large page; of less the system gives small ones

[[noreturn]] void too_much(std::size_t bytes) {
  throw Error(Code::memory, "", "an array of " + std::to_string(bytes) + " bytes cannot be had");
}

std::byte* map(std::size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) too_much(bytes);
  return static_cast<std::byte*>(pages);
}

std::byte* map_large_pages(std::size_t bytes) {
  std::byte* const pages = map(bytes + huge);
  const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(pages) % huge) % huge;
  const std::size_t used = (bytes + 4095) / 4096 * 4096;
  if (before > 0) ::munmap(pages, before);
  if (huge - before > used - bytes) ::munmap(pages + before + used, bytes + huge - before - used);
  ::madvise(pages + before, bytes / huge * huge, MADV_HUGEPAGE);
  return pages + before;
}

}  // namespace

std::shared_ptr<std::byte[]> zeroed_bytes(std::size_t bytes, Pages pages) {
  if (bytes > SIZE_MAX / 4) too_much(bytes);
  if (bytes >= large) {
    std::byte* const at = bytes >= huge && pages == Pages::large ? map_large_pages(bytes) : map(bytes);
    return {at, [bytes](std::byte* p) { ::munmap(p, bytes); }};
  }
  void* memory = std::aligned_alloc(line, (bytes + line) / line * line);
  if (!memory) too_much(bytes);
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tilewright
