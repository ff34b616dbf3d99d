#include "support/file.h"

#include "support/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <cstring>
#include <system_error>
#include <vector>

namespace tilewright {

namespace {

constexpr std::size_t stream_limit = std::size_t{4} << 30;

std::string reason(int error) { return std::generic_category().message(error); }

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int fd_) : fd(fd_) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int open_again(const char* path, int flags, mode_t mode = 0) {
  for (;;) {
    int fd = ::open(path, flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

// Reads to the end: for streams, and for the files of /proc, whose size is said to be 0.
Mapping read_all(int fd, const std::string& path) {
  auto buffer = std::make_shared<std::vector<std::byte>>();
  std::vector<std::byte> block(std::size_t{1} << 16);
  for (;;) {
    ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Code::file, path, "cannot be read: " + reason(errno));
    if (got == 0) break;
    if (buffer->size() + static_cast<std::size_t>(got) > stream_limit)
      throw Error(Code::file, path, "the stream gives more than 4 GiB", "save it as a file first");
    buffer->insert(buffer->end(), block.begin(), block.begin() + got);
  }
  return {std::span<const std::byte>(*buffer), buffer};
}

// The live mappings, by address: only their pages may be given back.
struct Mappings {
  std::mutex lock;
  std::map<const std::byte*, std::size_t> sizes;
};

Mappings& mappings() {
  static auto* list = new Mappings; // never destroyed: owners may outlive static objects
  return *list;
}

Mapping map_regular(int fd, std::size_t size, const std::string& path) {
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) throw Error(Code::file, path, "cannot be mapped: " + reason(errno));
  {
    const std::lock_guard guard(mappings().lock);
    mappings().sizes[static_cast<const std::byte*>(at)] = size;
  }
  std::shared_ptr<const void> owner(at, [size](const void* p) {
    const std::lock_guard guard(mappings().lock);
    mappings().sizes.erase(static_cast<const std::byte*>(p));
    ::munmap(const_cast<void*>(p), size);
  });
  return {{static_cast<const std::byte*>(at), size}, std::move(owner)};
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw Error(Code::file, path, "cannot be written: " + reason(errno));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

// Pipes and devices cannot be renamed over; they are written as they are.
bool is_special(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

} // namespace

Mapping map_file(const std::string& path, Accept accept) {
  if (path.empty()) throw Error(Code::file, "", "the path is empty");
  if (path.find('\0') != std::string::npos) throw Error(Code::file, path.c_str(), "the path holds a zero byte");
  // Without O_NONBLOCK the opening itself would wait for the other end of a pipe.
  Descriptor file(open_again(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (file.fd < 0) throw Error(Code::file, path, "cannot be opened: " + reason(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) throw Error(Code::file, path, "cannot be examined: " + reason(errno));
  if (S_ISDIR(info.st_mode)) throw Error(Code::file, path, "is a folder, not a file");
  if (S_ISREG(info.st_mode))
    return info.st_size > 0 ? map_regular(file.fd, static_cast<std::size_t>(info.st_size), path)
                            : read_all(file.fd, path);
  if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode)) throw Error(Code::file, path, "is a device, not a file");
  if (accept == Accept::regular) throw Error(Code::file, path, "is a pipe, not a file");
  int flags = ::fcntl(file.fd, F_GETFL);
  if (flags >= 0) ::fcntl(file.fd, F_SETFL, flags & ~O_NONBLOCK);
  return read_all(file.fd, path);
}

namespace {

// The mapped file that holds these bytes, or nothing. Under the lock.
std::span<const std::byte> mapping_of(std::span<const std::byte> bytes) {
  auto it = mappings().sizes.upper_bound(bytes.data());
  if (it == mappings().sizes.begin()) return {};
  --it;
  if (bytes.data() + bytes.size() > it->first + it->second) return {};
  return {it->first, it->second};
}

}  // namespace

void release_mapping(std::span<const std::byte> bytes) {
  const std::lock_guard guard(mappings().lock);
  const auto all = mapping_of(bytes);
  if (!all.empty()) ::madvise(const_cast<std::byte*>(all.data()), all.size(), MADV_DONTNEED);
}

void release_pages(std::span<const std::byte> bytes) {
  const std::lock_guard guard(mappings().lock);
  if (mapping_of(bytes).empty()) return;
  // Whole pages inside the bytes only; the others hold somebody else's data as well.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto to = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (to > from) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

std::string read_text(const std::string& path) {
  Mapping mapping = map_file(path);
  return std::string(reinterpret_cast<const char*>(mapping.bytes.data()), mapping.bytes.size());
}

void write_file(const std::string& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};
  if (path.empty()) throw Error(Code::file, "", "the path is empty");
  if (is_special(path)) {
    Descriptor file(open_again(path.c_str(), O_WRONLY | O_NOCTTY));
    if (file.fd < 0) throw Error(Code::file, path, "cannot be opened for writing: " + reason(errno));
    return write_all(file.fd, bytes, path);
  }
  std::string fresh = path + "." + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".part";
  Descriptor file(open_again(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
  if (file.fd < 0) throw Error(Code::file, path, "cannot be created: " + reason(errno));
  try {
    write_all(file.fd, bytes, path);
    // Some file systems tell of a full disk only when the data is flushed.
    if (::fsync(file.fd) != 0 && errno != EINVAL && errno != EROFS)
      throw Error(Code::file, path, "cannot be written: " + reason(errno));
    if (::rename(fresh.c_str(), path.c_str()) != 0)
      throw Error(Code::file, path, "cannot be replaced: " + reason(errno));
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

} // namespace tilewright
