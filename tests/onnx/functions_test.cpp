#include "onnx/functions.h"

#include "onnx/reader.h"
#include "onnx/sort.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

#include <gtest/gtest.h>

namespace tilewright::onnx {
namespace {

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names)
    text += (text.empty() ? "" : ", ") + (name.empty() ? std::string("-") : std::string(name));
  return text;
}

// "act/Mul: y = Mul(x, act/t)", a line a node.
std::string text_of(const Graph& g) {
  std::string text;
  for (const Node& n : g.nodes)
    text += std::string(n.name) + ": " + listed(n.outputs) + " = " + std::string(n.op_type) + "(" + listed(n.inputs) +
            ")\n";
  return text;
}

// With what its views point into.
struct Inlined {
  W w;
  Model m;
  explicit Inlined(const W& w_) : w(w_), m(inline_functions(read_model(w.bytes()))) {
    EXPECT_TRUE(m.functions.empty());
    sort_nodes(m.graph, "m");
  }
};

void expect_error(const W& w, const std::string& part) {
  try {
    Inlined inlined(w);
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::model);
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks: " << part;
  }
}

W call(const std::string& f, const std::vector<std::string>& in, const std::vector<std::string>& out,
       const std::string& name, const std::vector<W>& attributes = {}) {
  return node(f, in, out, name, attributes, "my");
}

W one_call(const W& caller, const std::vector<W>& functions) {
  return model(graph({"g", {caller}, {}, {value_info("x")}, {value_info("y")}}), functions);
}

TEST(Functions, CallsAreReplacedAndNamesMadeUnique) {
  W f = function({"F",
                  "my",
                  {"a"},
                  {"b"},
                  {},
                  {},
                  {node("Erf", {"a"}, {"t"}, "erf"), node("Mul", {"a", "t"}, {"b"})},
                  {opset("", 11)}});
  Inlined r(model(graph({"g",
                         {call("F", {"x"}, {"m"}, "act"), call("F", {"m"}, {"y"}, "act"),
                          node("Neg", {"y"}, {"act/t"}, "act/erf_2")},
                         {},
                         {value_info("x")},
                         {value_info("y")}}),
                  {f}));
  EXPECT_EQ(text_of(r.m.graph), "act/erf: act/t_2 = Erf(x)\n"
                                "act/Mul: m = Mul(x, act/t_2)\n"
                                "act/erf_3: act/t_3 = Erf(m)\n"
                                "act/Mul_2: y = Mul(m, act/t_3)\n"
                                "act/erf_2: act/t = Neg(y)\n");
  EXPECT_EQ(r.m.graph.nodes[0].opset, 11);
  EXPECT_EQ(r.m.graph.nodes[4].opset, 17);
}

TEST(Functions, AttributesComeFromTheCallTheDefaultOrNowhere) {
  W body = node("Op", {"a"}, {"b"}, "op",
                {attribute_ref("alpha", 1, "p"), attribute_ref("beta", 2, "q"), attribute_ref("gamma", 1, "r"),
                 attribute_int("k", 3)});
  W f = function({"F", "my", {"a"}, {"b"}, {"p", "r"}, {attribute_int("q", 7)}, {body}});
  Inlined given(one_call(call("F", {"x"}, {"y"}, "c", {attribute_float("p", 0.5f), attribute_int("q", 8)}), {f}));
  const Node& n = given.m.graph.nodes[0];
  EXPECT_EQ(real_of(n, "alpha", 0), 0.5f);
  EXPECT_EQ(integer_of(n, "beta", 0), 8);
  EXPECT_EQ(find_attribute(n, "gamma"), nullptr);
  EXPECT_EQ(integer_of(n, "k", 0), 3);
  Inlined defaulted(one_call(call("F", {"x"}, {"y"}, "c"), {f}));
  EXPECT_EQ(integer_of(defaulted.m.graph.nodes[0], "beta", 0), 7);
  EXPECT_EQ(defaulted.m.graph.nodes[0].attributes.size(), 2u);
  expect_error(one_call(call("F", {"x"}, {"y"}, "c", {attribute_float("q", 1)}), {f}),
               "which is a float where an int is expected");
}

