// The host's compiler: a header of everything that kernels have in common, once a folder; then modules.
#pragma once
#include <string>

namespace tilewright::emulated {

void make_header(const std::string& folder);
void make_module(const std::string& folder, const std::string& base);      // base.cpp, which the header goes in front of, to base.so

}  // namespace tilewright::emulated
