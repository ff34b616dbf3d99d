#include "onnx/reader.h"

#include "onnx/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tilewright::onnx {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t most_domains = 256; // looked up one after the other; real models import two or three

void read_graph(Reading&, const Place&, Bytes, Graph&);
void read_type(const Place&, Bytes, Type&);

// Reads a sub-message that may occur once.
void once(const Wire& wire, bool& seen, const char* name) {
  if (seen) wire.bad(fmt::format("{} (field {}) is given twice", name, wire.number()));
  seen = true;
}

// ---- types ----

void read_dim(const Place& place, Bytes message, Dim& dim) {
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 1) dim = {std::max<std::int64_t>(wire.integer("dim_value"), -1), {}};
    if (wire.number() == 2) dim = {-1, wire.text("dim_param")};
  }
}

void read_shape(const Place& place, Bytes message, Type& type) {
  type.ranked = true;
  for (Wire wire(message, place); wire.next();)
    if (wire.number() == 1) read_dim(place, wire.message("dim"), type.dims.emplace_back());
}

void read_tensor_type(const Place& place, Bytes message, Type& type) {
  bool shape = false;
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 1) type.element = wire.integer32("elem_type");
    if (wire.number() == 2) {
      once(wire, shape, "shape");
      read_shape(place, wire.message("shape"), type);
    }
  }
}

// A type that is only named: `inner` is the field of its element type, `key` that of a map's key.
std::string nested_type_name(const Place& place, Bytes message, const char* name, std::uint32_t inner,
                             std::uint32_t key) {
  std::string key_text, text = "?";
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == key) key_text = element_name(wire.integer32("key_type")) + ", ";
    if (wire.number() != inner) continue;
    Type type;
    Place here(place, name);
    read_type(here, wire.message("elem_type"), type);
    type.ranked = false;
    text = describe(type);
  }
  return fmt::format("{}({}{})", name, key_text, text);
}

void read_type(const Place& place, Bytes message, Type& type) {
  bool value = false;
  for (Wire wire(message, place); wire.next();) {
    std::uint32_t number = wire.number();
    if (number == 6 || number > 9 || number < 1 || number == 2 || number == 3) continue;
    once(wire, value, "the type");
    Bytes inner = wire.message("type");
    switch (number) {
    case 1: read_tensor_type(place, inner, type); break;
    case 4: type.unsupported = nested_type_name(place, inner, "sequence", 1, 0); break;
    case 5: type.unsupported = nested_type_name(place, inner, "map", 2, 1); break;
    case 7: type.unsupported = "opaque"; break;
    case 8: {
      Type sparse;
      read_tensor_type(place, inner, sparse);
      type.unsupported = "sparse_tensor(" + element_name(sparse.element) + ")";
      break;
    }
    default: type.unsupported = nested_type_name(place, inner, "optional", 1, 0); break;
    }
  }
}

void read_value_info(const Place& outer, const char* kind, std::size_t index, Bytes message, ValueInfo& info) {
  Place place(outer, kind, static_cast<std::int64_t>(index), &info.name);
  bool type = false;
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 1) info.name = wire.text("name");
    if (wire.number() == 2) {
      once(wire, type, "type");
      read_type(place, wire.message("type"), info.type);
    }
  }
  if (info.name.empty()) fail(place, message.data(), "has no name");
}

void read_value_infos(const Place& outer, const char* kind, const Wire& wire, std::vector<ValueInfo>& infos) {
  ValueInfo info;
  read_value_info(outer, kind, infos.size(), wire.message(kind), info);
  infos.push_back(std::move(info));
}

// ---- attributes ----

// An attribute as its message has it: any of the fields, and the type that says which one counts.
struct RawAttribute {
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string_view> strings;
  std::vector<std::shared_ptr<const Tensor>> tensors;
  std::vector<std::shared_ptr<const Graph>> graphs;
  std::vector<Type> types;
  float f = 0;
  std::int64_t i = 0;
  std::string_view s;
  std::shared_ptr<const Tensor> t;
  std::shared_ptr<const Graph> g;
  std::shared_ptr<const Type> tp;
  std::uint32_t seen = 0; // a bit for each Kind that has data
  std::int32_t type = 0;

  void mark(Attribute::Kind kind) { seen |= 1u << static_cast<int>(kind); }
  bool has(Attribute::Kind kind) const { return (seen >> static_cast<int>(kind)) & 1u; }
};

std::shared_ptr<const Tensor> read_shared_tensor(Reading& reading, const Place& outer, std::int64_t index,
                                                 Bytes message) {
  auto tensor = std::make_shared<Tensor>();
  Place place(outer, "tensor", index, &tensor->name);
  read_tensor(reading, place, message, *tensor);
  return tensor;
}

