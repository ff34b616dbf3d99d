#include "onnx/functions.h"

#include "onnx/wire.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tilewright::onnx {

namespace {

// Nodes with their inputs, outputs and attributes that a model may have after inlining: far more than real models do,
// and few enough for a file of a few lines that doubles itself thirty times to be refused in time.
constexpr std::uint64_t most_items = std::uint64_t{1} << 21;
constexpr std::size_t longest_prefix = 256, longest_part = 64; // of made-up names

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>; // domain, name, overload
using FunctionMap = std::map<FunctionKey, const Function*>;

FunctionMap index_functions(const Model& model) {
  FunctionMap functions;
  for (const Function& function : model.functions)
    if (!functions.emplace(FunctionKey{function.domain, function.name, function.overload}, &function).second)
      throw Error(Code::model, model.file, fmt::format("function {} is defined twice", in_quotes(function.name)));
  return functions;
}

const Function* called_function(const FunctionMap& functions, const Node& node) {
  auto found = functions.find(FunctionKey{node.domain, node.op_type, node.overload});
  return found == functions.end() ? nullptr : found->second;
}

template <class F> void for_each_subgraph(const Attribute& attribute, F&& visit) {
  if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&attribute.value))
    if (*graph) visit(**graph);
  if (auto* graphs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&attribute.value))
    for (const auto& graph : *graphs) visit(*graph);
}

// What a copy of the attribute costs.
std::uint64_t items_of(const Attribute& attribute) {
  auto size = [](const auto& value) -> std::uint64_t {
    if constexpr (requires { value.size(); })
      return 1 + value.size();
    else
      return 1;
  };
  return std::visit(size, attribute.value);
}

// ---- names ----

class Names {
public:
  void take(std::string_view name) { taken_.insert(name); }
  std::string_view fresh(std::string_view prefix, std::string_view part) {
    std::string name(prefix.substr(0, longest_prefix));
    name.append("/").append(part.substr(0, longest_part));
    if (!taken_.contains(name)) return keep(std::move(name));
    // Numbered on from the last one of this name, so that many calls of one name do not search from the start.
    int& number = numbers_.try_emplace(name, 1).first->second;
    for (std::string next;;)
      if (next = fmt::format("{}_{}", name, ++number); !taken_.contains(next)) return keep(std::move(next));
  }
  std::shared_ptr<const void> owner() const { return made_; }

private:
  std::string_view keep(std::string name) {
    std::string_view kept = made_->emplace_back(std::move(name));
    taken_.insert(kept);
    return kept;
  }
  std::shared_ptr<std::deque<std::string>> made_ = std::make_shared<std::deque<std::string>>();
  std::unordered_set<std::string_view> taken_;
  std::unordered_map<std::string, int> numbers_;
};

void take_value_names(const Graph& graph, Names& names) {
  for (const ValueInfo& info : graph.inputs) names.take(info.name);
  for (const Tensor& tensor : graph.initializers) names.take(tensor.name);
  for (std::string_view name : graph.sparse_initializers) names.take(name);
  for (const Node& node : graph.nodes) {
    for (std::string_view name : node.inputs) names.take(name);
    for (std::string_view name : node.outputs) names.take(name);
    for (const Attribute& attribute : node.attributes)
      for_each_subgraph(attribute, [&](const Graph& inner) { take_value_names(inner, names); });
  }
}

void take_node_names(const Graph& graph, Names& names) {
  for (const Node& node : graph.nodes) {
    names.take(node.name);
    for (const Attribute& attribute : node.attributes)
      for_each_subgraph(attribute, [&](const Graph& inner) { take_node_names(inner, names); });
  }
}

// ---- inlining ----

// What names and attribute references mean in the nodes being copied: themselves in the model's graph, and in a
// function's body what the call says.
struct Scope {
  const Function* function = nullptr;
  std::string_view prefix;
  std::unordered_map<std::string_view, std::string_view> values;
  std::unordered_map<std::string_view, const Attribute*> attributes; // of the call
  std::unordered_map<std::string_view, const Attribute*> defaults;
};

