// Runs ONNX backend tests: every folder with model.onnx and test_data_set_*/{input,output}_*.pb under the given ones.
//
//   run_node_tests DIR... [--planned] [--joined] [--filter TEXT] [--verbose] [--text] [--all]
//
// --planned: through plan and leaves, not the evaluator. --joined: the same, and neighbours share a kernel wherever the
// laws allow it, whether or not that pays; a test's kernels.txt says how many kernels it may then have at most. --text:
// programs are printed and parsed first. --all: every test is claimed, and there is one at least.
//
// A test passes if the model imports, verifies, and evaluates to the stored outputs. Inputs whose values decide a shape
// are given to the importer as constants, as a model would have them. A test with an operator, attribute or dtype that
// the importer refuses by name is not claimed, and counted under what it was refused for; everything else is a failure.
// Exit code 1 if a claimed test fails.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "expr/evaluate.h"
#include "expr/results.h"
#include "expr/text.h"
#include "onnx/arrays.h"
#include "onnx/import.h"
#include "onnx/reader.h"
#include "onnx/wire_writer.h"
#include "runtime/session.h"
#include "support/error.h"

namespace fs = std::filesystem;
using namespace tilewright;

namespace {

// What computes the outputs of an imported program. The default is the evaluator; an executor of another kind has the
// same form.
using Executor = std::function<std::vector<Array>(const Program&, const Values& inputs)>;

std::vector<Array> evaluate_typed(const Program& p, const Values& inputs) {
  Values all = evaluate(p, inputs, {}, Evaluation::typed);
  std::vector<Array> out;
  for (TensorId t : p.outputs) out.push_back(all.at(t));
  return out;
}

bool joined = false;
int most_kernels = 0; // 0: as many as it likes

// Through the whole house: normal forms, plan, nests, leaves.
std::vector<Array> run_planned(const Program& p, const Values& inputs) {
  SessionOptions options;
  options.threads = 2;
  if (joined) options.fuse = true, options.rules.margin = -99, options.rules.joined = 5;
  Session session(p, options);
  const auto kernels = static_cast<int>(session.plan().kernels.size());
  if (joined && most_kernels > 0 && kernels > most_kernels)
    throw Error(Code::check, p.name, fmt::format("{} kernels where {} suffice", kernels, most_kernels));
  std::vector<Array> out;
  std::vector<Strided> given, taken;
  for (TensorId t : p.inputs) given.push_back(dense(inputs.at(t)));
  for (TensorId t : p.outputs) {
    std::vector<std::int64_t> dims;
    for (const Size& d : session.program().tensor(t).dims) dims.push_back(d.constant());
    out.push_back(Array::make(p.tensor(t).dtype, dims));
    taken.push_back(dense(out.back()));
  }
  const auto found = session.run(given, taken);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = first_rows(out[i], found[i]);
  return out;
}

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A TensorProto file, read as the one initializer of a model.
std::optional<Array> read_tensor_file(const fs::path& path) {
  if (!fs::exists(path)) return {};
  onnx::W tensor;
  tensor.out = bytes_of_file(path);
  tensor.text(8, "t"); // the reader wants a name; the last one counts
  onnx::W model = onnx::W().varint(1, 8).message(7, onnx::W().message(5, tensor));
  auto text = std::make_shared<std::string>(std::move(model.out));
  onnx::Model read = onnx::read_model({reinterpret_cast<const std::byte*>(text->data()), text->size()}, "", text);
  const onnx::Tensor& t = read.graph.initializers.at(0);
  if (!t.dtype) return {};
  Array a = Array::make(*t.dtype, t.dims);
  std::memcpy(a.data, t.bytes.data(), std::min(a.bytes(), t.bytes.size()));
  return a;
}

struct Test {
  fs::path folder;
  double rtol = 1e-3, atol = 1e-7;
  int kernels = 0;
};

enum class Outcome { passed, failed, not_claimed };
struct Result {
  Outcome outcome = Outcome::passed;
  std::string why;
};

// The name in "... depends on the values of input 'NAME'", or nothing.
std::string input_needed(const std::string& message) {
  std::string mark = "depends on the values of input '";
  auto start = message.find(mark);
  if (start == std::string::npos) return {};
  start += mark.size();
  return message.substr(start, message.find('\'', start) - start);
}

// The free dimensions of the model, as the inputs have them.
Binding sizes_of(const onnx::Model& model, const std::map<std::string, Array>& inputs) {
  Binding sizes;
  for (const onnx::ValueInfo& v : model.graph.inputs) {
    auto found = inputs.find(std::string(v.name));
    if (found == inputs.end() || found->second.dims.size() != v.type.dims.size()) continue;
    for (std::size_t i = 0; i < v.type.dims.size(); ++i) {
      const onnx::Dim& d = v.type.dims[i];
      if (!d.fixed())
        sizes[d.named() && d.name != "?" ? std::string(d.name) : fmt::format("{}.{}", v.name, i)] =
            found->second.dims[i];
    }
  }
  return sizes;
}

// Imports with free sizes; where shapes agree only for some of them, with those of the inputs. Inputs that decide
// shapes become constants, one after the other.
Program import_with(const onnx::Model& model, const std::map<std::string, Array>& inputs) {
  onnx::ImportOptions options;
  for (;;) {
    try {
      return onnx::import_onnx(model, options);
    } catch (const Error& e) {
      std::string name = input_needed(e.message);
      auto found = inputs.find(name);
      if (found != inputs.end() && !options.constants.contains(name)) {
        options.constants.emplace(name, found->second);
        continue;
      }
      if (e.code != Code::shape || !options.sizes.empty()) throw;
      options.sizes = sizes_of(model, inputs);
      if (options.sizes.empty()) throw;
    }
  }
}

// A test's tolerance, as the package's own runner applies it: two places of bf16 at least.
double tolerance_of(DType d, double rtol) { return d == DType::bf16 ? std::max(rtol, 0x1p-6) : rtol; }

// Expected outputs of f16 are rounded to f16 after each step of a softmax; ours keeps what lies between in f32, as ONNX
// allows, and may then be two places apart. That is taken where ours is no farther from the same program in fp64.
int nearer_to_exact = 0; // elements taken so

bool as_exact_as(DType d, double got, double want, double exact) {
  if (d != DType::f16 || !std::isfinite(want)) return false;
  double place = std::ldexp(1.0, std::max(std::ilogb(want), -14) - 10);
  bool good = std::abs(got - want) <= 2 * place && std::abs(got - exact) <= std::abs(want - exact);
  nearer_to_exact += good;
  return good;
}

// `exact` gives the same output in fp64; it is asked for where the tolerance is not kept.
std::string difference(const Array& got, const Array& want, const Test& test, const std::function<Array()>& exact) {
  if (got.dtype != want.dtype) return fmt::format("dtype {} instead of {}", name_of(got.dtype), name_of(want.dtype));
  if (got.dims != want.dims) {
    return fmt::format("shape [{}] instead of [{}]", fmt::join(got.dims, ", "), fmt::join(want.dims, ", "));
  }
  double rtol = tolerance_of(want.dtype, test.rtol);
  for (std::int64_t i = 0; i < got.count(); ++i) {
    bool good;
    if (is_float(got.dtype)) {
      double a = onnx::real_at(got, i), b = onnx::real_at(want, i);
      good = (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= test.atol + rtol * std::abs(b);
      if (!good && got.dtype == DType::f16) good = as_exact_as(got.dtype, a, b, onnx::real_at(exact(), i));
      if (!good) return fmt::format("element {} is {} instead of {}", i, a, b);
    } else {
      std::int64_t a = onnx::integer_at(got, i), b = onnx::integer_at(want, i);
      good = a == b || static_cast<double>(std::abs(a - b)) <= test.atol + test.rtol * std::abs(static_cast<double>(b));
      if (!good) return fmt::format("element {} is {} instead of {}", i, a, b);
    }
  }
  return {};
}

bool through_text = false;

// parse(print(p)), with the weights' bytes, which text does not hold.
Program reparsed(const Program& p) {
  std::string text = print(p);
  Program q = parse(text, "printed");
  if (!same(p, q)) throw Error(Code::check, p.name, "the printed program parses to another one:\n" + text);
  for (tilewright::Tensor& t : q.tensors) {
    for (const tilewright::Tensor& from : p.tensors) {
      if (from.name != t.name) continue;
      t.data = from.data;
      t.owner = from.owner;
    }
  }
  return q;
}

Result run_data_set(const Test& test, const onnx::Model& model, const fs::path& folder, const Executor& execute) {
  std::map<std::string, Array> given;
  for (std::size_t i = 0; i < model.graph.inputs.size(); ++i) {
    auto a = read_tensor_file(folder / fmt::format("input_{}.pb", i));
    if (a) given.emplace(std::string(model.graph.inputs[i].name), *a);
  }
  Program p = import_with(model, given);
  verify(p);
  bool opaque =
      std::any_of(p.nodes.begin(), p.nodes.end(), [](const auto& n) { return std::holds_alternative<Opaque>(n); });
  bool empty = std::any_of(p.tensors.begin(), p.tensors.end(), [](const tilewright::Tensor& t) {
    return std::find(t.dims.begin(), t.dims.end(), Size(0)) != t.dims.end();
  });
  if (through_text && !opaque && !empty) p = reparsed(p); // the text language has no empty axes
  Binding sizes;
  Values inputs;
  for (TensorId t : p.inputs) {
    auto found = given.find(p.tensor(t).name);
    if (found == given.end()) return {Outcome::not_claimed, "an input that the test does not give as a tensor"};
    inputs.emplace(t, found->second);
    for (std::size_t k = 0; k < p.tensor(t).dims.size(); ++k) {
      std::vector<std::string> names;
      p.tensor(t).dims[k].collect_symbols(names);
      if (names.size() == 1 && p.tensor(t).dims[k] == Size::symbol(names[0])) sizes[names[0]] = found->second.dims[k];
    }
  }
  if (!sizes.empty()) p = fix_sizes(p, sizes);
  most_kernels = test.kernels;
  std::vector<Array> outputs = execute(p, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto want = read_tensor_file(folder / fmt::format("output_{}.pb", i));
    if (!want) return {Outcome::not_claimed, "an output that is no tensor of a claimed type"};
    auto exact = [&] { return evaluate(p, inputs, {}, Evaluation::fp64).at(p.outputs[i]); };
    std::string wrong = difference(outputs[i], *want, test, exact);
    if (!wrong.empty()) return {Outcome::failed, fmt::format("output {}: {}", i, wrong)};
  }
  return {};
}

Result run_test(const Test& test, const Executor& execute) {
  try {
    onnx::Model model = onnx::read_model((test.folder / "model.onnx").string());
    for (int k = 0;; ++k) {
      fs::path data = test.folder / fmt::format("test_data_set_{}", k);
      if (!fs::exists(data)) return k == 0 ? Result{Outcome::not_claimed, "no data"} : Result{};
      Result r = run_data_set(test, model, data, execute);
      if (r.outcome != Outcome::passed) return r;
    }
  } catch (const Error& e) {
    return {e.code == Code::unsupported ? Outcome::not_claimed : Outcome::failed, e.what()};
  } catch (const std::exception& e) {
    return {Outcome::failed, e.what()};
  }
}

// What a refusal is counted under: the operator or the dtype where it is one, else the reason without names. Of several
// problems in one model the first counts.
std::string kind_of_refusal(const Result& r) {
  std::string why = r.why;
  if (auto list = why.find("not supported:\n  "); list != std::string::npos) why = why.substr(list + 17);
  if (auto line = why.find('\n'); line != std::string::npos) why.resize(line);
  auto colon = why.rfind(": ");
  std::string reason = colon == std::string::npos ? why : why.substr(colon + 2);
  auto open = why.find(" ("), comma = why.find(", opset");
  if (open == std::string::npos || comma == std::string::npos || comma < open) return reason;
  std::string op = why.substr(open + 2, comma - open - 2);
  return reason.starts_with("this operator") ? "operator " + op : op + ": " + reason;
}

std::vector<Test> find_tests(const std::vector<std::string>& roots, const std::string& filter) {
  std::vector<Test> tests;
  for (const std::string& root : roots) {
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().filename() != "model.onnx") continue;
      Test t{entry.path().parent_path()};
      if (t.folder.filename().string().find(filter) == std::string::npos) continue;
      std::ifstream(t.folder / "tolerance.txt") >> t.rtol >> t.atol;
      std::ifstream(t.folder / "kernels.txt") >> t.kernels;
      tests.push_back(t);
    }
  }
  std::sort(tests.begin(), tests.end(), [](const Test& a, const Test& b) { return a.folder < b.folder; });
  return tests;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> roots;
  std::string filter;
  bool verbose = false, all = false;
  Executor execute = evaluate_typed;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--filter" && i + 1 < argc)
      filter = argv[++i];
    else if (word == "--verbose")
      verbose = true;
    else if (word == "--planned")
      execute = run_planned;
    else if (word == "--joined")
      execute = run_planned, joined = true;
    else if (word == "--text")
      through_text = true;
    else if (word == "--all")
      all = true;
    else
      roots.push_back(word);
  }
  if (roots.empty()) {
    std::cerr << "usage: run_node_tests DIR... [--planned] [--joined] [--filter TEXT] [--verbose] [--text] [--all]\n";
    return 2;
  }
  std::map<Outcome, int> count;
  std::map<std::string, int> refused;
  for (const Test& t : find_tests(roots, filter)) {
    Result r = run_test(t, execute);
    ++count[r.outcome];
    if (r.outcome == Outcome::not_claimed) ++refused[kind_of_refusal(r)];
    if (r.outcome == Outcome::failed || (verbose && r.outcome == Outcome::not_claimed)) {
      std::cout << (r.outcome == Outcome::failed ? "FAILED " : "not claimed ") << t.folder.filename().string() << ": "
                << r.why << std::endl;
    } else if (verbose) {
      std::cout << "passed " << t.folder.filename().string() << std::endl;
    }
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [why, n] : refused) sorted.emplace_back(-n, why);
  std::sort(sorted.begin(), sorted.end());
  std::cout << "not claimed:\n";
  for (const auto& [n, why] : sorted) std::cout << fmt::format("  {:4}  {}\n", -n, why);
  std::cout << fmt::format(
      "{} elements of f16 a place farther than the tolerance, and nearer to fp64 than what is expected\n",
      nearer_to_exact);
  std::cout << fmt::format("passed {}, failed {}, not claimed {}\n", count[Outcome::passed], count[Outcome::failed],
                           count[Outcome::not_claimed]);
  bool claimed = !all || (count[Outcome::not_claimed] == 0 && count[Outcome::passed] > 0);
  return count[Outcome::failed] == 0 && claimed ? 0 : 1;
}
