// What the importer makes of graphs: symbolic shapes, views, constants, refusals. The operators themselves are tested
// by the ONNX backend node tests (backend/).
#include "onnx/import.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "onnx/reader.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

constexpr int f32 = 1, i64 = 7;

W attribute_ints(const std::string& name, const std::vector<std::int64_t>& values) {
  W a = attribute(name, 7);
  for (std::int64_t v : values) a.integer(8, v);
  return a;
}

W ints(const std::string& name, const std::vector<std::int64_t>& values) {
  return raw_tensor<std::int64_t>(name, i64, {static_cast<std::int64_t>(values.size())}, values);
}
W scalar(const std::string& name, std::int64_t value) { return raw_tensor<std::int64_t>(name, i64, {}, {value}); }
W real(const std::string& name, float value) { return raw_tensor<float>(name, f32, {}, {value}); }

W floats(const std::string& name, const std::vector<W>& dims) { return value_info(name, tensor_type(f32, dims)); }
W any(const std::string& name, int type = f32) { // a type without a shape
  return W().text(1, name).message(2, W().message(1, W().varint(1, static_cast<std::uint64_t>(type))));
}

Model read(const W& message) {
  auto text = std::make_shared<std::string>(message.out);
  return read_model({reinterpret_cast<const std::byte*>(text->data()), text->size()}, "", text);
}

Program import_parts(const GraphParts& parts, const ImportOptions& options = {}, int version = 17) {
  Program p = import_onnx(read(model(graph(parts), {}, {opset("", version)})), options);
  verify(p);
  return p;
}

Error error_of(const GraphParts& parts, const ImportOptions& options = {}, int version = 17) {
  try {
    import_parts(parts, options, version);
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was refused";
  return Error(Code::internal, "", "");
}

std::string shape_of(const Program& p, TensorId t) {
  std::string text;
  for (const Size& s : p.tensor(t).dims) text += (text.empty() ? "" : " ") + s.text();
  return text;
}

// The first output, as numbers, for inputs that count up from 0.
std::vector<double> run(const Program& p, const Binding& sizes = {}) {
  Values inputs;
  for (TensorId t : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& s : p.tensor(t).dims) dims.push_back(s.at(sizes));
    Array a = Array::make(p.tensor(t).dtype, dims);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.dtype == DType::f32) a.as<float>()[i] = static_cast<float>(i);
      if (a.dtype == DType::i64) a.as<std::int64_t>()[i] = i;
    }
    inputs.emplace(t, a);
  }
  Array out = evaluate(p, inputs, sizes, Evaluation::typed).at(p.outputs.at(0));
  std::vector<double> result;
  for (std::int64_t i = 0; i < out.count(); ++i) {
    result.push_back(out.dtype == DType::i64 ? static_cast<double>(out.as<std::int64_t>()[i])
                                             : static_cast<double>(out.as<float>()[i]));
  }
  return result;
}

int count_of_dtype(const Program& p, DType d) {
  return static_cast<int>(
      std::count_if(p.tensors.begin(), p.tensors.end(), [&](const auto& t) { return t.dtype == d; }));
}

// Shape -> Gather -> Unsqueeze -> Concat -> Reshape, as exporters write the heads of an attention.
GraphParts heads() {
  return {"heads",
          {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"b"}), node("Gather", {"s", "one"}, {"t"}),
           node("Unsqueeze", {"b", "axes"}, {"b1"}), node("Unsqueeze", {"t", "axes"}, {"t1"}),
           node("Concat", {"b1", "t1", "rest"}, {"shape"}, "join", {attribute_int("axis", 0)}),
           node("Reshape", {"x", "shape"}, {"y4"}),
           node("Transpose", {"y4"}, {"y"}, "", {attribute_ints("perm", {0, 2, 1, 3})})},
          {scalar("zero", 0), scalar("one", 1), ints("axes", {0}), ints("rest", {3, 4})},
          {floats("x", {dim_named("batch"), dim_named("seq"), dim_fixed(12)})},
          {any("y")}};
}

