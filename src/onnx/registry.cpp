#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

std::vector<Operator> all_rows() {
  std::vector<Operator> rows;
  for (auto table : {elementwise_operators, activation_operators, shape_operators, slice_operators, gather_operators,
                     scatter_operators, reduce_operators, matmul_operators, select_operators}) {
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

std::string operator_table() {
  std::string text =
      "# ONNX operators\n\n"
      "Made from the importer's operator table; a test compares the two. An operator or an attribute that is\n"
      "not listed is refused by name before anything runs. dtypes: what the tests cover; `float` is f32, f16,\n"
      "bf16 and f64, `int` is i8, u8, i32 and i64, `all` is both and bool.\n\n"
      "| operator | operator sets | dtypes | notes |\n| --- | --- | --- | --- |\n";
  for (const Operator& o : operators()) {
    std::string name = o.domain.empty() ? std::string(o.type) : fmt::format("{}.{}", o.domain, o.type);
    std::string range = o.until == 0 ? fmt::format("{}+", o.since) : fmt::format("{}-{}", o.since, o.until);
    text += fmt::format("| {} | {} | {} | {} |\n", name, range, o.dtypes, o.notes);
  }
  return text;
}

} // namespace tilewright::onnx
