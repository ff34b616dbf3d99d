#include "support/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "support/error.h"

namespace tilewright {
namespace {

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  return 0;
}

TEST(Memory, IsZeroedAndAligned) {
  for (std::size_t bytes : {0, 1, 63, 64, 65, 4096, (1 << 18) - 1, 1 << 18, (1 << 20) + 3}) {
    const auto block = zeroed_bytes(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0u);
    EXPECT_TRUE(std::all_of(block.get(), block.get() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(block.get(), bytes, std::byte{7});
  }
}

TEST(Memory, GoesBackToTheSystemAtOnce) {
  const long before = resident_kib();
  for (int i = 0; i < 20; ++i) {
    auto block = zeroed_bytes(16 << 20);
    std::fill_n(block.get(), 16 << 20, std::byte{1});
    auto small = zeroed_bytes(1 << 19);     // would keep a heap from shrinking
    std::fill_n(small.get(), 1 << 19, std::byte{1});
    if (before > 0) { EXPECT_GT(resident_kib(), before + 12 * 1024); }
  }
  EXPECT_LT(resident_kib(), before + 4 * 1024);
}

TEST(Memory, ThatCannotBeHadIsAnError) {
  for (std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 60}) {
    try {
      zeroed_bytes(bytes);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::memory);
    }
  }
}

}  // namespace
}  // namespace tilewright
