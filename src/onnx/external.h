// Tensor data in files beside the model. A model is untrusted, so it may name only what lies in its own folder:
//
//   location "weights/w.bin"      ok: mapped once, however many tensors lie in it
//   location "/etc/passwd"        refused: absolute
//   location "../w.bin"           refused: leaves the folder by name
//   location "w.bin" -> /etc/...  refused: a symbolic link that leaves the folder
//
// Where the model's own path is a symbolic link (as in download caches that keep all content in one folder), the folder
// that the link leads to is the model's folder too. All refusals are Error(Code::external).
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/wire.h"
#include "support/file.h"

namespace tilewright::onnx {

class ExternalFiles {
public:
  ExternalFiles() = default; // no folder is known: every location is refused
  static ExternalFiles of_folder(const std::string& folder);
  static ExternalFiles of_model(const std::string& path);

  // The file named by the location of the tensor that is read at this place.
  const Mapping& open(std::string_view location, const Place& place, const std::byte* at);

private:
  std::string resolve(std::string_view location, const Place& place, const std::byte* at) const;

  std::string folder_;                                    // as the user named it
  std::vector<std::string> roots_;                        // without symbolic links; a file must lie in one
  std::unordered_map<std::string, std::string> resolved_; // location -> path without symbolic links
  std::unordered_map<std::string, Mapping> mapped_;       // by that path
};

} // namespace tilewright::onnx
