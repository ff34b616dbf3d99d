// libFuzzer entry: any bytes are a model or an Error of the reader; nothing else may happen.
#include "onnx/functions.h"
#include "onnx/reader.h"
#include "onnx/sort.h"
#include "onnx/walk.h"
#include "support/error.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tilewright;
  try {
    onnx::Model model = onnx::read_model(std::as_bytes(std::span(data, size)), "/nonexistent");
    onnx::Walk walk;
    walk.model(model);
    model = onnx::inline_functions(std::move(model));
    onnx::sort_nodes(model.graph, model.file);
    walk.model(model);
  } catch (const Error& error) {
    if (kind_of(error.code) != ErrorKind::usage && error.code != Code::unsupported) std::abort();
  }
  return 0;
}
