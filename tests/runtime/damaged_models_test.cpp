// Damaged models through the whole house: whatever the importer takes and the evaluator runs, a session plans and runs
// too, and gives the same; what the evaluator refuses while it runs, a session refuses. TILEWRIGHT_LONG=1 tries more;
// TILEWRIGHT_SEED=n tries the n-th only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "expr/evaluate.h"
#include "expr/results.h"
#include "expr/text.h"
#include "onnx/import.h"
#include "onnx/mutate.h"
#include "runtime/session.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

// As in session_test.cpp, but by element: twice what the evaluator's own roundings are measured to move, and what f32
// sums may differ, of the largest.
std::string difference(const Array& got, const Array& want, const Array& exact) {
  if (got.dtype != want.dtype || got.dims != want.dims) return "another dtype or shape";
  if (!is_float(want.dtype)) return {};
  double most = 1e-3, moved = 0;
  for (std::int64_t i = 0; i < want.count(); ++i) {
    double b = real_at(want, i), c = real_at(exact, i);
    if (std::isfinite(b)) most = std::max(most, std::abs(b));
    if (std::isfinite(b) && std::isfinite(c)) moved = std::max(moved, std::abs(b - c));
  }
  for (std::int64_t i = 0; i < want.count(); ++i) {
    double a = real_at(got, i), b = real_at(want, i);
    if (std::abs(b) > 1e30) continue; // a scale may be folded into another factor, and that overflow
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 2 * moved + 1e-5 * most) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + " instead of " + std::to_string(b);
  }
  return {};
}

struct Outcome {
  std::string what, failure;
};

std::optional<Program> imported(const Model& model, std::mt19937_64& random, Values& inputs) {
  try {
    Program p = import_onnx(model);
    verify(p);
    Binding sizes = small_sizes(p, random);
    if (!small(p, sizes)) return {};
    p = fix_sizes(p, sizes);
    inputs = inputs_of(p, {}, random);
    return p;
  } catch (const Error&) {
    return {};
  }
}

std::vector<Array> planned(const Program& p, const Values& inputs) {
  SessionOptions options;
  options.threads = 2;
  Session session(p, options);
  std::vector<Array> out;
  std::vector<Strided> given, taken;
  for (TensorId t : p.inputs) given.push_back(dense(inputs.at(t)));
  for (TensorId t : p.outputs) out.push_back(Array::make(p.tensor(t).dtype, dims_of(p.tensor(t))));
  for (const Array& a : out) taken.push_back(dense(a));
  const auto found = session.run(given, taken);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = first_rows(out[i], found[i]);
  return out;
}

Outcome compare(const Program& p, const Values& inputs) {
  std::optional<Values> want;
  std::string refused;
  try {
    want = evaluate(p, inputs, {}, Evaluation::typed);
  } catch (const Error& e) {
    refused = id_of(e.code);
  }
  try {
    std::vector<Array> got = planned(p, inputs);
    if (!want) return {"run, not evaluated", refused};
    const Values exact = evaluate(p, inputs, {}, Evaluation::fp64);
    for (std::size_t i = 0; i < got.size(); ++i) {
      std::string wrong = difference(got[i], want->at(p.outputs[i]), exact.at(p.outputs[i]));
      if (!wrong.empty()) return {"wrong", wrong};
    }
    return {"equal", {}};
  } catch (const Error& e) {
    std::string id(id_of(e.code));
    if (want || e.code == Code::internal) return {"refused " + id, e.what()};
    return {"refused by both", {}};
  } catch (const std::exception& e) {
    return {"exception", e.what()};
  }
}

TEST(DamagedModels, SessionsDoWhatTheEvaluatorDoes) {
  const char* only = std::getenv("TILEWRIGHT_SEED");
  std::uint64_t rounds = std::getenv("TILEWRIGHT_LONG") ? 100000 : 3000;
  std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 0;
  std::map<std::string, int> outcomes;
  int failures = 0;
  for (std::uint64_t seed = first; seed < (only ? first + 1 : rounds) && failures < 40; ++seed) {
    const std::string& line = operator_lines()[seed % operator_lines().size()];
    OperatorModel m = operator_model(line);
    Mutator mutator{m, std::mt19937_64(seed), {}};
    for (std::size_t k = mutator.below(3); k > 0; --k) mutator.mutate();
    Values inputs;
    auto p = imported(m.model, mutator.random, inputs);
    if (!p) {
      ++outcomes["not imported"];
      continue;
    }
    Outcome o = compare(*p, inputs);
    ++outcomes[o.what];
    if (o.failure.empty()) continue;
    ++failures;
    ADD_FAILURE() << "TILEWRIGHT_SEED=" << seed << " " << line << ":" << mutator.log << "\n"
                  << o.what << ": " << o.failure;
  }
  for (const auto& [what, count] : outcomes) std::printf("%6d %s\n", count, what.c_str());
}

} // namespace
} // namespace tilewright::onnx
