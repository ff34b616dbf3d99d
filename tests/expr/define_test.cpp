// Definitions against their mathematics: random shapes, orders of axes and guards, awkward values.
#include "expr/define.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

using define::Form;
using define::Reduction;

// ---- scalars

double relative(double x, double y) { return std::isnan(x) != std::isnan(y) ? 1 : x == y || std::isnan(x) ? 0 : std::abs(x - y) / std::max(1.0, std::abs(y)); }

// f(x) for each x, in f32 as the evaluator has it.
std::vector<float> applied(const std::function<ScalarRef(const ScalarRef&)>& f, const std::vector<float>& x, DType type = DType::f32) {
  Program p;
  p.name = "apply";
  Builder build(p);
  const Size n = static_cast<std::int64_t>(x.size());
  const TensorId in = build.tensor("x", type, {n}, Kind::input);
  p.inputs = {in};
  const TensorId out = build.statement("y", DType::f32, {n}, f(build.read(in, {axis_index(0)})));
  p.outputs = {out};
  verify(p);
  Values inputs;
  inputs[in] = Array::make(type, {static_cast<std::int64_t>(x.size())});
  for (std::size_t i = 0; i < x.size(); ++i) testing::put(inputs[in], static_cast<std::int64_t>(i), static_cast<double>(x[i]));
  Values result = evaluate(p, inputs, {}, Evaluation::typed);
  const float* y = result.at(out).as<float>();
  return {y, y + x.size()};
}

TEST(DefineScalar, Mathematics) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto hard = [](double x, double a, double b) { return std::min(std::max(x * a + b, 0.0), 1.0); };
  const std::map<std::string, std::function<double(double)>> truth{
      {"square", [](double x) { return x * x; }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"relu6", [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
      {"leaky_relu", [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"selu", [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }},
      {"celu", [](double x) { return std::max(x, 0.0) + std::min(0.0, std::expm1(x)); }},
      {"sigmoid", sigmoid},
      {"silu", [=](double x) { return x * sigmoid(x); }},
      {"swish", [=](double x) { return x * sigmoid(x); }},
      {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }},
      {"gelu_tanh", [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }},
      {"softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
      {"softsign", [](double x) { return x / (1 + std::abs(x)); }},
      {"mish", [](double x) { return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))); }},
      {"hard_sigmoid", [=](double x) { return hard(x, 0.2, 0.5); }},
      {"hard_swish", [=](double x) { return x * hard(x, 1.0 / 6, 0.5); }},
  };
  std::vector<float> points;
  for (float x = -20; x <= 20; x += 0.37f) points.push_back(x);
  ASSERT_EQ(truth.size(), define::functions().size());
  for (const define::Function& f : define::functions()) {
    std::vector<double> parameters;
    for (const auto& parameter : f.parameters) parameters.push_back(parameter.value);
    const auto y = applied([&](const ScalarRef& x) { return f.build(x, parameters.data()); }, points);
    for (std::size_t i = 0; i < points.size(); ++i)
      EXPECT_LT(relative(y[i], truth.at(std::string(f.name))(points[i])), 2e-6) << f.name << " of " << points[i];
  }
  EXPECT_EQ(define::function_named("gelu")->name, "gelu");
  EXPECT_EQ(define::function_named("nothing"), nullptr);
}

TEST(DefineScalar, Parameters) {
  const std::vector<float> x{-2, -0.5f, 0, 3};
  EXPECT_EQ(applied([](const ScalarRef& s) { return define::leaky_relu(s, 0.5); }, x), (std::vector<float>{-1, -0.25f, 0, 3}));
  EXPECT_EQ(applied([](const ScalarRef& s) { return define::hard_sigmoid(s, 0.5, 0.25); }, x), (std::vector<float>{0, 0, 0.25f, 1}));
  EXPECT_NEAR(applied([](const ScalarRef& s) { return define::elu(s, 2); }, x)[0], 2 * std::expm1(-2.0), 1e-6);
  EXPECT_NEAR(applied([](const ScalarRef& s) { return define::silu(s, 1.702); }, x)[3], 3 / (1 + std::exp(-1.702 * 3)), 1e-6);
  EXPECT_NEAR(applied([](const ScalarRef& s) { return define::celu(s, 2); }, x)[0], 2 * std::expm1(-1.0), 1e-6);
  EXPECT_NEAR(applied([](const ScalarRef& s) { return define::selu(s, 2, 3); }, x)[0], 6 * std::expm1(-2.0), 1e-6);
  EXPECT_EQ(applied([](const ScalarRef& s) { return define::clip(s, number(-1), number(1)); }, x), (std::vector<float>{-1, -0.5f, 0, 1}));
}