std::shared_ptr<const Graph> read_shared_graph(Reading& reading, const Place& outer, Bytes message) {
  auto graph = std::make_shared<Graph>();
  Place place(outer, "graph", -1, &graph->name);
  read_graph(reading, place, message, *graph);
  return graph;
}

void read_message_field(Reading& reading, const Place& place, const Wire& wire, RawAttribute& raw) {
  using Kind = Attribute::Kind;
  auto single = [&](Kind kind, const char* name) {
    if (raw.has(kind)) wire.bad(fmt::format("{} (field {}) is given twice", name, wire.number()));
    raw.mark(kind);
    return wire.message(name);
  };
  switch (wire.number()) {
  case 5: raw.t = read_shared_tensor(reading, place, -1, single(Kind::tensor, "t")); break;
  case 6: raw.g = read_shared_graph(reading, place, single(Kind::graph, "g")); break;
  case 10: {
    auto index = static_cast<std::int64_t>(raw.tensors.size());
    raw.tensors.push_back(read_shared_tensor(reading, place, index, wire.message("tensors")));
    raw.mark(Kind::tensors);
    break;
  }
  case 11:
    raw.graphs.push_back(read_shared_graph(reading, place, wire.message("graphs")));
    raw.mark(Kind::graphs);
    break;
  case 14: {
    auto type = std::make_shared<Type>();
    read_type(place, single(Kind::type, "tp"), *type);
    raw.tp = std::move(type);
    break;
  }
  case 15:
    read_type(place, wire.message("type_protos"), raw.types.emplace_back());
    raw.mark(Kind::types);
    break;
  case 22: single(Kind::sparse_tensor, "sparse_tensor"); break;
  case 23: wire.message("sparse_tensors"), raw.mark(Kind::sparse_tensors); break;
  default: break;
  }
}

void read_attribute_fields(Reading& reading, const Place& place, Bytes message, Attribute& attribute,
                           RawAttribute& raw) {
  using Kind = Attribute::Kind;
  for (Wire wire(message, place); wire.next();) {
    switch (wire.number()) {
    case 1: attribute.name = wire.text("name"); break;
    case 2: raw.f = wire.float32("f"), raw.mark(Kind::real); break;
    case 3: raw.i = wire.integer("i"), raw.mark(Kind::integer); break;
    case 4: raw.s = wire.text("s"), raw.mark(Kind::string); break;
    case 7: {
      Bytes run = wire.fixed("floats", 4);
      std::size_t old = raw.reals.size();
      raw.reals.resize(old + run.size() / 4);
      if (!run.empty()) std::memcpy(raw.reals.data() + old, run.data(), run.size());
      raw.mark(Kind::reals);
      break;
    }
    case 8:
      wire.varints("ints", [&](std::uint64_t v) { raw.integers.push_back(static_cast<std::int64_t>(v)); });
      raw.mark(Kind::integers);
      break;
    case 9: raw.strings.push_back(wire.text("strings")), raw.mark(Kind::strings); break;
    case 20: raw.type = wire.integer32("type"); break;
    case 21: attribute.ref_attr_name = wire.text("ref_attr_name"); break;
    default: read_message_field(reading, place, wire, raw); break;
    }
  }
}

// The kind that the type says; files of the first IR version have no type, there the one field that is set tells it.
Attribute::Kind kind_of(const Place& place, const std::byte* at, const RawAttribute& raw, bool reference) {
  if (raw.type < 0 || raw.type > static_cast<int>(Attribute::Kind::types))
    fail(place, at, fmt::format("type {} is not defined", raw.type));
  auto kind = static_cast<Attribute::Kind>(raw.type);
  if (kind == Attribute::Kind::none && std::has_single_bit(raw.seen))
    kind = static_cast<Attribute::Kind>(std::countr_zero(raw.seen));
  if (reference) return kind;
  if (kind == Attribute::Kind::none) fail(place, at, raw.seen ? "has several values and no type" : "has no value");
  if (raw.seen != 0 && !raw.has(kind))
    fail(place, at, fmt::format("should be {}, but holds another kind", kind_name(kind)));
  bool needs_value = kind == Attribute::Kind::tensor || kind == Attribute::Kind::graph || kind == Attribute::Kind::type;
  if (needs_value && !raw.has(kind)) fail(place, at, fmt::format("should be {}, but holds nothing", kind_name(kind)));
  return kind;
}

