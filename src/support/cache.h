// What we keep on disk between runs, and where. One folder for all of it, a sub-folder for each kind of entry; an entry is a file
// that can be made again at any time, so removing one costs time and nothing else.
//
//   $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright
//     kernels/0f3a....cubin                               compiled kernels of a GPU
//     plans/0f3a....plan                                  plans for a GPU
//
// Only files of the known kinds are listed or removed: a variable that points at the wrong folder harms nothing in it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

std::string cache_folder();             // empty: there is nowhere to keep anything

struct CacheEntry {
  std::string kind, path;
  std::int64_t bytes = 0;
  std::int64_t age_seconds = 0;         // since it was written
};
std::vector<CacheEntry> cache_entries(const std::string& folder);       // by kind, then by name; none where there is no folder
// Removes them, and says how many are gone. Error(file) where one cannot be removed that is there.
std::size_t remove_entries(const std::vector<CacheEntry>&);

}  // namespace tilewright
