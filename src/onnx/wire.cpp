#include "onnx/wire.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace tilewright::onnx {

namespace {

constexpr std::size_t quoted_limit = 80;

// The length of the UTF-8 sequence at the start of the text, or 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  unsigned a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf && follows(1)) return 2;
  if (a >= 0xe0 && a <= 0xef && follows(1) && follows(2)) {
    bool overlong = a == 0xe0 && b < 0xa0, surrogate = a == 0xed && b > 0x9f;
    return overlong || surrogate ? 0 : 3;
  }
  if (a >= 0xf0 && a <= 0xf4 && follows(1) && follows(2) && follows(3)) {
    bool overlong = a == 0xf0 && b < 0x90, beyond = a == 0xf4 && b > 0x8f;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

const char* name_of(WireType type) {
  switch (type) {
  case WireType::varint: return "a varint";
  case WireType::fixed64: return "a 64-bit value";
  case WireType::length: return "length-delimited";
  case WireType::fixed32: return "a 32-bit value";
  case WireType::group:
  case WireType::group_end: break;
  }
  return "a group";
}

} // namespace

std::string in_quotes(std::string_view name) {
  std::string text = "'";
  while (!name.empty()) {
    if (text.size() > quoted_limit) return text + "...'";
    std::size_t length = utf8_length(name);
    unsigned first = static_cast<unsigned char>(name[0]);
    bool control = length == 1 && (first < 0x20 || first == 0x7f);
    if (length == 0 || control) {
      text += fmt::format("\\x{:02x}", first);
      length = 1;
    } else {
      text += name.substr(0, length);
    }
    name.remove_prefix(length);
  }
  return text + "'";
}

std::string Place::text() const {
  std::vector<const Place*> chain;
  for (const Place* p = this; p->outer; p = p->outer) chain.push_back(p);
  std::string text;
  constexpr std::size_t shown = 8; // of a deep nest the innermost places tell most
  if (chain.size() > shown) {
    chain.resize(shown);
    text = "..., ";
  }
  for (std::size_t i = chain.size(); i-- > 0;) {
    const Place& p = *chain[i];
    text += p.kind;
    if (p.index >= 0) text += fmt::format(" {}", p.index);
    if (p.name && !p.name->empty()) text += ' ' + in_quotes(*p.name);
    if (p.op && !p.op->empty()) {
      std::string shown_op = in_quotes(*p.op);
      text += fmt::format(" ({})", std::string_view(shown_op).substr(1, shown_op.size() - 2));
    }
    if (i > 0) text += ", ";
  }
  return text;
}

void fail(Code code, const Place& place, const std::byte* at, const std::string& message, std::string hint) {
  std::string where = fmt::format("{}, byte {}", place.source->file, at - place.source->bytes.data());
  std::string text = place.text();
  throw Error(code, where, text.empty() ? message : text + ": " + message, std::move(hint));
}

Wire::Wire(std::span<const std::byte> message, const Place& place)
    : at_(message.data()), end_(message.data() + message.size()), field_(message.data()), place_(place) {
  if (place.depth > depth_limit) bad(fmt::format("messages are nested more than {} deep", depth_limit));
}

std::uint64_t Wire::varint_at(const std::byte*& at, const std::byte* end) const {
  std::uint64_t value = 0;
  const std::byte* start = at;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at == end) fail(place_, start, fmt::format("the data ends inside a number (field {})", number_));
    std::uint64_t byte = std::to_integer<std::uint64_t>(*at++);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail(place_, start, fmt::format("a number has more than 64 bits (field {})", number_));
}

std::span<const std::byte> Wire::take(std::uint64_t count) {
  std::uint64_t left = static_cast<std::uint64_t>(end_ - at_);
  if (count > left) bad(fmt::format("field {} says it has {} bytes, but {} are left", number_, count, left));
  std::span<const std::byte> bytes(at_, static_cast<std::size_t>(count));
  at_ += count;
  return bytes;
}

void Wire::payload_of(WireType type) {
  switch (type) {
  case WireType::varint: value_ = varint_at(at_, end_); return;
  case WireType::fixed64: bytes_ = take(8); return;
  case WireType::fixed32: bytes_ = take(4); return;
  case WireType::length: bytes_ = take(varint_at(at_, end_)); return;
  case WireType::group:
  case WireType::group_end: break;
  }
  bad(fmt::format("field {} has wire type {}, which does not exist", number_, static_cast<int>(type)));
}

bool Wire::next() {
  if (at_ == end_) return false;
  field_ = at_;
  number_ = 0;
  std::uint64_t tag = varint_at(at_, end_);
  if (tag >> 32 || tag < 8) bad(fmt::format("{} is no field of a message", tag));
  number_ = static_cast<std::uint32_t>(tag >> 3);
  type_ = static_cast<WireType>(tag & 7);
  if (type_ == WireType::group_end) bad(fmt::format("group {} ends, but never began", number_));
  if (type_ == WireType::group)
    skip_group();
  else
    payload_of(type_);
  return true;
}

void Wire::skip_group() {
  std::array<std::uint32_t, depth_limit> open;
  std::size_t depth = 0;
  open[depth++] = number_;
  while (depth > 0) {
    if (at_ == end_) bad(fmt::format("group {} does not end", open[depth - 1]));
    std::uint64_t tag = varint_at(at_, end_);
    if (tag >> 32 || tag < 8) bad(fmt::format("{} is no field of a message", tag));
    number_ = static_cast<std::uint32_t>(tag >> 3);
    WireType type = static_cast<WireType>(tag & 7);
    if (type == WireType::group) {
      if (depth == open.size()) bad(fmt::format("groups are nested more than {} deep", depth_limit));
      open[depth++] = number_;
    } else if (type == WireType::group_end) {
      if (open[--depth] != number_) bad(fmt::format("group {} ends as group {}", open[depth], number_));
    } else {
      payload_of(type);
    }
  }
  bytes_ = {};
}

void Wire::expect(WireType type, const char* name) const {
  if (type_ != type)
    bad(fmt::format("{} (field {}) is {} where it should be {}", name, number_, name_of(type_), name_of(type)));
}

std::uint64_t Wire::varint(const char* name) const {
  expect(WireType::varint, name);
  return value_;
}

float Wire::float32(const char* name) const {
  expect(WireType::fixed32, name);
  float value;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view Wire::text(const char* name) const {
  expect(WireType::length, name);
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

std::span<const std::byte> Wire::message(const char* name) const {
  expect(WireType::length, name);
  return bytes_;
}

std::span<const std::byte> Wire::fixed(const char* name, std::size_t width) const {
  if (type_ == (width == 4 ? WireType::fixed32 : WireType::fixed64)) return bytes_;
  expect(WireType::length, name);
  if (bytes_.size() % width != 0)
    bad(fmt::format("{} (field {}) has {} bytes, which is no multiple of {}", name, number_, bytes_.size(), width));
  return bytes_;
}

} // namespace tilewright::onnx