class Inliner {
public:
  Inliner(const Model& model, const FunctionMap& functions) : model_(model), functions_(functions) {
    take_value_names(model.graph, values_);
    take_node_names(model.graph, nodes_);
  }

  void expand(const std::vector<Node>& nodes, Scope& scope, std::vector<Node>& out) {
    if (nodes.empty()) return;
    if (++depth_ > depth_limit)
      refuse(nodes.front(), fmt::format("is nested more than {} functions and graphs deep", depth_limit));
    for (const Node& node : nodes) {
      Node copy = copied(node, scope);
      if (const Function* function = called_function(functions_, node))
        expand_call(copy, *function, out);
      else
        out.push_back(std::move(copy));
    }
    --depth_;
  }

  void keep_names(Model& model) const {
    model.owners.push_back(values_.owner());
    model.owners.push_back(nodes_.owner());
  }

private:
  [[noreturn]] void refuse(const Node& node, const std::string& message) const {
    throw Error(Code::model, model_.file, describe(node) + " " + message);
  }

  // Only what functions bring in counts: the rest is no larger than the file.
  void spend(const Scope& scope, std::uint64_t items) {
    if (scope.function) spent_ += items;
    if (spent_ > most_items)
      throw Error(Code::model, model_.file,
                  fmt::format("the calls of functions grow to more than {} nodes and values", most_items));
  }

  std::string_view renamed(std::string_view name, Scope& scope) {
    if (!scope.function || name.empty()) return name;
    auto [found, fresh] = scope.values.try_emplace(name);
    if (fresh) found->second = values_.fresh(scope.prefix, name);
    return found->second;
  }

  Node copied(const Node& node, Scope& scope) {
    spend(scope, 1 + node.inputs.size() + node.outputs.size());
    Node copy;
    copy.op_type = node.op_type, copy.domain = node.domain, copy.overload = node.overload, copy.opset = node.opset;
    copy.name = node.name, copy.inputs = node.inputs, copy.outputs = node.outputs;
    for (std::string_view& name : copy.inputs) name = renamed(name, scope);
    for (std::string_view& name : copy.outputs) name = renamed(name, scope);
    if (scope.function) copy.name = nodes_.fresh(scope.prefix, node.name.empty() ? node.op_type : node.name);
    for (const Attribute& attribute : node.attributes) copy_attribute(node, attribute, scope, copy.attributes);
    return copy;
  }

  void copy_attribute(const Node& node, const Attribute& attribute, Scope& scope, std::vector<Attribute>& out) {
    if (attribute.ref_attr_name.empty()) return out.push_back(copied(attribute, scope));
    std::string_view wanted = attribute.ref_attr_name;
    if (!scope.function)
      refuse(node, fmt::format("refers to attribute {} of a function, but is in none", in_quotes(wanted)));
    auto given = scope.attributes.find(wanted);
    auto other = scope.defaults.find(wanted);
    if (given == scope.attributes.end() && other == scope.defaults.end()) return; // left out
    spend(scope, given != scope.attributes.end() ? items_of(*given->second) : 0);
    Attribute value = given != scope.attributes.end() ? *given->second : copied(*other->second, scope);
    if (attribute.kind != Attribute::Kind::none && attribute.kind != value.kind)
      refuse(node,
             fmt::format("takes attribute {} from {}, which is {} where {} is expected", in_quotes(attribute.name),
                         in_quotes(wanted), kind_name(value.kind), kind_name(attribute.kind)));
    value.name = attribute.name;
    out.push_back(std::move(value));
  }

