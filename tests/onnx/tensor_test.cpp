// Every way a tensor's data can be stored, and every way it can be wrong.
#include "onnx/reader.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tilewright::onnx {
namespace {

namespace fs = std::filesystem;

// The initializer, with what its bytes point into.
struct Read {
  W w;
  Model model;
  const Tensor& tensor() const { return model.graph.initializers[0]; }
  template <class T> std::vector<T> values() const {
    std::vector<T> out(tensor().bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), tensor().bytes.data(), out.size() * sizeof(T));
    return out;
  }
  bool in_place() const {
    const std::byte* at = tensor().bytes.data();
    return at >= w.bytes().data() && at < w.bytes().data() + w.bytes().size();
  }
};

Read read_tensor(const W& tensor) {
  Read r{model_of_tensor(tensor), {}};
  r.model = read_model(r.w.bytes());
  return r;
}

void expect_error(const W& tensor, const std::string& part, Code code = Code::model) {
  try {
    read_tensor(tensor);
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code, code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks: " << part;
  }
}

using Int64s = std::vector<std::int64_t>;

TEST(Tensor, RawDataIsUsedInPlace) {
  Read r = read_tensor(raw_tensor<float>("w", element::float32, {2, 3}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(r.tensor().dims, (Int64s{2, 3}));
  EXPECT_EQ(r.tensor().count, 6);
  EXPECT_EQ(r.tensor().dtype, DType::f32);
  EXPECT_EQ(r.values<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(r.in_place());
}

TEST(Tensor, EveryDTypeHasAnElementTypeAndBack) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    auto dtype = static_cast<DType>(i);
    int type = element_of_dtype(dtype);
    EXPECT_EQ(dtype_of_element(type), dtype);
    EXPECT_EQ(element_bits(type), static_cast<int>(8 * bytes_of(dtype)));
    std::vector<std::byte> raw(2 * bytes_of(dtype));
    EXPECT_EQ(read_tensor(raw_tensor("w", type, {2}, raw)).tensor().dtype, dtype);
  }
  EXPECT_EQ(element_name(element::float16), "float16");
  EXPECT_EQ(element_name(99), "type 99");
  EXPECT_EQ(element_name(-1), "type -1");
  EXPECT_FALSE(dtype_of_element(element::uint16));
  EXPECT_FALSE(dtype_of_element(1000));
}

TEST(Tensor, PackedFloatsAreUsedInPlaceUnpackedOnesDecoded) {
  Read packed = read_tensor(tensor_header("w", element::float32, {3}).packed_fixed<float>(4, {1, 2, 3}));
  EXPECT_TRUE(packed.in_place());
  EXPECT_EQ(packed.values<float>(), (std::vector<float>{1, 2, 3}));
  Read mixed =
      read_tensor(tensor_header("w", element::float32, {4}).real(4, 1).packed_fixed<float>(4, {2, 3}).real(4, 4));
  EXPECT_FALSE(mixed.in_place());
  EXPECT_EQ(mixed.values<float>(), (std::vector<float>{1, 2, 3, 4}));
  Read doubles = read_tensor(tensor_header("w", element::float64, {2}).packed_fixed<double>(10, {1.5, -2.5}));
  EXPECT_TRUE(doubles.in_place());
  EXPECT_EQ(doubles.values<double>(), (std::vector<double>{1.5, -2.5}));
}

TEST(Tensor, IntegersInTheirFields) {
  Int64s numbers = {0, -1, 127, -128};
  EXPECT_EQ(read_tensor(tensor_header("w", element::int64, {4}).packed(7, numbers)).values<std::int64_t>(), numbers);
  EXPECT_EQ(
      read_tensor(tensor_header("w", element::int64, {2}).integer(7, INT64_MIN).integer(7, 5)).values<std::int64_t>(),
      (Int64s{INT64_MIN, 5}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::int32, {4}).packed(5, numbers)).values<std::int32_t>(),
            (std::vector<std::int32_t>{0, -1, 127, -128}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::int8, {4}).packed(5, numbers)).values<std::int8_t>(),
            (std::vector<std::int8_t>{0, -1, 127, -128}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::uint8, {2}).packed(5, {0, 255})).values<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::float16, {2}).packed(5, {0x3c00, 0xfbff})).values<std::uint16_t>(),
            (std::vector<std::uint16_t>{0x3c00, 0xfbff}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::bfloat16, {1}).packed(5, {0x3f80})).values<std::uint16_t>(),
            (std::vector<std::uint16_t>{0x3f80}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::boolean, {3}).packed(5, {0, 1, 256})).values<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::uint64, {1}).packed(11, {-1})).values<std::uint64_t>(),
            (std::vector<std::uint64_t>{UINT64_MAX}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::uint32, {1}).packed(11, {0xffffffff})).values<std::uint32_t>(),
            (std::vector<std::uint32_t>{UINT32_MAX}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::int4, {3}).packed(5, {0x21, 0x03})).values<std::uint8_t>(),
            (std::vector<std::uint8_t>{0x21, 0x03}));
  EXPECT_EQ(read_tensor(tensor_header("w", element::complex64, {1}).packed_fixed<float>(4, {1, 2})).values<float>(),
            (std::vector<float>{1, 2}));
}

