#include "support/cache.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "support/error.h"

namespace tilewright {

namespace {

namespace fs = std::filesystem;

struct CacheKind {
  const char *name, *suffix;
};
constexpr CacheKind kinds[] = {{"kernels", ".cubin"}, {"plans", ".plan"}};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void entries_of(const CacheKind& kind, const std::string& folder, std::vector<CacheEntry>& list) {
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(fs::path(folder) / kind.name, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::error_code gone; // by another process, meanwhile
    if (at->path().extension() != kind.suffix || at->is_symlink(gone) || !at->is_regular_file(gone)) continue;
    const auto bytes = at->file_size(gone);
    const auto written = at->last_write_time(gone);
    if (gone) continue;
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - written).count();
    list.push_back({kind.name, at->path().string(), static_cast<std::int64_t>(bytes), std::max<std::int64_t>(age, 0)});
  }
}

} // namespace

std::string cache_folder() {
  if (const std::string own = variable("TILEWRIGHT_CACHE_DIR"); !own.empty()) return own;
  if (const std::string base = variable("XDG_CACHE_HOME"); !base.empty()) return base + "/tilewright";
  const std::string home = variable("HOME");
  return home.empty() ? home : home + "/.cache/tilewright";
}

std::vector<CacheEntry> cache_entries(const std::string& folder) {
  std::vector<CacheEntry> list;
  if (folder.empty()) return list;
  for (const CacheKind& kind : kinds) entries_of(kind, folder, list);
  std::sort(list.begin(), list.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::pair(a.kind, a.path) < std::pair(b.kind, b.path);
  });
  return list;
}

std::size_t remove_entries(const std::vector<CacheEntry>& entries) {
  std::size_t removed = 0;
  for (const CacheEntry& e : entries) {
    std::error_code failed;
    removed += fs::remove(e.path, failed);
    if (failed) throw Error(Code::file, e.path, "cannot be removed: " + failed.message());
  }
  return removed;
}

} // namespace tilewright
