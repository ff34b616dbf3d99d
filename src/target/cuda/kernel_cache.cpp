#include "target/cuda/kernel_cache.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "support/file.h"

namespace tilewright::cuda {

namespace {

constexpr std::string_view magic = "tilewright kernel 1";

std::string hash_of(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string path_of(const std::string& folder, const std::string& key) {
  return fmt::format("{}/kernels/{}.cubin", folder, key);
}

} // namespace

bool compiling_allowed() { return variable("TILEWRIGHT_JIT") != "off"; }

std::string cache_key(std::string_view source, const std::string& arch, const std::string& compiler) {
  return hash_of(
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", magic, TILEWRIGHT_VERSION, arch, compiler, compiler_options(), source));
}

// "tilewright kernel 1 <hash of the code> <registers> <stack> <spills>\n" and the code.
std::optional<Compiled> read_cached(const std::string& folder, const std::string& key) {
  if (folder.empty()) return {};
  std::string text;
  try {
    text = read_text(path_of(folder, key));
  } catch (const Error&) {
    return {};
  }
  const std::size_t end = text.find('\n');
  if (end == std::string::npos || !text.starts_with(magic)) return {};
  Compiled out;
  char hash[33] = {};
  if (std::sscanf(text.substr(magic.size(), end - magic.size()).c_str(), "%32s %d %d %d", hash, &out.registers,
                  &out.stack, &out.spills) != 4)
    return {};
  out.code = text.substr(end + 1);
  if (out.code.empty() || hash_of(out.code) != hash) return {};
  return out;
}

bool write_cached(const std::string& folder, const std::string& key, const Compiled& k) {
  if (folder.empty()) return false;
  std::error_code failed;
  std::filesystem::create_directories(folder + "/kernels", failed);
  if (failed) return false;
  try {
    write_file(path_of(folder, key),
               fmt::format("{} {} {} {} {}\n", magic, hash_of(k.code), k.registers, k.stack, k.spills) + k.code);
  } catch (const Error&) {
    return false;
  }
  return true;
}

} // namespace tilewright::cuda
