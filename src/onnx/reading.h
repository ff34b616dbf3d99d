// What the parts of the reader share. Not for other folders: they read models through onnx/reader.h.
#pragma once
#include <memory>
#include <span>

#include "onnx/external.h"
#include "onnx/model.h"
#include "onnx/wire.h"

namespace tilewright::onnx {

struct Reading {
  Source source;
  std::shared_ptr<const void> owner; // of source.bytes
  ExternalFiles external;
  std::span<const Opset> opsets; // of the model or function being read
};

// Reads one TensorProto at a place of its own. The tensor's name is set as soon as it is known, so that the place can
// tell it.
void read_tensor(Reading&, const Place&, std::span<const std::byte> message, Tensor&);

} // namespace tilewright::onnx
