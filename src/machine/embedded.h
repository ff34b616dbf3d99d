// The shipped machines, inside the library; the .cpp is made at build time (cmake/machines.cmake).
#pragma once
#include <string_view>
#include <vector>

namespace tilewright {

struct EmbeddedMachine {
  std::string_view name, text;
};
const std::vector<EmbeddedMachine>& embedded_machines();

} // namespace tilewright