TEST(ImportShapes, ChainsFoldIntoSizes) {
  Program p = import_parts(heads());
  EXPECT_EQ(shape_of(p, p.outputs[0]), "batch 3 seq 4");
  EXPECT_EQ(count_of_dtype(p, DType::i64), 0) << print(p);
  EXPECT_EQ(p.nodes.size(), 2u) << print(p);
  ASSERT_EQ(p.sizes.size(), 2u);
  EXPECT_EQ(p.sizes[0].name, "batch");
  std::vector<double> y = run(p, {{"batch", 2}, {"seq", 5}});
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int s = 0; s < 5; ++s)
        for (int d = 0; d < 4; ++d)
          EXPECT_EQ(y[static_cast<std::size_t>(((b * 3 + h) * 5 + s) * 4 + d)], (b * 5 + s) * 12 + h * 4 + d);
}

TEST(ImportShapes, SizesCanBeFixed) {
  Program p = import_parts(heads(), {{{"batch", 2}, {"seq", 5}}, {}});
  EXPECT_EQ(shape_of(p, p.outputs[0]), "2 3 5 4");
  EXPECT_TRUE(p.sizes.empty());
  Error e = error_of(heads(), {{{"batches", 2}}, {}});
  EXPECT_EQ(e.code, Code::option);
  EXPECT_NE(e.hint.find("batch, seq"), std::string::npos) << e.what();
  EXPECT_EQ(error_of(heads(), {{{"batch", -1}}, {}}).code, Code::size);
}

TEST(ImportShapes, DimensionsWithoutNamesAndWithExpressions) {
  GraphParts g{"g",
               {node("Relu", {"x"}, {"y"}), node("Relu", {"m"}, {"z"})},
               {},
               {floats("x", {W(), dim_named("a b"), dim_fixed(2)}), floats("m", {dim_named("past + 2*(seq + 1)")})},
               {any("y"), any("z")}};
  Program p = import_parts(g);
  EXPECT_EQ(p.tensor(p.inputs[0]).dims[0], Size::symbol("x.0"));
  EXPECT_EQ(p.tensor(p.inputs[0]).dims[1], Size::symbol("a b"));
  EXPECT_EQ(p.tensor(p.inputs[1]).dims[0], Size::symbol("past") + 2 * Size::symbol("seq") + 2);
  EXPECT_EQ(import_parts(g, {{{"x.0", 7}}, {}}).tensor(0).dims[0], Size(7));
}

// A free size is 1 at least; an empty dim is asked for. What needs a number names the size.
TEST(ImportShapes, FreeSizesAreNotEmptyAndNamedWhereANumberIsNeeded) {
  GraphParts g{"g",
               {node("Add", {"x", "w"}, {"y"})},
               {raw_tensor<float>("w", f32, {4}, {1, 2, 3, 4})},
               {floats("x", {dim_named("n"), dim_fixed(4)})},
               {any("y")}};
  Program p = import_parts(g);
  EXPECT_EQ(p.sizes[0].range.low, 1);
  EXPECT_THROW(run(p, {{"n", 0}}), Error);
  EXPECT_TRUE(run(import_parts(g, {{{"n", 0}}, {}})).empty());
  g.inputs[0] = floats("x", {W(), dim_named("a"), dim_named("b")});
  g.nodes[0] = node("Reshape", {"x", "s"}, {"y"});
  g.initializers = {ints("s", {0, 8})};
  Error e = error_of(g);
  EXPECT_EQ(e.code, Code::shape);
  EXPECT_EQ(e.hint, "give these sizes values: --size a=N --size b=N");
  EXPECT_EQ(error_of(g, {{{"a", 4}}, {}}).hint, "give the size a value: --size b=N");
  EXPECT_EQ(shape_of(import_parts(g, {{{"a", 4}, {"b", 2}}, {}}), 0), "'x.0' 4 2");
}

// position[:, :seq] of 16 columns: seq is at most 16, and the slice has seq columns.
TEST(ImportShapes, SlicesBoundSizes) {
  GraphParts g{
      "g",
      {node("Shape", {"x"}, {"s"}, "", {attribute_int("start", 1), attribute_int("end", 2)}),
       node("Slice", {"table", "start", "s", "axis"}, {"part"}), node("Add", {"x", "part"}, {"y"})},
      {raw_tensor<float>("table", f32, {1, 16}, std::vector<float>(16, 1.f)), ints("start", {0}), ints("axis", {1})},
      {floats("x", {dim_named("n"), dim_named("seq")})},
      {any("y")}};
  Program p = import_parts(g);
  EXPECT_EQ(shape_of(p, p.outputs[0]), "n seq");
  EXPECT_EQ(p.sizes[1].range.high, 16);
  EXPECT_EQ(run(p, {{"n", 1}, {"seq", 3}}), (std::vector<double>{1, 2, 3}));
  EXPECT_THROW(run(p, {{"n", 1}, {"seq", 17}}), Error);
}