TEST(Tensor, RawBoolsAreZeroOrOne) {
  EXPECT_TRUE(read_tensor(raw_tensor<std::uint8_t>("w", element::boolean, {2}, {0, 1})).in_place());
  Read odd = read_tensor(raw_tensor<std::uint8_t>("w", element::boolean, {3}, {0, 1, 255}));
  EXPECT_EQ(odd.values<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(Tensor, StringsScalarsAndEmptyOnes) {
  Read strings = read_tensor(tensor_header("w", element::string, {2}).text(6, "a").text(6, ""));
  EXPECT_EQ(strings.tensor().strings, (std::vector<std::string_view>{"a", ""}));
  Read scalar = read_tensor(W().varint(2, 1).text(8, "w").real(4, 3.5f));
  EXPECT_EQ(scalar.tensor().count, 1);
  EXPECT_EQ(scalar.values<float>(), std::vector<float>{3.5f});
  Read none = read_tensor(tensor_header("w", element::float32, {3, 0, INT64_MAX}));
  EXPECT_EQ(none.tensor().count, 0);
  EXPECT_TRUE(none.tensor().bytes.empty());
  EXPECT_EQ(read_tensor(tensor_header("w", 99, {5}).text(9, "abc")).tensor().bytes.size(), 3u);
}

TEST(Tensor, SizesThatDisagreeAreToldWithNumbers) {
  expect_error(raw_tensor<float>("w", 1, {3, 4}, {1, 2}),
               "initializer 0 'w': 12 elements of float32 ([3, 4]) need 48 bytes, but raw_data has 8");
  expect_error(tensor_header("w", 1, {2}), "2 elements of float32 ([2]) need 8 bytes, but it has no data");
  expect_error(tensor_header("w", 1, {1}).real(4, 1).real(4, 2),
               "float_data has more than 1 elements of float32 ([1])");
  expect_error(tensor_header("w", 7, {3}).packed(7, {1, 2}), "need 24 bytes, but int64_data has 16");
  expect_error(tensor_header("w", 8, {2}).text(6, "a"), "2 elements of string ([2]) are expected, string_data has 1");
  expect_error(raw_tensor<float>("w", 1, {-2}, {}), "dimension -2 is negative");
  expect_error(raw_tensor<float>("w", 1, {1 << 30, 1 << 30, 1 << 30}, {}), "more elements than there can be");
  expect_error(raw_tensor<float>("w", 1, {INT64_MAX}, {}), "more elements than there can be");
  expect_error(tensor_header("w", 0, {1}), "has no data_type");
  expect_error(raw_tensor<std::uint8_t>("w", element::int4, {5}, {1, 2}), "need 3 bytes, but raw_data has 2");
}

TEST(Tensor, DataInTheWrongPlaceIsTold) {
  expect_error(tensor_header("w", 7, {1}).real(4, 1), "has int64 in float_data");
  expect_error(tensor_header("w", 1, {1}).real(4, 1).packed(5, {1}), "has data both in float_data and in int32_data");
  expect_error(tensor_header("w", 1, {1}).real(4, 1).text(9, "abcd"), "has data both in float_data and in raw_data");
  expect_error(tensor_header("w", 8, {1}).text(9, "abcd"), "has strings in raw_data");
  expect_error(tensor_header("w", 8, {1}).text(6, "a").real(4, 1), "has data both in string_data and elsewhere");
  expect_error(tensor_header("w", 3, {1}).packed(5, {300}), "int32_data holds 300, which is no int8");
  expect_error(tensor_header("w", 12, {1}).packed(11, {-1}),
               "uint64_data holds 18446744073709551615, which is no uint32");
  expect_error(tensor_header("w", 1, {1}).message(3, W()), "stored in segments");
  expect_error(tensor_header("w", 1, {1}).varint(14, 2), "data_location is 2");
  expect_error(tensor_header("w", 99, {1}).packed(5, {1}), "has type 99 in int32_data");
  expect_error(tensor_header("w", element::float6e2m3, {1}).packed(5, {1}), "has float6e2m3 in int32_data",
               Code::unsupported);
}

// ---- external data ----

class External : public testing::Test {
protected:
  fs::path root = fs::temp_directory_path() / ("tilewright-external-" + std::to_string(::getpid()));
  fs::path folder = root / "model";
  void SetUp() override {
    fs::create_directories(folder / "sub");
    write(folder / "w.bin", "0123456789abcdef");
    write(folder / "sub" / "v.bin", "ABCDEFGH");
    write(root / "secret.bin", "secretsecretsecr");
  }
  void TearDown() override { fs::remove_all(root); }
  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  W w;
  using Entries = std::vector<std::pair<std::string, std::string>>;
  W tensor(const Entries& entries, std::int64_t count = 2) {
    return external_tensor("w", element::float32, {count}, entries);
  }
  Model read(const W& tensor) {
    w = model_of_tensor(tensor);
    write(folder / "m.onnx", w.out);
    return read_model((folder / "m.onnx").string());
  }
  std::string text(const Model& m) {
    const Tensor& t = m.graph.initializers[0];
    return {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()};
  }
  void expect_refused(const W& tensor, const std::string& part) {
    try {
      read(tensor);
      ADD_FAILURE() << "no error; wanted: " << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::external) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks: " << part;
      EXPECT_NE(std::string(e.what()).find("initializer 0 'w'"), std::string::npos) << e.what();
    }
  }
};

TEST_F(External, IsMappedFromTheModelsFolder) {
  EXPECT_EQ(text(read(tensor({{"location", "w.bin"}}))), "01234567");
  EXPECT_EQ(text(read(tensor({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}, {"checksum", "x"}}))),
            "456789ab");
  EXPECT_EQ(text(read(tensor({{"location", "./sub/v.bin"}}))), "ABCDEFGH");
  fs::create_symlink("w.bin", folder / "link.bin");
  Model m = read(tensor({{"location", "link.bin"}}));
  EXPECT_EQ(text(m), "01234567");
  EXPECT_EQ(m.graph.initializers[0].external, "link.bin");
  std::string bytes = w.out;
  W other = model_of_tensor(tensor({{"location", "w.bin"}}));
  EXPECT_EQ(text(read_model(other.bytes(), folder.string())), "01234567");
}

