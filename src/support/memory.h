// Zeroed memory for arrays, aligned to a cache line. Large blocks come from the system and go back to it at once when they are let
// go: a heap would keep them, and a model's weights exist twice for a moment while they are packed.
#pragma once
#include <cstddef>
#include <memory>

namespace tilewright {

std::shared_ptr<std::byte[]> zeroed_bytes(std::size_t bytes);   // Error(memory) where there is not enough

}  // namespace tilewright