TEST(ImportShapes, ShapesReadAsTensorsAreWritten) {
  GraphParts g{"g", {node("Shape", {"x"}, {"y"})}, {}, {floats("x", {dim_named("n"), dim_fixed(3)})}, {any("y", i64)}};
  EXPECT_EQ(run(import_parts(g), {{"n", 5}}), (std::vector<double>{5, 3}));
  GraphParts fixed{
      "g", {node("Shape", {"x"}, {"y"})}, {}, {floats("x", {dim_fixed(4), dim_fixed(3)})}, {any("y", i64)}};
  EXPECT_EQ(run(import_parts(fixed)), (std::vector<double>{4, 3}));
}

TEST(ImportShapes, AShapeFromAnInputIsRefusedByName) {
  GraphParts g{"g",
               {node("Abs", {"shape"}, {"t"}), node("Reshape", {"x", "t"}, {"y"}, "view")},
               {},
               {floats("x", {dim_fixed(6)}), value_info("shape", tensor_type(i64, {dim_fixed(2)}))},
               {any("y")}};
  Error e = error_of(g);
  EXPECT_EQ(e.code, Code::unsupported);
  EXPECT_NE(std::string(e.what()).find("'view' (Reshape, opset 17)"), std::string::npos) << e.what();
  EXPECT_NE(e.message.find("depends on the values of input 'shape'"), std::string::npos) << e.what();
  Array shape = Array::make(DType::i64, {2});
  shape.as<std::int64_t>()[0] = 2;
  shape.as<std::int64_t>()[1] = 3;
  Program p = import_parts(g, {{}, {{"shape", shape}}});
  EXPECT_EQ(shape_of(p, p.outputs[0]), "2 3");
  EXPECT_EQ(p.inputs.size(), 1u);
}

// Random chains of integer operators over the dims of x, against the same arithmetic on numbers.
TEST(ImportShapes, RandomChainsAgreeWithNumbers) {
  std::mt19937_64 random(7);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int folded = 0;
  for (int round = 0; round < 300; ++round) {
    std::int64_t n = 1 + pick(9), m = 1 + pick(9);
    GraphParts g{"g",
                 {
                     node("Shape", {"x"}, {"s"}),
                     node("Gather", {"s", "c0"}, {"v0"}),
                     node("Gather", {"s", "c1"}, {"v1"}),
                 },
                 {},
                 {floats("x", {dim_named("n"), dim_named("m")})},
                 {any("y", i64)}};
    std::vector<std::int64_t> values{n, m};
    for (int k = 0; k < 7; ++k) g.initializers.push_back(scalar("c" + std::to_string(k), k));
    auto name = [](std::size_t i) { return "v" + std::to_string(i); };
    for (std::size_t i = 2; i < 9; ++i) {
      auto a = static_cast<std::size_t>(pick(static_cast<int>(i)));
      bool constant = pick(2) == 0;
      auto b = static_cast<std::size_t>(pick(static_cast<int>(i)));
      std::int64_t c = 1 + pick(6), y = constant ? c : values[b];
      std::string right = constant ? "c" + std::to_string(c) : name(b);
      static const std::vector<std::string> ops{"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"};
      int op = pick(7);
      if ((op == 3 || op == 4) && !constant) op = 0;
      std::int64_t x = values[a];
      if (std::abs(x) > 1000 || std::abs(y) > 1000) op = 6;
      std::int64_t r = op == 0   ? x + y
                       : op == 1 ? x - y
                       : op == 2 ? x * y
                       : op == 3 ? x / y
                       : op == 4 ? floor_mod_i64(x, y)
                       : op == 5 ? std::min(x, y)
                                 : std::max(x, y);
      g.nodes.push_back(node(ops[static_cast<std::size_t>(op)], {name(a), right}, {name(i)}));
      values.push_back(r);
    }
    g.nodes.push_back(node("Identity", {name(8)}, {"y"}));
    Program p = import_parts(g);
    EXPECT_EQ(run(p, {{"n", n}, {"m", m}})[0], static_cast<double>(values[8])) << print(p);
    folded += p.nodes.size() == 1;
  }
  EXPECT_GT(folded, 150);
}

