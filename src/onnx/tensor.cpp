// TensorProto: its data may lie in raw_data, in one of five typed fields (packed or not), or in a file beside the
// model. raw_data, external data and packed float_data and double_data are used where they lie; the rest is decoded
// into a buffer whose size the bytes of the message bound. Sizes are checked against dims before anything is believed.
#include "onnx/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tilewright::onnx {

namespace {

// Field numbers of TensorProto that carry data.
constexpr std::uint32_t float_data = 4, int32_data = 5, string_data = 6, int64_data = 7, raw_data = 9, double_data = 10,
                        uint64_data = 11;

const char* field_name(std::uint32_t number) {
  switch (number) {
  case float_data: return "float_data";
  case int32_data: return "int32_data";
  case string_data: return "string_data";
  case int64_data: return "int64_data";
  case double_data: return "double_data";
  case uint64_data: return "uint64_data";
  default: return "raw_data";
  }
}

// The typed field that an element type uses, or 0.
std::uint32_t field_of(int type) {
  switch (type) {
  case element::float32:
  case element::complex64: return float_data;
  case element::float64:
  case element::complex128: return double_data;
  case element::int64: return int64_data;
  case element::uint32:
  case element::uint64: return uint64_data;
  case element::string: return string_data;
  default: return element_bits(type) > 0 ? int32_data : 0;
  }
}

struct External {
  std::string_view location, offset, length;
};

// Everything of the message but its elements.
struct Header {
  bool external = false;
  External where;
  bool has_raw = false;
  std::span<const std::byte> raw;
  std::uint32_t typed = 0;          // the typed field that has data
  int chunks = 0;                   // how often it occurs
  std::span<const std::byte> chunk; // its payload, if packed
};

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    if (i == 16) return text + "...]";
    text += fmt::format("{}{}", i > 0 ? ", " : "", tensor.dims[i]);
  }
  return text + "]";
}

std::string wanted(const Tensor& tensor) {
  return fmt::format("{} elements of {} ({})", tensor.count, element_name(tensor.element), shape_text(tensor));
}

void read_external_entry(const Place& place, std::span<const std::byte> message, External& external) {
  std::string_view key, value;
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() == 1) key = wire.text("key");
    if (wire.number() == 2) value = wire.text("value");
  }
  if (key == "location") external.location = value;
  if (key == "offset") external.offset = value;
  if (key == "length") external.length = value;
}

void note_typed_data(const Wire& wire, Header& header) {
  bool packed = wire.type() == WireType::length;
  if (packed && wire.payload().empty()) return;
  if (header.typed != 0 && header.typed != wire.number())
    wire.bad(fmt::format("has data both in {} and in {}", field_name(header.typed), field_name(wire.number())));
  header.typed = wire.number();
  ++header.chunks;
  header.chunk = packed ? wire.payload() : std::span<const std::byte>();
}

Header read_header(const Place& place, std::span<const std::byte> message, Tensor& tensor) {
  Header header;
  for (Wire wire(message, place); wire.next();) {
    switch (wire.number()) {
    case 1:
      wire.varints("dims", [&](std::uint64_t v) {
        if (v >> 63) wire.bad(fmt::format("dimension {} is negative", static_cast<std::int64_t>(v)));
        tensor.dims.push_back(static_cast<std::int64_t>(v));
      });
      break;
    case 2: tensor.element = wire.integer32("data_type"); break;
    case 3: wire.bad("is stored in segments, which ONNX no longer defines");
    case string_data: tensor.strings.push_back(wire.text("string_data")); break;
    case float_data:
    case int32_data:
    case int64_data:
    case double_data:
    case uint64_data: note_typed_data(wire, header); break;
    case 8: tensor.name = wire.text("name"); break;
    case raw_data:
      header.raw = wire.message("raw_data");
      header.has_raw = true;
      break;
    case 13: read_external_entry(place, wire.message("external_data"), header.where); break;
    case 14: {
      std::int32_t location = wire.integer32("data_location");
      if (location != 0 && location != 1) wire.bad(fmt::format("data_location is {}, which is not defined", location));
      header.external = location == 1;
      break;
    }
    default: break;
    }
  }
  return header;
}