// What has a finite limit must have it: exp overflows on the way.
TEST(DefineScalar, ExtremesAreSafe) {
  const std::vector<float> far{-1e30f, -1000, -100, 100, 1000, 1e30f};
  for (const char* name : {"sigmoid", "silu", "elu", "selu", "celu", "softplus", "gelu", "mish", "hard_swish", "expm1", "softsign"}) {
    const define::Function* f = define::function_named(name);
    std::vector<double> parameters;
    for (const auto& parameter : f->parameters) parameters.push_back(parameter.value);
    for (float y : applied([&](const ScalarRef& x) { return f->build(x, parameters.data()); }, far)) EXPECT_FALSE(std::isnan(y)) << name;
  }
  const auto s = applied(define::sigmoid, {-INFINITY, -200, 200, INFINITY});
  EXPECT_EQ(s, (std::vector<float>{0, 0, 1, 1}));
  EXPECT_EQ(applied(define::softplus, {-INFINITY, 200, INFINITY}), (std::vector<float>{0, 200, INFINITY}));
  EXPECT_EQ(applied([](const ScalarRef& x) { return define::elu(x); }, {-INFINITY, 1e30f}), (std::vector<float>{-1, 1e30f}));
  EXPECT_TRUE(std::isnan(applied(define::relu, {NAN})[0]));
}

TEST(DefineScalar, IntegersStayIntegers) {
  Program p;
  Builder build(p);
  const ScalarRef x = build.read(build.tensor("x", DType::i8, {}, Kind::input), {});
  EXPECT_EQ(define::relu(x)->dtype, DType::i32);
  EXPECT_EQ(define::relu6(x)->dtype, DType::i32);
  EXPECT_EQ(define::sigmoid(x)->dtype, DType::f32);
}

// ---- reductions

// One row of live values -> one row of results (or one result, for mean and logsumexp).
std::vector<double> truth_of(Reduction kind, const std::vector<double>& row, double eps) {
  const double n = static_cast<double>(row.size());
  double most = -INFINITY, sum = 0, squares = 0, variance = 0, z = 0;
  for (double v : row) {
    most = std::max(most, v);
    sum += v;
    squares += v * v;
  }
  for (double v : row) {
    z += std::exp(v - most);
    variance += (v - sum / n) * (v - sum / n) / n;
  }
  if (kind == Reduction::mean) return {row.empty() ? 0 : sum / n};
  if (kind == Reduction::logsumexp) return {row.empty() ? -INFINITY : most + std::log(z)};
  std::vector<double> y;
  for (double v : row) switch (kind) {
    case Reduction::softmax: y.push_back(std::exp(v - most) / z); break;
    case Reduction::log_softmax: y.push_back(v - most - std::log(z)); break;
    case Reduction::layernorm: y.push_back((v - sum / n) / std::sqrt(variance + eps)); break;
    case Reduction::rmsnorm: y.push_back(v / std::sqrt(squares / n + eps)); break;
    default: y.push_back(v / std::max(std::sqrt(squares), eps)); break;
    }
  return y;
}

struct Case {
  Program p;
  TensorId x = -1, mask = -1, out = -1;
  std::vector<AxisId> over;
  std::vector<std::int64_t> extents;
};

