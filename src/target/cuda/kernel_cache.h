// Compiled kernels on disk, so that a second run compiles nothing. One file a kernel, named by a hash of all that its
// code depends on: source, architecture, the compiler's version and options, our own version. Written beside and
// renamed, so that nobody ever reads half of one; what cannot be read or does not fit its own checksum is not there.
//
//   $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright
//   TILEWRIGHT_JIT=off: nothing is compiled, what is not in the cache is an error
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "target/cuda/compiler.h"

namespace tilewright::cuda {

bool compiling_allowed();
std::string cache_key(std::string_view source, const std::string& arch, const std::string& compiler);
std::optional<Compiled> read_cached(const std::string& folder, const std::string& key);
bool write_cached(const std::string& folder, const std::string& key, const Compiled&); // whether it is there now

} // namespace tilewright::cuda
