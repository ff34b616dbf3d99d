// Whatever is done to the graph of a model, it is imported or refused: dtypes swapped, ranks and dims changed,
// attributes removed or extreme, inputs missing, doubled or no longer known, initializers with other values or too few
// bytes. What is imported verifies (but for a size that leaves 64 bits) and is evaluated. An assertion, another
// exception than Error, or a second of thinking fails the test. TILEWRIGHT_LONG=1 tries more; TILEWRIGHT_SEED=n tries
// the n-th only.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "onnx/import.h"
#include "onnx/mutate.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

struct Outcome {
  std::string what;    // "evaluated", "too large", or the id of an error
  std::string failure; // what must not be
};

Outcome import_and_run(const Model& model, std::mt19937_64& random) {
  std::string stage = "import";
  try {
    Program p = import_onnx(model);
    stage = "verify";
    verify(p);
    stage = "evaluate";
    Binding sizes;
    for (const SizeDecl& s : p.sizes)
      if (!s.value)
        sizes[s.name] =
            std::clamp<std::int64_t>(1 + static_cast<std::int64_t>(random() % 4), s.range.low, s.range.high);
    if (!small(p, sizes)) return {"too large", {}};
    evaluate(p, inputs_of(p, sizes, random), sizes, Evaluation::typed);
    return {"evaluated", {}};
  } catch (const Error& e) {
    std::string what(id_of(e.code));
    if (e.code == Code::internal || (stage == "verify" && e.code != Code::size)) return {what, stage + ": " + e.what()};
    return {stage == "import" ? what : stage + " " + what, {}};
  } catch (const std::exception& e) {
    return {"exception", stage + ": " + e.what()};
  }
}

TEST(ImportMutation, EveryOperatorHasAModelThatRuns) {
  std::set<std::string_view> covered;
  for (const std::string& line : operator_lines()) {
    OperatorModel m = operator_model(line);
    std::mt19937_64 random(1);
    Outcome o = import_and_run(m.model, random);
    EXPECT_EQ(o.what, "evaluated") << line << "\n" << o.failure;
    if (o.what != "evaluated" && o.failure.empty()) {
      try {
        import_onnx(m.model);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
    for (const Operator& op : operators())
      if (op.type == m.model.graph.nodes[0].op_type) covered.insert(op.type);
  }
  for (const Operator& o : operators()) EXPECT_TRUE(covered.contains(o.type)) << o.type;
}

TEST(ImportMutation, DamagedGraphsAreImportedOrRefused) {
  const char* only = std::getenv("TILEWRIGHT_SEED");
  std::uint64_t rounds = std::getenv("TILEWRIGHT_LONG") ? 400000 : 20000;
  std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 0;
  std::map<std::string, int> outcomes;
  int failures = 0;
  for (std::uint64_t seed = first; seed < (only ? first + 1 : rounds) && failures < 20; ++seed) {
    const std::string& line = operator_lines()[seed % operator_lines().size()];
    OperatorModel m = operator_model(line);
    Mutator mutator{m, std::mt19937_64(seed), {}};
    for (std::size_t k = 1 + mutator.below(3); k > 0; --k) mutator.mutate();
    auto start = std::chrono::steady_clock::now();
    Outcome o = import_and_run(m.model, mutator.random);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() > 1) o.failure += " took " + std::to_string(took.count()) + " s";
    ++outcomes[o.what];
    if (o.failure.empty()) continue;
    ++failures;
    ADD_FAILURE() << "TILEWRIGHT_SEED=" << seed << " " << line << ":" << mutator.log << "\n" << o.failure;
  }
  for (const auto& [what, count] : outcomes) std::printf("%6d %s\n", count, what.c_str());
  if (only) return;
  EXPECT_GT(outcomes["evaluated"], static_cast<int>(rounds / 10));
  EXPECT_GT(outcomes["E0401"], static_cast<int>(rounds / 50));
}

} // namespace
} // namespace tilewright::onnx