  Attribute copied(const Attribute& attribute, Scope& scope) {
    spend(scope, items_of(attribute));
    Attribute copy = attribute;
    if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&copy.value))
      if (*graph) *graph = copied(**graph, scope);
    if (auto* graphs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&copy.value))
      for (auto& graph : *graphs) graph = copied(*graph, scope);
    return copy;
  }

  std::shared_ptr<const Graph> copied(const Graph& graph, Scope& scope) {
    spend(scope, graph.inputs.size() + graph.outputs.size() + graph.values.size() + graph.initializers.size() +
                     graph.sparse_initializers.size());
    auto copy = std::make_shared<Graph>(graph);
    copy->nodes.clear();
    expand(graph.nodes, scope, copy->nodes);
    for (Tensor& tensor : copy->initializers) tensor.name = renamed(tensor.name, scope);
    for (std::string_view& name : copy->sparse_initializers) name = renamed(name, scope);
    for (auto* infos : {&copy->inputs, &copy->outputs, &copy->values})
      for (ValueInfo& info : *infos) info.name = renamed(info.name, scope);
    return copy;
  }

  // Binds the function's inputs and attributes to those of the call, whose names are of the scope around it.
  Scope scope_of(const Node& call, const Function& function) {
    Scope scope;
    scope.function = &function;
    spend(scope, function.inputs.size() + function.outputs.size() + function.defaults.size() + call.attributes.size());
    scope.prefix = call.name.empty() ? call.op_type : call.name;
    if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
      refuse(call, fmt::format("has {} inputs and {} outputs, but function {} has {} and {}", call.inputs.size(),
                               call.outputs.size(), in_quotes(function.name), function.inputs.size(),
                               function.outputs.size()));
    for (std::size_t i = 0; i < function.inputs.size(); ++i)
      if (!scope.values.emplace(function.inputs[i], i < call.inputs.size() ? call.inputs[i] : std::string_view())
               .second)
        refuse(call, fmt::format("calls function {}, which has two inputs {}", in_quotes(function.name),
                                 in_quotes(function.inputs[i])));
    for (const Attribute& attribute : call.attributes) scope.attributes.emplace(attribute.name, &attribute);
    for (const Attribute& attribute : function.defaults) scope.defaults.emplace(attribute.name, &attribute);
    return scope;
  }

  void enter(const Function& function) {
    auto open = std::find(open_.begin(), open_.end(), &function);
    if (open == open_.end()) return open_.push_back(&function);
    std::string chain;
    for (; open != open_.end(); ++open) chain += in_quotes((*open)->name) + " -> ";
    throw Error(Code::model, model_.file, "functions call themselves: " + chain + in_quotes(function.name));
  }

  void expand_call(const Node& call, const Function& function, std::vector<Node>& out) {
    enter(function);
    Scope scope = scope_of(call, function);
    std::unordered_set<std::string_view> made;
    for (const Node& node : function.nodes) made.insert(node.outputs.begin(), node.outputs.end());
    // An output that a node makes is made under the name of the call; one that is an input, or given twice, is copied.
    std::vector<std::pair<std::string_view, std::string_view>> copies;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      std::string_view inner = function.outputs[i], outer = call.outputs[i];
      if (outer.empty()) continue;
      if (made.contains(inner) && scope.values.emplace(inner, outer).second) continue;
      if (!scope.values.contains(inner))
        refuse(call, fmt::format("needs output {} of function {}, which none of its nodes makes", in_quotes(inner),
                                 in_quotes(function.name)));
      copies.emplace_back(scope.values[inner], outer);
    }
    expand(function.nodes, scope, out);
    for (auto [from, to] : copies) {
      Node copy;
      copy.op_type = "Identity";
      copy.name = nodes_.fresh(scope.prefix, copy.op_type);
      copy.opset = std::max<std::int64_t>({1, opset_version(function.opsets, ""), opset_version(model_.opsets, "")});
      copy.inputs = {from};
      copy.outputs = {to};
      out.push_back(std::move(copy));
    }
    open_.pop_back();
  }

  const Model& model_;
  const FunctionMap& functions_;
  Names values_, nodes_;
  std::vector<const Function*> open_; // the calls we are inside of
  std::uint64_t spent_ = 0;
  int depth_ = 0;
};

} // namespace

Model inline_functions(Model model) {
  if (model.functions.empty()) return model;
  FunctionMap functions = index_functions(model);
  Inliner inliner(model, functions);
  Scope scope;
  std::vector<Node> nodes;
  inliner.expand(model.graph.nodes, scope, nodes);
  inliner.keep_names(model);
  model.graph.nodes = std::move(nodes);
  model.functions.clear();
  return model;
}

} // namespace tilewright::onnx
