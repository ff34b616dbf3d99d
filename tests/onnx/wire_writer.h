// A small writer of protobuf messages, and of the ONNX messages that tests need, so that no test depends on Python.
//
//   W model = W().varint(1, 8).message(8, W().varint(2, 17)).message(7, graph);      model.bytes() -> span
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::onnx {

class W {
public:
  std::string out;

  W& varint(std::uint32_t field, std::uint64_t value) { return tag(field, 0).raw_varint(value); }
  W& integer(std::uint32_t field, std::int64_t value) { return varint(field, static_cast<std::uint64_t>(value)); }
  W& fixed32(std::uint32_t field, std::uint32_t value) { return tag(field, 5).raw(&value, 4); }
  W& fixed64(std::uint32_t field, std::uint64_t value) { return tag(field, 1).raw(&value, 8); }
  W& real(std::uint32_t field, float value) { return fixed32(field, std::bit_cast<std::uint32_t>(value)); }
  W& text(std::uint32_t field, std::string_view value) {
    return tag(field, 2).raw_varint(value.size()).raw(value.data(), value.size());
  }
  W& message(std::uint32_t field, const W& value) { return text(field, value.out); }
  W& packed(std::uint32_t field, const std::vector<std::int64_t>& values) {
    W inner;
    for (std::int64_t v : values) inner.raw_varint(static_cast<std::uint64_t>(v));
    return message(field, inner);
  }
  template <class T> W& packed_fixed(std::uint32_t field, const std::vector<T>& values) {
    return text(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  W& begin_group(std::uint32_t field) { return tag(field, 3); }
  W& end_group(std::uint32_t field) { return tag(field, 4); }

  W& tag(std::uint32_t field, std::uint32_t type) { return raw_varint(std::uint64_t{field} << 3 | type); }
  W& raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
    out += static_cast<char>(value);
    return *this;
  }
  W& raw(const void* data, std::size_t size) {
    out.append(static_cast<const char*>(data), size);
    return *this;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(out)); }
};

// ---- the messages of ONNX, by their field numbers ----

inline W dim_fixed(std::int64_t value) { return W().integer(1, value); }
inline W dim_named(std::string_view name) { return W().text(2, name); }

inline W tensor_type(int element, const std::vector<W>& dims) {
  W shape;
  for (const W& dim : dims) shape.message(1, dim);
  return W().message(1, W().varint(1, static_cast<std::uint64_t>(element)).message(2, shape));
}

inline W value_info(std::string_view name, const W& type) { return W().text(1, name).message(2, type); }
inline W value_info(std::string_view name) { return value_info(name, tensor_type(1, {dim_fixed(2)})); }

inline W tensor_header(std::string_view name, int element, const std::vector<std::int64_t>& dims) {
  return W().packed(1, dims).varint(2, static_cast<std::uint64_t>(element)).text(8, name);
}

template <class T>
W raw_tensor(std::string_view name, int element, const std::vector<std::int64_t>& dims, const std::vector<T>& values) {
  return tensor_header(name, element, dims).packed_fixed(9, values);
}

inline W external_tensor(std::string_view name, int element, const std::vector<std::int64_t>& dims,
                         const std::vector<std::pair<std::string, std::string>>& entries) {
  W tensor = tensor_header(name, element, dims);
  for (const auto& [key, value] : entries) tensor.message(13, W().text(1, key).text(2, value));
  return tensor.varint(14, 1);
}

inline W attribute(std::string_view name, int type) {
  return W().text(1, name).varint(20, static_cast<std::uint64_t>(type));
}
inline W attribute_int(std::string_view name, std::int64_t value) { return attribute(name, 2).integer(3, value); }
inline W attribute_float(std::string_view name, float value) { return attribute(name, 1).real(2, value); }
inline W attribute_graph(std::string_view name, const W& graph) { return attribute(name, 5).message(6, graph); }
inline W attribute_ref(std::string_view name, int type, std::string_view ref) {
  return attribute(name, type).text(21, ref);
}

inline W node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
              std::string_view name = "", const std::vector<W>& attributes = {}, std::string_view domain = "") {
  W message;
  for (const auto& input : inputs) message.text(1, input);
  for (const auto& output : outputs) message.text(2, output);
  if (!name.empty()) message.text(3, name);
  message.text(4, op);
  for (const W& a : attributes) message.message(5, a);
  if (!domain.empty()) message.text(7, domain);
  return message;
}

struct GraphParts {
  std::string name = "g";
  std::vector<W> nodes, initializers, inputs, outputs;
};

inline W graph(const GraphParts& parts) {
  W message;
  for (const W& n : parts.nodes) message.message(1, n);
  message.text(2, parts.name);
  for (const W& t : parts.initializers) message.message(5, t);
  for (const W& v : parts.inputs) message.message(11, v);
  for (const W& v : parts.outputs) message.message(12, v);
  return message;
}

inline W opset(std::string_view domain, std::int64_t version) { return W().text(1, domain).integer(2, version); }

struct FunctionParts {
  std::string name, domain = "my";
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<W> defaults, nodes, opsets = {opset("", 17)};
};

inline W function(const FunctionParts& parts) {
  W message;
  message.text(1, parts.name);
  for (const auto& input : parts.inputs) message.text(4, input);
  for (const auto& output : parts.outputs) message.text(5, output);
  for (const auto& name : parts.attributes) message.text(6, name);
  for (const W& n : parts.nodes) message.message(7, n);
  for (const W& o : parts.opsets) message.message(9, o);
  message.text(10, parts.domain);
  for (const W& a : parts.defaults) message.message(11, a);
  return message;
}

inline W model(const W& graph_message, const std::vector<W>& functions = {},
               const std::vector<W>& opsets = {opset("", 17), opset("my", 1)}) {
  W message;
  message.varint(1, 8).text(2, "test");
  message.message(7, graph_message);
  for (const W& o : opsets) message.message(8, o);
  for (const W& f : functions) message.message(25, f);
  return message;
}

inline W model_of_tensor(const W& tensor) { return model(graph({"g", {}, {tensor}, {}, {}})); }

} // namespace tilewright::onnx