// The product of dims; and the bytes they need, where the element type has a size.
std::uint64_t measure(const Place& place, const std::byte* at, Tensor& tensor) {
  bool empty = std::find(tensor.dims.begin(), tensor.dims.end(), 0) != tensor.dims.end();
  std::uint64_t count = empty ? 0 : 1, bits = 0;
  bool overflow = false;
  for (std::int64_t dim : tensor.dims)
    overflow = overflow || (!empty && __builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count));
  overflow = overflow || count > INT64_MAX / 8 ||
             __builtin_mul_overflow(count, static_cast<std::uint64_t>(element_bits(tensor.element)), &bits);
  if (overflow) fail(place, at, fmt::format("dims {} are more elements than there can be", shape_text(tensor)));
  tensor.count = static_cast<std::int64_t>(count);
  return bits / 8 + (bits % 8 != 0);
}

std::uint64_t read_number(std::string_view text, const char* key, std::uint64_t otherwise, const Place& place,
                          const std::byte* at) {
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Code::external, place, at, fmt::format("{} {} of its external data is no number", key, in_quotes(text)));
  return value;
}

void use_external(Reading& reading, const Place& place, const std::byte* at, const External& external,
                  std::uint64_t bytes, Tensor& tensor) {
  if (tensor.element == element::string || element_bits(tensor.element) == 0)
    fail(place, at, fmt::format("has external data, which {} cannot have", element_name(tensor.element)));
  const Mapping& file = reading.external.open(external.location, place, at);
  std::uint64_t offset = read_number(external.offset, "offset", 0, place, at);
  std::uint64_t length = read_number(external.length, "length", bytes, place, at);
  if (length != bytes)
    fail(Code::external, place, at,
         fmt::format("{} need {} bytes, but its external data says {}", wanted(tensor), bytes, length));
  std::uint64_t size = file.bytes.size();
  if (offset > size || bytes > size - offset)
    fail(Code::external, place, at,
         fmt::format("external data {} is too short: {} bytes from byte {} on are needed, it has {}",
                     in_quotes(external.location), bytes, offset, size),
         "the data file may be of another model, or not copied to its end");
  tensor.external = external.location;
  tensor.bytes = file.bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  tensor.owner = file.owner;
}

// Collects decoded elements, never more than dims ask for.
struct Decoder {
  const Wire& wire;
  const Tensor& tensor;
  std::uint64_t limit;
  std::vector<std::byte>& out;

  void append(const void* data, std::size_t size) {
    if (size > limit - out.size())
      wire.bad(fmt::format("{} has more than {}", field_name(wire.number()), wanted(tensor)));
    auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
  }

  // int32_data holds the bits of narrower types, as signed or unsigned numbers.
  void append_narrow(std::uint64_t varint, std::size_t width) {
    auto value = static_cast<std::int32_t>(varint);
    std::int64_t half = std::int64_t{1} << (8 * width - 1);
    if (tensor.element == element::boolean) value = value != 0;
    if (value < -half || value >= 2 * half)
      wire.bad(fmt::format("int32_data holds {}, which is no {}", value, element_name(tensor.element)));
    append(&value, width);
  }

  void append_unsigned(std::uint64_t varint, std::size_t width) {
    if (width == 4 && varint >> 32)
      wire.bad(fmt::format("uint64_data holds {}, which is no {}", varint, element_name(tensor.element)));
    append(&varint, width);
  }
};

