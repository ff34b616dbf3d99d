// Reads ONNX files: maps them, walks the wire format once and keeps views. 2 GiB is no limit, and weights are not
// copied.
//
//   Model m = read_model("net.onnx");                   the file stays mapped as long as m.owners (or a tensor's owner)
//   lives Model m = read_model(bytes, "folder", owner);       bytes must outlive the model, or belong to owner
//
// What is refused: Error(file) for a file that cannot be read, Error(model) for one that is malformed, Error(external)
// for weights beside the model that are missing, short or outside its folder; each with the byte and the node or
// tensor. Sub-messages that protobuf would merge when given twice, and fields of a wrong wire type, are refused too: no
// writer makes them. Memory use is bounded by the size of the input, nesting by depth_limit, time is linear. Names need
// not be UTF-8.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "onnx/model.h"

namespace tilewright::onnx {

Model read_model(const std::string& path);
Model read_model(std::span<const std::byte> bytes, const std::string& folder = "",
                 std::shared_ptr<const void> owner = {});

} // namespace tilewright::onnx
