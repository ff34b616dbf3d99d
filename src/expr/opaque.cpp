#include "expr/opaque.h"

#include <map>
#include <mutex>

namespace tilewright {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Reference>> functions;
};

Registry& registry() {
  static Registry r;
  return r;
}

} // namespace

void register_reference(const std::string& name, Reference function) {
  std::lock_guard lock(registry().mutex);
  registry().functions[name] = std::make_shared<const Reference>(std::move(function));
}

std::shared_ptr<const Reference> find_reference(const std::string& name) {
  std::lock_guard lock(registry().mutex);
  auto found = registry().functions.find(name);
  return found == registry().functions.end() ? nullptr : found->second;
}

} // namespace tilewright
