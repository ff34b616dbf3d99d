#include "onnx/model.h"

#include "onnx/wire.h"
#include "support/error.h"

#include <fmt/format.h>

#include <array>

namespace tilewright::onnx {

namespace {

struct ElementRow {
  const char* name;
  int bits;
  std::optional<DType> dtype;
};

// By TensorProto.DataType.
const std::array<ElementRow, 29> element_rows = {{
    {"undefined", 0, {}},
    {"float32", 32, DType::f32},
    {"uint8", 8, DType::u8},
    {"int8", 8, DType::i8},
    {"uint16", 16, {}},
    {"int16", 16, {}},
    {"int32", 32, DType::i32},
    {"int64", 64, DType::i64},
    {"string", 0, {}},
    {"bool", 8, DType::boolean},
    {"float16", 16, DType::f16},
    {"float64", 64, DType::f64},
    {"uint32", 32, {}},
    {"uint64", 64, {}},
    {"complex64", 64, {}},
    {"complex128", 128, {}},
    {"bfloat16", 16, DType::bf16},
    {"float8e4m3fn", 8, DType::f8e4m3},
    {"float8e4m3fnuz", 8, {}},
    {"float8e5m2", 8, DType::f8e5m2},
    {"float8e5m2fnuz", 8, {}},
    {"uint4", 4, {}},
    {"int4", 4, {}},
    {"float4e2m1", 4, {}},
    {"float8e8m0", 8, {}},
    {"uint2", 2, {}},
    {"int2", 2, {}},
    {"float6e2m3", 6, {}},
    {"float6e3m2", 6, {}},
}};

bool is_element(int type) { return type >= 0 && type < static_cast<int>(element_rows.size()); }

template <class T> const T* value_of(const Node& node, std::string_view name, Attribute::Kind kind) {
  const Attribute* attribute = find_attribute(node, name);
  if (!attribute) return nullptr;
  if (!attribute->ref_attr_name.empty())
    throw Error(Code::model, describe(node),
                fmt::format("attribute {} refers to attribute {} of a function, but the node is in none",
                            in_quotes(name), in_quotes(attribute->ref_attr_name)));
  if (attribute->kind != kind || !std::holds_alternative<T>(attribute->value))
    throw Error(Code::model, describe(node),
                fmt::format("attribute {} is {} where {} is expected", in_quotes(name), kind_name(attribute->kind),
                            kind_name(kind)));
  return &std::get<T>(attribute->value);
}

template <class T> std::optional<T> copy_of(const T* value) { return value ? std::optional<T>(*value) : std::nullopt; }

} // namespace

std::string element_name(int type) {
  return is_element(type) ? element_rows[static_cast<std::size_t>(type)].name : fmt::format("type {}", type);
}

int element_bits(int type) { return is_element(type) ? element_rows[static_cast<std::size_t>(type)].bits : 0; }

std::optional<DType> dtype_of_element(int type) {
  return is_element(type) ? element_rows[static_cast<std::size_t>(type)].dtype : std::nullopt;
}

int element_of_dtype(DType dtype) {
  for (std::size_t i = 0; i < element_rows.size(); ++i)
    if (element_rows[i].dtype == dtype) return static_cast<int>(i);
  return element::undefined;
}

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

std::int64_t opset_version(std::span<const Opset> opsets, std::string_view domain) {
  for (const Opset& opset : opsets)
    if (opset.domain == plain_domain(domain)) return opset.version;
  return 0;
}

std::string describe(const Type& type) {
  if (!type.unsupported.empty()) return type.unsupported;
  if (type.element == element::undefined) return "untyped";
  std::string text = "tensor(" + element_name(type.element) + ")";
  if (!type.ranked) return text;
  text += '[';
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& dim = type.dims[i];
    if (i > 0) text += ", ";
    if (i == 16) return text + "...]";
    text += dim.fixed() ? std::to_string(dim.value) : dim.named() ? in_quotes(dim.name) : "?";
  }
  return text + ']';
}

std::string describe(const Node& node) {
  std::string op = in_quotes(node.op_type);
  op = op.substr(1, op.size() - 2);
  if (!node.name.empty()) return fmt::format("node {} ({})", in_quotes(node.name), op);
  for (std::string_view output : node.outputs)
    if (!output.empty()) return fmt::format("node of {} ({})", in_quotes(output), op);
  return fmt::format("a node ({})", op);
}

std::string_view kind_name(Attribute::Kind kind) {
  constexpr std::array<std::string_view, 15> names = {
      "nothing", "a float", "an int", "a string",        "a tensor",       "a graph", "floats", "ints",
      "strings", "tensors", "graphs", "a sparse tensor", "sparse tensors", "a type",  "types"};
  return names[static_cast<std::size_t>(kind)];
}

const Attribute* find_attribute(const Node& node, std::string_view name) {
  for (const Attribute& attribute : node.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

float real_of(const Node& node, std::string_view name, float otherwise) {
  const float* value = value_of<float>(node, name, Attribute::Kind::real);
  return value ? *value : otherwise;
}

std::int64_t integer_of(const Node& node, std::string_view name, std::int64_t otherwise) {
  const std::int64_t* value = value_of<std::int64_t>(node, name, Attribute::Kind::integer);
  return value ? *value : otherwise;
}

std::string_view string_of(const Node& node, std::string_view name, std::string_view otherwise) {
  const std::string_view* value = value_of<std::string_view>(node, name, Attribute::Kind::string);
  return value ? *value : otherwise;
}

std::optional<std::vector<std::int64_t>> integers_of(const Node& node, std::string_view name) {
  return copy_of(value_of<std::vector<std::int64_t>>(node, name, Attribute::Kind::integers));
}

std::optional<std::vector<float>> reals_of(const Node& node, std::string_view name) {
  return copy_of(value_of<std::vector<float>>(node, name, Attribute::Kind::reals));
}

std::optional<std::vector<std::string_view>> strings_of(const Node& node, std::string_view name) {
  return copy_of(value_of<std::vector<std::string_view>>(node, name, Attribute::Kind::strings));
}

const Tensor* tensor_of(const Node& node, std::string_view name) {
  auto* value = value_of<std::shared_ptr<const Tensor>>(node, name, Attribute::Kind::tensor);
  return value ? value->get() : nullptr;
}

const Graph* graph_of(const Node& node, std::string_view name) {
  auto* value = value_of<std::shared_ptr<const Graph>>(node, name, Attribute::Kind::graph);
  return value ? value->get() : nullptr;
}

} // namespace tilewright::onnx
