// Zeroed memory for arrays, aligned to a cache line. Large blocks come from the system and go back to it at once when they are let
// go: a heap would keep them, and a model's weights exist twice for a moment while they are packed.
#pragma once
#include <cstddef>
#include <memory>

namespace tilewright {

// Large: of 2 MiB, where whole ones fit. For what is read again and again in large strides: an image down its columns needs a page of
// 4 KiB a row. What is read once and given back page by page is to have small ones.
enum class Pages { small, large };
std::shared_ptr<std::byte[]> zeroed_bytes(std::size_t bytes, Pages = Pages::small);   // Error(memory) where there is not enough

// The heap gives back what it keeps of blocks that were let go: planning leaves some MiB behind, while weights are about to exist twice.
void trim_heap();

}  // namespace tilewright
