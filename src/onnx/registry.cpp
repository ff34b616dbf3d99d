#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::vector<Operator> all_rows() {
  std::vector<Operator> rows;
  for (auto table : {elementwise_operators, activation_operators, shape_operators, slice_operators, gather_operators,
                     scatter_operators, reduce_operators, matmul_operators, conv_operators, pool_operators,
                     norm_operators, attention_operators, resize_operators, select_operators, window_operators}) {
    std::vector<Operator> part = table();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Operator& a, const Operator& b) {
    return std::tie(a.domain, a.type, a.since) < std::tie(b.domain, b.type, b.since);
  });
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

bool takes(const Operator& o, DType d) {
  std::string_view rest = o.dtypes.substr(0, o.dtypes.find(';'));
  while (!rest.empty()) {
    auto end = rest.find_first_of(" ,");
    std::string_view word = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    bool narrow = bytes_of(d) == 1;
    if (word == "all" || (word == "float" && is_float(d) && !narrow) || (word == "int" && is_integer(d))) return true;
    if (dtype_named(word) == d) return true;
  }
  return false;
}

std::string reason_not_supported(std::string_view type) {
  struct Row {
    std::string_view reason;
    std::vector<std::string_view> types;
  };
  static const std::vector<Row> rows = {
      {"how many results it has is known only at run time", {"Compress", "NonMaxSuppression", "NonZero", "Unique"}},
      {"loops", {"Loop", "Scan", "SequenceMap"}},
      {"recurrences", {"GRU", "LSTM", "RNN"}},
      {"random numbers",
       {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}},
  };
  for (const Row& row : rows) {
    if (std::find(row.types.begin(), row.types.end(), type) != row.types.end())
      return fmt::format("this operator ({})", row.reason);
  }
  return "this operator";
}

std::string operator_table() {
  std::string text =
      "# ONNX operators\n\n"
      "Made from the importer's operator table; a test compares the two. An operator or an attribute that is\n"
      "not listed is refused by name before anything runs. dtypes: of the first input; `float` is f32, f16,\n"
      "bf16 and f64, `int` is i8, u8, i32 and i64, `all` is every dtype there is, f8e4m3 and f8e5m2 included.\n\n"
      "| operator | operator sets | dtypes | notes |\n| --- | --- | --- | --- |\n";
  for (const Operator& o : operators()) {
    std::string name = o.domain.empty() ? std::string(o.type) : fmt::format("{}.{}", o.domain, o.type);
    std::string range = o.until == 0 ? fmt::format("{}+", o.since) : fmt::format("{}-{}", o.since, o.until);
    text += fmt::format("| {} | {} | {} | {} |\n", name, range, o.dtypes, o.notes);
  }
  return text;
}

} // namespace tilewright::onnx
