#include "runtime/sparse_options.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "support/error.h"

namespace tilewright {

namespace {

constexpr const char* forms = "zeros, mask:NAME or lengths:NAME, then :ROWSxCOLUMNS and @SHARE where wanted";

[[noreturn]] void wrong(const std::string& tensor, const std::string& text) {
  throw Error(Code::option, "sparse " + tensor, fmt::format("is '{}'", text), forms);
}

template <class T> bool number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool tile(std::string_view text, Sparse& s) {
  const std::size_t x = text.find('x');
  return x != std::string_view::npos && number(text.substr(0, x), s.tile_rows) &&
         number(text.substr(x + 1), s.tile_columns) && s.tile_rows > 0 && s.tile_columns > 0;
}

} // namespace

SparseOption parse_sparse(const std::string& tensor, const std::string& text) {
  SparseOption option;
  Sparse& s = option.sparse;
  std::string_view rest = text;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    if (!number(rest.substr(at + 1), option.live) || !(option.live >= 0 && option.live <= 1)) wrong(tensor, text);
    rest = rest.substr(0, at);
  }
  const std::string_view form = rest.substr(0, rest.find(':'));
  rest = form.size() < rest.size() ? rest.substr(form.size() + 1) : std::string_view();
  if (form == "mask" || form == "lengths") {
    s.form = form == "mask" ? Sparse::mask : Sparse::lengths;
    // A tensor's name may hold colons; a tile comes last.
    const std::size_t last = rest.rfind(':');
    if (last != std::string_view::npos && tile(rest.substr(last + 1), s)) rest = rest.substr(0, last);
    if (rest.empty()) wrong(tensor, text);
    s.of = rest;
    return option;
  }
  if (form != "zeros" || (!rest.empty() && !tile(rest, s))) wrong(tensor, text);
  return option;
}

void annotate(Program& p, const std::map<std::string, std::string>& by_tensor) {
  for (const auto& [name, text] : by_tensor) {
    const auto found =
        std::find_if(p.tensors.begin(), p.tensors.end(), [&, &n = name](const Tensor& t) { return t.name == n; });
    if (found == p.tensors.end())
      throw Error(Code::option, "sparse " + name, "there is no tensor of this name",
                  "`tilewright explain` prints the program's statements");
    found->sparse = parse_sparse(name, text).sparse;
  }
}

} // namespace tilewright
