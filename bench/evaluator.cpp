// How fast the evaluator is, in million multiply-adds a second of processor time on one core: contractions and
// convolutions in several layouts and types, both modes. The house asks for 300 everywhere, so that it can judge whole
// networks.
//
//   bench_evaluator [repetitions]
#include "expr/evaluate.h"
#include "expr/evaluate_lanes.h"
#include "expr/scalar.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

using namespace tilewright;

namespace {

struct Case {
  std::string name;
  double work; // multiply-adds
  Program program;
};

TensorId input(Builder& b, const char* name, DType type, std::vector<Size> dims) {
  TensorId id = b.tensor(name, type, std::move(dims), Kind::input);
  b.program().inputs.push_back(id);
  return id;
}

// Indices of a permuted tensor: "nchw" picks from the named ones.
std::vector<Index> pick(std::string_view letters, const std::string& layout, const std::vector<Index>& at) {
  std::vector<Index> result;
  for (char c : layout) result.push_back(at[letters.find(c)]);
  return result;
}

std::vector<Size> pick(std::string_view letters, const std::string& layout, const std::vector<std::int64_t>& extents) {
  std::vector<Size> result;
  for (char c : layout) result.push_back(extents[letters.find(c)]);
  return result;
}

Case matmul(const std::string& a, const std::string& b, DType type, DType result, std::int64_t n) {
  Case c{fmt::format("matmul {0}^3 {1} {2} {3}", n, a, b, name_of(type)), static_cast<double>(n) * n * n, {}};
  Builder build(c.program);
  TensorId x = input(build, "A", type, pick("mnk", a, {n, n, n})),
           y = input(build, "B", type, pick("mnk", b, {n, n, n}));
  std::vector<Index> axes = {axis_index(0), axis_index(1), axis_index(2)};
  ScalarRef body = binary(Op::mul, build.read(x, pick("mnk", a, axes)), build.read(y, pick("mnk", b, axes)));
  TensorId z = build.statement("C", result, {n, n, n}, body, Reducer::sum, {2});
  c.program.outputs = {z};
  return c;
}

// Axes of a convolution: n f y x c i j. Depthwise: f is the channel, and c has extent 1.
Case convolution(const std::string& name, const std::string& data, const std::string& weights, const std::string& out,
                 std::int64_t channels, std::int64_t filters, std::int64_t pixels, std::int64_t window,
                 bool depthwise) {
  std::int64_t c = depthwise ? 1 : channels, pad = window / 2;
  Case result{fmt::format("{} {} {}->{} {}x{}", name, data, channels, filters, pixels, pixels),
              static_cast<double>(filters * pixels * pixels) * static_cast<double>(c * window * window),
              {}};
  Builder build(result.program);
  std::vector<std::int64_t> extents = {1, filters, pixels, pixels, c, window, window};
  std::vector<Index> axes;
  for (AxisId a = 0; a < 7; ++a) axes.push_back(axis_index(a));
  std::vector<Index> shifted = {axes[0], axes[0], axes[2] + axes[5] - constant_index(pad),
                                axes[3] + axes[6] - constant_index(pad), depthwise ? axes[1] : axes[4]};
  TensorId x = input(build, "X", DType::f32, pick("nfyxc", data, {1, filters, pixels, pixels, channels}));
  TensorId w = input(build, "W", DType::f32, pick("nfyxcij", weights, extents));
  ScalarRef read = build.read(x, pick("nfyxc", data, shifted), number(0));
  ScalarRef body = binary(Op::mul, read, build.read(w, pick("nfyxcij", weights, axes)));
  TensorId z = build.tensor("Y", DType::f32, pick("nfyxcij", out, extents));
  build.piece(z, pick("nfyxcij", out, axes), {1, filters, pixels, pixels, c, window, window}, body, Reducer::sum,
              {4, 5, 6});
  result.program.outputs = {z};
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (auto [a, b] : {std::pair("mk", "kn"), std::pair("mk", "nk"), std::pair("km", "kn")})
    list.push_back(matmul(a, b, DType::f32, DType::f32, 256));
  list.push_back(matmul("mk", "nk", DType::f32, DType::f32, 512));
  list.push_back(matmul("mk", "nk", DType::f16, DType::f16, 256));
  list.push_back(matmul("mk", "kn", DType::bf16, DType::bf16, 256));
  list.push_back(matmul("mk", "nk", DType::i8, DType::i32, 256));
  list.push_back(convolution("conv3x3", "ncyx", "fcij", "nfyx", 64, 64, 56, 3, false));
  list.push_back(convolution("conv3x3", "ncyx", "fcij", "nfyx", 256, 256, 7, 3, false));
  list.push_back(convolution("conv3x3", "nyxc", "ijcf", "nyxf", 64, 64, 56, 3, false));
  list.push_back(convolution("conv3x3", "nyxc", "fijc", "nyxf", 64, 64, 56, 3, false));
  list.push_back(convolution("conv7x7", "ncyx", "fcij", "nfyx", 3, 64, 112, 7, false));
  list.push_back(convolution("depthwise3x3", "ncyx", "fij", "nfyx", 96, 96, 112, 3, true));
  list.push_back(convolution("depthwise3x3", "nyxc", "ijf", "nyxf", 96, 96, 112, 3, true));
  list.push_back(convolution("depthwise3x3", "ncyx", "fij", "nfyx", 960, 960, 7, 3, true));
  list.push_back(convolution("depthwise3x3", "nyxc", "ijf", "nyxf", 960, 960, 7, 3, true));
  list.push_back(convolution("pointwise", "ncyx", "fc", "nfyx", 24, 144, 56, 1, false));
  list.push_back(convolution("pointwise", "nyxc", "cf", "nyxf", 24, 144, 56, 1, false));
  list.push_back(convolution("pointwise", "ncyx", "fc", "nfyx", 960, 320, 7, 1, false));
  list.push_back(convolution("pointwise", "nyxc", "fc", "nyxf", 960, 320, 7, 1, false));
  return list;
}

Values random_inputs(const Program& p) {
  std::mt19937 random(1);
  Values values;
  for (TensorId id : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(id).dims) dims.push_back(d.constant());
    Array array = Array::make(p.tensor(id).dtype, dims);
    for (std::int64_t i = 0; i < array.count(); ++i) {
      double v = std::uniform_real_distribution<double>(-1, 1)(random) * (is_float(array.dtype) ? 1 : 100);
      evaluator::store(array.dtype, array.data, i, nullptr, 1, evaluator::Lane::f64, &v);
    }
    values[id] = array;
  }
  return values;
}

double rate(const Case& c, const Values& inputs, Evaluation mode, int repetitions) {
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    std::clock_t start = std::clock();
    Values result = evaluate(c.program, inputs, {}, mode);
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return c.work / best * 1e-6;
}

} // namespace

int main(int argc, char** argv) {
  try {
    int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
    fmt::print("{:<44} {:>10} {:>10}   MMAC/s of processor time, one thread, best of {}\n", "", "typed", "fp64",
               repetitions);
    double least = 1e30;
    for (const Case& c : cases()) {
      Values inputs = random_inputs(c.program);
      double typed = rate(c, inputs, Evaluation::typed, repetitions),
             fp64 = rate(c, inputs, Evaluation::fp64, repetitions);
      fmt::print("{:<44} {:>10.0f} {:>10.0f}\n", c.name, typed, fp64);
      least = std::min({least, typed, fp64});
    }
    fmt::print("least: {:.0f} MMAC/s\n", least);
    return least >= 300 ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
