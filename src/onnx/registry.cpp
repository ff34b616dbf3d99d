#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "onnx/ops_tables.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

std::vector<Operator> all_rows() {
  std::vector<Operator> rows;
  for (auto table : {elementwise_operators, activation_operators, shape_operators, slice_operators, gather_operators,
                     scatter_operators, reduce_operators, matmul_operators, conv_operators, pool_operators,
                     norm_operators, attention_operators, resize_operators, select_operators, counted_operators,
                     box_operators, window_operators, quantised_operators}) {
    std::vector<Operator> part = table();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Operator& a, const Operator& b) {
    return std::tie(a.domain, a.type, a.since) < std::tie(b.domain, b.type, b.since);
  });
  return rows;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    auto end = std::min(text.find_first_of(" ,"), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Whether a dtype is one of those that a word of the table stands for.
bool takes(std::string_view word, DType d) {
  if (word == "any") return true;
  if (word == "all") return bytes_of(d) > 1 || !is_float(d);
  if (word == "f8") return is_float(d) && bytes_of(d) == 1;
  if (word == "number") return is_integer(d) || takes("float", d);
  if (word == "float") return is_float(d) && bytes_of(d) > 1;
  if (word == "int") return is_integer(d);
  if (word == "byte") return d == DType::i8 || d == DType::u8;
  if (word == "index") return d == DType::i32 || d == DType::i64;
  return dtype_named(word) == d;
}

struct Refused {
  std::string_view reason;
  std::vector<std::string_view> types;
};

// Those whose reason is worth a word.
const std::vector<Refused>& refused_operators() {
  static const std::vector<Refused> rows = {
      {"loops", {"Loop", "Scan", "SequenceMap"}},
      {"recurrences", {"GRU", "LSTM", "RNN"}},
      {"random numbers",
       {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}},
  };
  return rows;
}

} // namespace

const std::vector<Operator>& operators() {
  static const std::vector<Operator> rows = all_rows();
  return rows;
}

const Operator* find_operator(std::string_view domain, std::string_view type, int opset) {
  if (domain.empty() && (opset < oldest_opset || opset > newest_opset)) return nullptr;
  const Operator* best = nullptr;
  for (const Operator& o : operators()) {
    if (o.domain == domain && o.type == type && o.since <= opset && (o.until == 0 || opset <= o.until)) best = &o;
  }
  return best;
}

void check_dtypes(const Operator& o, const std::vector<std::optional<DType>>& inputs) {
  std::vector<std::string_view> kinds = words_of(o.inputs), claimed = words_of(o.dtypes.substr(0, o.dtypes.find(';')));
  std::map<char, std::size_t> first; // the input that decided what a letter stands for
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bool repeats = !kinds.empty() && kinds.back().ends_with('*');
    if (!inputs[i] || (i >= kinds.size() && !repeats)) continue;
    std::string_view kind = kinds[std::min(i, kinds.size() - 1)];
    if (kind.ends_with('*')) kind.remove_suffix(1);
    DType d = *inputs[i];
    bool letter = std::isupper(static_cast<unsigned char>(kind[0]));
    std::string_view what = !letter ? kind : kind.size() > 2 ? kind.substr(2) : "any";
    if (!takes(what, d))
      throw Error(Code::type, {}, fmt::format("{}: input {} is {}, {} is wanted", o.type, i, name_of(d), what));
    if (!letter) continue;
    if (kind == "T" && std::none_of(claimed.begin(), claimed.end(), [&](auto word) { return takes(word, d); })) {
      throw Error(Code::unsupported, {}, std::string(name_of(d)));
    }
    DType other = *inputs[first.emplace(kind[0], i).first->second];
    if (other != d) {
      throw Error(Code::type, {},
                  fmt::format("{}: inputs {} and {} are {} and {}, one type is wanted", o.type, first[kind[0]], i,
                              name_of(other), name_of(d)));
    }
  }
}

std::string reason_not_supported(std::string_view type) {
  for (const Refused& row : refused_operators()) {
    if (std::find(row.types.begin(), row.types.end(), type) != row.types.end())
      return fmt::format("this operator ({})", row.reason);
  }
  return "this operator";
}

std::string operator_table() {
  std::string text =
      "# ONNX operators\n\n"
      "Made from the importer's operator table; a test compares the two. An operator or an attribute that is\n"
      "not listed is refused by name before anything runs. inputs: a word an input; those of one capital\n"
      "letter have one dtype, `index` is i32 or i64, `number` is float or int, `*` repeats. dtypes: of the inputs\n"
      "T; `byte` is i8 and u8, `float` is f32, f16, bf16 and f64, `int` is i8, u8, i32 and i64, `all` is both and bool, `f8` is f8e4m3\n"
      "and f8e5m2.\n\n"
      "| operator | operator sets | inputs | dtypes | notes |\n| --- | --- | --- | --- | --- |\n";
  for (const Operator& o : operators()) {
    std::string name = o.domain.empty() ? std::string(o.type) : fmt::format("{}.{}", o.domain, o.type);
    std::string range = o.until == 0 ? fmt::format("{}+", o.since) : fmt::format("{}-{}", o.since, o.until);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, range, o.inputs, o.dtypes, o.notes);
  }
  text += "\n## Refused, and why\n\n";
  for (const Refused& row : refused_operators())
    text += fmt::format("- {}: {}.\n", fmt::join(row.types, ", "), row.reason);
  return text;
}

} // namespace tilewright::onnx
