#include "cli/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/copy.h"
#include "support/file.h"

namespace tilewright {

namespace {

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

// The header is a Python dict of three keys; anything else is refused.
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Header parse() {
    Header h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr)
        h.descr = string(), descr = true;
      else if (key == "fortran_order" && !order)
        h.fortran = boolean(), order = true;
      else if (key == "shape" && !shape)
        h.shape = tuple(), shape = true;
      else
        bad(fmt::format("unexpected key '{}'", key));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) bad("text after the dict");
    if (!descr || !order || !shape) bad("descr, fortran_order or shape is missing");
    return h;
  }

private:
  [[noreturn]] void bad(const std::string& why) const {
    throw Error(Code::file, path_, "malformed .npy header: " + why, "write it with numpy.save");
  }
  void skip() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) bad(fmt::format("'{}' is missing at {}", c, at_));
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote == '[') bad("arrays of records are not supported");
    if (quote != '\'' && quote != '"') bad("a string is missing");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("a string does not end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    bad("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    constexpr std::size_t most_dims = 64;
    std::vector<std::int64_t> dims;
    expect('(');
    while (!take(')')) {
      dims.push_back(number());
      if (dims.size() > most_dims) bad("too many dims");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }
  std::int64_t number() {
    skip();
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > INT64_MAX / 10 - 1) bad("a dim is too large");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == start) bad("a dim is no number");
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::size_t little_endian(std::span<const std::byte> bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::size_t>(bytes[i]);
  return value;
}

// The header's text, and where the elements begin.
std::pair<std::string_view, std::size_t> header_text(std::span<const std::byte> file, const std::string& path) {
  constexpr std::size_t fixed = 8; // magic, version
  if (file.size() < fixed + 2 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0)
    throw Error(Code::file, path, "is no .npy file", "write it with numpy.save");
  const int version = static_cast<int>(file[6]);
  if (version < 1 || version > 3)
    throw Error(Code::file, path, fmt::format("is of .npy version {}, 1 to 3 are known", version));
  const std::size_t width = version == 1 ? 2 : 4;
  if (file.size() < fixed + width) throw Error(Code::file, path, "ends inside the .npy header");
  const std::size_t length = little_endian(file.subspan(fixed, width));
  if (length > file.size() - fixed - width) throw Error(Code::file, path, "ends inside the .npy header");
  return {{reinterpret_cast<const char*>(file.data()) + fixed + width, length}, fixed + width + length};
}

struct ElementType {
  DType dtype;
  bool swapped;
};

ElementType element_type(const std::string& descr, std::optional<DType> narrow, const std::string& path) {
  const bool big = descr.starts_with('>');
  const std::string kind = descr.empty() || !std::strchr("<>|=", descr[0]) ? descr : descr.substr(1);
  constexpr std::pair<const char*, DType> known[] = {{"f8", DType::f64}, {"f4", DType::f32},    {"f2", DType::f16},
                                                     {"i1", DType::i8},  {"u1", DType::u8},     {"i4", DType::i32},
                                                     {"i8", DType::i64}, {"b1", DType::boolean}};
  for (const auto& [letter, dtype] : known)
    if (kind == letter) return {dtype, big && bytes_of(dtype) > 1};
  if (narrow && kind == fmt::format("V{}", bytes_of(*narrow))) return {*narrow, false};
  throw Error(Code::input, path, fmt::format("holds elements of type '{}'", descr),
              "types are float64, float32, float16, int8, uint8, int32, int64, bool, and V2 or V1 for bf16 and f8");
}

void swap_bytes(Array& a) {
  const std::size_t width = bytes_of(a.dtype);
  for (std::size_t i = 0; i < a.bytes(); i += width) std::reverse(a.data + i, a.data + i + width);
}

} // namespace

Array read_npy(const std::string& path, std::optional<DType> narrow) {
  const Mapping file = map_file(path);
  const auto [text, start] = header_text(file.bytes, path);
  const Header header = HeaderParser(text, path).parse();
  const auto [dtype, swapped] = element_type(header.descr, narrow, path);
  std::int64_t bytes = static_cast<std::int64_t>(bytes_of(dtype));
  for (std::int64_t d : header.shape) bytes = checked_mul(bytes, d);
  const auto have = static_cast<std::int64_t>(file.bytes.size() - start);
  if (have != bytes)
    throw Error(
        Code::file, path,
        fmt::format("holds {} bytes of elements, its shape [{}] needs {}", have, fmt::join(header.shape, ", "), bytes));
  Array a = Array::make(dtype, header.shape);
  std::vector<std::int64_t> strides = row_strides(header.shape);
  if (header.fortran) {
    std::vector<std::int64_t> turned(header.shape.rbegin(), header.shape.rend());
    strides = row_strides(turned);
    std::reverse(strides.begin(), strides.end());
  }
  copy_elements(dense(a), {dtype, a.dims, strides, const_cast<std::byte*>(file.bytes.data()) + start});
  if (swapped) swap_bytes(a);
  if (dtype == DType::boolean)
    for (std::size_t i = 0; i < a.bytes(); ++i) a.data[i] = std::byte{a.data[i] != std::byte{0}};
  return a;
}

std::string npy_bytes(const Array& a) {
  const char* letter = "|V1";
  switch (a.dtype) {
  case DType::f64: letter = "<f8"; break;
  case DType::f32: letter = "<f4"; break;
  case DType::f16: letter = "<f2"; break;
  case DType::i8: letter = "|i1"; break;
  case DType::u8: letter = "|u1"; break;
  case DType::i32: letter = "<i4"; break;
  case DType::i64: letter = "<i8"; break;
  case DType::boolean: letter = "|b1"; break;
  case DType::bf16: letter = "<V2"; break;
  case DType::f8e4m3:
  case DType::f8e5m2: break;
  }
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", letter,
                                 fmt::join(a.dims, ", "), a.dims.size() == 1 ? "," : "");
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(dict.size() & 0xff);
  bytes += static_cast<char>(dict.size() >> 8);
  bytes += dict;
  bytes.append(reinterpret_cast<const char*>(a.data), a.bytes());
  return bytes;
}

} // namespace tilewright
