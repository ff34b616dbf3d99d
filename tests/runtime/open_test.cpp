// Telling text from ONNX, options, and the table of codes in the documentation.
#include "runtime/open.h"

#include <gtest/gtest.h>

#include <random>

#include "support/file.h"

using namespace tilewright;

namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Format, IsToldByTheContent) {
  for (const char* text : {"program p(n)\n", "# a comment\n\nprogram p(n)", "\n\n  \t\nprogram p()\r\n",
                           "oops\nprogram p(n)\n", "program"})
    EXPECT_EQ(format_of(bytes(text)), Format::text) << text;
  using namespace std::string_view_literals;
  for (std::string_view text :
       {"\x08\x08\x12\x07pytorch:\n\nprogram p"sv, "hello\n"sv, ""sv, "\n\n\n"sv, "program\0"sv})
    EXPECT_EQ(format_of(bytes(text)), Format::onnx) << text;
}

TEST(Format, ShippedExamplesAreText) {
  for (const char* name : {"mlp", "conv_relu", "depthwise_same", "pieces", "attention"}) {
    const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/examples/" + name + ".tw";
    EXPECT_EQ(format_of(bytes(read_text(path))), Format::text) << name;
  }
}

TEST(Options, AreCheckedOneByOne) {
  const OpenOptions o = parse_options({{"threads", "3"},
                                       {"size.batch", "8"},
                                       {"without", "views,refine"},
                                       {"isa", "base"},
                                       {"machine", "h200"},
                                       {"program", "p"},
                                       {"device", "cpu"}});
  EXPECT_EQ(o.session.threads, 3);
  EXPECT_EQ(o.session.sizes, (Binding{{"batch", 8}}));
  EXPECT_EQ(o.session.without, (std::vector<std::string>{"views", "refine"}));
  EXPECT_EQ(o.session.machine + o.session.isa + o.program, "h200basep");
  using Pair = std::pair<std::string, std::string>;
  for (const auto& [key, value] :
       {Pair{"threads", ""}, Pair{"threads", "2 "}, Pair{"threads", "99999"}, Pair{"size.n", "-1"},
        Pair{"size.n", "99999999999999999999"}, Pair{"colour", "red"}, Pair{"", ""}, Pair{"device", "tpu"}})
    EXPECT_THROW(parse_options({{key, value}}), Error) << key << "=" << value;
}

TEST(Constants, MustFit) {
  const char* text =
      "program p(n, k=2)\ninput X[n k] : f32\nweight W[k n] : f32\nY[n] = sum[k] X[n k] * W[k n]\noutput Y\n";
  const auto opened = [&](const char* name, DType dtype, std::vector<std::int64_t> dims) {
    OpenOptions o;
    o.constants.emplace(name, Array::make(dtype, std::move(dims)));
    return load_program(bytes(text), Format::text, o);
  };
  const Program p = opened("W", DType::f32, {2, 7});
  EXPECT_EQ(p.inputs.size(), 1u);
  EXPECT_EQ(p.sizes[0].value, Size(7)) << "n follows the constant";
  EXPECT_EQ(opened("X", DType::f32, {7, 2}).inputs.size(), 1u) << "W is open, X is not";
  EXPECT_THROW(opened("W", DType::f64, {2, 7}), Error);
  EXPECT_THROW(opened("W", DType::f32, {14}), Error);
  EXPECT_THROW(opened("Y", DType::f32, {7}), Error);
  EXPECT_THROW(opened("Q", DType::f32, {7}), Error);
  // Constants that contradict each other, or the options, are found when all sizes are known.
  OpenOptions o;
  o.constants.emplace("W", Array::make(DType::f32, {2, 7}));
  SessionOptions session;
  session.sizes = {{"n", 9}};
  EXPECT_THROW(Session(load_program(bytes(text), Format::text, o), session), Error);
}

TEST(Documentation, HasEveryCode) {
  const std::string text = read_text(std::string(TILEWRIGHT_SOURCE_DIR) + "/docs/errors.md");
  int codes = 0;
  for (int c = 0; c <= static_cast<int>(Code::internal); ++c, ++codes) {
    const auto code = static_cast<Code>(c);
    const std::string row =
        "| " + std::string(id_of(code)) + " | " + std::to_string(static_cast<int>(kind_of(code))) + " |";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
  EXPECT_EQ(codes, 18);
}

} // namespace