Case make_case(Reduction kind, std::mt19937_64& random, DType dtype, bool guarded, bool plain, std::optional<double> eps) {
  Case c;
  c.p.name = "case";
  Builder build(c.p);
  const std::size_t rank = 1 + random() % 3;
  std::vector<Size> axes;
  std::vector<Index> at;
  for (std::size_t a = 0; a < rank; ++a) {
    c.extents.push_back(1 + static_cast<std::int64_t>(random() % 6));
    axes.push_back(c.extents.back());
    at.push_back(axis_index(static_cast<AxisId>(a)));
    if (random() % 2) c.over.push_back(static_cast<AxisId>(a));
  }
  if (c.over.empty()) c.over.push_back(static_cast<AxisId>(random() % rank));
  c.x = build.tensor("x", dtype, axes, Kind::input);
  c.mask = build.tensor("mask", DType::boolean, axes, Kind::input);
  c.p.inputs = {c.x, c.mask};
  const ScalarRef x = build.read(c.x, at);
  Form form{axes, {}, c.over, plain ? x : binary(Op::mul, x, number(0.5)), guarded ? build.read(c.mask, at) : nullptr, "Y"};
  c.out = define::expand(build, kind, form, DType::f64, eps);
  c.p.outputs = {c.out};
  return c;
}

double element(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f64) return a.as<double>()[i];
  return a.dtype == DType::f32 ? static_cast<double>(a.as<float>()[i]) : static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i]));
}

// The row (point of the kept axes) of each element, and the number of rows.
std::pair<std::vector<std::size_t>, std::size_t> rows_of(const Case& c) {
  std::int64_t count = 1, rows = 1;
  for (std::int64_t e : c.extents) count *= e;
  std::vector<std::size_t> row(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, stride = 1, at = 0;
    for (std::size_t a = c.extents.size(); a-- > 0; rest /= c.extents[a])
      if (std::find(c.over.begin(), c.over.end(), static_cast<AxisId>(a)) == c.over.end()) {
        at += rest % c.extents[a] * stride;
        stride *= c.extents[a];
      }
    rows = stride;
    row[static_cast<std::size_t>(i)] = static_cast<std::size_t>(at);
  }
  return {row, static_cast<std::size_t>(rows)};
}

constexpr Reduction all_reductions[] = {Reduction::mean,      Reduction::logsumexp, Reduction::softmax, Reduction::log_softmax,
                                        Reduction::layernorm, Reduction::rmsnorm,   Reduction::l2norm};

TEST(DefineProperty, ReductionsAreTheirMathematics) {
  std::mt19937_64 random(3);
  int masked_rows = 0;
  for (int n = 0; n < 700; ++n) {
    const Reduction kind = all_reductions[n % 7];
    const bool guarded = random() % 2, plain = random() % 2;
    const DType dtype = random() % 3 == 0 ? DType::f16 : random() % 2 ? DType::f32 : DType::f64;
    const std::optional<double> eps = random() % 2 && define::takes_eps(kind) ? std::optional(0.5) : std::nullopt;
    const Case c = make_case(kind, random, dtype, guarded, plain, eps);
    ASSERT_NO_THROW(verify(c.p)) << define::name_of(kind);
    testing::Random fill(random());
    const Values inputs = testing::random_inputs(c.p, fill);
    Values result = evaluate(c.p, inputs, {}, Evaluation::typed);
    const auto [row, rows] = rows_of(c);
    std::vector<std::vector<double>> live(rows);
    auto is_live = [&](std::size_t i) { return !guarded || inputs.at(c.mask).as<std::uint8_t>()[i] != 0; };
    for (std::size_t i = 0; i < row.size(); ++i)
      if (is_live(i)) live[row[i]].push_back(element(inputs.at(c.x), static_cast<std::int64_t>(i)) * (plain ? 1 : 0.5));
    const Array& y = result.at(c.out);
    std::vector<std::size_t> next(rows, 0);
    std::vector<std::vector<double>> truth;
    for (const auto& r : live) {
      truth.push_back(truth_of(kind, r, eps.value_or(define::default_eps(kind))));
      masked_rows += r.empty();
    }
    const auto count = static_cast<std::size_t>(y.count());
    ASSERT_EQ(count, define::keeps_axes(kind) ? row.size() : rows);
    for (std::size_t i = 0; i < count; ++i) {
      double expected = kind == Reduction::log_softmax ? -INFINITY : 0;
      if (!define::keeps_axes(kind)) expected = truth[i][0];
      else if (is_live(i)) expected = truth[row[i]][next[row[i]]++];
      const double got = element(y, static_cast<std::int64_t>(i));
      ASSERT_TRUE(got == expected || std::abs(got - expected) < 3e-5 * std::max(1.0, std::abs(expected)))
          << define::name_of(kind) << " case " << n << ": " << got << " not " << expected << "\n" << print(c.p);
    }
  }
  EXPECT_GT(masked_rows, 20);
}

