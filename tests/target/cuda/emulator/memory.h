// What is known of each byte that a kernel may touch: who wrote and who read it, since which meeting of threads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::emulated {

// Epochs begin where all threads of a block meet, and where another block begins.
void next_launch();
void next_blocks();
void next_epoch();
void races_are_ordered_elsewhere();      // by barriers in scratch, or of some of the threads: from here on the launch is not looked at

struct Cell { std::uint32_t wrote = 0, read = 0; std::uint16_t writer = 0, reader = 0; };

// The scratch of a block, with room around it.
class Scratch {
 public:
  void reset(std::size_t bytes);
  unsigned char* bytes() const { return base_; }
  bool holds(std::uintptr_t a) const { return a - reinterpret_cast<std::uintptr_t>(all_.data()) < all_.size(); }
  std::string touch(std::uintptr_t a, std::size_t bytes, unsigned thread, bool writes);

 private:
  std::vector<unsigned char> all_;
  std::vector<Cell> cells_;
  unsigned char* base_ = nullptr;
  std::size_t size_ = 0;
};

std::string touch_memory(std::uintptr_t a, std::size_t bytes, unsigned thread, bool writes);

}  // namespace tilewright::emulated
