// Touches everything that a model refers to, so that a view that points nowhere is found by the sanitizers.
#pragma once
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "onnx/model.h"

namespace tilewright::onnx {

class Walk {
public:
  std::uint64_t sum = 0;

  void model(const Model& m) {
    text(m.producer), text(m.producer_version), text(m.domain), opsets(m.opsets);
    for (const auto& [key, value] : m.metadata) text(key), text(value);
    graph(m.graph);
    for (const Function& f : m.functions) {
      text(f.name), text(f.domain), text(f.overload), texts(f.inputs), texts(f.outputs), texts(f.attributes);
      opsets(f.opsets);
      for (const Attribute& a : f.defaults) attribute(a);
      for (const Node& n : f.nodes) node(n);
    }
  }

  void graph(const Graph& g) {
    text(g.name), texts(g.sparse_initializers);
    for (const Node& n : g.nodes) node(n);
    for (const Tensor& t : g.initializers) tensor(t);
    for (const auto* infos : {&g.inputs, &g.outputs, &g.values})
      for (const ValueInfo& info : *infos) text(info.name), type(info.type);
  }

private:
  void add(std::uint64_t value) { sum = sum * 31 + value; }
  void text(std::string_view s) {
    for (char c : s) add(static_cast<unsigned char>(c));
    add(s.size());
  }
  void texts(const std::vector<std::string_view>& all) {
    for (std::string_view s : all) text(s);
  }
  void opsets(const std::vector<Opset>& all) {
    for (const Opset& o : all) text(o.domain), add(static_cast<std::uint64_t>(o.version));
  }
  void node(const Node& n) {
    text(n.name), text(n.op_type), text(n.domain), text(n.overload), texts(n.inputs), texts(n.outputs);
    for (const Attribute& a : n.attributes) attribute(a);
  }
  void type(const Type& t) { text(describe(t)); }
  void tensor(const Tensor& t) {
    text(t.name), text(t.external), texts(t.strings);
    for (std::byte b : t.bytes) add(static_cast<std::uint64_t>(b));
    int bits = element_bits(t.element);
    if (bits >= 8 && t.bytes.size() != static_cast<std::size_t>(t.count) * static_cast<std::size_t>(bits / 8))
      std::abort();
  }
  void attribute(const Attribute& a) {
    text(a.name), text(a.ref_attr_name), text(kind_name(a.kind));
    std::visit([this](const auto& v) { value(v); }, a.value);
  }

  void value(std::monostate) {}
  void value(float v) { add(std::bit_cast<std::uint32_t>(v)); }
  void value(std::int64_t v) { add(static_cast<std::uint64_t>(v)); }
  void value(std::string_view v) { text(v); }
  void value(const Type& v) { type(v); }
  void value(const Tensor& v) { tensor(v); }
  void value(const Graph& v) { graph(v); }
  template <class T> void value(const std::shared_ptr<const T>& v) { value(*v); }
  template <class T> void value(const std::vector<T>& all) {
    for (const T& v : all) value(v);
  }
};

} // namespace tilewright::onnx
