// An ONNX model as the file says it: names are views into the mapped file, weights are spans of it. Nothing is
// interpreted.
//
//   Model model = read_model("mobilenet.onnx");                     (onnx/reader.h)
//   for (const Node& node : model.graph.nodes)
//     if (node.op_type == "Conv") strides = integers_of(node, "strides");
//
// Views stay valid as long as a copy of Model::owners or of the owner next to the view lives; without an owner they
// belong to whoever gave the bytes. Elements in `Tensor::bytes` are not aligned, since the file does not align them:
// read them with value<T>(i) or memcpy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/dtype.h"

namespace tilewright::onnx {

// Element types are kept as ONNX's numbers (TensorProto.DataType): the file may hold types that tilewright does not
// compute with.
namespace element {
constexpr int undefined = 0, float32 = 1, uint8 = 2, int8 = 3, uint16 = 4, int16 = 5, int32 = 6, int64 = 7, string = 8,
              boolean = 9, float16 = 10, float64 = 11, uint32 = 12, uint64 = 13, complex64 = 14, complex128 = 15,
              bfloat16 = 16, float8e4m3fn = 17, float8e4m3fnuz = 18, float8e5m2 = 19, float8e5m2fnuz = 20, uint4 = 21,
              int4 = 22, float4e2m1 = 23, float8e8m0 = 24, uint2 = 25, int2 = 26, float6e2m3 = 27, float6e3m2 = 28;
}
std::string element_name(int type);              // "float16", "int4", ...; "type 99" where there is no such type
int element_bits(int type);                      // 0 for strings and unknown types
std::optional<DType> dtype_of_element(int type); // none where no DType says the same
int element_of_dtype(DType);

struct Dim {
  std::int64_t value = -1; // -1 unless it is fixed
  std::string_view name;   // of a symbolic dim; empty where the dim is fixed or unknown
  bool fixed() const { return value >= 0; }
  bool named() const { return !fixed() && !name.empty(); }
};

struct Type {
  int element = element::undefined;
  bool ranked = false; // dims are known, if only as unknowns
  std::vector<Dim> dims;
  std::string unsupported; // "sequence(tensor(float32))": a type that is no tensor; empty where it is one
  bool is_tensor() const { return unsupported.empty() && element != element::undefined; }
};

struct ValueInfo {
  std::string_view name;
  Type type;
};

struct Tensor {
  std::string_view name;
  int element = element::undefined;
  std::optional<DType> dtype; // of `element`, where there is one
  std::vector<std::int64_t> dims;
  std::int64_t count = 0;                // product of dims
  std::span<const std::byte> bytes;      // dense, row-major, little-endian; 4- and 2-bit types packed as in the file
  std::shared_ptr<const void> owner;     // of bytes: the model file, an external file, or a buffer decoded from it
  std::vector<std::string_view> strings; // of a tensor of strings
  std::string_view external;             // the file the bytes are in, if not the model's own

  template <class T> T value(std::size_t i) const {
    T result;
    std::memcpy(&result, bytes.data() + i * sizeof(T), sizeof(T));
    return result;
  }
};

struct Graph;

struct Attribute {
  // The numbers are those of AttributeProto.AttributeType.
  enum class Kind : std::uint8_t {
    none = 0,
    real = 1,
    integer = 2,
    string = 3,
    tensor = 4,
    graph = 5,
    reals = 6,
    integers = 7,
    strings = 8,
    tensors = 9,
    graphs = 10,
    sparse_tensor = 11,
    sparse_tensors = 12,
    type = 13,
    types = 14
  };
  using Value = std::variant<std::monostate, float, std::int64_t, std::string_view, std::shared_ptr<const Tensor>,
                             std::shared_ptr<const Graph>, std::vector<float>, std::vector<std::int64_t>,
                             std::vector<std::string_view>, std::vector<std::shared_ptr<const Tensor>>,
                             std::vector<std::shared_ptr<const Graph>>, std::shared_ptr<const Type>, std::vector<Type>>;
  std::string_view name;
  std::string_view ref_attr_name; // inside a function: the value is the attribute of this name of the call
  Kind kind = Kind::none;
  Value value; // of that kind; empty for a reference and for sparse tensors
};

struct Node {
  std::string_view name, op_type;
  std::string_view domain; // "" for ai.onnx
  std::string_view overload;
  std::int64_t opset = 0; // version of the domain that holds where the node was written; 0: not imported
  std::vector<std::string_view> inputs, outputs; // "" where an optional one is left out
  std::vector<Attribute> attributes;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs; // may list initializers too: those are defaults
  std::vector<ValueInfo> outputs, values;
  std::vector<std::string_view> sparse_initializers; // names only: their data is not read
};

struct Opset {
  std::string_view domain;
  std::int64_t version = 0;
};

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes; // names of those without a default
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::vector<Opset> opsets;
};

struct Model {
  std::string file; // for messages
  std::int64_t ir_version = 0, model_version = 0;
  std::string_view producer, producer_version, domain;
  std::vector<Opset> opsets;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  Graph graph;
  std::vector<Function> functions;
  bool has_training = false; // training graphs are passed over
  std::vector<std::shared_ptr<const void>> owners;
};

// Version of a domain, or 0 where it is not imported. "ai.onnx" is the domain "".
std::int64_t opset_version(std::span<const Opset>, std::string_view domain);
std::string_view plain_domain(std::string_view domain);

std::string describe(const Type&); // "tensor(float32)[n, 3, ?]"
std::string describe(const Node&); // "node 'conv1' (Conv)"; a node without a name is called after its first output

// The attribute of this name, or none; the *_of forms give its value, or the given one where it is absent, and throw
// Error(model) where it is of another kind.
const Attribute* find_attribute(const Node&, std::string_view name);
float real_of(const Node&, std::string_view name, float otherwise);
std::int64_t integer_of(const Node&, std::string_view name, std::int64_t otherwise);
std::string_view string_of(const Node&, std::string_view name, std::string_view otherwise);
std::optional<std::vector<std::int64_t>> integers_of(const Node&, std::string_view name);
std::optional<std::vector<float>> reals_of(const Node&, std::string_view name);
std::optional<std::vector<std::string_view>> strings_of(const Node&, std::string_view name);
const Tensor* tensor_of(const Node&, std::string_view name);
const Graph* graph_of(const Node&, std::string_view name);
std::string_view kind_name(Attribute::Kind);

} // namespace tilewright::onnx
