#include "onnx/symbols.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <functional>
#include <optional>

#include "support/error.h"

namespace tilewright::onnx {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.'; }

// sum = product {(+|-) product}; product = factor {(*|//) factor}; factor = number | name | "(" sum ")".
struct Parser {
  std::string_view text;
  const std::function<Size(const std::string&)>& symbol;
  std::size_t at = 0;
  int depth = 0;
  bool good = true;

  void skip() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool take(std::string_view word) {
    skip();
    if (text.substr(at, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  Size factor() {
    skip();
    if (++depth > 100 || at >= text.size()) {
      good = false;
      return 0;
    }
    std::size_t start = at;
    if (take("(")) {
      Size s = sum();
      good = good && take(")");
      return s;
    }
    if (starts_name(text[at])) {
      while (at < text.size() && continues_name(text[at])) ++at;
      return symbol(std::string(text.substr(start, at - start)));
    }
    std::int64_t v = 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && v < 1'000'000'000)
      v = 10 * v + (text[at++] - '0');
    good = good && at > start;
    return v;
  }
  Size product() {
    Size s = factor();
    while (good) {
      if (take("//")) {
        Size d = factor();
        good = good && d != Size(0);
        if (good) s = floor_div(s, d);
      } else if (take("*")) {
        s = s * factor();
      } else {
        break;
      }
    }
    return s;
  }
  Size sum() {
    Size s = product();
    while (good) {
      if (take("+"))
        s = s + product();
      else if (take("-"))
        s = s - product();
      else
        break;
    }
    return s;
  }
};

bool is_expression(std::string_view text) {
  std::function<Size(const std::string&)> any = [](const std::string& name) { return Size::symbol(name); };
  Parser p{text, any};
  try {
    Size s = p.sum();
    p.skip();
    return p.good && p.at == text.size() && !s.is_constant();
  } catch (const Error&) {
    return false;
  }
}

} // namespace

Symbols::Symbols(const Graph& graph, const Binding& bound) : bound_(bound) {
  for (const ValueInfo& v : graph.inputs) taken_.emplace(v.name);
  for (const ValueInfo& v : graph.outputs) taken_.emplace(v.name);
}

Size Symbols::symbol(const std::string& name) {
  std::string own = taken_.contains(name) ? name + ".size" : name;
  auto given = bound_.find(own);
  if (seen_.insert(own).second && given == bound_.end()) free_.push_back(own);
  if (given == bound_.end()) return Size::symbol(own);
  if (given->second < 0) throw Error(Code::size, name, fmt::format("size {} is negative", given->second));
  return given->second;
}

std::vector<Size> Symbols::dims(const ValueInfo& v) {
  std::vector<Size> result;
  std::function<Size(const std::string&)> name_to_size = [&](const std::string& name) { return symbol(name); };
  for (std::size_t i = 0; i < v.type.dims.size(); ++i) {
    const Dim& d = v.type.dims[i];
    if (d.fixed())
      result.emplace_back(d.value);
    else if (!d.named() || d.name == "?")
      result.push_back(symbol(fmt::format("{}.{}", v.name, i)));
    else if (is_expression(d.name))
      result.push_back(Parser{d.name, name_to_size}.sum());
    else
      result.push_back(symbol(std::string(d.name)));
    if (result.back().range().high < 0) {
      throw Error(Code::size, std::string(v.name), fmt::format("dimension {} is {}", i, result.back().text()));
    }
  }
  std::int64_t count = 1;
  for (const Size& s : result) {
    if (s.is_constant() && s.constant() > 0) count = checked_mul(count, s.constant());
  }
  return result;
}

void Symbols::finish() const {
  for (const auto& [name, value] : bound_) {
    if (seen_.contains(name)) continue;
    throw Error(Code::option, name, "the model has no free dimension of this name",
                seen_.empty() ? "all its dimensions are fixed" : fmt::format("it has {}", fmt::join(seen_, ", ")));
  }
}

std::vector<SizeDecl> Symbols::declarations() const {
  std::vector<SizeDecl> result;
  for (const std::string& name : free_) {
    SizeDecl d;
    d.name = name;
    d.range.low = 1; // an empty one is asked for with --size
    result.push_back(d);
  }
  return result;
}

} // namespace tilewright::onnx
