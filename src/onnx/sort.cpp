#include "onnx/sort.h"

#include "onnx/wire.h"
#include "support/error.h"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tilewright::onnx {

namespace {

constexpr int outside = -1; // the producer of inputs and initializers
constexpr std::size_t shown = 6;

template <class F> void for_each_subgraph(const Node& node, F&& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&attribute.value))
      if (*graph) visit(**graph);
    if (auto* graphs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&attribute.value))
      for (const auto& graph : *graphs) visit(*graph);
  }
}

// Appends the names that a subgraph reads from around it.
void free_names(const Graph& graph, std::vector<std::string_view>& names) {
  std::unordered_set<std::string_view> own;
  std::vector<std::string_view> reads;
  for (const ValueInfo& input : graph.inputs) own.insert(input.name);
  for (const Tensor& tensor : graph.initializers) own.insert(tensor.name);
  own.insert(graph.sparse_initializers.begin(), graph.sparse_initializers.end());
  for (const Node& node : graph.nodes) {
    own.insert(node.outputs.begin(), node.outputs.end());
    reads.insert(reads.end(), node.inputs.begin(), node.inputs.end());
    for_each_subgraph(node, [&](const Graph& inner) { free_names(inner, reads); });
  }
  for (const ValueInfo& output : graph.outputs) reads.push_back(output.name);
  for (std::string_view name : reads)
    if (!name.empty() && !own.contains(name)) names.push_back(name);
}

std::vector<std::string_view> names_read(const Node& node) {
  std::vector<std::string_view> names;
  for (std::string_view input : node.inputs)
    if (!input.empty()) names.push_back(input);
  for_each_subgraph(node, [&](const Graph& inner) { free_names(inner, names); });
  return names;
}

using Producers = std::unordered_map<std::string_view, int>;

Producers find_producers(const Graph& graph, const std::string& file) {
  Producers producers;
  auto what = [&](int node) {
    return node == outside ? std::string("an input") : describe(graph.nodes[static_cast<std::size_t>(node)]);
  };
  auto add = [&](std::string_view name, int node) {
    auto [found, fresh] = producers.emplace(name, node);
    if (!fresh)
      throw Error(
          Code::model, file,
          fmt::format("{} is produced twice: by {} and by {}", in_quotes(name), what(found->second), what(node)));
  };
  for (const ValueInfo& input : graph.inputs) add(input.name, outside);
  std::unordered_set<std::string_view> constants;
  auto add_constant = [&](std::string_view name) {
    if (!constants.insert(name).second)
      throw Error(Code::model, file, fmt::format("initializer {} is given twice", in_quotes(name)));
    producers.emplace(name, outside);
  };
  for (const Tensor& tensor : graph.initializers) add_constant(tensor.name);
  for (std::string_view name : graph.sparse_initializers) add_constant(name);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::string_view output : graph.nodes[i].outputs)
      if (!output.empty()) add(output, static_cast<int>(i));
  return producers;
}

// Who produces what each node reads (outside not listed). Names that nothing produces are told together.
std::vector<std::vector<int>> find_sources(const Graph& graph, const Producers& producers, const std::string& file) {
  std::vector<std::vector<int>> sources(graph.nodes.size());
  std::string missing;
  std::size_t count = 0;
  auto miss = [&](const std::string& reader, std::string_view name) {
    if (++count <= shown) missing += fmt::format("{}{} reads {}", count > 1 ? "; " : "", reader, in_quotes(name));
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::string_view name : names_read(graph.nodes[i])) {
      auto found = producers.find(name);
      if (found == producers.end())
        miss(describe(graph.nodes[i]), name);
      else if (found->second != outside)
        sources[i].push_back(found->second);
    }
  for (const ValueInfo& output : graph.outputs)
    if (!producers.contains(output.name)) miss("the graph's list of outputs", output.name);
  if (count > shown) missing += fmt::format("; and {} more", count - shown);
  if (count > 0) throw Error(Code::model, file, missing + ", which nothing produces");
  return sources;
}

// Of nodes that wait for each other: one cycle, each node before the one that reads its result.
[[noreturn]] void report_cycle(const Graph& graph, const std::vector<std::vector<int>>& sources,
                               const std::vector<bool>& done, const std::string& file) {
  std::size_t at = 0;
  while (done[at]) ++at;
  std::vector<std::size_t> path;
  std::vector<std::size_t> position(graph.nodes.size(), SIZE_MAX);
  while (position[at] == SIZE_MAX) {
    position[at] = path.size();
    path.push_back(at);
    for (int source : sources[at])
      if (!done[static_cast<std::size_t>(source)]) {
        at = static_cast<std::size_t>(source);
        break;
      }
  }
  path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(position[at]));
  std::string text;
  for (std::size_t i = path.size(); i-- > 0;) {
    std::size_t told = path.size() - 1 - i;
    if (told < shown) text += describe(graph.nodes[path[i]]) + " -> ";
    if (told == shown) text += fmt::format("{} more -> ", path.size() - shown);
  }
  text += describe(graph.nodes[path.back()]);
  throw Error(Code::cycle, file, "nodes wait for each other's results: " + text);
}

bool is_sorted(const std::vector<std::vector<int>>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (int source : sources[i])
      if (source >= static_cast<int>(i)) return false;
  return true;
}

std::vector<int> find_order(const Graph& graph, const std::vector<std::vector<int>>& sources, const std::string& file) {
  std::size_t count = sources.size();
  std::vector<std::vector<int>> readers(count);
  std::vector<std::size_t> waits(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    waits[i] = sources[i].size();
    for (int source : sources[i]) readers[static_cast<std::size_t>(source)].push_back(static_cast<int>(i));
    if (waits[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  std::vector<bool> done(count);
  while (!ready.empty()) {
    int node = ready.top();
    ready.pop();
    order.push_back(node);
    done[static_cast<std::size_t>(node)] = true;
    for (int reader : readers[static_cast<std::size_t>(node)])
      if (--waits[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
  }
  if (order.size() < count) report_cycle(graph, sources, done, file);
  return order;
}

} // namespace

void sort_nodes(Graph& graph, const std::string& file) {
  if (graph.nodes.size() >= static_cast<std::size_t>(INT32_MAX))
    throw Error(Code::model, file, fmt::format("{} nodes are too many", graph.nodes.size()));
  std::vector<std::vector<int>> sources = find_sources(graph, find_producers(graph, file), file);
  if (is_sorted(sources)) return;
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  for (int i : find_order(graph, sources, file)) sorted.push_back(std::move(graph.nodes[static_cast<std::size_t>(i)]));
  graph.nodes = std::move(sorted);
}

} // namespace tilewright::onnx