TEST(Functions, NestedCallsPassAttributesOn) {
  W inner =
      function({"In", "my", {"a"}, {"b"}, {"s"}, {}, {node("Op", {"a"}, {"b"}, "op", {attribute_ref("v", 2, "s")})}});
  W outer = function({"Out",
                      "my",
                      {"p"},
                      {"q"},
                      {"s"},
                      {},
                      {node("In", {"p"}, {"t"}, "one", {attribute_ref("s", 2, "s")}, "my"),
                       node("In", {"t"}, {"q"}, "two", {attribute_int("s", 9)}, "my")}});
  Inlined r(one_call(call("Out", {"x"}, {"y"}, "c", {attribute_int("s", 4)}), {outer, inner}));
  EXPECT_EQ(text_of(r.m.graph), "c/one/op: c/t = Op(x)\nc/two/op: y = Op(c/t)\n");
  EXPECT_EQ(integer_of(r.m.graph.nodes[0], "v", 0), 4);
  EXPECT_EQ(integer_of(r.m.graph.nodes[1], "v", 0), 9);
}

TEST(Functions, OptionalInputsAndOutputsAndCopies) {
  W f =
      function({"F", "my", {"a", "o"}, {"a", "b", "b", "c"}, {}, {}, {node("Op", {"a", "o", "o"}, {"b", "c"}, "op")}});
  Inlined r(model(
      graph({"g", {call("F", {"x"}, {"p", "q", "s"}, "c")}, {}, {value_info("x")}, {value_info("p"), value_info("s")}}),
      {f}));
  EXPECT_EQ(text_of(r.m.graph), "c/op: q, c/c = Op(x, -, -)\n"
                                "c/Identity: p = Identity(x)\n"
                                "c/Identity_2: s = Identity(q)\n");
  EXPECT_EQ(r.m.graph.nodes[1].opset, 17);
  expect_error(one_call(call("F", {"x", "x", "x"}, {"y"}, "c"), {f}),
               "has 3 inputs and 1 outputs, but function 'F' has 2 and 4");
  W none = function({"N", "my", {"a"}, {"z"}, {}, {}, {node("Op", {"a"}, {"b"})}});
  expect_error(one_call(call("N", {"x"}, {"y"}, "c"), {none}),
               "needs output 'z' of function 'N', which none of its nodes makes");
  W twice = function({"T", "my", {"a", "a"}, {"b"}, {}, {}, {node("Op", {"a"}, {"b"})}});
  expect_error(one_call(call("T", {"x"}, {"y"}, "c"), {twice}), "has two inputs 'a'");
}

TEST(Functions, InsideSubgraphsOnBothSides) {
  W leaf =
      function({"L", "my", {"a"}, {"b"}, {}, {}, {node("Neg", {"a"}, {"t"}, "neg"), node("Exp", {"t"}, {"b"}, "exp")}});
  W inner = graph({"then",
                   {call("L", {"a"}, {"u"}, "l"), node("Add", {"u", "k"}, {"r"}, "add")},
                   {raw_tensor<float>("k", 1, {1}, {1})},
                   {},
                   {value_info("r")}});
  W f = function({"F",
                  "my",
                  {"a", "c"},
                  {"b"},
                  {},
                  {},
                  {node("If", {"c"}, {"b"}, "if", {attribute_graph("then_branch", inner)})}});
  W main_branch = graph({"then", {call("L", {"x"}, {"w"}, "ml")}, {}, {}, {value_info("w")}});
  Inlined r(model(graph({"g",
                         {call("F", {"x", "c"}, {"y"}, "f"),
                          node("If", {"c"}, {"z"}, "mi", {attribute_graph("then_branch", main_branch)})},
                         {},
                         {value_info("x"), value_info("c")},
                         {value_info("y"), value_info("z")}}),
                  {f, leaf}));
  EXPECT_EQ(text_of(r.m.graph), "f/if: y = If(c)\nmi: z = If(c)\n");
  const Graph* then = graph_of(r.m.graph.nodes[0], "then_branch");
  EXPECT_EQ(text_of(*then), "f/l/neg: f/l/t = Neg(x)\nf/l/exp: f/u = Exp(f/l/t)\nf/add: f/r = Add(f/u, f/k)\n");
  EXPECT_EQ(then->initializers[0].name, "f/k");
  EXPECT_EQ(then->outputs[0].name, "f/r");
  EXPECT_EQ(text_of(*graph_of(r.m.graph.nodes[1], "then_branch")), "ml/neg: ml/t = Neg(x)\nml/exp: w = Exp(ml/t)\n");
}

