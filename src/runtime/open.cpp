#include "runtime/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "expr/sizes.h"
#include "expr/text.h"
#include "onnx/import.h"
#include "onnx/reader.h"
#include "runtime/sparse_options.h"
#include "support/file.h"

namespace tilewright {

namespace {

std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw Error(Code::option, name, fmt::format("is '{}', must be a whole number from {} to {}", text, low, high));
  return value;
}

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

void parse_option(OpenOptions& o, const std::string& key, const std::string& value) {
  if (key.starts_with("size.")) {
    o.session.sizes.insert_or_assign(key.substr(5), parse_size(key, value).second);
  } else if (key == "device") {
    parse_device(value, key);
    o.session.device = value;
  } else if (key == "threads") {
    o.session.threads = static_cast<int>(parse_integer(key, value, 0, 1024));
  } else if (key == "isa") {
    if (!value.empty()) static_cast<void>(parse_isa(value));
    o.session.isa = value;
  } else if (key == "machine") {
    o.session.machine = value;
  } else if (key == "plan") {
    o.session.plan = value;
  } else if (key == "without") {
    o.session.without = parse_list(value);
  } else if (key == "fuse") {
    if (value != "on" && value != "off")
      throw Error(Code::option, key, fmt::format("is '{}', must be on or off", value));
    o.session.fuse = value == "on";
  } else if (key.starts_with("sparse.")) {
    static_cast<void>(parse_sparse(key.substr(7), value));
    o.session.sparse[key.substr(7)] = value;
  } else if (key == "sparse") {
    if (value != "auto" && value != "declared") throw Error(Code::option, key, fmt::format("is '{}', must be auto or declared", value));
    o.session.recognise = value == "auto";
  } else if (key == "strict") {
    if (value != "on" && value != "off") throw Error(Code::option, key, fmt::format("is '{}', must be on or off", value));
    o.session.strict = value == "on";
  } else if (key == "program") {
    o.program = value;
  } else {
    throw Error(Code::option, key, "is no option",
                "options are device, fuse, isa, machine, plan, program, size.NAME, sparse, sparse.NAME, strict, threads, without");
  }
}

std::vector<std::int64_t> numbers(const std::vector<Size>& dims) {
  std::vector<std::int64_t> n;
  for (const Size& d : dims) n.push_back(d.is_constant() ? d.constant() : -1);
  return n;
}

std::string dims_text(const std::vector<Size>& dims) {
  std::vector<std::string> words;
  for (const Size& d : dims) words.push_back(d.text());
  return fmt::format("[{}]", fmt::join(words, ", "));
}

// A constant's extents that are one free size give it its value.
void bind_by_shape(Program& p, const Tensor& t, const Array& a) {
  const auto want = numbers(t.dims);
  bool fits = a.dims.size() == want.size();
  for (std::size_t d = 0; fits && d < want.size(); ++d) fits = want[d] < 0 || want[d] == a.dims[d];
  if (!fits)
    throw Error(Code::input, t.name,
                fmt::format("has shape [{}], {} is wanted", fmt::join(a.dims, ", "), dims_text(t.dims)));
  for (SizeDecl& size : p.sizes)
    for (std::size_t d = 0; d < want.size(); ++d) {
      if (want[d] >= 0 || t.dims[d] != Size::symbol(size.name)) continue;
      if (a.dims[d] < size.range.low || a.dims[d] > size.range.high)
        throw Error(Code::input, t.name,
                    fmt::format("dim {} is {}, but {} must be {} to {}", d, a.dims[d], size.name, size.range.low,
                                size.range.high));
      size.value = Size(a.dims[d]);
    }
}

void open_weights(Program& p) {
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    Tensor& tensor = p.tensors[t];
    const bool empty = std::find(tensor.dims.begin(), tensor.dims.end(), Size(0)) != tensor.dims.end();
    if (tensor.kind != Kind::weight || !tensor.data.empty() || tensor.owner || empty) continue;
    tensor.kind = Kind::input;
    p.inputs.push_back(static_cast<TensorId>(t));
  }
}

