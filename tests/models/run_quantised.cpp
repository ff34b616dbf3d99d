// Whole quantised models against the typed evaluator: run_quantised MODEL... runs each on seeded inputs and compares.
//
// Every sum of such a model is over integers once it is in normal form: what the leaves compute must equal the
// evaluator on that form to the bit. The model as it was imported may sum floats; how near that is, is printed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "normal/normal.h"
#include "onnx/import.h"
#include "onnx/reader.h"
#include "runtime/session.h"
#include "support/error.h"

using namespace tilewright;

namespace {

Array array_of(const Program& p, TensorId t) {
  std::vector<std::int64_t> dims;
  for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
  return Array::make(p.tensor(t).dtype, dims);
}

// Blots under a little noise.
Array image(const Program& p, TensorId t, unsigned seed) {
  Array a = array_of(p, t);
  std::mt19937 random(seed);
  const std::int64_t blot = std::max<std::int64_t>(a.count() / 64, 1);
  double base = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    if (i % blot == 0) base = static_cast<double>(random() % 1000) / 250 - 2;
    const double v = base + static_cast<double>(random() % 1000) / 1000 - 0.5;
    if (a.dtype == DType::u8)
      a.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::clamp(128 + 50 * v, 0.0, 255.0));
    else if (a.dtype == DType::i8)
      a.as<std::int8_t>()[i] = static_cast<std::int8_t>(std::clamp(50 * v, -128.0, 127.0));
    else
      a.as<float>()[i] = static_cast<float>(v);
  }
  return a;
}

double element(const Array& a, std::int64_t i) {
  if (a.dtype == DType::u8) return a.as<std::uint8_t>()[i];
  return a.dtype == DType::i8 ? a.as<std::int8_t>()[i] : static_cast<double>(a.as<float>()[i]);
}

double largest_difference(const Array& a, const Array& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) most = std::max(most, std::abs(element(a, i) - element(b, i)));
  return most;
}

bool equal_on(const Program& imported, const Program& normal, Session& session, unsigned seed) {
  Values inputs;
  std::vector<Strided> given, taken;
  for (TensorId t : imported.inputs) inputs.emplace(t, image(imported, t, seed));
  for (TensorId t : imported.inputs) given.push_back(dense(inputs.at(t)));
  std::vector<Array> got;
  for (TensorId t : imported.outputs) got.push_back(array_of(imported, t));
  for (const Array& a : got) taken.push_back(dense(a));
  session.run(given, taken);
  const Values want = evaluate(normal, inputs, {}, Evaluation::typed);
  bool equal = true;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Array& w = want.at(normal.outputs[i]);
    const bool same = std::memcmp(got[i].data, w.data, w.bytes()) == 0;
    if (!same)
      fmt::print("  {}: the evaluator differs by {}\n", imported.tensor(imported.outputs[i]).name,
                 largest_difference(got[i], w));
    equal &= same;
  }
  if (seed == 1) {
    const Values floats = evaluate(imported, inputs, {}, Evaluation::typed);
    fmt::print("  as imported: {} differs by {} at most\n", imported.tensor(imported.outputs[0]).name,
               largest_difference(got[0], floats.at(imported.outputs[0])));
  }
  return equal;
}

bool check(const std::string& path) {
  const Program p = fix_sizes(onnx::import_onnx(onnx::read_model(path)), {});
  const Program normal = normalise(p);
  int integers = 0, floats = 0;
  for (const auto& node : normal.nodes)
    if (const auto* s = std::get_if<Statement>(&node); s && s->reducer == Reducer::sum)
      ++(is_integer(s->body->dtype) ? integers : floats);
  SessionOptions options;
  options.threads = 2;
  Session session(p, options);
  int equal = 0;
  constexpr unsigned runs = 3;
  for (unsigned seed = 1; seed <= runs; ++seed) equal += equal_on(p, normal, session, seed);
  fmt::print("{}: {} sums over integers, {} over floats; {} of {} runs equal to the bit\n", path, integers, floats,
             equal, runs);
  return equal == runs && integers > 0;
}

} // namespace

int main(int argc, char** argv) {
  bool good = argc > 1;
  try {
    for (int i = 1; i < argc; ++i) good &= check(argv[i]);
  } catch (const Error& e) {
    fmt::print("{}\n", e.what());
    good = false;
  }
  return good ? 0 : 1;
}
