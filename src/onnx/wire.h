// The protobuf wire format, read in place: five wire types and nothing else. No schema, no copies, no allocation.
//
//   for (Wire wire(bytes, place); wire.next();)
//     switch (wire.number()) {
//     case 2: name = wire.text("name"); break;                          a view into bytes
//     case 8: wire.varints("ints", [&](auto v) { ints.push_back(static_cast<std::int64_t>(v)); }); break;
//     }                                                                  other fields are skipped, groups too
//
// Every length is checked against the message around it before it is believed, and messages nest at most depth_limit
// deep, so that no input can make a reader run over, loop, or overflow the stack. What is wrong is told with the file,
// the byte and the chain of places that leads there:  E0202 m.onnx, byte 96: graph 'g', node 3 'conv1' (Conv): name
// (field 3) ...
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tilewright::onnx {

static_assert(std::endian::native == std::endian::little, "ONNX data is little-endian and read in place");

constexpr int depth_limit = 100;

// 'name', made fit for a terminal: control characters and what is not UTF-8 are escaped, and long names are cut.
std::string in_quotes(std::string_view name);

struct Source {
  std::string file;
  std::span<const std::byte> bytes;
};

// A link in the chain of places from the file down to what is being read. The names may be filled in while it is read.
struct Place {
  const Source* source = nullptr;
  const Place* outer = nullptr;
  const char* kind = "";
  std::int64_t index = -1;
  const std::string_view* name = nullptr;
  const std::string_view* op = nullptr;
  int depth = 0;

  explicit Place(const Source& root) : source(&root) {}
  Place(const Place& around, const char* kind_, std::int64_t index_ = -1, const std::string_view* name_ = nullptr,
        const std::string_view* op_ = nullptr)
      : source(around.source), outer(&around), kind(kind_), index(index_), name(name_), op(op_),
        depth(around.depth + 1) {}

  std::string text() const;
};

[[noreturn]] void fail(Code, const Place&, const std::byte* at, const std::string& message, std::string hint = {});
[[noreturn]] inline void fail(const Place& place, const std::byte* at, const std::string& message) {
  fail(Code::model, place, at, message);
}

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, length = 2, group = 3, group_end = 4, fixed32 = 5 };

class Wire {
public:
  Wire(std::span<const std::byte> message, const Place& place);

  bool next(); // the next field of the message, or false at its end
  std::uint32_t number() const { return number_; }
  WireType type() const { return type_; }
  const std::byte* at() const { return field_; }                // where the field begins, for messages
  std::span<const std::byte> payload() const { return bytes_; } // of a length-delimited field
  const Place& place() const { return place_; }

  // The value of the current field; what is its name for, if it has another wire type.
  std::uint64_t varint(const char* name) const;
  std::int64_t integer(const char* name) const { return static_cast<std::int64_t>(varint(name)); }
  std::int32_t integer32(const char* name) const { return static_cast<std::int32_t>(varint(name)); }
  float float32(const char* name) const;
  std::string_view text(const char* name) const;
  std::span<const std::byte> message(const char* name) const;

  // The elements of a repeated field, packed or not: several in a length-delimited field, or this one.
  template <class F> void varints(const char* name, F&& element) const {
    if (type_ == WireType::varint) return static_cast<void>(element(value_));
    expect(WireType::length, name);
    const std::byte* at = bytes_.data();
    for (const std::byte* end = at + bytes_.size(); at != end;) element(varint_at(at, end));
  }
  // Elements of a fixed width as one run of little-endian bytes.
  std::span<const std::byte> fixed(const char* name, std::size_t width) const;

  [[noreturn]] void bad(const std::string& message) const { fail(place_, field_, message); }

private:
  void expect(WireType, const char* name) const;
  std::uint64_t varint_at(const std::byte*& at, const std::byte* end) const;
  std::span<const std::byte> take(std::uint64_t count);
  void payload_of(WireType);
  void skip_group();

  const std::byte* at_;
  const std::byte* end_;
  const std::byte* field_;
  const Place& place_;
  std::span<const std::byte> bytes_;
  std::uint64_t value_ = 0;
  std::uint32_t number_ = 0;
  WireType type_ = WireType::varint;
};

} // namespace tilewright::onnx
