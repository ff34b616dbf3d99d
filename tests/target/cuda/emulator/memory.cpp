#include "target/cuda/emulator/memory.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "target/cuda/emulator/machine.h"

namespace tilewright::emulated {

namespace {

constexpr std::uint16_t several = 0xffff;
constexpr std::size_t room = 1024;                     // around what is allocated

struct Epochs { std::uint32_t launch = 1, blocks = 1, now = 1; bool checked = true; } epoch;

struct Allocation {
  std::size_t bytes = 0;
  bool from_host = false;
  std::vector<Cell> cells = {};                        // once a kernel writes
};
std::map<std::uintptr_t, Allocation> memory;
std::map<std::uintptr_t, std::uintptr_t> code;         // where modules lie

enum class Clash { none, race, blocks };
Clash clash(Cell& c, unsigned thread, bool writes) {
  const auto t = static_cast<std::uint16_t>(thread);
  auto other_block = [](std::uint32_t e) { return e >= epoch.launch && e < epoch.blocks; };
  if (other_block(c.wrote) || (writes && other_block(c.read))) return Clash::blocks;
  const bool race = epoch.checked && ((c.wrote == epoch.now && c.writer != t) || (writes && c.read == epoch.now && c.reader != t));
  if (writes) c.wrote = epoch.now, c.writer = t;
  else if (c.read == epoch.now && c.reader != t) c.reader = several;
  else c.read = epoch.now, c.reader = t;
  return race ? Clash::race : Clash::none;
}

std::string described(const char* what, const char* where, std::size_t offset, const Cell& c, bool writes) {
  return std::string(what) + " at byte " + std::to_string(offset) + " of " + where + ", which thread " + std::to_string(c.writer) + " wrote and " +
         (c.reader == several ? "several read" : "thread " + std::to_string(c.reader) + " read") + (writes ? ", and is written" : ", and is read");
}

}  // namespace

void next_launch() { epoch.launch = epoch.blocks = ++epoch.now, epoch.checked = true; }
void next_blocks() { epoch.blocks = ++epoch.now; }
void next_epoch() { ++epoch.now; }
void races_are_ordered_elsewhere() { epoch.checked = false; }

void Scratch::reset(std::size_t bytes) {
  all_.resize(bytes + 2 * room + 1024);
  if (cells_.size() < bytes) cells_.resize(bytes);
  base_ = all_.data() + room;
  base_ += (1024 - reinterpret_cast<std::uintptr_t>(base_) % 1024) % 1024;
  size_ = bytes;
  std::memset(base_, 0xff, bytes);
}

std::string Scratch::touch(std::uintptr_t a, std::size_t bytes, unsigned thread, bool writes) {
  const std::size_t at = a - reinterpret_cast<std::uintptr_t>(base_);
  if (at >= size_ || at + bytes > size_) return "beyond the end of scratch: byte " + std::to_string(static_cast<std::int64_t>(at)) + " of " + std::to_string(size_);
  for (std::size_t i = at; i < at + bytes; ++i) {
    Cell& c = cells_[i];
    if (c.wrote < epoch.blocks) c.wrote = 0;           // another block's
    if (c.read < epoch.blocks) c.read = 0;
    const Cell before = c;
    if (clash(c, thread, writes) == Clash::race) return described("a race", "scratch", i, before, writes);
  }
  return {};
}

std::string touch_memory(std::uintptr_t a, std::size_t bytes, unsigned thread, bool writes) {
  auto it = memory.upper_bound(a);
  if (it != memory.begin()) {
    --it;
    Allocation& m = it->second;
    const std::size_t at = a - it->first;
    if (at + bytes <= m.bytes) {
      if (m.cells.empty()) {
        if (!writes) return m.from_host ? "" : "memory is read that nobody has written";
        m.cells.resize(m.bytes);
      }
      for (std::size_t i = at; i < at + bytes; ++i) {
        Cell& c = m.cells[i];
        if (!writes && c.wrote == 0 && !m.from_host) return "memory is read that nobody has written, byte " + std::to_string(i) + " of " + std::to_string(m.bytes);
        const Cell before = c;
        const Clash found = clash(c, thread, writes);
        if (found == Clash::blocks) return described("two blocks meet", "memory", i, before, writes);
        if (found == Clash::race) return described("a race", "memory", i, before, writes);
      }
      return {};
    }
    if (at < m.bytes + room) return "beyond the end of a tensor: byte " + std::to_string(at) + " of " + std::to_string(m.bytes);
  }
  if (auto c = code.upper_bound(a); c != code.begin() && !writes && a < (--c)->second) return {};
  const auto near = memory.upper_bound(a);
  return "an address where there is nothing" + (near == memory.end() ? "" : ", " + std::to_string(near->first - a) + " bytes ahead of a tensor");
}

void* allocate(std::size_t bytes) {
  auto* all = static_cast<unsigned char*>(std::aligned_alloc(1024, (bytes + 2 * room + 1023) / 1024 * 1024));
  std::memset(all, 0xff, bytes + 2 * room);
  memory[reinterpret_cast<std::uintptr_t>(all + room)] = {bytes};
  return all + room;
}
void release(void* p) {
  if (!p) return;
  memory.erase(reinterpret_cast<std::uintptr_t>(p));
  std::free(static_cast<unsigned char*>(p) - room);
}
void host_writes(void* p, std::size_t) {
  auto it = memory.upper_bound(reinterpret_cast<std::uintptr_t>(p));
  if (it != memory.begin()) (--it)->second.from_host = true;
}

bool was_written(const void* p) {
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  auto it = memory.upper_bound(a);
  if (it == memory.begin()) return false;
  --it;
  return a - it->first < it->second.cells.size() && it->second.cells[a - it->first].wrote > 0;
}

void code_of(const void* somewhere) {
  struct Search { std::uintptr_t in; } search{reinterpret_cast<std::uintptr_t>(somewhere)};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        std::uintptr_t low = UINTPTR_MAX, high = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            low = std::min<std::uintptr_t>(low, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            high = std::max<std::uintptr_t>(high, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
          }
        if (const auto in = static_cast<Search*>(data)->in; in >= low && in < high) code[low] = high;
        return 0;
      },
      &search);
}

}  // namespace tilewright::emulated

// ---- what compiled kernels call at each access

#define TW_ACCESS(bytes)                                                                                                                                          \
  void __tsan_read##bytes(void* p) { tilewright::emulated::touch_aligned(p, bytes, false); }                                                                      \
  void __tsan_write##bytes(void* p) { tilewright::emulated::touch_aligned(p, bytes, true); }                                                                      \
  void __tsan_unaligned_read##bytes(void* p) { tilewright::emulated::touch(p, bytes, false); }                                                                    \
  void __tsan_unaligned_write##bytes(void* p) { tilewright::emulated::touch(p, bytes, true); }

namespace tilewright::emulated {
static void touch_aligned(const void* p, std::size_t bytes, bool writes) {
  touch(p, bytes, writes);
  if (reinterpret_cast<std::uintptr_t>(p) % bytes) fail("an access is not aligned to its " + std::to_string(bytes) + " bytes");
}
}  // namespace tilewright::emulated

#pragma GCC visibility push(default)
extern "C" {
TW_ACCESS(1)
TW_ACCESS(2)
TW_ACCESS(4)
TW_ACCESS(8)
TW_ACCESS(16)
void __tsan_read_range(void* p, std::size_t n) { tilewright::emulated::touch(p, n, false); }
void __tsan_write_range(void* p, std::size_t n) { tilewright::emulated::touch(p, n, true); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
#pragma GCC visibility pop