TEST_F(External, OneFileIsMappedOnce) {
  W one = external_tensor("a", element::uint8, {4}, {{"location", "w.bin"}});
  W two = external_tensor("b", element::uint8, {4}, {{"location", "./w.bin"}, {"offset", "4"}});
  w = model(graph({"g", {}, {one, two}, {}, {}}));
  Model m = read_model(w.bytes(), folder.string());
  EXPECT_EQ(m.graph.initializers[0].owner, m.graph.initializers[1].owner);
}

TEST_F(External, WhatLeavesTheFolderIsRefused) {
  expect_refused(tensor({{"location", (root / "secret.bin").string()}}), "is an absolute path");
  expect_refused(tensor({{"location", "../secret.bin"}}), "'../secret.bin' leaves the model's folder");
  expect_refused(tensor({{"location", "sub/../../secret.bin"}}), "leaves the model's folder");
  expect_refused(tensor({{"location", "sub/../w.bin"}}), "leaves the model's folder");
  fs::create_symlink(root / "secret.bin", folder / "leak.bin");
  expect_refused(tensor({{"location", "leak.bin"}}), "is a link that leaves the model's folder");
  fs::create_directory_symlink(root, folder / "up");
  expect_refused(tensor({{"location", "up/secret.bin"}}), "is a link that leaves the model's folder");
  expect_refused(tensor({{"location", std::string("w.bin\0x", 7)}}), "holds a zero byte");
  expect_refused(tensor({{"location", std::string(5000, 'a')}}), "has 5000 characters");
  expect_refused(tensor({}), "is empty");
}