void require_sizes(const Program& p, const Binding& given) {
  std::vector<std::string> names;
  for (const SizeDecl& s : p.sizes)
    if (!is_derived(s)) names.push_back(s.name);
  for (const auto& [name, value] : given)
    if (std::none_of(p.sizes.begin(), p.sizes.end(), [&, &n = name](const SizeDecl& s) { return s.name == n; }))
      throw Error(Code::option, name, fmt::format("program {} has no size of this name", p.name),
                  names.empty() ? "all its extents are fixed" : fmt::format("it has {}", fmt::join(names, ", ")));
}

Program from_text(std::string_view text, const std::string& file, const OpenOptions& o) {
  Program p = parse(text, file, o.program);
  require_sizes(p, o.session.sizes);
  bind_constants(p, o.constants);
  if (o.open_weights) open_weights(p);
  return p;
}

Program from_onnx(const onnx::Model& model, const OpenOptions& o) {
  if (!o.program.empty()) throw Error(Code::option, "program", "is for text files, which may hold several programs");
  return onnx::import_onnx(model, {o.session.sizes, o.constants});
}

void require_content(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.empty()) throw Error(Code::model, path, "is empty", "give an .onnx model or a .tw program");
}

// The first line of a file that is neither blank nor a comment.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) return {};
    const std::string_view line = text.substr(start, text.find('\n', start) - start);
    if (line[0] != '#') return line;
    text.remove_prefix(std::min(text.size(), start + line.size() + 1));
  }
  return {};
}

} // namespace

std::pair<std::string, std::int64_t> parse_size(const std::string& name, const std::string& value) {
  return {name, parse_integer(name, value, 0, std::int64_t{1} << 31)};
}

OpenOptions parse_options(const std::vector<std::pair<std::string, std::string>>& list) {
  OpenOptions o;
  for (const auto& [key, value] : list) parse_option(o, key, value);
  return o;
}

void bind_constants(Program& p, const std::map<std::string, Array>& constants) {
  for (const auto& [name, array] : constants) {
    const auto found = std::find_if(p.tensors.begin(), p.tensors.end(), [&, &n = name](const Tensor& t) {
      return t.name == n && t.kind != Kind::intermediate && t.data.empty();
    });
    if (found == p.tensors.end()) throw Error(Code::input, name, "there is no input or weight of this name");
    if (found->dtype != array.dtype)
      throw Error(Code::input, name, fmt::format("is {}, {} is wanted", name_of(array.dtype), name_of(found->dtype)));
    bind_by_shape(p, *found, array);
    const auto id = static_cast<TensorId>(found - p.tensors.begin());
    if (std::find(p.outputs.begin(), p.outputs.end(), id) != p.outputs.end())
      throw Error(Code::input, name, "is an output too, and cannot be a constant");
    found->kind = Kind::weight;
    found->data = {array.data, array.bytes()};
    found->owner = array.owner;
    std::erase(p.inputs, id);
  }
}

Format format_of(std::span<const std::byte> bytes) {
  constexpr std::size_t looked_at = 1 << 16;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), looked_at));
  const auto control = [](unsigned char c) { return c < 32 && c != '\n' && c != '\t' && c != '\r'; };
  if (std::any_of(text.begin(), text.end(), control)) return Format::onnx;
  return first_line(text).starts_with("program") || text.find("\nprogram") != std::string_view::npos ? Format::text
                                                                                                     : Format::onnx;
}

Program load_program(const std::string& path, const OpenOptions& o) {
  const Mapping file = map_file(path);
  const auto text = [&] {
    return std::string_view(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  };
  // A name that says text is believed, so that mistakes in it are told as such.
  if (path.ends_with(".tw")) return from_text(text(), path, o);
  require_content(file.bytes, path);
  if (format_of(file.bytes) == Format::text) return from_text(text(), path, o);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    Program p = from_onnx(onnx::read_model(path), o);
    for (const Tensor& t : p.tensors)
      release_mapping(t.data); // the reader has seen all of the file, but nobody needs it yet
    return p;
  }
  return from_onnx(onnx::read_model(file.bytes, {}, file.owner), o); // a pipe is read once
}

Program load_program(std::span<const std::byte> bytes, Format format, const OpenOptions& o,
                     std::shared_ptr<const void> owner) {
  require_content(bytes, {});
  if ((format == Format::guess ? format_of(bytes) : format) == Format::text)
    return from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "text", o);
  return from_onnx(onnx::read_model(bytes, {}, std::move(owner)), o);
}

} // namespace tilewright
