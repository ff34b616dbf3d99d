// Machines by name or path.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "machine/embedded.h"
#include "machine/host.h"
#include "machine/machine.h"
#include "machine/strict_json.h"
#include "support/error.h"
#include "support/file.h"

namespace tilewright {
namespace {

std::string read_machine_file(const std::string& path) {
  constexpr std::uintmax_t largest = 1 << 20; // the shipped ones have some 8 KB
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) throw Error(Code::file, path, "there is no such machine file");
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (!failed && size > largest)
    throw Error(Code::file, path, fmt::format("has {} bytes, a machine file has at most {}", size, largest));
  return read_text(path);
}

} // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : embedded_machines()) names.emplace_back(machine.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view machine_text(std::string_view name) {
  for (const EmbeddedMachine& machine : embedded_machines())
    if (machine.name == name) return machine.text;
  return {};
}

Machine machine_named(const std::string& name_or_path) {
  if (name_or_path == "cpu") return this_cpu();
  const std::string_view shipped = machine_text(name_or_path);
  if (!shipped.empty()) return machine_from_json(shipped, "machines/" + name_or_path + ".json");
  const bool path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  if (path) return machine_from_json(read_machine_file(name_or_path), name_or_path);
  std::vector<std::string> names = machine_names();
  names.emplace_back("cpu");
  const std::vector<std::string> near = nearest(name_or_path, names);
  throw Error(Code::option, "", fmt::format("there is no machine '{}'", name_or_path),
              near.empty() ? fmt::format("shipped are {}; or give the path of a .json file", joined(names))
                           : fmt::format("did you mean {}?", joined(near, " or ")));
}

} // namespace tilewright
