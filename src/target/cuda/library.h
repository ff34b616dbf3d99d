// A shared library found at run time, and its functions by name.
#pragma once
#include <dlfcn.h>

#include <string>
#include <vector>

#include "support/error.h"

namespace tilewright::cuda {

class Library {
public:
  explicit Library(const std::vector<std::string>& names) {
    for (const std::string& n : names)
      if (!n.empty() && (handle_ = dlopen(n.c_str(), RTLD_NOW | RTLD_LOCAL))) return;
  }
  bool found() const { return handle_ != nullptr; }
  template <class F> void get(F& to, const char* name) const {
    if (!find(to, name))
      throw Error(Code::device, name, "the CUDA library lacks this function", "install a newer driver");
  }
  template <class F> bool find(F& to, const char* name) const {
    to = reinterpret_cast<F>(dlsym(handle_, name));
    return to != nullptr;
  }

private:
  void* handle_ = nullptr; // stays open: nobody unloads a driver
};

} // namespace tilewright::cuda