TEST(ImportShapes, FloatsMadeOfSizesFold) {
  // floor(float(n) * 0.5) as the length of a range
  GraphParts g{"g",
               {node("Shape", {"x"}, {"s"}), node("Squeeze", {"s"}, {"n"}),
                node("Cast", {"n"}, {"f"}, "", {attribute_int("to", f32)}), node("Mul", {"f", "half"}, {"h"}),
                node("Floor", {"h"}, {"w"}), node("Cast", {"w"}, {"i"}, "", {attribute_int("to", i64)}),
                node("Range", {"zero", "i", "one"}, {"y"})},
               {real("half", 0.5f), scalar("zero", 0), scalar("one", 1)},
               {floats("x", {dim_named("n")})},
               {any("y", i64)}};
  Program p = import_parts(g);
  EXPECT_EQ(p.tensor(p.outputs[0]).dims[0], floor_div(Size::symbol("n"), 2));
  EXPECT_EQ(run(p, {{"n", 7}}), (std::vector<double>{0, 1, 2}));
}

TEST(ImportConstants, ScalarsAreLiteralsAndDefaultsAreWeights) {
  GraphParts g{"g",
               {node("Mul", {"x", "two"}, {"t"}), node("Add", {"t", "w"}, {"y"})},
               {real("two", 2), raw_tensor<float>("w", f32, {3}, {1, 2, 3})},
               {floats("x", {dim_fixed(3)}), floats("w", {dim_fixed(3)})},
               {any("y")}};
  Program p = import_parts(g);
  EXPECT_EQ(p.inputs.size(), 1u);
  EXPECT_EQ(std::count_if(p.tensors.begin(), p.tensors.end(), [](const auto& t) { return t.kind == Kind::weight; }), 1)
      << print(p);
  EXPECT_EQ(run(p), (std::vector<double>{1, 4, 7}));
}