Attribute::Value value_of(Attribute::Kind kind, RawAttribute& raw) {
  switch (kind) {
  case Attribute::Kind::real: return raw.f;
  case Attribute::Kind::integer: return raw.i;
  case Attribute::Kind::string: return raw.s;
  case Attribute::Kind::tensor: return std::move(raw.t);
  case Attribute::Kind::graph: return std::move(raw.g);
  case Attribute::Kind::reals: return std::move(raw.reals);
  case Attribute::Kind::integers: return std::move(raw.integers);
  case Attribute::Kind::strings: return std::move(raw.strings);
  case Attribute::Kind::tensors: return std::move(raw.tensors);
  case Attribute::Kind::graphs: return std::move(raw.graphs);
  case Attribute::Kind::type: return std::move(raw.tp);
  case Attribute::Kind::types: return std::move(raw.types);
  case Attribute::Kind::none:
  case Attribute::Kind::sparse_tensor:
  case Attribute::Kind::sparse_tensors: break;
  }
  return {};
}

void read_attribute(Reading& reading, const Place& outer, std::vector<Attribute>& attributes, Bytes message) {
  Attribute attribute;
  RawAttribute raw;
  Place place(outer, "attribute", static_cast<std::int64_t>(attributes.size()), &attribute.name);
  read_attribute_fields(reading, place, message, attribute, raw);
  if (attribute.name.empty()) fail(place, message.data(), "has no name");
  attribute.kind = kind_of(place, message.data(), raw, !attribute.ref_attr_name.empty());
  if (attribute.ref_attr_name.empty()) attribute.value = value_of(attribute.kind, raw);
  attributes.push_back(std::move(attribute));
}

// ---- nodes and graphs ----

void read_node(Reading& reading, const Place& outer, std::vector<Node>& nodes, Bytes message) {
  Node node;
  Place place(outer, "node", static_cast<std::int64_t>(nodes.size()), &node.name, &node.op_type);
  for (Wire wire(message, place); wire.next();) {
    switch (wire.number()) {
    case 1: node.inputs.push_back(wire.text("input")); break;
    case 2: node.outputs.push_back(wire.text("output")); break;
    case 3: node.name = wire.text("name"); break;
    case 4: node.op_type = wire.text("op_type"); break;
    case 5: read_attribute(reading, place, node.attributes, wire.message("attribute")); break;
    case 7: node.domain = plain_domain(wire.text("domain")); break;
    case 8: node.overload = wire.text("overload"); break;
    default: break;
    }
  }
  if (node.op_type.empty()) fail(place, message.data(), "has no op_type");
  node.opset = opset_version(reading.opsets, node.domain);
  nodes.push_back(std::move(node));
}

void read_initializer(Reading& reading, const Place& outer, std::vector<Tensor>& tensors, Bytes message) {
  Tensor tensor;
  Place place(outer, "initializer", static_cast<std::int64_t>(tensors.size()), &tensor.name);
  read_tensor(reading, place, message, tensor);
  if (tensor.name.empty()) fail(place, message.data(), "has no name");
  tensors.push_back(std::move(tensor));
}

// Of a sparse initializer only the name is kept, which is that of its values.
std::string_view sparse_name(const Place& outer, Bytes message) {
  Place place(outer, "sparse initializer");
  std::string_view name;
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() != 1) continue;
    for (Wire values(wire.message("values"), place); values.next();)
      if (values.number() == 8) name = values.text("name");
  }
  if (name.empty()) fail(place, message.data(), "has no name");
  return name;
}

void read_graph(Reading& reading, const Place& place, Bytes message, Graph& graph) {
  for (Wire wire(message, place); wire.next();) {
    switch (wire.number()) {
    case 1: read_node(reading, place, graph.nodes, wire.message("node")); break;
    case 2: graph.name = wire.text("name"); break;
    case 5: read_initializer(reading, place, graph.initializers, wire.message("initializer")); break;
    case 11: read_value_infos(place, "input", wire, graph.inputs); break;
    case 12: read_value_infos(place, "output", wire, graph.outputs); break;
    case 13: read_value_infos(place, "value_info", wire, graph.values); break;
    case 15: graph.sparse_initializers.push_back(sparse_name(place, wire.message("sparse_initializer"))); break;
    default: break;
    }
  }
}

// ---- models ----

void read_opset(const Place& place, const Wire& wire, std::vector<Opset>& opsets) {
  Opset opset;
  for (Wire inner(wire.message("opset_import"), place); inner.next();) {
    if (inner.number() == 1) opset.domain = plain_domain(inner.text("domain"));
    if (inner.number() == 2) opset.version = inner.integer("version");
  }
  if (opset.version < 1)
    wire.bad(fmt::format("opset_import of domain {} has version {}", in_quotes(opset.domain), opset.version));
  for (const Opset& other : opsets) {
    if (other.domain != opset.domain) continue;
    if (other.version == opset.version) return;
    wire.bad(fmt::format("domain {} is imported with versions {} and {}", in_quotes(opset.domain), other.version,
                         opset.version));
  }
  if (opsets.size() == most_domains) wire.bad(fmt::format("imports more than {} domains", most_domains));
  opsets.push_back(opset);
}

