// Imports models, sizes free unless given, and checks that what is printed parses to the same program.
//
//   print_models [--size NAME=VALUE]... MODEL...     one line a model: "free: batch sequence", or its error; exit code
//   1 then
#include <fmt/format.h>

#include <iostream>

#include "expr/text.h"
#include "onnx/import.h"
#include "onnx/reader.h"
#include "support/error.h"

using namespace tilewright;

namespace {

std::string free_sizes(const std::string& path, const onnx::ImportOptions& options) {
  Program p = onnx::import_onnx(onnx::read_model(path), options);
  verify(p);
  if (!same(p, parse(print(p), "printed"))) throw Error(Code::check, path, "the printed program parses to another one");
  std::string names;
  for (const SizeDecl& s : p.sizes) names += " " + s.name;
  return "free:" + names;
}

} // namespace

int main(int argc, char** argv) {
  onnx::ImportOptions options;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--size" && i + 1 < argc) {
      std::string size = argv[++i];
      auto equals = size.rfind('=');
      options.sizes[size.substr(0, equals)] = std::stoll(size.substr(equals + 1));
      continue;
    }
    try {
      std::cout << free_sizes(word, options) << std::endl;
    } catch (const Error& e) {
      std::cout << e.what() << std::endl;
      good = false;
    }
  }
  return good ? 0 : 1;
}
