#include "onnx/reader.h"

#include "onnx/wire.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tilewright::onnx {
namespace {

namespace fs = std::filesystem;

std::string error_of(const W& w, Code code = Code::model) {
  try {
    read_model(w.bytes());
  } catch (const Error& e) {
    EXPECT_EQ(e.code, code) << e.what();
    return e.what();
  }
  return "no error";
}

void expect_error(const W& w, const std::string& part, Code code = Code::model) {
  std::string text = error_of(w, code);
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(Reader, AWholeModel) {
  W g = graph({"net",
               {node("Conv", {"x", "w", ""}, {"t"}, "conv1",
                     {attribute_int("group", 4), attribute("pads", 7).packed(8, {1, -1})}),
                node("Relu", {"t"}, {"y"}, "", {}, "ai.onnx")},
               {raw_tensor<float>("w", 1, {2, 2}, {1, 2, 3, 4})},
               {value_info("x", tensor_type(1, {dim_named("n"), dim_fixed(3), W(), dim_fixed(-1)}))},
               {value_info("y", W().message(1, W().varint(1, 10)))}});
  g.message(13, value_info("t"));
  W w = model(g);
  w.text(3, "1.2").text(4, "org").integer(5, 7).message(14, W().text(1, "k").text(2, "v"));
  Model m = read_model(w.bytes());
  EXPECT_EQ(m.ir_version, 8);
  EXPECT_EQ(m.producer, "test");
  EXPECT_EQ(m.producer_version, "1.2");
  EXPECT_EQ(m.domain, "org");
  EXPECT_EQ(m.model_version, 7);
  ASSERT_EQ(m.metadata.size(), 1u);
  EXPECT_EQ(m.metadata[0].second, "v");
  EXPECT_EQ(opset_version(m.opsets, ""), 17);
  EXPECT_EQ(opset_version(m.opsets, "ai.onnx"), 17);
  EXPECT_EQ(opset_version(m.opsets, "none"), 0);
  ASSERT_EQ(m.graph.nodes.size(), 2u);
  const Node& conv = m.graph.nodes[0];
  EXPECT_EQ(conv.inputs, (std::vector<std::string_view>{"x", "w", ""}));
  EXPECT_EQ(conv.opset, 17);
  EXPECT_EQ(integer_of(conv, "group", 1), 4);
  EXPECT_EQ(integer_of(conv, "absent", 9), 9);
  EXPECT_EQ(integers_of(conv, "pads"), (std::vector<std::int64_t>{1, -1}));
  EXPECT_THROW(real_of(conv, "group", 0), Error);
  EXPECT_EQ(m.graph.nodes[1].domain, "");
  EXPECT_EQ(describe(conv), "node 'conv1' (Conv)");
  EXPECT_EQ(describe(m.graph.nodes[1]), "node of 'y' (Relu)");
  EXPECT_EQ(describe(m.graph.inputs[0].type), "tensor(float32)['n', 3, ?, ?]");
  EXPECT_EQ(describe(m.graph.outputs[0].type), "tensor(float16)");
  EXPECT_FALSE(m.graph.outputs[0].type.ranked);
  EXPECT_EQ(m.graph.values.size(), 1u);
}

TEST(Reader, OpsetImportsMayStandAnywhereInTheFile) {
  W w;
  w.message(7, graph({"g", {node("Relu", {"x"}, {"y"})}, {}, {}, {}})).message(8, opset("ai.onnx", 13)).varint(1, 7);
  EXPECT_EQ(read_model(w.bytes()).graph.nodes[0].opset, 13);
  W old = W().varint(1, 2).message(7, graph({"g", {node("Relu", {"x"}, {"y"})}, {}, {}, {}}));
  EXPECT_EQ(read_model(old.bytes()).graph.nodes[0].opset, 1);
}

TEST(Reader, AttributesOfEveryKind) {
  W inner = graph({"inner", {node("Relu", {"x"}, {"y"})}, {}, {}, {value_info("y")}});
  W tensor = raw_tensor<float>("", 1, {1}, {5});
  std::vector<W> attributes = {
      attribute_float("f", 0.5f),
      attribute_int("i", -3),
      attribute("s", 3).text(4, "text\xff"),
      attribute("t", 4).message(5, tensor),
      attribute_graph("g", inner),
      attribute("floats", 6).real(7, 1).packed_fixed<float>(7, {2, 3}),
      attribute("ints", 7).integer(8, 1).packed(8, {-2, 3}),
      attribute("strings", 8).text(9, "a").text(9, ""),
      attribute("tensors", 9).message(10, tensor).message(10, tensor),
      attribute("graphs", 10).message(11, inner),
      attribute("sparse", 11).message(22, W()),
      attribute("type", 13).message(14, tensor_type(7, {dim_fixed(2)})),
      attribute("types", 14).message(15, tensor_type(7, {})),
      attribute("empty", 7),
      W().text(1, "untyped").integer(3, 4),
      attribute_ref("ref", 1, "alpha"),
  };
  W w = model(graph({"g", {node("Op", {}, {"o"}, "n", attributes)}, {}, {}, {}}));
  Model m = read_model(w.bytes());
  const Node& n = m.graph.nodes[0];
  EXPECT_EQ(real_of(n, "f", 0), 0.5f);
  EXPECT_EQ(integer_of(n, "i", 0), -3);
  EXPECT_EQ(string_of(n, "s", ""), "text\xff");
  EXPECT_EQ(tensor_of(n, "t")->value<float>(0), 5.0f);
  EXPECT_EQ(graph_of(n, "g")->nodes[0].op_type, "Relu");
  EXPECT_EQ(graph_of(n, "g")->nodes[0].opset, 17);
  EXPECT_EQ(reals_of(n, "floats"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(integers_of(n, "ints"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(strings_of(n, "strings"), (std::vector<std::string_view>{"a", ""}));
  EXPECT_EQ(std::get<std::vector<std::shared_ptr<const Tensor>>>(find_attribute(n, "tensors")->value).size(), 2u);
  EXPECT_EQ(std::get<std::vector<std::shared_ptr<const Graph>>>(find_attribute(n, "graphs")->value).size(), 1u);
  EXPECT_EQ(find_attribute(n, "sparse")->kind, Attribute::Kind::sparse_tensor);
  EXPECT_EQ(describe(*std::get<std::shared_ptr<const Type>>(find_attribute(n, "type")->value)), "tensor(int64)[2]");
  EXPECT_EQ(std::get<std::vector<Type>>(find_attribute(n, "types")->value).size(), 1u);
  EXPECT_EQ(integers_of(n, "empty"), std::vector<std::int64_t>{});
  EXPECT_EQ(integer_of(n, "untyped", 0), 4);
  EXPECT_EQ(find_attribute(n, "ref")->ref_attr_name, "alpha");
  EXPECT_THROW(real_of(n, "ref", 0), Error);
  EXPECT_EQ(find_attribute(n, "nothing"), nullptr);
}

TEST(Reader, TypesThatAreNoTensorsKeepTheirName) {
  W sequence = W().message(4, W().message(1, W().message(1, W().varint(1, 7))));
  W map = W().message(5, W().varint(1, 8).message(2, sequence));
  W optional = W().message(9, W().message(1, map));
  W sparse = W().message(8, W().varint(1, 1));
  W w = model(graph({"g",
                     {},
                     {},
                     {value_info("a", sequence), value_info("b", optional), value_info("c", sparse),
                      value_info("d", W()), value_info("e", W().message(7, W()))},
                     {}}));
  Model m = read_model(w.bytes());
  EXPECT_EQ(describe(m.graph.inputs[0].type), "sequence(tensor(int64))");
  EXPECT_EQ(describe(m.graph.inputs[1].type), "optional(map(string, sequence(tensor(int64))))");
  EXPECT_EQ(describe(m.graph.inputs[2].type), "sparse_tensor(float32)");
  EXPECT_EQ(describe(m.graph.inputs[3].type), "untyped");
  EXPECT_EQ(describe(m.graph.inputs[4].type), "opaque");
  for (const ValueInfo& info : m.graph.inputs) EXPECT_FALSE(info.type.is_tensor());
}

TEST(Reader, FunctionsSparseInitializersAndTraining) {
  W g = graph({"g", {node("F", {"x"}, {"y"}, "call", {}, "my")}, {}, {}, {}});
  g.message(15, W().message(1, W().text(8, "sparse_w")));
  W w = model(g, {function({"F",
                            "my",
                            {"a"},
                            {"b"},
                            {"alpha"},
                            {attribute_int("beta", 2)},
                            {node("Relu", {"a"}, {"b"}), node("G", {}, {}, "", {}, "my")},
                            {opset("", 11)}})});
  w.message(20, W());
  Model m = read_model(w.bytes());
  EXPECT_TRUE(m.has_training);
  EXPECT_EQ(m.graph.sparse_initializers, std::vector<std::string_view>{"sparse_w"});
  ASSERT_EQ(m.functions.size(), 1u);
  const Function& f = m.functions[0];
  EXPECT_EQ(f.name, "F");
  EXPECT_EQ(f.attributes, std::vector<std::string_view>{"alpha"});
  EXPECT_EQ(f.defaults[0].name, "beta");
  EXPECT_EQ(f.nodes[0].opset, 11);
  EXPECT_EQ(f.nodes[1].opset, 1); // a domain that only the model imports
  EXPECT_EQ(m.graph.nodes[0].opset, 1);
}

TEST(Reader, UnknownFieldsAndGroupsAreSkipped) {
  W n = node("Relu", {"x"}, {"y"});
  n.varint(99, 7).begin_group(50).text(1, "zz").end_group(50).fixed32(60, 1).fixed64(61, 1).text(62, "later");
  W w = model(graph({"g", {n}, {}, {}, {}}));
  w.varint(1000, 1);
  EXPECT_EQ(read_model(w.bytes()).graph.nodes[0].op_type, "Relu");
}

TEST(Reader, ErrorsNameThePlace) {
  expect_error(model(graph({"g",
                            {node("Relu", {"x"}, {"y"}),
                             node("Conv", {"x"}, {"y"}, "conv1", {attribute("pads", 7).tag(8, 2).raw_varint(9)})},
                            {},
                            {},
                            {}})),
               "node 1 'conv1' (Conv), attribute 0 'pads': field 8 says it has 9 bytes, but 0 are left");
  expect_error(W(), "the model is empty");
  expect_error(W().varint(1, 8), "the model has no graph");
  expect_error(W().message(7, W()).message(7, W()), "graph (field 7) is given twice");
  expect_error(W().varint(7, 1), "graph (field 7) is a varint where it should be length-delimited");
  expect_error(model(graph({"g", {node("", {}, {}, "n")}, {}, {}, {}})), "graph, node 0 'n': has no op_type");
  expect_error(model(graph({"g", {}, {}, {value_info("")}, {}})), "input 0: has no name");
  expect_error(model(graph({"g", {}, {raw_tensor<float>("", 1, {1}, {1})}, {}, {}})), "initializer 0: has no name");
  expect_error(model(graph({"g", {}, {}, {}, {}}), {}, {opset("", 0)}), "opset_import of domain '' has version 0");
  expect_error(model(graph({"g", {}, {}, {}, {}}), {}, {opset("", 7), opset("ai.onnx", 8)}),
               "imported with versions 7 and 8");
}

TEST(Reader, AttributeErrors) {
  auto with = [](const W& a) { return model(graph({"g", {node("Op", {}, {}, "n", {a})}, {}, {}, {}})); };
  expect_error(with(W().integer(3, 1)), "attribute 0: has no name");
  expect_error(with(W().text(1, "a")), "attribute 0 'a': has no value");
  expect_error(with(W().text(1, "a").integer(3, 1).real(2, 1)), "has several values and no type");
  expect_error(with(attribute("a", 2).real(2, 1)), "should be an int, but holds another kind");
  expect_error(with(attribute("a", 4)), "should be a tensor, but holds nothing");
  expect_error(with(attribute("a", 77)), "type 77 is not defined");
  expect_error(with(attribute_graph("a", W()).message(6, W())), "g (field 6) is given twice");
  expect_error(with(attribute("a", 6).text(7, "abc")), "has 3 bytes, which is no multiple of 4");
}

TEST(Reader, NestingIsBounded) {
  W inner = graph({"g", {}, {}, {}, {}});
  for (int i = 0; i < 30; ++i)
    inner = graph({"g", {node("If", {}, {}, "", {attribute_graph("a", inner)})}, {}, {}, {}});
  EXPECT_NO_THROW(read_model(model(inner).bytes()));
  for (int i = 0; i < 10; ++i)
    inner = graph({"g", {node("If", {}, {}, "", {attribute_graph("a", inner)})}, {}, {}, {}});
  expect_error(model(inner), "nested more than 100 deep");
  W type = W().message(1, W().varint(1, 1));
  for (int i = 0; i < 3000; ++i) type = W().message(4, W().message(1, type));
  expect_error(model(graph({"g", {}, {}, {value_info("a", type)}, {}})), "nested more than 100 deep");
}

TEST(Reader, HintsAtFilesThatAreNoModels) {
  auto hint = [](const std::string& text) {
    W w;
    w.out = text;
    return error_of(w);
  };
  EXPECT_NE(hint("version https://git-lfs.github.com/spec/v1\noid sha256:00\n").find("git lfs pull"),
            std::string::npos);
  EXPECT_NE(hint("<!DOCTYPE html><html></html>").find("HTML"), std::string::npos);
  EXPECT_NE(hint(std::string("PK\x03\x04", 4) + "rest").find("zip archive"), std::string::npos);
  EXPECT_NE(hint(std::string("\x1c\0\0\0TFL3....", 12)).find("TensorFlow Lite"), std::string::npos);
  EXPECT_EQ(hint("\x08"), "E0202 model in memory, byte 1: the data ends inside a number (field 1)");
}

TEST(Reader, NamesNeedNotBeUtf8) {
  std::string odd = "\xff\xfe\x01";
  W w = model(graph({odd, {node("Relu", {odd}, {odd + "y"}, odd)}, {}, {}, {}}));
  EXPECT_EQ(read_model(w.bytes()).graph.nodes[0].name, odd);
}

class OnDisk : public testing::Test {
protected:
  fs::path folder = fs::temp_directory_path() / ("tilewright-reader-" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  }
};

TEST_F(OnDisk, WeightsAreUsedWhereTheyLieAndOutliveTheModel) {
  W w = model_of_tensor(raw_tensor<float>("w", 1, {3}, {1, 2, 3}));
  std::string path = write("m.onnx", w.out);
  Tensor kept;
  {
    Model m = read_model(path);
    EXPECT_EQ(m.file, path);
    kept = m.graph.initializers[0];
    EXPECT_EQ(kept.owner, m.owners[0]);
  }
  EXPECT_EQ(kept.value<float>(2), 3.0f);
}

TEST_F(OnDisk, FilesThatCannotBeRead) {
  for (const std::string& path :
       {(folder / "absent.onnx").string(), folder.string(), std::string(), std::string("/dev/null")}) {
    try {
      read_model(path);
      FAIL() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::file) << e.what();
      EXPECT_EQ(e.where, path);
    }
  }
  std::string empty = write("empty.onnx", "");
  try {
    read_model(empty);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::model);
    EXPECT_EQ(e.where, empty + ", byte 0");
  }
}

// A file with a hole of 3 GiB in its one weight: lengths and offsets need more than 32 bits, and nothing is copied.
TEST_F(OnDisk, PastTwoGibibytes) {
  constexpr std::uint64_t hole = std::uint64_t{3} << 30;
  auto varint_size = [](std::uint64_t v) { return W().raw_varint(v).out.size(); };
  W header = tensor_header("w", 2, {static_cast<std::int64_t>(hole)});
  std::uint64_t tensor_size = header.out.size() + 1 + varint_size(hole) + hole;
  W tail = W().message(1, node("Relu", {"w"}, {"y"}, "last"));
  W front;
  front.varint(1, 8).message(8, opset("", 17));
  front.tag(7, 2).raw_varint(1 + varint_size(tensor_size) + tensor_size + tail.out.size());
  front.tag(5, 2).raw_varint(tensor_size).raw(header.out.data(), header.out.size()).tag(9, 2).raw_varint(hole);
  fs::path path = folder / "big.onnx";
  {
    std::ofstream file(path, std::ios::binary);
    file << front.out;
    file.seekp(static_cast<std::streamoff>(front.out.size() + hole - 1));
    file << '\x07' << tail.out;
  }
  Model m = read_model(path.string());
  ASSERT_EQ(m.graph.initializers.size(), 1u);
  EXPECT_EQ(m.graph.initializers[0].bytes.size(), hole);
  EXPECT_EQ(m.graph.initializers[0].value<std::uint8_t>(hole - 1), 7);
  EXPECT_EQ(m.graph.nodes[0].name, "last");
}

} // namespace
} // namespace tilewright::onnx