TEST(ImportConstants, OutputsHaveTheirNames) {
  GraphParts g{"g",
               {node("Relu", {"x"}, {"r"}), node("Identity", {"r"}, {"a"}), node("Identity", {"r"}, {"b"}),
                node("Identity", {"x"}, {"c"})},
               {real("w", 5)},
               {floats("x", {dim_fixed(2)})},
               {any("a"), any("b"), any("c"), any("x"), any("w")}};
  Program p = import_parts(g);
  std::vector<std::string> names;
  for (TensorId t : p.outputs) names.push_back(p.tensor(t).name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c", "x", "w"}));
  EXPECT_EQ(p.outputs[3], p.inputs[0]);
  EXPECT_EQ(p.tensor(p.outputs[4]).kind, Kind::intermediate);
}

TEST(ImportRefusals, AllUnsupportedNodesAreToldAtOnce) {
  GraphParts g{"g",
               {node("LSTM", {"x"}, {"a"}, "first"), node("Relu", {"a"}, {"b"}),
                node("Mystery", {"b"}, {"c"}, "second", {}, "odd"),
                node("Relu", {"x"}, {"d"}, "third", {attribute_int("speed", 3)}), node("Add", {"c", "d"}, {"y"}),
                node("GRU", {"x"}, {"dead"}, "unused")},
               {},
               {floats("x", {dim_fixed(2)})},
               {any("y")}};
  Error e = error_of(g);
  EXPECT_EQ(e.code, Code::unsupported);
  std::string text = e.what();
  EXPECT_NE(text.find("'first' (LSTM, opset 17)"), std::string::npos) << text;
  EXPECT_NE(text.find("'second' (odd.Mystery"), std::string::npos) << text;
  EXPECT_NE(text.find("'third' (Relu, opset 17): attribute speed"), std::string::npos) << text;
  EXPECT_EQ(text.find("unused"), std::string::npos) << text;
}

TEST(ImportRefusals, TypesAndOperatorSets) {
  GraphParts g{"g", {node("Relu", {"x"}, {"y"})}, {}, {value_info("x", tensor_type(8, {dim_fixed(2)}))}, {any("y")}};
  EXPECT_NE(std::string(error_of(g).what()).find("input 'x'"), std::string::npos);
  EXPECT_EQ(error_of(g).code, Code::unsupported);
  GraphParts old{"g", {node("Relu", {"x"}, {"y"})}, {}, {floats("x", {dim_fixed(2)})}, {any("y")}};
  EXPECT_NE(error_of(old, {}, 6).message.find("before 7"), std::string::npos);
  EXPECT_NE(error_of(old, {}, newest_opset + 1).message.find("after"), std::string::npos);
}

TEST(ImportRefusals, ShapesThatContradict) {
  GraphParts g{"g",
               {node("Add", {"x", "z"}, {"y"}, "sum")},
               {},
               {floats("x", {dim_fixed(2)}), floats("z", {dim_fixed(3)})},
               {any("y")}};
  Error e = error_of(g);
  EXPECT_EQ(e.code, Code::shape);
  EXPECT_EQ(e.where, "sum");
  EXPECT_NE(e.message.find("[2] and [3]"), std::string::npos) << e.what();
  GraphParts declared{
      "g", {node("Relu", {"x"}, {"y"}, "act")}, {}, {floats("x", {dim_fixed(2)})}, {floats("y", {dim_fixed(3)})}};
  Error d = error_of(declared);
  EXPECT_EQ(d.code, Code::shape);
  EXPECT_NE(d.message.find("[2]"), std::string::npos) << d.what();
  EXPECT_NE(d.message.find("[3]"), std::string::npos) << d.what();
  GraphParts typed{"g", {node("Relu", {"x"}, {"y"})}, {}, {floats("x", {dim_fixed(2)})}, {any("y", i64)}};
  EXPECT_EQ(error_of(typed).code, Code::type);
}

TEST(ImportRefusals, ExtentsThatAreTooLarge) {
  std::int64_t big = std::int64_t{1} << 33;
  GraphParts g{"g", {node("Relu", {"x"}, {"y"})}, {}, {floats("x", {dim_fixed(big), dim_fixed(big)})}, {any("y")}};
  EXPECT_EQ(error_of(g).code, Code::size);
  GraphParts grown{"g",
                   {node("Tile", {"x", "r"}, {"y"})},
                   {ints("r", {big, big})},
                   {floats("x", {dim_fixed(2), dim_fixed(2)})},
                   {any("y")}};
  EXPECT_EQ(error_of(grown).code, Code::size);
  GraphParts negative{
      "g", {node("Tile", {"x", "r"}, {"y"}, "grow")}, {ints("r", {-1})}, {floats("x", {dim_fixed(2)})}, {any("y")}};
  EXPECT_EQ(error_of(negative).code, Code::shape);
}

TEST(ImportRefusals, GraphsThatAreNone) {
  GraphParts cycle{
      "g", {node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"})}, {}, {floats("x", {dim_fixed(2)})}, {any("b")}};
  EXPECT_EQ(error_of(cycle).code, Code::cycle);
  GraphParts missing{"g", {node("Add", {"x", "nowhere"}, {"y"})}, {}, {floats("x", {dim_fixed(2)})}, {any("y")}};
  EXPECT_EQ(error_of(missing).code, Code::model);
}

GraphParts choice(const std::vector<W>& initializers, const std::vector<W>& inputs) {
  W yes = graph({"yes", {node("Relu", {"x"}, {"p"})}, {}, {}, {any("p")}});
  W no = graph({"no", {node("Neg", {"x"}, {"q"})}, {}, {}, {any("q")}});
  return {"g",
          {node("If", {"cond"}, {"y"}, "branch",
                {attribute_graph("then_branch", yes), attribute_graph("else_branch", no)})},
          initializers,
          inputs,
          {any("y")}};
}

TEST(ImportBranches, AKnownConditionTakesOneBranch) {
  W x = floats("x", {dim_fixed(3)});
  Program p = import_parts(choice({raw_tensor<std::uint8_t>("cond", 9, {}, {0})}, {x}));
  EXPECT_EQ(run(p), (std::vector<double>{0, -1, -2}));
  EXPECT_EQ(run(import_parts(choice({raw_tensor<std::uint8_t>("cond", 9, {}, {1})}, {x}))),
            (std::vector<double>{0, 1, 2}));
  Error e = error_of(choice({}, {x, value_info("cond", tensor_type(9, {}))}));
  EXPECT_EQ(e.code, Code::unsupported);
  EXPECT_NE(std::string(e.what()).find("'branch' (If"), std::string::npos) << e.what();
}

TEST(ImportFunctions, CallsAreReplaced) {
  FunctionParts twice{"Twice", "my", {"a"}, {"b"}, {}, {}, {node("Add", {"a", "a"}, {"b"})}};
  GraphParts g{"g",
               {node("Twice", {"x"}, {"t"}, "call", {}, "my"), node("Twice", {"t"}, {"y"}, "again", {}, "my")},
               {},
               {floats("x", {dim_fixed(2)})},
               {any("y")}};
  Program p = import_onnx(read(model(graph(g), {function(twice)})));
  EXPECT_EQ(run(p), (std::vector<double>{0, 4}));
}

// A gather counts negative indices from the end, and refuses what is outside when it runs.
TEST(ImportGather, IndicesOfAnInput) {
  GraphParts g{"g",
               {node("Sub", {"i", "two"}, {"j"}), node("Gather", {"x", "j"}, {"y"})},
               {scalar("two", 2)},
               {floats("x", {dim_fixed(3)}), value_info("i", tensor_type(i64, {dim_named("n")}))},
               {any("y")}};
  Program p = import_parts(g);
  EXPECT_EQ(run(p, {{"n", 5}}), (std::vector<double>{1, 2, 0, 1, 2})); // -2 -1 0 1 2
  EXPECT_THROW(run(p, {{"n", 6}}), Error);                             // 3
}

// A list as long as its values say has room for the most, and is counted.
TEST(ImportCounted, OutputsAreCutToTheirCounts) {
  GraphParts g{"g",
               {node("NonMaxSuppression", {"boxes", "scores", "most"}, {"y"}, "keep"),
                node("NonZero", {"scores"}, {"z"}, "live"), node("Transpose", {"z"}, {"t"})},
               {scalar("most", 3)},
               {floats("boxes", {dim_fixed(1), dim_fixed(6), dim_fixed(4)}),
                floats("scores", {dim_fixed(1), dim_named("c"), dim_fixed(6)})},
               {any("y", i64), any("t", i64), any("z", i64)}};
  Program p = import_parts(g);
  EXPECT_EQ(shape_of(p, p.outputs[0]), "3*c 3");
  EXPECT_EQ(shape_of(p, p.outputs[1]), "6*c 3");
  const std::vector<TensorId> y = p.tensor(p.outputs[0]).counted_by, t = p.tensor(p.outputs[1]).counted_by,
                              z = p.tensor(p.outputs[2]).counted_by;
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(p.tensor(y[0]).name, "y.count");
  EXPECT_EQ(t, (std::vector<TensorId>{z[1], -1}));
  EXPECT_EQ(z[0], -1);
  EXPECT_NE(print(p).find("output y['y.count' "), std::string::npos) << print(p);
}

// One node behind what NonZero(x) finds, y[2 n]; x[4 5].
std::string refusal_behind_counted(std::vector<W> nodes, std::vector<W> initializers = {}) {
  nodes.insert(nodes.begin(), node("NonZero", {"x"}, {"y"}, "live"));
  GraphParts g{"g", nodes, std::move(initializers), {floats("x", {dim_fixed(4), dim_fixed(5)})}, {any("z", i64)}};
  Error e = error_of(g, {}, 13);
  EXPECT_EQ(e.code, Code::unsupported) << e.what();
  return e.where + ": " + e.message;
}

TEST(ImportCounted, RowsAreNotMixed) {
  const std::string prefix = "not supported: how many rows ";
  const std::string unknown = " is known only when the model has run, and they ";
  auto expect = [&](const std::string& got, const std::string& op, const std::string& tensor, const std::string& what) {
    EXPECT_EQ(got, "'bad' (" + op + ", opset 13): " + prefix + "'" + tensor + "' has" + unknown + what);
  };
  expect(refusal_behind_counted({node("ReduceSum", {"y", "one"}, {"z"}, "bad")}, {ints("one", {1})}), "ReduceSum", "y",
         "are reduced to one");
  expect(refusal_behind_counted({node("Concat", {"y", "y"}, {"z"}, "bad", {attribute_int("axis", 1)})}), "Concat", "y",
         "are joined with others");
  expect(refusal_behind_counted({node("Gather", {"y", "zero"}, {"z"}, "bad", {attribute_int("axis", 1)})}, {scalar("zero", 0)}),
         "Gather", "y", "are taken in part, or joined with others");
  expect(refusal_behind_counted({node("Slice", {"y", "a", "b", "one"}, {"z"}, "bad")}, {ints("a", {0}), ints("b", {3}), ints("one", {1})}),
         "Slice", "y", "are taken in part, or joined with others");
  expect(refusal_behind_counted({node("Add", {"y", "row"}, {"z"}, "bad")}, {raw_tensor<std::int64_t>("row", i64, {20}, std::vector<std::int64_t>(20, 1))}),
         "Add", "y", "meet the 20 of 'row'");
  expect(refusal_behind_counted({node("NonZero", {"y"}, {"z"}, "bad")}), "NonZero", "y", "are all needed");
  expect(refusal_behind_counted({node("Not", {"b"}, {"n"}), node("NonZero", {"n"}, {"w"}), node("Add", {"y", "w"}, {"z"}, "bad"),
                                 node("Cast", {"x"}, {"b"}, "", {attribute_int("to", 9)})}),
         "Add", "w", "meet rows that are counted otherwise");
  EXPECT_EQ(refusal_behind_counted({node("EyeLike", {"y"}, {"z"}, "bad")}),
            "'bad' (EyeLike, opset 13): not supported: output 0 has extents of 'y', which are known only when the model has run");
  EXPECT_EQ(refusal_behind_counted({node("Cast", {"y"}, {"f"}, "", {attribute_int("to", 1)}), node("Dropout", {"f"}, {"d", "z"}, "bad")}),
            "'bad' (Dropout, opset 13): not supported: output 1 has extents of 'f', which are known only when the model has run");
  EXPECT_EQ(refusal_behind_counted({node("Squeeze", {"y"}, {"z"}, "bad")}),
            "'bad' (Squeeze, opset 13): not supported: which dims are 1 is known only when the model has run");
  EXPECT_EQ(refusal_behind_counted({node("Reshape", {"y", "two"}, {"z"}, "bad")}, {ints("two", {20, 2})}),
            "'bad' (Reshape, opset 13): not supported: dim 1 of 'y', whose extent is known only when the model has run, is to be [20, 2]");
  EXPECT_EQ(refusal_behind_counted({node("Reshape", {"y", "flat"}, {"z"}, "bad")}, {ints("flat", {-1})}),
            "'bad' (Reshape, opset 13): not supported: dim 1 of 'y', whose extent is known only when the model has run, is to be [40]");
  EXPECT_EQ(refusal_behind_counted({node("Shape", {"y"}, {"s"}), node("ConstantOfShape", {"s"}, {"z"}, "bad")}),
            "'bad' (ConstantOfShape, opset 13): not supported: its shape depends on the values of input 'x'");
}

// A list of k has an extent, and is opaque where k exceeds 8.
TEST(ImportSelect, LongListsAreOpaque) {
  GraphParts top{"g",
                 {node("TopK", {"x", "k"}, {"values", "y"})},
                 {ints("k", {10})},
                 {floats("x", {dim_named("n"), dim_fixed(12)})},
                 {any("y", i64)}};
  Program p = import_parts(top);
  EXPECT_EQ(shape_of(p, p.outputs[0]), "n 10");
  ASSERT_EQ(p.nodes.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<Opaque>(p.nodes[0]));
  EXPECT_EQ(std::get<Opaque>(p.nodes[0]).op, "TopK");
  EXPECT_EQ(run(p, {{"n", 2}})[10], 11);
}

TEST(ImportDocs, TheOperatorTableIsCurrent) {
  std::ifstream file(TILEWRIGHT_SOURCE_DIR "/docs/onnx_operators.md");
  std::stringstream text;
  text << file.rdbuf();
  if (std::getenv("TILEWRIGHT_UPDATE"))
    std::ofstream(TILEWRIGHT_SOURCE_DIR "/docs/onnx_operators.md") << operator_table();
  else
    EXPECT_EQ(text.str(), operator_table()) << "run this test with TILEWRIGHT_UPDATE=1";
}

TEST(ImportDocs, RowsDoNotOverlap) {
  const auto& rows = operators();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].domain != rows[i - 1].domain || rows[i].type != rows[i - 1].type) continue;
    EXPECT_GT(rows[i].since, rows[i - 1].since) << rows[i].type;
    EXPECT_TRUE(rows[i - 1].until == 0 || rows[i - 1].until < rows[i].since) << rows[i].type;
  }
}

} // namespace
} // namespace tilewright::onnx