std::pair<std::string_view, std::string_view> read_entry(const Place& place, Bytes message) {
  std::pair<std::string_view, std::string_view> entry;
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 1) entry.first = wire.text("key");
    if (wire.number() == 2) entry.second = wire.text("value");
  }
  return entry;
}

// What nodes need to know before they are read: fields come in any order.
void read_function_header(const Place& place, Bytes message, Function& function) {
  for (Wire wire(message, place); wire.next();) {
    switch (wire.number()) {
    case 1: function.name = wire.text("name"); break;
    case 4: function.inputs.push_back(wire.text("input")); break;
    case 5: function.outputs.push_back(wire.text("output")); break;
    case 6: function.attributes.push_back(wire.text("attribute")); break;
    case 9: read_opset(place, wire, function.opsets); break;
    case 10: function.domain = plain_domain(wire.text("domain")); break;
    case 13: function.overload = wire.text("overload"); break;
    default: break;
    }
  }
  if (function.name.empty()) fail(place, message.data(), "has no name");
}

void read_function(Reading& reading, const Place& root, std::vector<Function>& functions, Bytes message) {
  Function function;
  Place place(root, "function", static_cast<std::int64_t>(functions.size()), &function.name);
  read_function_header(place, message, function);
  // A domain that only the model imports is read with the model's version.
  std::vector<Opset> scope = function.opsets;
  for (const Opset& opset : reading.opsets)
    if (opset_version(function.opsets, opset.domain) == 0) scope.push_back(opset);
  std::span<const Opset> of_model = std::exchange(reading.opsets, scope);
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 7) read_node(reading, place, function.nodes, wire.message("node"));
    if (wire.number() == 11) read_attribute(reading, place, function.defaults, wire.message("attribute_proto"));
  }
  reading.opsets = of_model;
  functions.push_back(std::move(function));
}

void read_model_header(const Place& root, Bytes message, Model& model) {
  for (Wire wire(message, root); wire.next();) {
    switch (wire.number()) {
    case 1: model.ir_version = wire.integer("ir_version"); break;
    case 2: model.producer = wire.text("producer_name"); break;
    case 3: model.producer_version = wire.text("producer_version"); break;
    case 4: model.domain = wire.text("domain"); break;
    case 5: model.model_version = wire.integer("model_version"); break;
    case 8: read_opset(root, wire, model.opsets); break;
    case 14: model.metadata.push_back(read_entry(root, wire.message("metadata_props"))); break;
    case 20: wire.message("training_info"), model.has_training = true; break;
    default: break;
    }
  }
  // Before IR version 3 there were no imports: such files mean the first operator set.
  if (model.opsets.empty() && model.ir_version < 3) model.opsets.push_back({"", 1});
}

// What people often have in a file of this name that is not a model.
std::string hint_for(Bytes bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 64));
  if (text.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer; fetch the file itself with `git lfs pull`";
  if (text.starts_with("PK\x03\x04")) return "this is a zip archive, perhaps a PyTorch file; export the model to ONNX";
  if (text.starts_with("<")) return "this is a page of HTML or XML, perhaps a failed download";
  if (text.size() > 8 && text.substr(4, 4) == "TFL3") return "this looks like a TensorFlow Lite file";
  return {};
}

Model read(Reading& reading) {
  Model model;
  model.file = reading.source.file;
  if (reading.owner) model.owners.push_back(reading.owner);
  Bytes bytes = reading.source.bytes;
  Place root(reading.source);
  read_model_header(root, bytes, model);
  reading.opsets = model.opsets;
  bool graph = false;
  for (Wire wire(bytes, root); wire.next();) {
    if (wire.number() == 7) {
      once(wire, graph, "graph");
      Place place(root, "graph", -1, &model.graph.name);
      read_graph(reading, place, wire.message("graph"), model.graph);
    }
    if (wire.number() == 25) read_function(reading, root, model.functions, wire.message("functions"));
  }
  if (!graph) fail(root, bytes.data(), bytes.empty() ? "the model is empty" : "the model has no graph");
  return model;
}

Model read_with_hint(Reading& reading) {
  std::string hint = hint_for(reading.source.bytes);
  if (hint.empty()) return read(reading);
  try {
    return read(reading);
  } catch (const Error& error) {
    throw Error(error.code, error.where, error.message, hint);
  }
}

} // namespace

Model read_model(const std::string& path) {
  Mapping mapping = map_file(path);
  Reading reading{{path, mapping.bytes}, mapping.owner, ExternalFiles::of_model(path), {}};
  return read_with_hint(reading);
}

Model read_model(std::span<const std::byte> bytes, const std::string& folder, std::shared_ptr<const void> owner) {
  Reading reading{{"model in memory", bytes}, std::move(owner), ExternalFiles::of_folder(folder), {}};
  return read_with_hint(reading);
}

} // namespace tilewright::onnx
