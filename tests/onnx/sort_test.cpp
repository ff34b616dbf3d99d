#include "onnx/sort.h"

#include "onnx/reader.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tilewright::onnx {
namespace {

std::string order_of(const W& w) {
  Model m = read_model(w.bytes());
  sort_nodes(m.graph, "m.onnx");
  std::string text;
  for (const Node& n : m.graph.nodes) text += std::string(n.name) + " ";
  return text;
}

void expect_error(const W& w, Code code, const std::string& message) {
  try {
    order_of(w);
    ADD_FAILURE() << "no error; wanted: " << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code, code);
    EXPECT_EQ(e.message, message);
    EXPECT_EQ(e.where, "m.onnx");
  }
}

TEST(Sort, KeepsWhatIsSortedAndRepairsTheRest) {
  W a = node("Relu", {"x"}, {"a"}, "a"), b = node("Add", {"a", "x"}, {"b"}, "b"), c = node("Neg", {"x"}, {"c"}, "c");
  auto with = [](const std::vector<W>& nodes) {
    return model(graph({"g", nodes, {}, {value_info("x")}, {value_info("b")}}));
  };
  EXPECT_EQ(order_of(with({a, c, b})), "a c b ");
  EXPECT_EQ(order_of(with({b, c, a})), "c a b ");
  EXPECT_EQ(order_of(with({b, a, c})), "a b c ");
}

// Any shuffle of a random graph comes out with each node behind what it reads, and sorting again changes nothing.
TEST(Sort, RandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<W> nodes;
    int count = static_cast<int>(random() % 30);
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> inputs;
      for (std::uint32_t k = random() % 4; k > 0; --k)
        inputs.push_back(i > 0 && random() % 4 ? "v" + std::to_string(random() % static_cast<unsigned>(i))
                         : random() % 2        ? "x"
                                               : "");
      nodes.push_back(node("Op", inputs, {"v" + std::to_string(i)}, "n" + std::to_string(i)));
    }
    std::shuffle(nodes.begin(), nodes.end(), random);
    W w = model(graph({"g", nodes, {}, {value_info("x")}, {}}));
    Model m = read_model(w.bytes());
    sort_nodes(m.graph, "m");
    ASSERT_EQ(m.graph.nodes.size(), static_cast<std::size_t>(count));
    std::set<std::string_view> known = {"", "x"};
    std::vector<std::string_view> names;
    for (const Node& n : m.graph.nodes) {
      for (std::string_view input : n.inputs) ASSERT_TRUE(known.contains(input)) << input;
      known.insert(n.outputs[0]);
      names.push_back(n.name);
    }
    sort_nodes(m.graph, "m");
    for (std::size_t i = 0; i < names.size(); ++i) ASSERT_EQ(m.graph.nodes[i].name, names[i]);
  }
}

TEST(Sort, CyclesAreToldWithTheirNodes) {
  W self = model(graph({"g", {node("Relu", {"a"}, {"a"}, "loop")}, {}, {}, {}}));
  expect_error(self, Code::cycle, "nodes wait for each other's results: node 'loop' (Relu) -> node 'loop' (Relu)");
  W three =
      model(graph({"g",
                   {node("Add", {"c", "x"}, {"a"}, "A"), node("Neg", {"a"}, {"b"}, "B"), node("Exp", {"b"}, {"c"}, "C"),
                    node("Log", {"c"}, {"d"}, "D"), node("Sin", {"x"}, {"e"}, "E")},
                   {},
                   {value_info("x")},
                   {}}));
  expect_error(
      three, Code::cycle,
      "nodes wait for each other's results: node 'B' (Neg) -> node 'C' (Exp) -> node 'A' (Add) -> node 'B' (Neg)");
  std::vector<W> long_cycle;
  for (int i = 0; i < 100; ++i)
    long_cycle.push_back(
        node("Op", {"v" + std::to_string((i + 99) % 100)}, {"v" + std::to_string(i)}, "n" + std::to_string(i)));
  try {
    order_of(model(graph({"g", long_cycle, {}, {}, {}})));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("94 more"), std::string::npos) << e.message;
  }
}

TEST(Sort, NamesThatNothingOrTwoProduce) {
  W relu = node("Relu", {"x"}, {"y"}, "r");
  auto with = [](const std::vector<W>& nodes, const std::vector<W>& weights, const std::vector<W>& in,
                 const std::vector<W>& out) {
    return model(graph({"g", nodes, weights, in, out}));
  };
  W w = raw_tensor<float>("w", 1, {1}, {1});
  expect_error(with({relu}, {}, {}, {}), Code::model, "node 'r' (Relu) reads 'x', which nothing produces");
  expect_error(with({relu}, {}, {value_info("x")}, {value_info("z")}), Code::model,
               "the graph's list of outputs reads 'z', which nothing produces");
  expect_error(with({relu, relu}, {}, {value_info("x")}, {}), Code::model,
               "'y' is produced twice: by node 'r' (Relu) and by node 'r' (Relu)");
  expect_error(with({}, {}, {value_info("x"), value_info("x")}, {}), Code::model,
               "'x' is produced twice: by an input and by an input");
  expect_error(with({}, {w, w}, {}, {}), Code::model, "initializer 'w' is given twice");
  expect_error(with({node("Relu", {"w"}, {"w"}, "r")}, {w}, {}, {}), Code::model,
               "'w' is produced twice: by an input and by node 'r' (Relu)");
  EXPECT_EQ(order_of(with({node("Relu", {"w"}, {"y"}, "r")}, {w}, {value_info("w")}, {value_info("y")})), "r ");
}

TEST(Sort, SubgraphsReadFromAroundThem) {
  W inner = graph(
      {"then", {node("Add", {"a", "own"}, {"t"})}, {raw_tensor<float>("own", 1, {1}, {1})}, {}, {value_info("t")}});
  W branch = node("If", {"c"}, {"y"}, "if", {attribute_graph("then_branch", inner)});
  W a = node("Relu", {"c"}, {"a"}, "a");
  EXPECT_EQ(order_of(model(graph({"g", {branch, a}, {}, {value_info("c")}, {value_info("y")}}))), "a if ");
  expect_error(model(graph({"g", {branch}, {}, {value_info("c")}, {}})), Code::model,
               "node 'if' (If) reads 'a', which nothing produces");
}

TEST(Sort, LongChainsTakeLinearTime) {
  std::vector<W> nodes;
  constexpr int count = 100000;
  for (int i = count; i-- > 0;)
    nodes.push_back(node("Op", {i ? "v" + std::to_string(i - 1) : "x"}, {"v" + std::to_string(i)}));
  W w = model(graph({"g", nodes, {}, {value_info("x")}, {}}));
  Model m = read_model(w.bytes());
  sort_nodes(m.graph, "m");
  EXPECT_EQ(m.graph.nodes.front().outputs[0], "v0");
  EXPECT_EQ(m.graph.nodes.back().outputs[0], "v" + std::to_string(count - 1));
}

} // namespace
} // namespace tilewright::onnx
