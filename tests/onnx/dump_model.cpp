// Prints what the reader understood of each model named on standard input, as one line of JSON a model. Texts are in
// hexadecimal, since they need not be UTF-8; floats are given by their bits. oracle.py compares it with the onnx
// package.
//
//   dump_model [--inline] [--sort] < list of paths
#include "onnx/functions.h"
#include "onnx/reader.h"
#include "onnx/sort.h"
#include "support/error.h"

#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <iostream>

namespace tilewright::onnx {
namespace {

std::string hex(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) out += fmt::format("{:02x}", c);
  return out + '"';
}

template <class T, class F> std::string list(const std::vector<T>& all, F&& json) {
  std::string out = "[";
  for (const T& v : all) out += (out.size() > 1 ? "," : "") + json(v);
  return out + "]";
}

std::string texts(const std::vector<std::string_view>& all) {
  return list(all, [](std::string_view s) { return hex(s); });
}

std::string numbers(const std::vector<std::int64_t>& all) {
  return list(all, [](std::int64_t v) { return std::to_string(v); });
}

std::string graph(const Graph&);

std::string type(const Type& t) {
  return fmt::format(R"({{"element":{},"ranked":{},"dims":{},"unsupported":{}}})", t.element, t.ranked,
                     list(t.dims, [](const Dim& d) { return fmt::format("[{},{}]", d.value, hex(d.name)); }),
                     hex(t.unsupported));
}

std::string tensor(const Tensor& t) {
  std::string_view bytes(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  return fmt::format(R"({{"name":{},"element":{},"dims":{},"bytes":{},"strings":{},"external":{}}})", hex(t.name),
                     t.element, numbers(t.dims), hex(bytes), texts(t.strings), hex(t.external));
}

std::string value(std::monostate) { return "null"; }
std::string value(float v) { return std::to_string(std::bit_cast<std::uint32_t>(v)); }
std::string value(std::int64_t v) { return std::to_string(v); }
std::string value(std::string_view v) { return hex(v); }
std::string value(const Type& v) { return type(v); }
std::string value(const Tensor& v) { return tensor(v); }
std::string value(const Graph& v) { return graph(v); }
template <class T> std::string value(const std::shared_ptr<const T>& v) { return value(*v); }
template <class T> std::string value(const std::vector<T>& all) {
  return list(all, [](const T& v) { return value(v); });
}

std::string attribute(const Attribute& a) {
  return fmt::format(R"({{"name":{},"ref":{},"kind":{},"value":{}}})", hex(a.name), hex(a.ref_attr_name),
                     static_cast<int>(a.kind), std::visit([](const auto& v) { return value(v); }, a.value));
}

std::string node(const Node& n) {
  return fmt::format(
      R"({{"name":{},"op":{},"domain":{},"overload":{},"opset":{},"inputs":{},"outputs":{},"attributes":{}}})",
      hex(n.name), hex(n.op_type), hex(n.domain), hex(n.overload), n.opset, texts(n.inputs), texts(n.outputs),
      list(n.attributes, attribute));
}

std::string info(const ValueInfo& v) { return fmt::format(R"({{"name":{},"type":{}}})", hex(v.name), type(v.type)); }

std::string graph(const Graph& g) {
  return fmt::format(R"({{"name":{},"nodes":{},"initializers":{},"inputs":{},"outputs":{},"values":{},"sparse":{}}})",
                     hex(g.name), list(g.nodes, node), list(g.initializers, tensor), list(g.inputs, info),
                     list(g.outputs, info), list(g.values, info), texts(g.sparse_initializers));
}

std::string opset(const Opset& o) { return fmt::format("[{},{}]", hex(o.domain), o.version); }

std::string function(const Function& f) {
  return fmt::format(
      R"({{"name":{},"domain":{},"overload":{},"inputs":{},"outputs":{},"attributes":{},"defaults":{},"nodes":{},"opsets":{}}})",
      hex(f.name), hex(f.domain), hex(f.overload), texts(f.inputs), texts(f.outputs), texts(f.attributes),
      list(f.defaults, attribute), list(f.nodes, node), list(f.opsets, opset));
}

std::string model(const Model& m) {
  auto entry = [](const auto& e) { return fmt::format("[{},{}]", hex(e.first), hex(e.second)); };
  return fmt::format(
      R"({{"ir_version":{},"model_version":{},"producer":{},"producer_version":{},"domain":{},"opsets":{},"metadata":{},)"
      R"("training":{},"graph":{},"functions":{}}})",
      m.ir_version, m.model_version, hex(m.producer), hex(m.producer_version), hex(m.domain), list(m.opsets, opset),
      list(m.metadata, entry), m.has_training, graph(m.graph), list(m.functions, function));
}

} // namespace
} // namespace tilewright::onnx

int main(int argc, char** argv) {
  using namespace tilewright;
  bool inlined = false, sorted = false;
  for (int i = 1; i < argc; ++i) {
    inlined = inlined || std::string_view(argv[i]) == "--inline";
    sorted = sorted || std::string_view(argv[i]) == "--sort";
  }
  for (std::string path; std::getline(std::cin, path);) {
    try {
      onnx::Model m = onnx::read_model(path);
      if (inlined) m = onnx::inline_functions(std::move(m));
      if (sorted) onnx::sort_nodes(m.graph, m.file);
      std::puts(onnx::model(m).c_str());
    } catch (const Error& e) {
      std::puts(fmt::format(R"({{"error":{},"text":{}}})", onnx::hex(id_of(e.code)), onnx::hex(e.what())).c_str());
    }
  }
  return 0;
}
