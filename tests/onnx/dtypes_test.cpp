// Every input of every operator with every dtype: imported and run, or refused with a dtype's code; and always refused
// where the schema binds the input to the type of another one.
#include <gtest/gtest.h>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "onnx/import.h"
#include "onnx/operator_models.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

constexpr int element_types[] = {1, 2, 3, 6, 7, 9, 10, 11, 16, 17, 19};

// The words of the operator's row, one an input of the node.
std::vector<std::string> words_of(const Node& node) {
  const Operator* o = find_operator("", node.op_type, static_cast<int>(node.opset));
  std::vector<std::string> words = split_text(std::string(o->inputs), ' '), result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    std::string word = words[std::min(i, words.size() - 1)];
    result.push_back(word.substr(0, word.find_first_of(":*")));
  }
  return result;
}

// Gives input i another type; its elements stay numbers.
void retype(OperatorModel& m, std::string_view name, int element) {
  for (ValueInfo& v : m.model.graph.inputs)
    if (v.name == name) v.type.element = element;
  for (Tensor& t : m.model.graph.initializers) {
    if (t.name != name) continue;
    std::vector<double> values;
    Array old = Array::make(*t.dtype, t.dims);
    std::memcpy(old.data, t.bytes.data(), t.bytes.size());
    for (std::int64_t i = 0; i < old.count(); ++i) values.push_back(real_at(old, i));
    t.element = element, t.dtype = dtype_of_element(element);
    set_values(t, values);
  }
}

int element_of(const OperatorModel& m, std::string_view name) {
  for (const ValueInfo& v : m.model.graph.inputs)
    if (v.name == name) return v.type.element;
  for (const Tensor& t : m.model.graph.initializers)
    if (t.name == name) return t.element;
  return 0;
}

// Nothing where the model is imported; else the error.
std::optional<Error> refusal(const Model& model) {
  try {
    verify(import_onnx(model));
    return {};
  } catch (const Error& e) {
    return e;
  }
}

TEST(ImportDtypes, EveryInputWithEveryType) {
  int taken = 0, refused = 0;
  for (const std::string& line : operator_lines()) {
    const OperatorModel original = operator_model(line);
    const std::vector<std::string_view> names = original.model.graph.nodes[0].inputs;
    const std::vector<std::string> words = words_of(original.model.graph.nodes[0]);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) continue;
      bool bound = false;
      for (std::size_t k = 0; k < names.size(); ++k)
        bound = bound || (k != i && !names[k].empty() && words[k] == words[i] &&
                          std::isupper(static_cast<unsigned char>(words[k][0])));
      for (int element : element_types) {
        OperatorModel m = operator_model(line);
        if (element_of(m, names[i]) == element) continue;
        retype(m, m.model.graph.nodes[0].inputs[i], element);
        auto e = refusal(m.model);
        std::string what = line + ": input " + std::to_string(i) + " of " + element_name(element);
        bool by_type = e && (e->code == Code::type || e->code == Code::unsupported);
        EXPECT_TRUE(by_type || !bound) << what << (e ? e->what() : "");
        EXPECT_FALSE(e && e->code == Code::internal) << what << ": " << e->what();
        ++(e ? refused : taken);
      }
    }
  }
  std::printf("%d taken, %d refused\n", taken, refused);
  EXPECT_GT(taken, 500);
  EXPECT_GT(refused, 1000);
}

TEST(ImportDtypes, TheMessageNamesOperatorInputAndTypes) {
  auto message = [](const std::string& line) {
    OperatorModel m = operator_model(line);
    return std::string(refusal(m.model).value().what());
  };
  EXPECT_EQ(message("Add@14 f32[2] i64[2]"), "E0103 node: Add: inputs 0 and 1 are f32 and i64, one type is wanted");
  EXPECT_EQ(message("Gather@13 f32[2] f32[2]"), "E0103 node: Gather: input 1 is f32, index is wanted");
  EXPECT_EQ(message("RMSNormalization@23 i8[2,3] f32[3]"),
            "E0401 'node' (RMSNormalization, opset 23): not supported: i8");
  EXPECT_EQ(message("RMSNormalization@23 f32[2,3] i8[3]"),
            "E0103 node: RMSNormalization: input 1 is i8, float is wanted");
}

} // namespace
} // namespace tilewright::onnx
