#include "onnx/wire.h"

#include "onnx/wire_writer.h"

#include <gtest/gtest.h>

#include <random>

namespace tilewright::onnx {
namespace {

struct Fixture {
  Source source;
  explicit Fixture(const W& w) : source{"t.onnx", w.bytes()} {}
  std::string error() const {
    try {
      Place root(source);
      for (Wire wire(source.bytes, root); wire.next();) {
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::model);
      return e.what();
    }
    return "";
  }
};

TEST(Wire, ReadsWhatTheWriterWrote) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    W w;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> numbers;
    for (int i = 0; i < 20; ++i) {
      auto field = static_cast<std::uint32_t>(1 + random() % ((1u << 29) - 1));
      std::uint64_t value = random() >> (random() % 64);
      numbers.emplace_back(field, value);
      if (i % 3 == 0) w.begin_group(field).varint(1, 5).begin_group(2).text(4, "abc").end_group(2).end_group(field);
      w.varint(field, value).fixed64(field, value).fixed32(field, static_cast<std::uint32_t>(value));
      w.text(field, std::string(random() % 300, 'x'));
    }
    Source source{"t", w.bytes()};
    Place root(source);
    Wire wire(source.bytes, root);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      auto [field, value] = numbers[i];
      ASSERT_TRUE(wire.next());
      if (i % 3 == 0) {
        ASSERT_EQ(wire.type(), WireType::group);
        ASSERT_EQ(wire.at() - source.bytes.data() < static_cast<std::ptrdiff_t>(w.out.size()), true);
        ASSERT_TRUE(wire.next());
      }
      ASSERT_EQ(wire.number(), field);
      ASSERT_EQ(wire.varint("v"), value);
      ASSERT_TRUE(wire.next());
      ASSERT_EQ(wire.fixed("v", 8).size(), 8u);
      ASSERT_TRUE(wire.next());
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wire.float32("v")), static_cast<std::uint32_t>(value));
      ASSERT_TRUE(wire.next());
      ASSERT_EQ(wire.text("t"), std::string(wire.payload().size(), 'x'));
    }
    ASSERT_FALSE(wire.next());
  }
}

TEST(Wire, PackedAndUnpackedElementsAreTheSame) {
  std::vector<std::int64_t> values = {0, 1, -1, 127, 128, INT64_MIN, INT64_MAX};
  W w;
  for (auto v : values) w.integer(4, v);
  w.packed(4, values);
  Source source{"t", w.bytes()};
  Place root(source);
  std::vector<std::int64_t> got;
  for (Wire wire(source.bytes, root); wire.next();)
    wire.varints("v", [&](std::uint64_t v) { got.push_back(static_cast<std::int64_t>(v)); });
  std::vector<std::int64_t> twice = values;
  twice.insert(twice.end(), values.begin(), values.end());
  EXPECT_EQ(got, twice);
}

TEST(Wire, EveryTruncationInsideAFieldIsTold) {
  W w;
  w.varint(1, 300).text(2, "hello").fixed64(3, 1).fixed32(4, 1).begin_group(5).varint(6, 1).end_group(5);
  std::vector<std::size_t> ends = {3, 10, 19, 24, w.out.size()};
  for (std::size_t n = 1; n < w.out.size(); ++n) {
    W cut;
    cut.out = w.out.substr(0, n);
    bool whole = std::find(ends.begin(), ends.end(), n) != ends.end();
    EXPECT_EQ(Fixture(cut).error().empty(), whole) << n;
  }
  EXPECT_EQ(Fixture(w).error(), "");
}

TEST(Wire, RefusesWhatIsNoMessage) {
  W w;
  w.text(1, "ab").tag(3, 2).raw_varint(1000).raw("xyz", 3);
  EXPECT_EQ(Fixture(w).error(), "E0202 t.onnx, byte 4: field 3 says it has 1000 bytes, but 3 are left");
  EXPECT_EQ(Fixture(W().raw_varint(3)).error(), "E0202 t.onnx, byte 0: 3 is no field of a message");
  EXPECT_EQ(Fixture(W().raw_varint(std::uint64_t{1} << 32)).error(),
            "E0202 t.onnx, byte 0: 4294967296 is no field of a message");
  EXPECT_EQ(Fixture(W().tag(2, 6)).error(), "E0202 t.onnx, byte 0: field 2 has wire type 6, which does not exist");
  EXPECT_EQ(Fixture(W().end_group(2)).error(), "E0202 t.onnx, byte 0: group 2 ends, but never began");
  EXPECT_EQ(Fixture(W().begin_group(2).end_group(3)).error(), "E0202 t.onnx, byte 0: group 2 ends as group 3");
  EXPECT_EQ(Fixture(W().begin_group(2)).error(), "E0202 t.onnx, byte 0: group 2 does not end");
  W length;
  length.tag(3, 2).raw_varint(UINT64_MAX);
  EXPECT_NE(Fixture(length).error().find("says it has 18446744073709551615 bytes"), std::string::npos);
  std::string eleven(10, '\xff');
  EXPECT_NE(Fixture(W().tag(1, 0).raw(eleven.data(), 10).raw("\x01", 1)).error().find("more than 64 bits"),
            std::string::npos);
}

TEST(Wire, DeepGroupsAreRefusedNotFollowed) {
  W w;
  for (int i = 0; i < 100000; ++i) w.begin_group(1);
  EXPECT_NE(Fixture(w).error().find("nested more than 100 deep"), std::string::npos);
}

TEST(Wire, AWrongWireTypeIsTold) {
  W w = W().text(3, "ab");
  Source source{"t", w.bytes()};
  Place root(source);
  Wire wire(source.bytes, root);
  ASSERT_TRUE(wire.next());
  try {
    wire.varint("dims");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "E0202 t, byte 0: dims (field 3) is length-delimited where it should be a varint");
  }
  EXPECT_THROW(wire.fixed("floats", 4), Error);
}

TEST(Wire, QuotedNamesAreSafeToPrint) {
  EXPECT_EQ(in_quotes("conv1/h\xc3\xa9"), "'conv1/h\xc3\xa9'");
  EXPECT_EQ(in_quotes("a\x1b[31m\n"), "'a\\x1b[31m\\x0a'");
  EXPECT_EQ(in_quotes("\xff\xc3("), "'\\xff\\xc3('");
  EXPECT_EQ(in_quotes("\xed\xa0\x80\xc0\x80\xf4\x90\x80\x80"),
            "'\\xed\\xa0\\x80\\xc0\\x80\\xf4\\x90\\x80\\x80'"); // a surrogate, an overlong zero, beyond Unicode
  EXPECT_EQ(in_quotes("\xe2\x82\xac\xf0\x9f\x98\x80"), "'\xe2\x82\xac\xf0\x9f\x98\x80'");
  EXPECT_LE(in_quotes(std::string(100000, 'a')).size(), 100u);
}

} // namespace
} // namespace tilewright::onnx