TEST(Functions, OverloadsAndDomainsAreToldApart) {
  W f = function({"F", "my", {"a"}, {"b"}, {}, {}, {node("One", {"a"}, {"b"}, "n")}});
  W g = function({"F", "my", {"a"}, {"b"}, {}, {}, {node("Two", {"a"}, {"b"}, "n")}}).text(13, "v2");
  W h = function({"F", "other", {"a"}, {"b"}, {}, {}, {node("Three", {"a"}, {"b"}, "n")}});
  Inlined r(one_call(call("F", {"x"}, {"y"}, "c").text(8, "v2"), {f, g, h}));
  EXPECT_EQ(r.m.graph.nodes[0].op_type, "Two");
  expect_error(one_call(call("F", {"x"}, {"y"}, "c"), {f, f}), "function 'F' is defined twice");
}

TEST(Functions, RecursionIsRefused) {
  W f = function({"F", "my", {"a"}, {"b"}, {}, {}, {call("G", {"a"}, {"b"}, "g")}});
  W g = function({"G", "my", {"a"}, {"b"}, {}, {}, {call("F", {"a"}, {"b"}, "f")}});
  expect_error(one_call(call("F", {"x"}, {"y"}, "c"), {f, g}), "functions call themselves: 'F' -> 'G' -> 'F'");
  expect_error(one_call(node("Op", {"x"}, {"y"}, "n", {attribute_ref("a", 1, "p")}), {f}),
               "refers to attribute 'p' of a function, but is in none");
}

// A few lines that double themselves, and a long chain, are refused quickly instead of filling the memory or the stack.
TEST(Functions, GrowthAndDepthAreBounded) {
  std::vector<W> doubling, chain;
  for (int i = 0; i < 60; ++i) {
    std::string next = "F" + std::to_string(i + 1);
    std::vector<W> twice = {call(next, {"a"}, {"t"}, ""), call(next, {"t"}, {"b"}, "")};
    if (i == 59) twice = {node("Neg", {"a"}, {"b"})};
    doubling.push_back(function({"F" + std::to_string(i), "my", {"a"}, {"b"}, {}, {}, twice}));
  }
  expect_error(one_call(call("F0", {"x"}, {"y"}, "c"), doubling), "the calls of functions grow to more than 2097152");
  for (int i = 0; i < 5000; ++i)
    chain.push_back(function(
        {"F" + std::to_string(i), "my", {"a"}, {"b"}, {}, {}, {call("F" + std::to_string(i + 1), {"a"}, {"b"}, "n")}}));
  expect_error(one_call(call("F0", {"x"}, {"y"}, "c"), chain), "is nested more than 100 functions and graphs deep");
  std::vector<W> refs;
  for (int i = 0; i < 3000; ++i) refs.push_back(attribute_ref("r" + std::to_string(i), 7, "p"));
  W wide = function({"F", "my", {"a"}, {"b"}, {"p"}, {}, {node("Op", {"a"}, {"b"}, "n", refs)}});
  W many = call("F", {"x"}, {"y"}, "c", {attribute("p", 7).packed(8, std::vector<std::int64_t>(3000, 1))});
  expect_error(one_call(many, {wide}), "the calls of functions grow to more than");
}

TEST(Functions, ModelsWithoutFunctionsStayAsTheyAre) {
  Inlined r(one_call(node("Relu", {"x"}, {"y"}, "r"), {}));
  EXPECT_EQ(text_of(r.m.graph), "r: y = Relu(x)\n");
}

} // namespace
} // namespace tilewright::onnx