TEST(Define, SoftmaxOfLargeAndMaskedValues) {
  Program p;
  p.name = "edge";
  Builder build(p);
  const TensorId x = build.tensor("x", DType::f32, {4, 3}, Kind::input), mask = build.tensor("m", DType::boolean, {4, 3}, Kind::input);
  p.inputs = {x, mask};
  const std::vector<Index> at{axis_index(0), axis_index(1)};
  const Form form{{4, 3}, {}, {1}, build.read(x, at), build.read(mask, at), "P"};
  const TensorId out = define::expand(build, Reduction::softmax, form, DType::f32);
  p.outputs = {out};
  verify(p);
  Values in{{x, Array::make(DType::f32, {4, 3})}, {mask, Array::make(DType::boolean, {4, 3})}};
  const float inf = INFINITY, values[] = {3e38f, -3e38f, 0, -inf, -inf, -inf, -inf, 5, 5, NAN, 1, 1};
  const int live[] = {1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1};
  for (int i = 0; i < 12; ++i) {
    in[x].as<float>()[i] = values[i];
    testing::put(in[mask], i, live[i]);
  }
  Values result = evaluate(p, in, {}, Evaluation::typed);
  const float* y = result.at(out).as<float>();
  EXPECT_EQ((std::vector<float>{y, y + 12}), (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0.5f, 0.5f, 0, 0.5f, 0.5f}));
}

TEST(Define, StatementsAndLabels) {
  Program p;
  p.name = "labels";
  Builder build(p);
  const Size q = Size::symbol("q"), x = Size::symbol("x");
  p.sizes = {{"q", Size(4), {}, false}, {"x", Size(5), {}, false}};
  const TensorId s = build.tensor("S", DType::f16, {q, x}, Kind::input);
  p.inputs = {s};
  const ScalarRef body = build.read(s, {axis_index(0), axis_index(1)});
  const TensorId plain = define::expand(build, Reduction::softmax, {{q, x}, {"q", "x"}, {1}, body, nullptr, "P"}, DType::f16);
  EXPECT_EQ(p.nodes.size(), 4U);   // the body is an access: it is not stored again
  const TensorId composed =
      define::expand(build, Reduction::softmax, {{q, x}, {"q", "x"}, {1}, binary(Op::mul, body, number(2)), nullptr, "R"}, DType::f32);
  EXPECT_EQ(p.nodes.size(), 9U);
  const TensorId mean = define::expand(build, Reduction::mean, {{q, x}, {"q", "x"}, {0}, body, nullptr, "M"}, DType::f32);
  p.outputs = {plain, composed, mean};
  verify(p);
  for (const auto& node : p.nodes) {
    const auto& statement = std::get<Statement>(node);
    EXPECT_TRUE(statement.label == "softmax" || statement.label == "mean");
    EXPECT_EQ(statement.names.size(), statement.axes.size());
  }
  EXPECT_EQ(std::get<Statement>(p.nodes.back()).names, (std::vector<std::string>{"x"}));   // renumbered: only x is left
  EXPECT_EQ(p.tensor(plain).dtype, DType::f16);
  EXPECT_EQ(p.tensor(mean).dims, std::vector<Size>{x});
  EXPECT_EQ(define::reduction_named("rmsnorm"), Reduction::rmsnorm);
  EXPECT_EQ(define::reduction_named("sum"), std::nullopt);
  EXPECT_TRUE(same(p, parse(print(p), "labels.tw"))) << print(p);
}

}  // namespace
}  // namespace tilewright