void decode_typed(Reading& reading, const Place& place, std::span<const std::byte> message, const Header& header,
                  std::uint64_t bytes, Tensor& tensor) {
  if (header.chunks == 1 && (header.typed == float_data || header.typed == double_data) && !header.chunk.empty()) {
    tensor.bytes = header.chunk; // packed floats are what raw_data would be
    tensor.owner = reading.owner;
    return;
  }
  int bits = element_bits(tensor.element);
  auto width = static_cast<std::size_t>(std::max(bits, 8) / 8);
  auto buffer = std::make_shared<std::vector<std::byte>>();
  buffer->reserve(std::min<std::uint64_t>(bytes, message.size() * 8));
  for (Wire wire(message, place); wire.next();) {
    if (wire.number() != header.typed) continue;
    Decoder elements{wire, tensor, bytes, *buffer};
    const char* name = field_name(header.typed);
    if (header.typed == float_data || header.typed == double_data) {
      std::span<const std::byte> run = wire.fixed(name, header.typed == float_data ? 4 : 8);
      elements.append(run.data(), run.size());
    } else if (header.typed == int32_data) {
      wire.varints(name, [&](std::uint64_t v) { elements.append_narrow(v, width); });
    } else {
      wire.varints(name, [&](std::uint64_t v) { elements.append_unsigned(v, width); });
    }
  }
  tensor.bytes = *buffer;
  tensor.owner = buffer;
}

// A bool other than 0 and 1 would be true for one reader and false for another.
void normalise_bools(Tensor& tensor) {
  auto one_or_less = [](std::byte b) { return b <= std::byte{1}; };
  if (tensor.element != element::boolean || std::all_of(tensor.bytes.begin(), tensor.bytes.end(), one_or_less)) return;
  auto buffer = std::make_shared<std::vector<std::byte>>(tensor.bytes.begin(), tensor.bytes.end());
  for (std::byte& b : *buffer) b = b == std::byte{0} ? b : std::byte{1};
  tensor.bytes = *buffer;
  tensor.owner = buffer;
}

void check_sources(const Place& place, const std::byte* at, const Header& header, const Tensor& tensor) {
  std::uint32_t expected = field_of(tensor.element);
  std::uint32_t typed = tensor.strings.empty() ? header.typed : string_data;
  if (header.typed != 0 && !tensor.strings.empty()) fail(place, at, "has data both in string_data and elsewhere");
  if (typed != 0 && !header.raw.empty())
    fail(place, at, fmt::format("has data both in {} and in raw_data", field_name(typed)));
  if (typed != 0 && header.external) fail(place, at, "has data both in the model and in a file");
  if (typed != 0 && typed != expected)
    fail(place, at, fmt::format("has {} in {}", element_name(tensor.element), field_name(typed)));
  if (!header.raw.empty() && tensor.element == element::string) fail(place, at, "has strings in raw_data");
  if (typed == int32_data && element_bits(tensor.element) == 6)
    fail(Code::unsupported, place, at, fmt::format("has {} in int32_data", element_name(tensor.element)));
}

} // namespace

void read_tensor(Reading& reading, const Place& place, std::span<const std::byte> message, Tensor& tensor) {
  const std::byte* at = message.data();
  Header header = read_header(place, message, tensor);
  if (tensor.element == element::undefined) fail(place, at, "has no data_type");
  tensor.dtype = dtype_of_element(tensor.element);
  check_sources(place, at, header, tensor);
  std::uint64_t bytes = measure(place, at, tensor);
  if (header.external) {
    use_external(reading, place, at, header.where, bytes, tensor);
  } else if (tensor.element == element::string) {
    if (tensor.strings.size() != static_cast<std::uint64_t>(tensor.count))
      fail(place, at, fmt::format("{} are expected, string_data has {}", wanted(tensor), tensor.strings.size()));
    return;
  } else if (header.typed != 0) {
    decode_typed(reading, place, message, header, bytes, tensor);
  } else {
    tensor.bytes = header.raw;
    tensor.owner = reading.owner;
    if (element_bits(tensor.element) == 0) return; // a type we do not know: its size is not ours to check
  }
  if (tensor.bytes.size() != bytes) {
    std::string source = header.typed || header.has_raw
                             ? fmt::format("{} has {}", field_name(header.typed), tensor.bytes.size())
                             : "it has no data";
    fail(place, at, fmt::format("{} need {} bytes, but {}", wanted(tensor), bytes, source));
  }
  normalise_bools(tensor);
}

} // namespace tilewright::onnx