TEST_F(External, AModelThatIsALinkBringsTheFolderOfItsTarget) {
  fs::path blobs = root / "blobs", snapshot = root / "snapshot";
  fs::create_directories(blobs);
  fs::create_directories(snapshot);
  write(blobs / "1", model_of_tensor(tensor({{"location", "w.data"}})).out);
  write(blobs / "2", "01234567");
  fs::create_symlink(blobs / "1", snapshot / "m.onnx");
  fs::create_symlink(blobs / "2", snapshot / "w.data");
  EXPECT_EQ(text(read_model((snapshot / "m.onnx").string())), "01234567");
  fs::remove(snapshot / "w.data");
  fs::create_symlink(root / "secret.bin", snapshot / "w.data");
  EXPECT_THROW(read_model((snapshot / "m.onnx").string()), Error);
}

TEST_F(External, MissingAndShortFilesAreToldWithSizes) {
  expect_refused(tensor({{"location", "absent.bin"}}), "'absent.bin' cannot be opened in folder");
  expect_refused(tensor({{"location", "w.bin"}}, 5),
                 "'w.bin' is too short: 20 bytes from byte 0 on are needed, it has 16");
  expect_refused(tensor({{"location", "w.bin"}, {"offset", "12"}}), "8 bytes from byte 12 on are needed, it has 16");
  expect_refused(tensor({{"location", "w.bin"}, {"offset", "18446744073709551615"}}), "it has 16");
  expect_refused(tensor({{"location", "w.bin"}, {"offset", "-4"}}), "offset '-4' of its external data is no number");
  expect_refused(tensor({{"location", "w.bin"}, {"offset", "4x"}}), "is no number");
  expect_refused(tensor({{"location", "w.bin"}, {"length", "4"}}), "need 8 bytes, but its external data says 4");
  expect_refused(tensor({{"location", "sub"}}), "is a folder, not a file");
}

TEST_F(External, APipeIsRefusedNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_refused(tensor({{"location", "pipe"}}), "is a pipe, not a file");
}

TEST_F(External, AModelGivenAsBytesHasNoFolder) {
  w = model_of_tensor(tensor({{"location", "w.bin"}}));
  try {
    read_model(w.bytes());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::external);
    EXPECT_NE(std::string(e.what()).find("since the model was given as bytes"), std::string::npos) << e.what();
  }
}

TEST_F(External, StringsAndDoubledDataAreRefused) {
  W strings = external_tensor("w", element::string, {1}, {{"location", "w.bin"}});
  EXPECT_THROW(read(strings), Error);
  EXPECT_THROW(read(tensor({{"location", "w.bin"}}).real(4, 1)), Error);
}

} // namespace
} // namespace tilewright::onnx
