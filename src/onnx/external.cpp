#include "onnx/external.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tilewright::onnx {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t longest_location = 4096;

bool is_inside(const std::string& path, const std::string& root) {
  if (root == "/") return path.starts_with('/');
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

// What is wrong with the spelling of a location, or nothing.
std::string refusal_of(std::string_view location) {
  if (location.empty()) return "is empty";
  if (location.size() > longest_location) return fmt::format("has {} characters", location.size());
  if (location.find('\0') != std::string_view::npos) return "holds a zero byte";
  if (location.front() == '/') return "is an absolute path";
  for (const fs::path& part : fs::path(location))
    if (part == "..") return "leaves the model's folder";
  return {};
}

void add_root(std::vector<std::string>& roots, const fs::path& folder) {
  std::error_code error;
  fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
  if (!error && std::find(roots.begin(), roots.end(), root.string()) == roots.end()) roots.push_back(root.string());
}

} // namespace

ExternalFiles ExternalFiles::of_folder(const std::string& folder) {
  ExternalFiles files;
  if (folder.empty()) return files;
  files.folder_ = folder;
  add_root(files.roots_, folder);
  return files;
}

ExternalFiles ExternalFiles::of_model(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  ExternalFiles files = of_folder(folder.empty() ? "." : folder.string());
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (!error) add_root(files.roots_, real.parent_path());
  return files;
}

std::string ExternalFiles::resolve(std::string_view location, const Place& place, const std::byte* at) const {
  auto refuse = [&](const std::string& why, std::string hint) {
    fail(Code::external, place, at, fmt::format("external data {} {}", in_quotes(location), why), std::move(hint));
  };
  const std::string inside = "a model may name only files in its own folder";
  if (std::string why = refusal_of(location); !why.empty()) refuse(why, inside);
  if (folder_.empty()) refuse("cannot be found, since the model was given as bytes", "say in which folder it lies");
  std::error_code error;
  fs::path path = fs::canonical(fs::path(folder_) / fs::path(location), error);
  if (error)
    refuse(fmt::format("cannot be opened in folder {}: {}", in_quotes(folder_), error.message()),
           "keep the data file beside the model");
  std::string real = path.string();
  if (std::none_of(roots_.begin(), roots_.end(), [&](const std::string& root) { return is_inside(real, root); }))
    refuse("is a link that leaves the model's folder", inside);
  return real;
}

const Mapping& ExternalFiles::open(std::string_view location, const Place& place, const std::byte* at) {
  auto [known, fresh] = resolved_.try_emplace(std::string(location.substr(0, longest_location + 1)));
  if (fresh) known->second = resolve(location, place, at);
  auto found = mapped_.find(known->second);
  if (found != mapped_.end()) return found->second;
  try {
    return mapped_.emplace(known->second, map_file(known->second, Accept::regular)).first->second;
  } catch (const Error& error) {
    fail(Code::external, place, at, fmt::format("external data {} {}", in_quotes(location), error.message), error.hint);
  }
}

} // namespace tilewright::onnx
